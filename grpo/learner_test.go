package grpo

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/rollout"
)

func tinyDecoder(t testing.TB, dtype dtypes.DType) *decoder.Decoder {
	t.Helper()
	d, err := decoder.New(decoder.Config{Vocab: 11, Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, Intermediate: 24, MaxPositions: 64,
		NormEps: 1e-6, Rope: decoder.Rope{Theta: 1e4}, QKNorm: true, DType: dtype, InitDeviation: .2})
	require.NoError(t, err)
	return d
}

// inventedGroups are completions of uneven lengths with made-up log-probs and rewards.
func inventedGroups(tasks, size int) []rollout.Group {
	r := rand.New(rand.NewPCG(1, 2))
	ids := func(n int) []int32 {
		out := make([]int32, n)
		for i := range out {
			out[i] = int32(r.IntN(11))
		}
		return out
	}
	groups := make([]rollout.Group, tasks)
	for g := range groups {
		groups[g] = rollout.Group{Task: envs.Task{ID: fmt.Sprint(g)}, Prompt: ids(1 + r.IntN(9))}
		for range size {
			c := rollout.Completion{Tokens: ids(1 + r.IntN(7)), Finish: rollout.Stop}
			for range c.Tokens {
				c.LogProbs = append(c.LogProbs, float32(-math.Log(11)+.3*r.NormFloat64()))
			}
			groups[g].Completions = append(groups[g].Completions, c)
			groups[g].Scores = append(groups[g].Scores, envs.Score{Reward: float64(r.IntN(2))})
		}
	}
	return groups
}

func testLearner(t testing.TB, b *backend.Backend, p policy.Policy, w *policy.Weights, opt optim.Optimizer, change func(*Config)) *learner {
	t.Helper()
	cfg := Config{TasksPerUpdate: 4, GroupSize: 4, Bucket: 4, Objective: Objective{ClipLow: .2, ClipHigh: .28}}
	if change != nil {
		change(&cfg)
	}
	cfg = cfg.WithDefaults()
	require.NoError(t, cfg.Validate())
	l, err := newLearner(cfg, Parts{Backend: b, Policy: p, Weights: w, Optimizer: opt, Sampler: rollout.Sampler{Sampling: rollout.Sampling{Temperature: 1}}})
	require.NoError(t, err)
	t.Cleanup(l.close)
	return l
}

// learnOnce returns the metrics of one update and all weights after it.
func learnOnce(t testing.TB, l *learner) (*Metrics, []float64) {
	t.Helper()
	batch := newBatch(inventedGroups(4, 4))
	m, err := l.learn(context.Background(), batch, 1, .1)
	require.NoError(t, err)
	var all []float64
	for _, w := range l.masters {
		values, err := flat(w)
		require.NoError(t, err)
		all = append(all, values...)
	}
	return m, all
}

// separate hides a policy's HiddenGroups.
type separate struct{ policy.Policy }

// A user who lowers MicroBatch to save memory, or whose policy cannot share prompts, must get the same update.
func TestUpdateDoesNotDependOnHowItIsComputed(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		d := tinyDecoder(t, dtypes.Float32)
		w, err := d.Init(3)
		require.NoError(t, err)
		want, wantWeights := learnOnce(t, testLearner(t, b, d, w, optim.SGD{}, nil))
		require.NotZero(t, want.GradNorm)
		require.NotZero(t, want.ClipFrac)
		for name, variant := range map[string]*learner{
			"one group at a time":       testLearner(t, b, d, w, optim.SGD{}, func(c *Config) { c.MicroBatch = 4 }),
			"two groups at a time":      testLearner(t, b, d, w, optim.SGD{}, func(c *Config) { c.MicroBatch = 8 }),
			"half a group at a time":    testLearner(t, b, d, w, optim.SGD{}, func(c *Config) { c.MicroBatch = 2 }),
			"one completion at a time":  testLearner(t, b, d, w, optim.SGD{}, func(c *Config) { c.MicroBatch = 1 }),
			"prompt repeated in rows":   testLearner(t, b, separate{d}, w, optim.SGD{}, nil),
			"padding to another bucket": testLearner(t, b, d, w, optim.SGD{}, func(c *Config) { c.Bucket = 32 }),
			"padding to multiples of 1": testLearner(t, b, d, w, optim.SGD{}, func(c *Config) { c.Bucket = 1 }),
		} {
			got, weights := learnOnce(t, variant)
			require.InDelta(t, want.Loss, got.Loss, 1e-5, name)
			require.InDelta(t, want.GradNorm, got.GradNorm, 1e-4*want.GradNorm, name)
			require.InDeltaSlice(t, wantWeights, weights, 1e-5, name)
		}
	})
}

// An update of 1e-6 is far below bfloat16's resolution: without float32 masters nothing would ever change.
func TestTinyUpdatesOfBfloat16WeightsAddUp(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		d := tinyDecoder(t, dtypes.BFloat16)
		w, err := d.Init(3)
		require.NoError(t, err)
		l := testLearner(t, b, d, w, optim.AdamW{Beta1: .9, Beta2: .98}, func(c *Config) { c.Compute = "bfloat16" })
		before, err := l.weights(0)
		require.NoError(t, err)
		digest, err := before.Digest()
		require.NoError(t, err)
		base, err := w.Digest()
		require.NoError(t, err)
		require.Equal(t, base, digest, "update 0 has exactly the stored bits")

		batch := newBatch(inventedGroups(4, 4))
		first, err := flat(l.masters[0])
		require.NoError(t, err)
		for step := range 3 {
			_, err = l.learn(t.Context(), batch, step+1, 1e-6)
			require.NoError(t, err)
		}
		third, err := flat(l.masters[0])
		require.NoError(t, err)
		moved := 0.0
		for i := range first {
			moved = max(moved, math.Abs(third[i]-first[i]))
		}
		require.InDelta(t, 3e-6, moved, 1e-6)
		now, err := l.weights(3)
		require.NoError(t, err)
		require.Equal(t, dtypes.BFloat16, now.Tensors[0].DType())
	})
}

