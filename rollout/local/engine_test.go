package local_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

// newEngine is an engine with weights loaded.
func newEngine(t testing.TB, b *backend.Backend, p policy.Policy, w *policy.Weights, o local.Options) *local.Engine {
	e, err := local.New(b, p, o)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	require.NoError(t, e.Load(t.Context(), w))
	return e
}

// requests makes n requests with prompts of the given lengths in turn and some seeds each.
func requests(n, vocab, seeds int, lengths ...int) []rollout.Request {
	reqs := make([]rollout.Request, n)
	for i := range reqs {
		for j := range lengths[i%len(lengths)] {
			u := rollout.NewSeed(0, "prompt", 0, "", i).Uniform(j)
			reqs[i].Prompt = append(reqs[i].Prompt, int32(u*float32(vocab)))
		}
		for k := range seeds {
			reqs[i].Seeds = append(reqs[i].Seeds, rollout.NewSeed(1, "test", 0, fmt.Sprint(i), k))
		}
	}
	return reqs
}

// The whole way must do what the documentation says a completion is: uniforms by seed and token number, the distribution of
// the settings, the stop rules; whatever the prompt's length, the batches, the finished rows and the buckets. A user could
// not see a mistake here, only a policy that learns less well.
func TestGenerateIsReferenceSampling(t *testing.T) {
	p := bag{vocab: 11, dim: 4, positions: 90}
	w, logits := bagWeights(t, p, 7)
	reqs := requests(9, p.vocab, 5, 1, 30, 2, 17, 60, 18, 88, 33)
	reqs[3].Seeds = reqs[3].Seeds[:1]
	for k := range 20 { // more than a batch
		reqs[5].Seeds = append(reqs[5].Seeds, rollout.Seed{uint64(k), 9})
	}
	settings := map[string]rollout.Sampling{
		"plain":   {Temperature: 1, MaxTokens: 70, Stop: []int32{3}},
		"filters": {Temperature: .7, TopK: 6, TopP: .9, MinP: .01, Order: rollout.Joint, MaxTokens: 9, Stop: []int32{0, 10}},
		"greedy":  {MaxTokens: 20},
	}
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		for kind, p := range map[string]policy.Policy{"without cache": p, "with cache": recurrent{p}} {
			e := newEngine(t, b, p, w, local.Options{MaxRows: 16, Segment: 7})
			for name, s := range settings {
				t.Run(kind+"/"+name, func(t *testing.T) {
					got, err := e.Generate(t.Context(), reqs, s)
					require.NoError(t, err)
					require.Len(t, got, len(reqs))
					tokens := 0
					for i, r := range reqs {
						require.Len(t, got[i], len(r.Seeds))
						for k, c := range got[i] {
							tokens += checkCompletion(t, r, k, c, s, p.MaxPositions(), logits)
							require.Equal(t, 7, c.Update)
						}
					}
					require.Greater(t, tokens, 100)
				})
			}
		}
	})
}

// checkCompletion compares a completion with sampling on the host, up to a token that hangs on rounding, and returns how
// many tokens it compared.
func checkCompletion(
	t *testing.T, r rollout.Request, k int, c rollout.Completion, s rollout.Sampling, positions int, logits func([]int32) []float64,
) int {
	const margin = 1e-5
	require.Len(t, c.LogProbs, len(c.Tokens))
	require.Len(t, c.Filtered, len(c.Tokens))
	all := slices.Clone(r.Prompt)
	for i, token := range c.Tokens {
		d, err := rollout.NewDistribution(logits(all), s)
		require.NoError(t, err)
		u := float64(r.Seeds[k].Uniform(i))
		if d.Pick(u-margin) != d.Pick(u+margin) {
			return i
		}
		require.EqualValues(t, d.Pick(u), token, "token %d", i)
		require.InDelta(t, d.Full[token], c.LogProbs[i], 1e-4)
		require.InDelta(t, d.Filtered[token], c.Filtered[i], 1e-4)
		all = append(all, token)
		stopped := slices.Contains(s.Stop, token)
		full := i+1 == s.MaxTokens || len(all) == positions
		require.Equal(t, stopped || full, i+1 == len(c.Tokens), "ends at token %d", i)
		if stopped {
			require.Equal(t, rollout.Stop, c.Finish)
		} else if full {
			require.Equal(t, rollout.Length, c.Finish)
		}
	}
	return len(c.Tokens)
}

