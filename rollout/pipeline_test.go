package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// delayed is an engine that takes its time without using a core. A completion is two tokens drawn from its seed.
type delayed struct {
	perCall time.Duration
	fail    func(update int, prompt []int32) error // nil: never

	mu     sync.Mutex
	update int
	loads  []int
	calls  int
}

func (e *delayed) Load(_ context.Context, w *policy.Weights) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.update = w.Update
	e.loads = append(e.loads, w.Update)
	return nil
}

func (e *delayed) Generate(ctx context.Context, reqs []rollout.Request, _ rollout.Sampling) ([][]rollout.Completion, error) {
	e.mu.Lock()
	e.calls++
	update := e.update
	e.mu.Unlock()
	select {
	case <-time.After(e.perCall):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out := make([][]rollout.Completion, len(reqs))
	for i, r := range reqs {
		if e.fail != nil {
			if err := e.fail(update, r.Prompt); err != nil {
				return nil, err
			}
		}
		for _, seed := range r.Seeds {
			c := rollout.Completion{Finish: rollout.Stop, Update: update}
			for t := range 2 {
				c.Tokens = append(c.Tokens, int32(1+9*seed.Uniform(t)))
				c.LogProbs, c.Filtered = append(c.LogProbs, -1), append(c.Filtered, -1)
			}
			c.Tokens[1] = 0
			out[i] = append(out[i], c)
		}
	}
	return out, nil
}

// numbers is a tokenizer of task numbers.
type numbers struct{}

func (numbers) Encode(text string) ([]int32, error) {
	var n int32
	_, err := fmt.Sscan(text, &n)
	return []int32{n + 1}, err
}
func (numbers) Decode(tokens []int32) (string, error) { return fmt.Sprint(tokens), nil }

// odd rewards completions whose first token is odd; of tasks divisible by three it rewards all.
type odd struct{}

func (odd) Grade(_ context.Context, task envs.Task, reply envs.Reply) (envs.Score, error) {
	var first, n int
	if _, err := fmt.Sscanf(reply.Text, "[%d", &first); err != nil {
		return envs.Score{}, err
	}
	if _, err := fmt.Sscanf(task.ID, "task/%d", &n); err != nil {
		return envs.Score{}, err
	}
	if n%3 == 0 || first%2 == 1 {
		return envs.Score{Reward: 1, Value: 1}, nil
	}
	return envs.Score{}, nil
}

const batches = 12

func plan(e rollout.Engine) rollout.Plan {
	return rollout.Plan{
		Sampler: rollout.Sampler{Engine: e, Format: rollout.Format{Tokenizer: numbers{}}, Grader: odd{},
			Sampling: rollout.Sampling{Temperature: 1, MaxTokens: 2, Stop: []int32{0}}},
		Seed: 3, Groups: 4, GroupSize: 3, Batches: batches, Segment: 1,
		Task: func(n int) envs.Task {
			n %= 20
			return envs.Task{ID: fmt.Sprint("task/", n), Question: fmt.Sprint(n)}
		},
	}
}

// mixed keeps groups whose rewards differ.
func mixed(g rollout.Group) bool {
	return slices.ContainsFunc(g.Scores, func(s envs.Score) bool { return s.Reward != g.Scores[0].Reward })
}

// trained consumes batches as a trainer does, each in the given time, and stops after some.
func trained(t testing.TB, p *rollout.Pipeline, lag int, until int, train time.Duration) (out []*rollout.Batch) {
	t.Helper()
	for u := p.State().Consumed; u < until; u++ {
		if !p.Published(u) {
			p.Publish(&policy.Weights{Update: u})
		}
		b, err := p.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, u+1, b.Number)
		time.Sleep(train)
		p.Consume()
		if lag > 0 {
			p.Publish(&policy.Weights{Update: u + 1})
		}
		out = append(out, b)
	}
	return out
}

