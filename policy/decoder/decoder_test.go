package decoder_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
)

func small() decoder.Config {
	return decoder.Config{Vocab: 23, Hidden: 24, Layers: 2, Heads: 6, KVHeads: 2, HeadDim: 8, Intermediate: 40,
		MaxPositions: 64, NormEps: 1e-6, Rope: decoder.Rope{Theta: 1e4}, InitDeviation: 0.2}
}

func build(t testing.TB, c decoder.Config) (*decoder.Decoder, *policy.Weights) {
	t.Helper()
	d, err := decoder.New(c)
	require.NoError(t, err)
	w, err := d.Init(1)
	require.NoError(t, err)
	return d, w
}

// call compiles and runs a function once.
func call(t testing.TB, b *backend.Backend, f func(in []*graph.Node) []*graph.Node, args ...any) []*tensors.Tensor {
	t.Helper()
	fn, err := backend.Compile(b, t.Name(), f)
	require.NoError(t, err)
	defer fn.Close()
	out, err := fn.Call(0, args...)
	require.NoError(t, err)
	return out
}

func values(t testing.TB, x *tensors.Tensor) []float32 {
	t.Helper()
	v, err := tensors.CopyFlatData[float32](x)
	require.NoError(t, err)
	return v
}

func distance(a, b []float32) float64 {
	worst := 0.0
	if len(a) != len(b) {
		return math.Inf(1)
	}
	for i := range a {
		if d := math.Abs(float64(a[i]) - float64(b[i])); !(d <= worst) {
			worst = d
		}
	}
	return worst
}

func randomTokens(r *rand.Rand, rows, width, vocab int) [][]int32 {
	x := make([][]int32, rows)
	for i := range x {
		x[i] = make([]int32, width)
		for j := range x[i] {
			x[i][j] = int32(r.IntN(vocab))
		}
	}
	return x
}

// Training computes each prompt once; a difference from separate rows would silently train something else.
func TestGroupsEqualSeparateRows(t *testing.T) {
	for _, c := range []struct {
		name                     string
		groups, each, width, len int
		pads                     []int32
		change                   func(*decoder.Config)
	}{
		{"odd sizes", 3, 5, 7, 9, []int32{0, 2, 6}, nil},
		{"one completion", 2, 1, 5, 3, []int32{1, 0}, nil},
		{"one token", 2, 3, 4, 1, []int32{3, 0}, nil},
		{"no padding", 1, 4, 6, 5, nil, nil},
		{"prompt of one token", 2, 2, 1, 4, nil, nil},
		{"blocks of queries", 2, 3, 7, 9, []int32{0, 4}, func(c *decoder.Config) { c.QueryBlock = 4 }},
		{"rematerialized", 2, 3, 7, 9, []int32{0, 4}, func(c *decoder.Config) { c.Rematerialize = true }},
		{"all options", 2, 3, 7, 9, []int32{0, 4}, func(c *decoder.Config) {
			c.QKNorm, c.QKVBias, c.OutputBias, c.MLPBias, c.Tied = true, true, true, true, true
		}},
		{"no grouped heads, large vocabulary", 2, 2, 4, 3, nil, func(c *decoder.Config) { c.KVHeads, c.Vocab = 6, 3000 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
				cfg := small()
				if c.change != nil {
					c.change(&cfg)
				}
				d, w := build(t, cfg)
				defer w.Free()
				r := rand.New(rand.NewPCG(1, 2))
				prompts, completions := randomTokens(r, c.groups, c.width, cfg.Vocab), randomTokens(r, c.groups*c.each, c.len, cfg.Vocab)
				weights := make([][][]float32, c.groups*c.each)
				for i := range weights {
					weights[i] = make([][]float32, c.len+1)
					for j := range weights[i] {
						for range cfg.Hidden {
							weights[i][j] = append(weights[i][j], float32(r.NormFloat64()))
						}
					}
				}
				args := []any{w.Tensors, prompts, completions, weights}
				if c.pads != nil {
					args = append(args, c.pads)
				}
				run := func(hidden func(policy.Vars, policy.Groups) *graph.Node) []*tensors.Tensor {
					return call(t, b, func(in []*graph.Node) []*graph.Node {
						n := len(w.Params)
						g := policy.Groups{Prompts: policy.Inputs{Tokens: in[n]}, Completions: in[n+1]}
						if c.pads != nil {
							g.Prompts.Pad = in[n+3]
						}
						h := hidden(in[:n], g)
						out := []*graph.Node{h}
						if !cfg.Tied { // the head's gradient too
							h = graph.Add(h, graph.MulScalar(graph.ReduceAllMean(d.Logits(in[:n], graph.Reshape(h, -1, cfg.Hidden))), 0.1))
						}
						return append(out, graph.Gradient(graph.ReduceAllSum(graph.Mul(h, in[n+2])), in[:n]...)...)
					}, args...)
				}
				shared := run(d.HiddenGroups)
				separate := run(func(v policy.Vars, g policy.Groups) *graph.Node { return policy.CompletionHiddenSeparate(d, v, g) })
				for i := range shared {
					a, s := values(t, shared[i]), values(t, separate[i])
					name, size := "states", 1.0
					if i > 0 {
						name = "gradient of " + w.Params[i-1].Name
						for _, x := range s {
							size = max(size, math.Abs(float64(x)))
						}
					}
					require.LessOrEqual(t, distance(a, s), 1e-5*size, name)
				}
			})
		})
	}
}