// small is a decoder whose completions have lengths from 1 to the limit.
func small(t testing.TB) (policy.Policy, *policy.Weights) {
	return smallOf(t, func(*decoder.Config) {})
}

func smallOf(t testing.TB, change func(*decoder.Config)) (policy.Policy, *policy.Weights) {
	c := decoder.Config{
		Vocab: 24, Hidden: 32, Layers: 1, Heads: 4, KVHeads: 2, Intermediate: 48, MaxPositions: 200, NormEps: 1e-6,
		Rope: decoder.Rope{Theta: 1e4}, InitDeviation: .3,
	}
	change(&c)
	d, err := decoder.New(c)
	require.NoError(t, err)
	w, err := d.Init(5)
	require.NoError(t, err)
	return d, w
}

var sampling = rollout.Sampling{Temperature: 1, TopP: .98, MaxTokens: 60, Stop: []int32{4, 5}}

// Training divides by the recorded log-probs: they must be those of the policy's own forward pass.
func TestAgreesWithForwardPass(t *testing.T) {
	t.Run("llama", func(t *testing.T) { agreesWithForwardPass(t, func(*decoder.Config) {}, sampling, 1e-4) })
	// Stored in bfloat16, computed in float32; with all that is special about other families.
	t.Run("gemma3 with experts", func(t *testing.T) {
		agreesWithForwardPass(t, func(c *decoder.Config) {
			c.DType, c.Layers, c.QKNorm = dtypes.BFloat16, 2, true
			c.Norms, c.NormStyle, c.Activation, c.EmbeddingScale = decoder.NormsAround, decoder.NormOffset, decoder.GeluTanh, 2
			c.LocalRope = decoder.Rope{Theta: 1e3}
			c.PerLayer = []decoder.Layer{{Window: 7, Rope: decoder.LocalRope, Experts: true}, {Rope: decoder.NoRope}}
			c.Experts = decoder.Experts{Count: 4, Chosen: 2, Intermediate: 16, Renormalize: true}
		}, sampling, 1e-4)
	})
	// Some arrays of the cache grow with the number of tokens and some do not. Such layers amplify rounding.
	t.Run("qwen3.5", func(t *testing.T) {
		s := sampling
		s.MaxTokens, s.Stop = 80, s.Stop[:1]
		got := agreesWithForwardPass(t, func(c *decoder.Config) {
			c.Layers, c.NormStyle, c.QKNorm, c.GatedOutput, c.Rope.Partial = 2, decoder.NormOffset, true, true, .5
			c.PerLayer = []decoder.Layer{{Recurrent: true}, {}}
			c.DeltaNet = decoder.DeltaNet{KeyHeads: 2, ValueHeads: 4, KeyDim: 8, ValueDim: 6, Kernel: 4}
		}, s, 5e-4)
		shortest, longest := s.MaxTokens, 0
		for _, c := range slices.Concat(got...) {
			shortest, longest = min(shortest, len(c.Tokens)), max(longest, len(c.Tokens))
		}
		require.Less(t, shortest, 20, "a row is taken out")
		require.Greater(t, longest, 64, "a row outgrows the cache of 128 slots, of which prompts have 64")
	})
}