// A user who lets sampling and training overlap must get the time of the longer one, not of both: where they take equally long,
// at least 1.8 times the speed. The clock is synctest's.
func TestOverlap(t *testing.T) {
	elapsed := map[int]time.Duration{}
	for _, lag := range []int{0, 1, 2} {
		for _, staleness := range []rollout.Staleness{rollout.Fixed, rollout.Eager} {
			synctest.Test(t, func(t *testing.T) {
				pl := plan(&delayed{perCall: time.Second})
				pl.Lag, pl.Staleness = lag, staleness
				p, err := rollout.NewPipeline(pl, rollout.State{})
				require.NoError(t, err)
				defer p.Close()
				start := time.Now()
				for i, b := range trained(t, p, lag, batches, time.Second) {
					for _, g := range b.Groups {
						if staleness == rollout.Fixed {
							require.Equal(t, max(0, i-lag), g.Weights())
						}
						require.LessOrEqual(t, i-g.Weights(), lag)
						require.LessOrEqual(t, g.Weights(), i)
					}
				}
				elapsed[lag] = time.Since(start)
				ratio := elapsed[0].Seconds() / elapsed[lag].Seconds()
				t.Logf("lag %d, %s: %v, %.2f times lag 0", lag, staleness, elapsed[lag], ratio)
				if lag > 0 {
					require.GreaterOrEqual(t, ratio, 1.8)
				}
			})
		}
	}
}

// What is sampled must not depend on speed: the same batches come out however long sampling and training take and however the
// calls are cut.
func TestFixedIsReproducible(t *testing.T) {
	var want []*rollout.Batch
	for _, c := range []struct {
		perCall, calls int
		engine, train  time.Duration
	}{{0, 0, 0, 0}, {1, 4, time.Second, 0}, {3, 2, 0, time.Second}, {1, 1, 7 * time.Second, time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			pl := plan(&delayed{perCall: c.engine})
			pl.Lag, pl.PerCall, pl.Calls, pl.MaxGroups, pl.Keep = 2, c.perCall, c.calls, 7, mixed
			p, err := rollout.NewPipeline(pl, rollout.State{})
			require.NoError(t, err)
			defer p.Close()
			got := trained(t, p, 2, batches, c.train)
			if want == nil {
				want = got
			}
			require.Equal(t, want, got)
		})
	}
}

// Whoever stops at any instant and goes on from the state of that instant must get the batches of a run that never stopped. With
// the weights that the pending groups are due for this holds for every lag.
func TestStateIsExact(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		lag := rapid.IntRange(0, 3).Draw(rt, "lag")
		perCall := rapid.IntRange(0, 3).Draw(rt, "groups a call")
		maxGroups := rapid.SampledFrom([]int{0, 4, 6, 9}).Draw(rt, "most groups")
		stop := rapid.IntRange(0, batches-1).Draw(rt, "stop after")
		pause := time.Duration(rapid.IntRange(0, 40).Draw(rt, "pause")) * 100 * time.Millisecond
		synctest.Test(t, func(t *testing.T) {
			pl := plan(&delayed{perCall: time.Second})
			pl.Lag, pl.PerCall, pl.Calls = lag, perCall, 2
			if maxGroups > 0 {
				pl.MaxGroups, pl.Keep = maxGroups, mixed
			}
			whole, err := rollout.NewPipeline(pl, rollout.State{})
			require.NoError(t, err)
			want := trained(t, whole, lag, batches, time.Second)
			whole.Close()

			first, err := rollout.NewPipeline(pl, rollout.State{})
			require.NoError(t, err)
			got := trained(t, first, lag, stop, time.Second)
			time.Sleep(pause)
			state := first.State()
			first.Close()
			pl.Segment = 2
			second, err := rollout.NewPipeline(pl, state)
			require.NoError(t, err)
			require.Equal(t, state, second.State())
			got = append(got, trained(t, second, lag, batches, time.Second)...)
			second.Close()
			restored := 0
			for _, b := range got {
				for i := range b.Groups {
					if b.Number > stop && b.Groups[i].Segment == 1 {
						restored++
					}
					b.Groups[i].Segment = 1
				}
				for i := range b.Dropped {
					b.Dropped[i].Segment = 1
				}
			}
			require.LessOrEqual(t, restored, len(state.Ready), "a group that was ready keeps its segment")
			require.Equal(t, want, got)
		})
	})
}

