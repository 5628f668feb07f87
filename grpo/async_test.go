package grpo

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/gomlx/compute/dtypes"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// gate is an engine whose calls wait from a given one on, the first being 0.
type gate struct {
	rollout.Engine
	from  int
	calls atomic.Int64
}

func (g *gate) Generate(ctx context.Context, reqs []rollout.Request, s rollout.Sampling) ([][]rollout.Completion, error) {
	if int(g.calls.Add(1)) > g.from {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return g.Engine.Generate(ctx, reqs, s)
}

// A checkpoint that falls into the middle of a batch must keep the groups that are ready as they are, and have the pending ones sampled
// by the weights that they were due for, which are not the checkpoint's.
func TestCheckpointAmidABatch(t *testing.T) {
	for name, change := range map[string]func(*setup){
		"float32":  func(*setup) {},
		"bfloat16": func(s *setup) { s.dtype = dtypes.BFloat16 },
		"lag 3":    func(s *setup) { s.cfg.Lag = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			b, s := testbackend.Go(t), small()
			s.cfg.Lag, s.perCall, s.cfg.SaveEvery = 1, 1, 6
			change(&s)
			whole := t.TempDir()
			s.train(t, b, whole, -1)

			dir := t.TempDir()
			first := s
			held := &gate{from: 3*s.cfg.TasksPerUpdate - 1} // the last group of batch 3
			first.engine = func(e rollout.Engine) rollout.Engine { held.Engine = e; return held }
			trainer, err := first.open(t, b, dir)
			require.NoError(t, err)
			for trainer.Done() < 2 {
				_, err := trainer.Step(t.Context())
				require.NoError(t, err)
			}
			for len(trainer.rollout.State().Ready) < 2 || int(held.calls.Load()) <= held.from {
				time.Sleep(time.Millisecond)
			}
			require.NoError(t, trainer.Save(t.Context()))
			trainer.Close()
			require.NoError(t, trainer.parts.Run.Close())

			state, _, err := checkpoint.OpenState(filepath.Join(dir, "checkpoints", "000002"), "")
			require.NoError(t, err)
			require.Len(t, state.Ready, 2*s.cfg.GroupSize)
			require.Contains(t, state.Tensors, "rollout-000001", "weights that pending groups are due for")
			require.NoError(t, state.Close())
			ready := state.Ready[0]

			s.train(t, b, dir, -1)
			require.Equal(t, digest(t, whole), digest(t, dir))
			record, err := checkpoint.Read(dir)
			require.NoError(t, err)
			u := record.History.Updates[2]
			require.Equal(t, []int{1, 1, 2}, slices.Sorted(slices.Values(u.SampledIn)), "ready groups keep their segment, pending ones are the child's")
			require.Equal(t, 1, u.SampledIn[slices.Index(u.Tasks, ready.Task)])
		})
	}
}

// refusing is an engine of the evaluation role that fails from the weights of an update on.
type refusing struct {
	rollout.Engine
	from   int
	update int
}

func (r *refusing) Load(ctx context.Context, w *policy.Weights) error {
	r.update = w.Update
	return r.Engine.Load(ctx, w)
}

func (r *refusing) Generate(ctx context.Context, reqs []rollout.Request, s rollout.Sampling) ([][]rollout.Completion, error) {
	if r.update >= r.from {
		time.Sleep(50 * time.Millisecond)
		return nil, errors.New("the evaluation server is down")
	}
	return r.Engine.Generate(ctx, reqs, s)
}

// An evaluation in the background that fails is missing. What was trained after it must not hide that: the run goes on from the
// checkpoint whose evaluation is missing, and begins with it.
func TestMissingEvaluationIsMadeUp(t *testing.T) {
	b, s := testbackend.Go(t), small()
	s.behind, s.cfg.Lag = true, 1
	whole, dir := t.TempDir(), t.TempDir()
	s.train(t, b, whole, -1)

	down := s
	down.judge = func(e rollout.Engine) rollout.Engine { return &refusing{Engine: e, from: 2} }
	trainer, err := down.open(t, b, dir)
	require.NoError(t, err)
	var last error
	for _, err := range trainer.Updates(t.Context()) {
		last = err
	}
	require.ErrorContains(t, last, "evaluating update 2: ")
	require.ErrorContains(t, last, "the evaluation server is down")
	require.GreaterOrEqual(t, trainer.Done(), 2)
	_, err = trainer.Step(t.Context())
	require.ErrorContains(t, err, "make a new trainer")
	trainer.Close()
	require.NoError(t, trainer.parts.Run.Close())

	seen := s.train(t, b, dir, -1)
	require.Equal(t, 2, seen[0].Update)
	require.NotNil(t, seen[0].Evaluation, "the missing evaluation comes first")
	require.Nil(t, seen[0].Metrics)
	require.Equal(t, digest(t, whole), digest(t, dir))
}

// An eager run cannot be repeated bit for bit, but must be finished and verified like any other, never older than the lag.
func TestEager(t *testing.T) {
	b, s := testbackend.Go(t), small()
	s.cfg.Lag, s.cfg.Staleness, s.perCall = 2, rollout.Eager, 1
	dir := t.TempDir()
	s.train(t, b, dir, 3)
	s.train(t, b, dir, -1)
	digest(t, dir)
	record, err := checkpoint.Read(dir)
	require.NoError(t, err)
	require.Len(t, record.History.Updates, s.cfg.Updates)
	for _, u := range record.History.Updates {
		require.GreaterOrEqual(t, u.Weights, u.Update-3)
		require.Less(t, u.Weights, u.Update)
	}
}

// Whoever leaves a run must get everything back that it has started.
func TestNoGoroutineStaysBehind(t *testing.T) {
	b, s := testbackend.Go(t), small()
	s.cfg.Lag, s.perCall, s.behind = 2, 1, true
	s.train(t, b, t.TempDir(), 3) // compiles, and starts what the backend keeps
	before := goleak.IgnoreCurrent()
	s.train(t, b, t.TempDir(), 3)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	trainer, err := s.open(t, b, t.TempDir())
	require.NoError(t, err)
	for u, err := range trainer.Updates(ctx) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			break
		}
		if u.Update == 3 {
			cancel()
		}
	}
	trainer.Close()
	require.NoError(t, trainer.parts.Run.Close())
	goleak.VerifyNone(t, before)
}