func agreesWithForwardPass(
	t *testing.T, change func(*decoder.Config), sampling rollout.Sampling, tolerance float64,
) (got [][]rollout.Completion) {
	p, w := smallOf(t, change)
	reqs := requests(6, p.VocabSize(), 3, 5, 20, 40)
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		var err error
		got, err = newEngine(t, b, p, w, local.Options{}).Generate(t.Context(), reqs, sampling)
		require.NoError(t, err)
		forward, err := backend.Compile(b, "forward", func(in []*graph.Node) []*graph.Node {
			n := len(in) - 1
			wide := make(policy.Vars, n)
			for i, x := range in[:n] {
				wide[i] = graph.ConvertDType(x, dtypes.Float32)
			}
			hidden := p.Hidden(wide, policy.Inputs{Tokens: in[n]})
			return []*graph.Node{p.Logits(wide, graph.Reshape(hidden, in[n].Shape().Size(), -1))}
		})
		require.NoError(t, err)
		defer forward.Close()
		here, err := w.Clone(b.Raw(), 0) // a tensor belongs to one backend
		require.NoError(t, err)
		defer here.Free()
		compared := 0
		for i, r := range reqs {
			for _, c := range got[i] {
				all := make([]int32, 128) // filler behind changes nothing
				copy(all[copy(all, r.Prompt):], c.Tokens)
				out, err := forward.Call(0, here.Tensors, [][]int32{all})
				require.NoError(t, err)
				logits, err := tensors.CopyFlatData[float32](out[0])
				require.NoError(t, err)
				for j, token := range c.Tokens {
					at := len(r.Prompt) + j - 1
					row := make([]float64, p.VocabSize())
					for v := range row {
						row[v] = float64(logits[at*len(row)+v])
					}
					d, err := rollout.NewDistribution(row, sampling)
					require.NoError(t, err)
					require.InDelta(t, d.Full[token], c.LogProbs[j], tolerance)
					if !math.IsInf(d.Filtered[token], -1) { // unless the border to it hangs on rounding
						require.InDelta(t, d.Filtered[token], c.Filtered[j], tolerance)
						compared++
					}
				}
			}
		}
		require.Greater(t, compared, 100)
	})
	return got
}

// A completion must be what its prompt and seed say, not what else was asked for or how the engine cut it up: otherwise a
// resumed run or a bigger evaluation would see other completions.
func TestCompletionsAreIndependent(t *testing.T) {
	p, w := small(t)
	reqs := requests(8, p.VocabSize(), 4, 5, 20, 18, 40, 6, 12, 30, 31)
	reversed := slices.Clone(reqs)
	slices.Reverse(reversed)
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		generate := func(reqs []rollout.Request, e *local.Engine) [][]rollout.Completion {
			got, err := e.Generate(t.Context(), reqs, sampling)
			require.NoError(t, err)
			return got
		}
		for _, fixed := range []bool{false, true} {
			e := newEngine(t, b, p, w, local.Options{FixedRows: fixed, MaxRows: 32})
			want := generate(reqs, e)
			lengths := map[int]bool{}
			for _, c := range slices.Concat(want...) {
				lengths[len(c.Tokens)] = true
			}
			require.Greater(t, len(lengths), 8, "rows that end at different times")
			require.Equal(t, want, generate(reqs, e), "the same call gives the same bits")

			back := generate(reversed, e)
			slices.Reverse(back)
			alone := generate(reqs[3:4], e)
			segments := generate(reqs, newEngine(t, b, p, w, local.Options{FixedRows: fixed, MaxRows: 32, Segment: 5}))
			few := generate(reqs, newEngine(t, b, p, w, local.Options{FixedRows: fixed, MaxRows: 3}))
			if fixed {
				require.Equal(t, want, back)
				require.Equal(t, want[3:4], alone)
				require.Equal(t, want, segments)
			}
			same(t, want, back)
			same(t, want[3:4], alone)
			same(t, want, segments)
			same(t, want, few)
		}
	})
}

// same compares completions up to rounding of the log-probs.
func same(t *testing.T, want, got [][]rollout.Completion) {
	t.Helper()
	require.Equal(t, len(want), len(got))
	for i := range want {
		require.Equal(t, len(want[i]), len(got[i]))
		for k, w := range want[i] {
			g := got[i][k]
			require.Equal(t, w.Tokens, g.Tokens)
			require.Equal(t, w.Finish, g.Finish)
			require.InDeltaSlice(t, w.LogProbs, g.LogProbs, 1e-5)
			require.InDeltaSlice(t, w.Filtered, g.Filtered, 1e-5)
		}
	}
}