// A batch must be full and say honestly what was left out: refused groups are replaced up to the cap, then they fill up.
func TestDynamicSampling(t *testing.T) {
	pl := plan(&delayed{})
	pl.MaxGroups, pl.Keep = 6, mixed
	p, err := rollout.NewPipeline(pl, rollout.State{})
	require.NoError(t, err)
	defer p.Close()
	drawn, dropped, filled := 0, 0, 0
	for _, b := range trained(t, p, 0, batches, 0) {
		require.Len(t, b.Groups, pl.Groups)
		require.Equal(t, drawn, b.First)
		require.Equal(t, b.Drawn-b.First, len(b.Groups)+len(b.Dropped))
		require.LessOrEqual(t, b.Drawn-b.First, pl.MaxGroups)
		for _, g := range b.Dropped {
			require.False(t, mixed(g))
		}
		constant := 0
		for _, g := range b.Groups {
			if !mixed(g) {
				constant++
			}
		}
		if constant > 0 {
			require.Equal(t, pl.MaxGroups, b.Drawn-b.First, "filled up before the cap was reached")
		}
		filled += constant
		drawn, dropped = b.Drawn, dropped+len(b.Dropped)
	}
	require.Positive(t, dropped)
	t.Logf("%d tasks drawn, %d groups dropped, %d without variance filled up", drawn, dropped, filled)
}

// A small bank gives a task more than once in a batch; its completions must still be different ones.
func TestRepeatedTasksHaveOtherSeeds(t *testing.T) {
	pl := plan(&delayed{})
	pl.Batches, pl.Groups = 1, 45 // of 20 tasks
	p, err := rollout.NewPipeline(pl, rollout.State{})
	require.NoError(t, err)
	defer p.Close()
	b := trained(t, p, 0, 1, 0)[0]
	byTask := map[string][]string{}
	for _, g := range b.Groups {
		byTask[g.Task.ID] = append(byTask[g.Task.ID], fmt.Sprint(g.Texts))
	}
	require.Len(t, byTask, 20)
	for task, texts := range byTask {
		require.Greater(t, len(texts), 1)
		require.Len(t, slices.Compact(slices.Sorted(slices.Values(texts))), len(texts), task)
	}
}

