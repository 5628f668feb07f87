package grpo

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// held is an engine whose calls wait from a given one on, until it is released.
type held struct {
	rollout.Engine
	from    int
	calls   int
	release chan struct{}
}

func (h *held) Generate(ctx context.Context, reqs []rollout.Request, s rollout.Sampling) ([][]rollout.Completion, error) {
	h.calls++
	if h.calls > h.from {
		select {
		case <-h.release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return h.Engine.Generate(ctx, reqs, s)
}

// outage is an evaluation engine that is cut off while it works on the weights of an update.
type outage struct {
	rollout.Engine
	at, update int
	cut        chan struct{}
}

func (o *outage) Load(ctx context.Context, w *policy.Weights) error {
	o.update = w.Update
	return o.Engine.Load(ctx, w)
}

func (o *outage) Generate(ctx context.Context, reqs []rollout.Request, s rollout.Sampling) ([][]rollout.Completion, error) {
	if o.update == o.at {
		<-o.cut
		return nil, errors.New("connection lost")
	}
	return o.Engine.Generate(ctx, reqs, s)
}

// The way of the reference experiments: a run is cut off at update 93 while the evaluation of update 90 is going on; the checkpoint of update 90
// holds five ready groups of the next batch and three pending ones; an alternative goes on from it and is given up; a second run goes on
// from the same checkpoint, evaluates it first, and ends at update 100. What counts must be 100 updates of 64 responses, and all
// of it bit for bit what an undisturbed run gives.
func TestReferenceScenario(t *testing.T) {
	if testing.Short() {
		t.Skip("two runs of 100 updates; what they do at once is tested for races by shorter ones")
	}
	b, s := testbackend.Go(t), small()
	s.cfg.Updates, s.cfg.TasksPerUpdate, s.cfg.GroupSize, s.cfg.SaveEvery, s.cfg.Lag = 100, 8, 8, 10, 1
	s.lr, s.perCall, s.calls, s.behind = .001, 1, 1, true
	undisturbed, dir := t.TempDir(), t.TempDir()
	s.train(t, b, undisturbed, -1)

	step := func(trainer *Trainer, until int) (first *Update) {
		for trainer.Done() < until {
			u, err := trainer.Step(t.Context())
			require.NoError(t, err)
			if first == nil {
				first = u
			}
		}
		return first
	}
	leave := func(trainer *Trainer) { // as a crash does: nothing is saved
		trainer.Close()
		require.NoError(t, trainer.parts.Run.Close())
	}

	// The parent.
	parent := s
	sampling := &held{from: 90*8 + 5, release: make(chan struct{})}
	judging := &outage{at: 90, cut: make(chan struct{})}
	parent.engine = func(e rollout.Engine) rollout.Engine { sampling.Engine = e; return sampling }
	parent.judge = func(e rollout.Engine) rollout.Engine { judging.Engine = e; return judging }
	trainer, err := parent.open(t, b, dir)
	require.NoError(t, err)
	step(trainer, 89)
	for len(trainer.rollout.State().Ready) < 8+5 { // batch 90, and what is let through of batch 91
		time.Sleep(time.Millisecond)
	}
	step(trainer, 90)
	close(sampling.release)
	step(trainer, 93)
	close(judging.cut)
	_, err = trainer.judged(t.Context(), true)
	require.ErrorContains(t, err, "connection lost")
	leave(trainer)

	// The alternative.
	s.restore = &checkpoint.Restore{Update: 90, Reason: "the evaluation server was down"}
	trainer, err = s.open(t, b, dir)
	require.NoError(t, err)
	require.Equal(t, 90, trainer.Done())
	first := step(trainer, 92)
	require.Equal(t, 90, first.Update)
	require.NotNil(t, first.Evaluation, "the missing evaluation comes first")
	leave(trainer)

	// The run that ends.
	s.restore = &checkpoint.Restore{Segment: 1, Update: 90, Reason: "the alternative is given up"}
	trainer, err = s.open(t, b, dir)
	require.NoError(t, err)
	first = step(trainer, 91)
	require.NotNil(t, first.Evaluation, "the alternative's evaluation is not this run's")
	for _, err := range trainer.Updates(t.Context()) {
		require.NoError(t, err)
	}
	leave(trainer)

	record, err := checkpoint.Read(dir)
	require.NoError(t, err)
	history := record.History
	require.True(t, history.Finished)
	require.Len(t, history.Updates, 100)
	responses := 0
	for _, u := range history.Updates {
		responses += u.Rollouts.Lines
	}
	require.Equal(t, 6400, responses)
	require.Len(t, history.Evaluations, 11)
	require.Equal(t, checkpoint.Work{Updates: 3 + 2, Responses: 192 + 128}, history.RolledBack, "the parent's updates 91 to 93 and the alternative's 91 and 92: kept, not counted")
	require.Equal(t, []int{0, 1, 1}, []int{history.Segments[0].Parent, history.Segments[1].Parent, history.Segments[2].Parent})
	sampledIn := history.Updates[90].SampledIn
	require.Equal(t, []int{1, 1, 1, 1, 1, 3, 3, 3}, slices.Sorted(slices.Values(sampledIn)), "five ready groups keep their identity, three pending ones are made again")
	for _, u := range history.Updates {
		require.Equal(t, max(0, u.Update-2), u.Weights)
	}
	require.Equal(t, digest(t, undisturbed), digest(t, dir))
}