// Bad input must be named before anything is computed.
func TestBadInput(t *testing.T) {
	b := testbackend.Go(t)
	p := bag{vocab: 5, dim: 2, positions: 8}
	w, _ := bagWeights(t, p, 0)
	e := newEngine(t, b, p, w, local.Options{})
	seeds := []rollout.Seed{{1}}
	ok := rollout.Request{Prompt: []int32{1}, Seeds: seeds}
	one := rollout.Sampling{Temperature: 1, MaxTokens: 3}
	for want, c := range map[string]struct {
		reqs []rollout.Request
		s    rollout.Sampling
	}{
		"no requests":                    {nil, one},
		"request 1: its prompt is empty": {[]rollout.Request{ok, {Seeds: seeds}}, one},
		"request 1: it has no seeds":     {[]rollout.Request{ok, {Prompt: []int32{1}}}, one},
		"request 0: a prompt of 8 tok":   {[]rollout.Request{{Prompt: make([]int32, 8), Seeds: seeds}}, one},
		"token 1 of the prompt is 5":     {[]rollout.Request{{Prompt: []int32{0, 5}, Seeds: seeds}}, one},
		"token 0 of the prompt is -1":    {[]rollout.Request{{Prompt: []int32{-1}, Seeds: seeds}}, one},
		"MaxTokens is 0":                 {[]rollout.Request{ok}, rollout.Sampling{Temperature: 1}},
		"Stop[1] is 5":                   {[]rollout.Request{ok}, rollout.Sampling{Temperature: 1, MaxTokens: 1, Stop: []int32{0, 5}}},
	} {
		_, err := e.Generate(t.Context(), c.reqs, c.s)
		require.ErrorContains(t, err, want)
	}
	_, err := e.Generate(t.Context(), []rollout.Request{ok}, one)
	require.NoError(t, err, "the engine is as good as before")

	for want, o := range map[string]local.Options{
		"Device is 99": {Device: 99}, "Device is -1": {Device: -1}, "DType is Int32": {DType: dtypes.Int32},
		"MaxRows is -1": {MaxRows: -1}, "Segment is -1": {Segment: -1},
	} {
		_, err := local.New(b, p, o)
		require.ErrorContains(t, err, want)
	}
	empty, err := local.New(b, p, local.Options{})
	require.NoError(t, err)
	_, err = empty.Generate(t.Context(), []rollout.Request{ok}, one)
	require.ErrorIs(t, err, local.ErrNoWeights)
	other, _ := bagWeights(t, bag{vocab: 6, dim: 2, positions: 8}, 0)
	require.ErrorContains(t, empty.Load(t.Context(), other), "embedding")
}

// A policy that breaks must stop the run and say where, not sample anything.
func TestNotFinite(t *testing.T) {
	p := bag{vocab: 6, dim: 3, positions: 50}
	w, _ := bagWeights(t, p, 1)
	broken, err := tensors.CopyFlatData[float32](w.Tensors[0])
	require.NoError(t, err)
	broken[5*p.dim] = float32(math.NaN())
	w.Tensors[0] = tensors.FromFlatDataAndDimensions(broken, p.vocab, p.dim)
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		e := newEngine(t, b, recurrent{p}, w, local.Options{})
		fine := rollout.Request{Prompt: []int32{1, 2}, Seeds: []rollout.Seed{{1}, {2}}}
		s := rollout.Sampling{Temperature: 1, MaxTokens: 1}
		_, err := e.Generate(t.Context(), []rollout.Request{fine}, s)
		require.NoError(t, err)
		_, err = e.Generate(t.Context(), []rollout.Request{fine, {Prompt: []int32{1, 5}, Seeds: []rollout.Seed{{1}}}}, s)
		require.ErrorContains(t, err, "request 1, sample 0: the logits of token 0 are not finite")
	})
}