// A failing engine must stop the run with an error that says where, must not take with it what is complete, and the same
// pipeline must be able to go on. No goroutine stays behind.
func TestFailureAndCancellation(t *testing.T) {
	defer goleak.VerifyNone(t)
	down := true
	pl := plan(&delayed{fail: func(update int, prompt []int32) error {
		if update == 3 && down {
			return errors.New("the engine is down")
		}
		return nil
	}})
	pl.Lag, pl.PerCall, pl.Calls = 1, 1, 3
	pl.Sampler.Retry = rollout.Retry{Attempts: 2}
	p, err := rollout.NewPipeline(pl, rollout.State{})
	require.NoError(t, err)
	for u := range 4 { // those sampled by the weights of updates 0, 0, 1, 2
		p.Publish(&policy.Weights{Update: u})
		_, err := p.Next(t.Context())
		require.NoError(t, err)
		p.Consume()
	}
	_, err = p.Next(t.Context()) // by those of update 3
	require.ErrorContains(t, err, "sampling for update 5: task \"task/1")
	require.ErrorContains(t, err, "the engine is down (tried 2 times)")
	down = false
	_, err = p.Next(t.Context())
	require.NoError(t, err)
	p.Close()
	p.Close()

	slow := &delayed{perCall: time.Hour}
	pl = plan(slow)
	if p, err = rollout.NewPipeline(pl, rollout.State{}); err != nil {
		t.Fatal(err)
	}
	p.Publish(&policy.Weights{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	_, err = p.Next(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// stubborn is an engine and a grader that do not return before they are freed, whatever their contexts say.
type stubborn struct {
	*delayed
	odd
	engine bool // or the grader
	freed  chan struct{}
}

func (s stubborn) Generate(ctx context.Context, reqs []rollout.Request, sampling rollout.Sampling) ([][]rollout.Completion, error) {
	if s.engine {
		<-s.freed
	}
	return s.delayed.Generate(ctx, reqs, sampling)
}

func (s stubborn) Grade(ctx context.Context, task envs.Task, reply envs.Reply) (envs.Score, error) {
	<-s.freed
	return s.odd.Grade(ctx, task, reply)
}

// Whoever cancels must get the program back from an engine or a grader that ignores its context, and read which it is.
func TestStubbornParts(t *testing.T) {
	for name, engine := range map[string]bool{"the engine": true, "the grader": false} {
		synctest.Test(t, func(t *testing.T) {
			s := stubborn{delayed: &delayed{}, engine: engine, freed: make(chan struct{})}
			defer close(s.freed)
			pl := plan(s)
			pl.Sampler.Grader = s
			p, err := rollout.NewPipeline(pl, rollout.State{})
			require.NoError(t, err)
			p.Publish(&policy.Weights{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			_, err = p.Next(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "sampling for update 1: ")
			require.ErrorContains(t, err, name+" ignores that its context has ended")
			require.Less(t, time.Since(start), time.Minute)
			p.Close()
		})
	}
}

// Whoever reads an error of the engine must learn which task and sample it is about.
func TestEngineErrorsNameTheTask(t *testing.T) {
	for want, err := range map[string]error{
		`task "task/2", sample 1: request 2, sample 1: broken`: &rollout.RequestError{Request: 2, Sample: 1, Err: errors.New("broken")},
		`task "task/0": request 0: broken`:                     &rollout.RequestError{Request: 0, Sample: -1, Err: errors.New("broken")},
		`4 tasks, "task/0" to "task/3": broken`:                errors.New("broken"),
		`4 tasks, "task/0" to "task/3": request 9: broken`:     &rollout.RequestError{Request: 9, Sample: -1, Err: errors.New("broken")},
	} {
		pl := plan(&delayed{fail: func(int, []int32) error { return err }})
		p, newErr := rollout.NewPipeline(pl, rollout.State{})
		require.NoError(t, newErr)
		p.Publish(&policy.Weights{})
		_, got := p.Next(t.Context())
		require.ErrorContains(t, got, "sampling for update 1: "+want)
		require.ErrorIs(t, got, err)
		p.Close()
	}
}

// An engine that samples by other weights than it was given would make a run that its record does not describe.
func TestWrongWeights(t *testing.T) {
	pl := plan(lying{&delayed{}})
	p, err := rollout.NewPipeline(pl, rollout.State{})
	require.NoError(t, err)
	p.Publish(&policy.Weights{})
	_, err = p.Next(t.Context())
	require.ErrorContains(t, err, `sample 0: sampled by the weights of update 1, allowed: 0 to 0`)
}

type lying struct{ *delayed }

func (e lying) Load(ctx context.Context, w *policy.Weights) error {
	return e.delayed.Load(ctx, &policy.Weights{Update: w.Update + 1})
}

// A state of another run must be refused, not trained on.
func TestForeignState(t *testing.T) {
	pl := plan(&delayed{perCall: time.Hour})
	pl.Lag, pl.PerCall = 1, 1
	make := func() rollout.State {
		quick := pl
		quick.Sampler.Engine = &delayed{}
		p, err := rollout.NewPipeline(quick, rollout.State{})
		require.NoError(t, err)
		defer p.Close()
		trained(t, p, 1, 3, 0)
		for {
			if s := p.State(); len(s.Ready) == 8 { // batches 4 and 5; as if only 4 had been begun
				s.InFlight, s.Ready = s.InFlight[:1], s.Ready[:4]
				s.Weights = []*policy.Weights{{Update: 2}}
				return s
			}
			time.Sleep(time.Millisecond)
		}
	}
	_, err := rollout.NewPipeline(pl, make())
	require.NoError(t, err)
	for want, change := range map[string]func(*rollout.State){
		"3 batches":                     func(s *rollout.State) { s.Drawn = 11 },
		"is of task":                    func(s *rollout.State) { s.InFlight[0].Groups[1].Task = "task/0" },
		"completions are not there":     func(s *rollout.State) { s.Ready = s.Ready[:3] },
		"by the weights of update 2, e": func(s *rollout.State) { s.InFlight[0].Groups[1].Weights = 1 },
		"allowed: 2 to 2": func(s *rollout.State) {
			s.Ready[1].Completions[1].Update = 1
		},
		"2 completions":    func(s *rollout.State) { s.Ready[0].Completions = s.Ready[0].Completions[:2] },
		"not in any batch": func(s *rollout.State) { s.InFlight = nil },
		"has drawn 5": func(s *rollout.State) {
			s.InFlight[0].Groups = append(s.InFlight[0].Groups, rollout.Described{Task: "task/16"})
		},
		"with lag 1": func(s *rollout.State) { s.InFlight[0].Batch = 9 },
		"weights of update 2, which batch 4 is due for": func(s *rollout.State) {
			s.InFlight[0].Groups[0].Ready, s.Ready, s.Weights = false, s.Ready[1:], nil
		},
	} {
		s := make()
		change(&s)
		_, err := rollout.NewPipeline(pl, s)
		require.ErrorIs(t, err, rollout.ErrState, want)
		require.ErrorContains(t, err, want)
	}
}