// precise is a policy that needs one weight in float32.
type precise struct{ policy.Policy }

func (p precise) Params() []policy.Param {
	params := p.Policy.Params()
	params[1].Float32 = true
	return params
}

func (p precise) Hidden(w policy.Vars, in policy.Inputs) *graph.Node {
	w = slices.Clone(w)
	w[1] = graph.ConvertDType(w[1], w[0].DType())
	return p.Policy.Hidden(w, in)
}

// What a policy computes in training must be what it computes in sampling: weights as published, and in the dtype that it asks for.
func TestWeightsThatStayInFloat32(t *testing.T) {
	b := testbackend.Go(t)
	d := tinyDecoder(t, dtypes.BFloat16)
	w, err := d.Init(3)
	require.NoError(t, err)
	l := testLearner(t, b, precise{d}, w, optim.AdamW{}, func(c *Config) { c.Compute = "bfloat16" })
	batch := newBatch(inventedGroups(4, 4))
	_, err = l.learn(t.Context(), batch, 1, 1e-4) // masters between the numbers that bfloat16 has
	require.NoError(t, err)
	f, err := backend.Compile(b, "vars", func(in []*graph.Node) []*graph.Node {
		vars := l.vars(in)
		require.Equal(t, dtypes.BFloat16, vars[0].DType())
		require.Equal(t, dtypes.Float32, vars[1].DType())
		return vars[1:2]
	})
	require.NoError(t, err)
	defer f.Close()
	out, err := f.Call(0, l.masters)
	require.NoError(t, err)
	got, err := flat(out[0])
	require.NoError(t, err)
	masters, err := flat(l.masters[1])
	require.NoError(t, err)
	require.NotEqual(t, masters, got)
	for i, m := range masters {
		require.EqualValues(t, bfloat16.FromFloat32(float32(m)).Float32(), got[i], i)
	}
}

// spiky is a policy with a finite loss whose gradient for one weight is NaN.
type spiky struct {
	policy.Policy
	index int
}

func (s spiky) Logits(w policy.Vars, hidden *graph.Node) *graph.Node {
	zero := graph.ReduceAllSum(graph.MulScalar(w[s.index], 0))
	return graph.Add(s.Policy.Logits(w, hidden), graph.Sqrt(zero)) // d√x/dx at 0 is infinite, times 0
}

// A bad gradient must name its tensor and leave the weights as they were, bit for bit.
func TestBadGradientNamesItsParameterAndChangesNothing(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		d := tinyDecoder(t, dtypes.Float32)
		w, err := d.Init(3)
		require.NoError(t, err)
		const bad = 5
		l := testLearner(t, b, spiky{d, bad}, w, optim.AdamW{}, nil)
		batch := newBatch(inventedGroups(4, 4))
		_, err = l.learn(t.Context(), batch, 1, .1)
		require.ErrorIs(t, err, ErrNotFinite)
		require.ErrorContains(t, err, d.Params()[bad].Name)
		want, err := w.Digest()
		require.NoError(t, err)
		now, err := l.weights(0)
		require.NoError(t, err)
		got, err := now.Digest()
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// NaN weights show as a loss that is not finite, before the optimizer sees them.
func TestNaNWeightsStopTheUpdate(t *testing.T) {
	b := testbackend.Go(t)
	d := tinyDecoder(t, dtypes.Float32)
	w, err := d.Init(3)
	require.NoError(t, err)
	require.NoError(t, tensors.MutableFlatData(w.Tensors[1], func(x []float32) { x[0] = float32(math.NaN()) }))
	l := testLearner(t, b, d, w, optim.SGD{}, nil)
	batch := newBatch(inventedGroups(4, 4))
	_, err = l.learn(t.Context(), batch, 1, .1)
	require.ErrorIs(t, err, ErrNotFinite)
}

// The settings with optional inputs (reference policy, corrections, current log-probs) must find their tensors.
func TestObjectivesWithFurtherInputs(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		d := tinyDecoder(t, dtypes.Float32)
		w, err := d.Init(3)
		require.NoError(t, err)
		other, err := d.Init(4)
		require.NoError(t, err)
		cfg := Config{TasksPerUpdate: 4, GroupSize: 4, MicroBatch: 8, OldLogProbs: Current, MaskTruncated: true,
			Objective: Objective{ClipLow: .2, ClipHigh: .28, KL: KL{Coef: .1}, Entropy: .01,
				Correction: Correction{Weights: ImportanceWeights{Mode: TruncateWeights, High: 2}}}}.WithDefaults()
		require.NoError(t, cfg.Validate())
		l, err := newLearner(cfg, Parts{Backend: b, Policy: d, Weights: w, Reference: other, Optimizer: optim.SGD{},
			Sampler: rollout.Sampler{Sampling: rollout.Sampling{Temperature: 1}}})
		require.NoError(t, err)
		defer l.close()
		m, _ := learnOnce(t, l)
		require.Equal(t, 1., m.RatioMean)
		require.Positive(t, m.KLLoss)
		require.Positive(t, m.Entropy)
		require.NotEqual(t, 1., m.WeightMean)
		require.InDelta(t, m.EngineGap, m.RolloutLogPAbsDiff, 1e-5)
	})
}
