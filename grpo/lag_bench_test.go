package grpo

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// remote is an engine whose work costs this machine no core: it answers after a time.
type remote struct {
	delay  *time.Duration
	update int
}

func (e *remote) Load(_ context.Context, w *policy.Weights) error { e.update = w.Update; return nil }

func (e *remote) Generate(ctx context.Context, reqs []rollout.Request, _ rollout.Sampling) ([][]rollout.Completion, error) {
	select {
	case <-time.After(*e.delay):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out := make([][]rollout.Completion, len(reqs))
	for i, r := range reqs {
		for _, seed := range r.Seeds {
			token := int32(seed.Uniform(0) * 10)
			out[i] = append(out[i], rollout.Completion{Tokens: []int32{token, 10}, LogProbs: []float32{-2.4, -2.4}, Filtered: []float32{-2.4, -2.4},
				Finish: rollout.Stop, Update: e.update})
		}
	}
	return out, nil
}

// BenchmarkLag measures an update where sampling takes as long as training: the ratio of its time without lag to that with lag 1
// is what overlapping gains, at most 2.
func BenchmarkLag(b *testing.B) {
	var delay time.Duration
	perUpdate := map[int]float64{}
	for _, lag := range []int{0, 1} {
		b.Run(fmt.Sprint(lag), func(b *testing.B) {
			s := small()
			s.cfg.Lag, s.cfg.Updates, s.cfg.TasksPerUpdate, s.cfg.GroupSize, s.blind = lag, 1_000_000, 8, 64, true
			s.lr = 1e-4
			s.engine = func(rollout.Engine) rollout.Engine { return &remote{delay: &delay} }
			trainer, err := s.open(b, testbackend.Go(b), "")
			if err != nil {
				b.Fatal(err)
			}
			defer trainer.Close()
			step := func() time.Duration {
				u, err := trainer.Step(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				return time.Duration(u.Timing.Train * float64(time.Second))
			}
			step()
			if took := min(step(), step()); delay == 0 {
				delay = took // of training, which sampling then takes as well
			}
			b.ResetTimer()
			for range b.N {
				step()
			}
			perUpdate[lag] = b.Elapsed().Seconds() / float64(b.N)
			b.ReportMetric(delay.Seconds()*1e3, "ms-sampling")
			if lag > 0 {
				b.ReportMetric(perUpdate[0]/perUpdate[lag], "times-lag-0")
			}
		})
	}
}