// A user who stops a run must not wait for the longest completion, and the engine must be usable afterwards.
func TestCancel(t *testing.T) {
	p := bag{vocab: 6, dim: 3, positions: 2000}
	w, _ := bagWeights(t, p, 1)
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		ctx, cancel := context.WithCancel(t.Context())
		tokens := 0
		e := newEngine(t, b, recurrent{p}, w, local.Options{Progress: func(n int) {
			if tokens += n; tokens >= 64 {
				cancel()
			}
		}})
		s := rollout.Sampling{Temperature: 1, MaxTokens: 1500}
		reqs := requests(2, p.vocab, 1, 3)
		_, err := e.Generate(ctx, reqs, s)
		require.Equal(t, context.Canceled, err)
		require.Less(t, tokens, 200)
		_, err = e.Generate(ctx, reqs, s)
		require.Equal(t, context.Canceled, err)
		require.Equal(t, context.Canceled, e.Load(ctx, w))

		tokens = math.MinInt
		s.MaxTokens = 40
		_, err = e.Generate(t.Context(), reqs, s)
		require.NoError(t, err)
		require.Equal(t, 80, tokens-math.MinInt, "all tokens are reported")
	})
}

// Rollouts and evaluations may share an engine: calls must not see each other's weights half-way.
func TestConcurrentUse(t *testing.T) {
	p := bag{vocab: 8, dim: 4, positions: 60}
	reqs := requests(3, p.vocab, 2, 4)
	s := rollout.Sampling{Temperature: 1, MaxTokens: 20}
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		want := map[int][][]rollout.Completion{}
		weights := map[int]*policy.Weights{}
		for update := range 3 {
			weights[update], _ = bagWeights(t, p, update)
			var err error
			want[update], err = newEngine(t, b, recurrent{p}, weights[update], local.Options{}).Generate(t.Context(), reqs, s)
			require.NoError(t, err)
		}
		e := newEngine(t, b, recurrent{p}, weights[0], local.Options{})
		var g errgroup.Group
		for i := range 12 {
			g.Go(func() error {
				if i%4 == 3 {
					return e.Load(t.Context(), weights[i/4])
				}
				got, err := e.Generate(t.Context(), reqs, s)
				if err == nil && !sameBits(got, want[got[0][0].Update]) {
					err = errors.New("other completions")
				}
				return err
			})
		}
		require.NoError(t, g.Wait())
	})
}

func sameBits(a, b [][]rollout.Completion) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// The trainer goes on with its weights, and donates them, while the engine samples with a copy.
func TestLoadCopies(t *testing.T) {
	p := bag{vocab: 8, dim: 4, positions: 60}
	reqs := requests(2, p.vocab, 2, 4)
	s := rollout.Sampling{Temperature: 1, MaxTokens: 20}
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		w, _ := bagWeights(t, p, 3)
		e := newEngine(t, b, recurrent{p}, w, local.Options{})
		want, err := e.Generate(t.Context(), reqs, s)
		require.NoError(t, err)
		w.Update = 99
		w.Free()
		got, err := e.Generate(t.Context(), reqs, s)
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

// In bfloat16 the policy is the same up to that dtype's precision.
func TestBFloat16(t *testing.T) {
	p, w := small(t)
	reqs := requests(4, p.VocabSize(), 4, 12)
	s := rollout.Sampling{Temperature: 1, MaxTokens: 1}
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		half, err := newEngine(t, b, p, w, local.Options{DType: dtypes.BFloat16}).Generate(t.Context(), reqs, s)
		require.NoError(t, err)
		full, err := newEngine(t, b, p, w, local.Options{}).Generate(t.Context(), reqs, s)
		require.NoError(t, err)
		equal := 0
		for i := range reqs {
			for k := range full[i] {
				if f, h := full[i][k], half[i][k]; f.Tokens[0] == h.Tokens[0] {
					equal++
					require.InDelta(t, f.LogProbs[0], h.LogProbs[0], .2)
					require.NotEqual(t, f.LogProbs[0], h.LogProbs[0])
				}
			}
		}
		require.Greater(t, equal, 10)
	})
}