// Decoding with a cache must give the distribution that training sees.
func TestExtendEqualsHidden(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		for _, block := range []int{0, 3} {
			cfg := small()
			cfg.QueryBlock, cfg.QKNorm = block, true
			d, w := build(t, cfg)
			const rows, width, capacity = 3, 11, 13
			tokens := randomTokens(rand.New(rand.NewPCG(3, 4)), rows, width, cfg.Vocab)
			pads := []int32{0, 5, 2}
			whole := call(t, b, func(in []*graph.Node) []*graph.Node {
				n := len(w.Params)
				return []*graph.Node{d.Hidden(in[:n], policy.Inputs{Tokens: in[n], Pad: in[n+1]})}
			}, w.Tensors, tokens, pads)
			want := values(t, whole[0])

			extend, err := backend.Compile(b, "extend", func(in []*graph.Node) []*graph.Node {
				n := len(w.Params)
				h, next := d.Extend(in[:n], in[n+3:], policy.Inputs{Tokens: in[n], Pad: in[n+1], Start: in[n+2]})
				return append([]*graph.Node{h}, next...)
			})
			require.NoError(t, err)
			var cache []*tensors.Tensor
			for i, s := range d.Cache(rows, capacity) {
				x := tensors.FromShape(s)
				if i == 0 { // what a slot held before must not matter
					require.NoError(t, tensors.MutableFlatData(x, func(v []float32) {
						for j := range v {
							v[j] = 3
						}
					}))
				}
				cache = append(cache, x)
			}
			for _, span := range [][2]int{{0, 6}, {6, 7}, {7, 8}, {8, 11}} {
				piece := make([][]int32, rows)
				for i := range piece {
					piece[i] = tokens[i][span[0]:span[1]]
				}
				out, err := extend.Call(0, w.Tensors, piece, pads, int32(span[0]), backend.Donate(cache))
				require.NoError(t, err)
				got := values(t, out[0])
				cache = out[1:]
				for i := range rows {
					for j := max(span[0], int(pads[i])); j < span[1]; j++ {
						a := got[(i*(span[1]-span[0])+j-span[0])*cfg.Hidden:][:cfg.Hidden]
						require.LessOrEqual(t, distance(a, want[(i*width+j)*cfg.Hidden:][:cfg.Hidden]), 1e-4, "row %d, token %d", i, j)
					}
				}
			}
			require.Zero(t, countNaN(want), "filler")
		}
	})
}

func countNaN(v []float32) (n int) {
	for _, x := range v {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			n++
		}
	}
	return n
}

// A seed must mean the same weights everywhere, or published runs could not be repeated.
func TestInit(t *testing.T) {
	d, w := build(t, small())
	again, err := d.Init(1)
	require.NoError(t, err)
	other, err := d.Init(2)
	require.NoError(t, err)
	digest := func(w *policy.Weights) string {
		s, err := w.Digest()
		require.NoError(t, err)
		return s
	}
	require.Equal(t, digest(w), digest(again))
	require.NotEqual(t, digest(w), digest(other))
	half := small()
	half.DType = dtypes.BFloat16
	_, hw := build(t, half)
	require.Equal(t, dtypes.BFloat16, hw.Tensors[0].DType())
}
