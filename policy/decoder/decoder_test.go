package decoder_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomlx/compute"
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

// families are the ways in which the supported models differ from Llama.
var families = []struct {
	name   string
	change func(*decoder.Config)
}{
	{"windows", func(c *decoder.Config) { c.PerLayer = []decoder.Layer{{Window: 4}, {Window: 30}} }},
	{"olmo2", func(c *decoder.Config) {
		c.Norms, c.NormStyle, c.WholeQKNorm = decoder.NormsAfter, decoder.NormOLMo, true
	}},
	{"gemma3", func(c *decoder.Config) {
		c.Norms, c.NormStyle, c.QKNorm, c.Tied, c.Activation = decoder.NormsAround, decoder.NormOffset, true, true, decoder.GeluTanh
		c.EmbeddingScale, c.AttentionScale = 5, 0.2
		c.Rope, c.LocalRope = decoder.Rope{Type: decoder.RopeLinear, Factor: 8, Theta: 1e6}, decoder.Rope{Theta: 1e4}
		c.PerLayer = []decoder.Layer{{Window: 3, Rope: decoder.LocalRope}, {}}
	}},
	{"experts, no rope", func(c *decoder.Config) {
		c.PerLayer = []decoder.Layer{{Experts: true}, {Rope: decoder.NoRope}}
		c.Experts = decoder.Experts{Count: 5, Chosen: 2, Intermediate: 7, Renormalize: true}
	}},
	{"qwen3.5", qwen35},
}

func qwen35(c *decoder.Config) {
	c.NormStyle, c.QKNorm, c.GatedOutput, c.Rope.Partial = decoder.NormOffset, true, true, 0.5
	c.PerLayer = []decoder.Layer{{Recurrent: true}, {}}
	c.DeltaNet = decoder.DeltaNet{KeyHeads: 2, ValueHeads: 6, KeyDim: 4, ValueDim: 5, Kernel: 4}
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
		d := math.Abs(float64(a[i]) - float64(b[i]))
		if math.IsNaN(d) {
			return d
		}
		worst = max(worst, d)
	}
	return worst
}

// requireNear fails for a NaN, too.
func requireNear(t testing.TB, distance, tolerance float64, what ...any) {
	t.Helper()
	require.True(t, distance <= tolerance, "%v above %v: %v", distance, tolerance, what)
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
	type shape struct {
		name                     string
		groups, each, width, len int
		pads                     []int32
		change                   func(*decoder.Config)
	}
	cases := []shape{
		{"odd sizes", 3, 5, 7, 9, []int32{0, 2, 6}, func(*decoder.Config) {}},
		{"all options", 2, 3, 5, 2, []int32{4, 0}, func(c *decoder.Config) {
			c.Layers, c.QKNorm, c.QKVBias, c.OutputBias, c.MLPBias, c.Tied = 1, true, true, true, true, true
		}},
		{"one completion of one token", 2, 1, 5, 1, []int32{3, 0}, func(c *decoder.Config) { c.Layers = 1 }},
		{"blocks, rematerialized", 2, 3, 7, 9, []int32{0, 4}, func(c *decoder.Config) { c.QueryBlock, c.Rematerialize = 4, true }},
		{"unpadded prompts of one token, heads of their own, gathered embedding", 2, 2, 1, 3, nil, func(c *decoder.Config) {
			c.Layers, c.KVHeads, c.Vocab = 1, 6, 3000
		}},
		// Blocks of two completion tokens: windows that cut the prompt, and that leave it behind.
		{"windows in blocks", 2, 2, 9, 7, []int32{0, 5}, func(c *decoder.Config) {
			c.QueryBlock, c.PerLayer = 2, []decoder.Layer{{Window: 4}, {Window: 11}}
		}},
	}
	onBoth := len(cases)
	for _, f := range families {
		cases = append(cases, shape{f.name, 2, 2, 6, 5, []int32{3, 0}, f.change})
	}
	cases = append(cases, shape{"qwen3.5, several chunks, rematerialized", 2, 2, 70, 130, []int32{66, 0}, func(c *decoder.Config) {
		qwen35(c)
		c.MaxPositions, c.Rematerialize = 256, true
	}})
	tolerance := func(name string) float64 {
		if strings.HasPrefix(name, "qwen3.5") {
			return 5e-4 // chunks are cut elsewhere, and the norm of what is read amplifies rounding
		}
		return 1e-5
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
				if i >= onBoth && b.Kind() != backend.Go {
					t.Skip("compiling takes long; TestGolden has groups of these families on XLA")
				}
				cfg := small()
				c.change(&cfg)
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
					requireNear(t, distance(a, s), tolerance(c.name)*size, name)
				}
			})
		})
	}
}

// Decoding with a cache must give the distribution that training sees.
func TestExtendEqualsHidden(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		for n, change := range []func(*decoder.Config){
			func(c *decoder.Config) { c.QKNorm = true },
			func(c *decoder.Config) { c.QKNorm, c.QueryBlock = true, 3 },
			func(c *decoder.Config) { c.QueryBlock, c.PerLayer = 3, []decoder.Layer{{Window: 4}, {Window: 9}} },
		} {
			if n == 2 && b.Kind() != backend.Go { // compiling takes long, and TestGolden decodes with windows on XLA
				continue
			}
			cfg := small()
			change(&cfg)
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
			for i, s := range d.Cache(rows, capacity, dtypes.Float32) {
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
						requireNear(t, distance(a, want[(i*width+j)*cfg.Hidden:][:cfg.Hidden]), 1e-4, fmt.Sprintf("case %d, row %d, token %d", n, i, j))
					}
				}
			}
			requireNear(t, distance(want, want), 0, "filler is NaN")
		}
	})
}

// The engine decodes inside a loop on the device, where nothing may be captured from outside.
func TestExtendInLoop(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		if !b.Supports(compute.OpTypeDynamicUpdateSlice) {
			t.Skip("this backend decodes one call a token")
		}
		c := small() // with all that needs constants of its own
		c.Norms, c.NormStyle, c.Activation, c.EmbeddingScale = decoder.NormsAround, decoder.NormOffset, decoder.GeluTanh, 5
		c.LocalRope = decoder.Rope{Type: decoder.RopeLinear, Factor: 8, Theta: 1e6}
		c.PerLayer = []decoder.Layer{{Window: 3, Rope: decoder.LocalRope, Experts: true}, {Recurrent: true}}
		c.DeltaNet = decoder.DeltaNet{KeyHeads: 1, ValueHeads: 2, KeyDim: 4, ValueDim: 4, Kernel: 3}
		c.Experts = decoder.Experts{Count: 5, Chosen: 2, Intermediate: 7, Renormalize: true}
		d, w := build(t, c)
		defer w.Free()
		const rows, steps = 2, 6
		n := len(w.Params)
		greedy := func(v policy.Vars, cache []*graph.Node, token, slot, pads *graph.Node) (*graph.Node, []*graph.Node) {
			h, next := d.Extend(v, cache, policy.Inputs{Tokens: graph.Reshape(token, rows, 1), Start: slot, Pad: pads})
			return graph.ArgMax(d.Logits(v, graph.Reshape(h, rows, -1)), -1, dtypes.Int32), next
		}
		first, pads := []int32{3, 7}, []int32{0, 0}
		looped := call(t, b, func(in []*graph.Node) []*graph.Node {
			g := in[0].Graph()
			// GoMLX shares the scalars of Zeros, MulScalar and the like across closures, where XLA refuses them; Const is safe.
			zeros := func(zero any, dims ...int) *graph.Node { return graph.BroadcastToDims(graph.Const(g, zero), dims...) }
			state := append([]*graph.Node{}, in...) // weights, token, pads, then slot, tokens so far, caches
			state = append(state, graph.Const(g, int32(0)), zeros(int32(0), steps, rows))
			for _, s := range d.Cache(rows, steps, dtypes.Float32) {
				state = append(state, zeros(float32(0), s.Dimensions...))
			}
			params := func(g *graph.Graph) (ps []*graph.Node) {
				for i, s := range state {
					ps = append(ps, graph.Parameter(g, fmt.Sprint("p", i), s.Shape()))
				}
				return ps
			}
			cond := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node {
				return []*graph.Node{graph.LessThan(params(g)[n+2], graph.Const(g, int32(steps)))}
			})
			body := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node {
				ps := params(g)
				token, next := greedy(ps[:n], ps[n+4:], ps[n], ps[n+2], ps[n+1])
				all := graph.DynamicUpdateSlice(ps[n+3], graph.Reshape(token, 1, rows), []*graph.Node{ps[n+2], graph.Const(g, int32(0))})
				return append(append(append([]*graph.Node{}, ps[:n]...), token, ps[n+1], graph.AddScalar(ps[n+2], 1), all), next...)
			})
			return graph.While(cond, body, state...)[n+3 : n+4]
		}, w.Tensors, first, pads)
		got, err := tensors.CopyFlatData[int32](looped[0])
		require.NoError(t, err)

		step, err := backend.Compile(b, "step", func(in []*graph.Node) []*graph.Node {
			token, next := greedy(in[:n], in[n+3:], in[n], in[n+2], in[n+1])
			return append([]*graph.Node{token}, next...)
		})
		require.NoError(t, err)
		defer step.Close()
		var cache []*tensors.Tensor
		for _, s := range d.Cache(rows, steps, dtypes.Float32) {
			cache = append(cache, tensors.FromShape(s))
		}
		var want []int32
		for slot := range steps {
			out, err := step.Call(0, w.Tensors, first, pads, int32(slot), backend.Donate(cache))
			require.NoError(t, err)
			first, err = tensors.CopyFlatData[int32](out[0])
			require.NoError(t, err)
			want = append(want, first...)
			cache = out[1:]
		}
		require.Equal(t, want, got)
	})
}

// Weights in bfloat16 must give what the same weights give in float32, up to rounding, and gradients for all of them.
func TestBFloat16(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		t.Run("qwen3", func(t *testing.T) {
			compareBFloat16(t, b, func(c *decoder.Config) { c.QKNorm, c.QueryBlock = true, 2 }, 0.05)
		})
		if b.Kind() == backend.Go { // compiling for XLA takes long
			for _, f := range families {
				share := 0.05
				if f.name == "qwen3.5" {
					share = 0.1 // the norm of what is read amplifies rounding
				}
				t.Run(f.name, func(t *testing.T) { compareBFloat16(t, b, f.change, share) })
			}
		}
	})
}

// compareBFloat16 computes a model in bfloat16 and in float32, which may differ by a share of the outputs' norms.
func compareBFloat16(t *testing.T, b *backend.Backend, change func(*decoder.Config), share float64) {
	c := small()
	c.DType = dtypes.BFloat16
	change(&c)
	d, w := build(t, c)
	defer w.Free()
	n := len(w.Params)
	r := rand.New(rand.NewPCG(5, 6))
	out := call(t, b, func(in []*graph.Node) []*graph.Node {
		loss := func(v policy.Vars) (*graph.Node, *graph.Node) {
			h := d.HiddenGroups(v, policy.Groups{Prompts: policy.Inputs{Tokens: in[n], Pad: in[n+2]}, Completions: in[n+1]})
			logits := d.Logits(v, graph.Reshape(h, -1, c.Hidden))
			return logits, graph.ReduceAllSum(graph.Mul(logits, in[n+3]))
		}
		var wide policy.Vars
		for _, x := range in[:n] {
			wide = append(wide, graph.ConvertDType(x, dtypes.Float32))
		}
		half, halfLoss := loss(in[:n])
		full, fullLoss := loss(wide)
		res := []*graph.Node{half, full}
		halfGrad, fullGrad := graph.Gradient(halfLoss, in[:n]...), graph.Gradient(fullLoss, wide...)
		for i := range n {
			res = append(res, graph.ConvertDType(halfGrad[i], dtypes.Float32), fullGrad[i])
		}
		return res
	}, w.Tensors, randomTokens(r, 2, 5, c.Vocab), randomTokens(r, 4, 3, c.Vocab), []int32{2, 0}, func() [][]float32 {
		weights := make([][]float32, 16)
		for i := range weights {
			for range c.Vocab {
				weights[i] = append(weights[i], float32(r.NormFloat64()))
			}
		}
		return weights
	}())
	require.Equal(t, dtypes.Float32, out[0].DType())
	for i := 0; i < len(out); i += 2 {
		half, full := values(t, out[i]), values(t, out[i+1])
		square, off := 0.0, 0.0
		for j := range full {
			square += float64(full[j]) * float64(full[j])
			off += (float64(half[j]) - float64(full[j])) * (float64(half[j]) - float64(full[j]))
		}
		requireNear(t, math.Sqrt(off), share*math.Sqrt(square), "output", i/2)
	}
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

// Each mistake must name its field; a size that is nonsense must fail before memory is asked for.
func TestValidate(t *testing.T) {
	require.NoError(t, small().Validate())
	experts := func(e decoder.Experts) func(*decoder.Config) {
		return func(c *decoder.Config) { c.PerLayer, c.Experts = []decoder.Layer{{Experts: true}, {}}, e }
	}
	for want, change := range map[string]func(*decoder.Config){
		"Vocab is 0":          func(c *decoder.Config) { c.Vocab = 0 },
		"Hidden is -1":        func(c *decoder.Config) { c.Hidden = -1 },
		"Layers is 5000":      func(c *decoder.Config) { c.Layers = 5000 },
		"KVHeads is 4":        func(c *decoder.Config) { c.KVHeads = 4 },
		"HeadDim is 7":        func(c *decoder.Config) { c.HeadDim = 7 },
		"MaxPositions is 0":   func(c *decoder.Config) { c.MaxPositions = 0 },
		"NormEps is NaN":      func(c *decoder.Config) { c.NormEps = math.NaN() },
		"DType is Float16":    func(c *decoder.Config) { c.DType = dtypes.Float16 },
		"InitDeviation is -1": func(c *decoder.Config) { c.InitDeviation = -1 },
		"QueryBlock is -1":    func(c *decoder.Config) { c.QueryBlock = -1 },
		"weights, allowed":    func(c *decoder.Config) { c.Hidden, c.Vocab = 1<<22, 1<<22 },
		"Rope.Theta is 0":     func(c *decoder.Config) { c.Rope.Theta = 0 },
		`Rope.Type is "ntk"`:  func(c *decoder.Config) { c.Rope.Type = "ntk" },
		"Rope.Factor is 0":    func(c *decoder.Config) { c.Rope.Type = decoder.RopeLinear },
		"Rope.Original is 0":  func(c *decoder.Config) { c.Rope = decoder.Rope{Type: decoder.RopeYarn, Theta: 1e4, Factor: 2} },
		"LowFreqFactor": func(c *decoder.Config) {
			c.Rope = decoder.Rope{Type: decoder.RopeLlama3, Theta: 1e4, Factor: 2, Original: 8}
		},
		"Rope.BetaFast, BetaSlow is": func(c *decoder.Config) {
			c.Rope = decoder.Rope{Type: decoder.RopeYarn, Theta: 1e4, Factor: 2, Original: 8, BetaFast: -1}
		},
		"PerLayer is of 3 layers":     func(c *decoder.Config) { c.PerLayer = make([]decoder.Layer, 3) },
		"PerLayer[1].Window is -1":    func(c *decoder.Config) { c.PerLayer = []decoder.Layer{{}, {Window: -1}} },
		"PerLayer[0].Rope is 3":       func(c *decoder.Config) { c.PerLayer = []decoder.Layer{{Rope: 3}, {}} },
		"LocalRope.Theta is 0":        func(c *decoder.Config) { c.PerLayer = []decoder.Layer{{Rope: decoder.LocalRope}, {}} },
		"Norms is 3":                  func(c *decoder.Config) { c.Norms = 3 },
		"NormStyle is 3":              func(c *decoder.Config) { c.NormStyle = 3 },
		`Activation is "relu"`:        func(c *decoder.Config) { c.Activation = "relu" },
		"QKNorm is true":              func(c *decoder.Config) { c.QKNorm, c.WholeQKNorm = true, true },
		"EmbeddingScale is -1":        func(c *decoder.Config) { c.EmbeddingScale = -1 },
		"AttentionScale is NaN":       func(c *decoder.Config) { c.AttentionScale = math.NaN() },
		`DTypes["x"] is Int32`:        func(c *decoder.Config) { c.DTypes = map[string]dtypes.DType{"x": dtypes.Int32} },
		"Experts.Count is 0":          experts(decoder.Experts{Chosen: 1, Intermediate: 1}),
		"Experts.Count is 1073741824": experts(decoder.Experts{Count: 1 << 30, Chosen: 1, Intermediate: 1}),
		"Experts.Chosen is 3":         experts(decoder.Experts{Count: 2, Chosen: 3, Intermediate: 1}),
		"Experts.Intermediate is 0":   experts(decoder.Experts{Count: 2, Chosen: 2}),
		`Names["{layer} up"] is "x"`: func(c *decoder.Config) {
			d, err := decoder.New(*c)
			require.NoError(t, err)
			c.Names = maps.Clone(d.Config().Names)
			c.Names[decoder.Up] = "x" // one name for two layers
		},
		`Names["{layer} key"] is ""`: func(c *decoder.Config) {
			d, err := decoder.New(*c)
			require.NoError(t, err)
			c.Names = maps.Clone(d.Config().Names)
			delete(c.Names, decoder.Key)
		},
		"Rope.Partial is 0.4":             func(c *decoder.Config) { c.Rope.Partial = 0.4 }, // three
		"Rope.Partial is 1.5":             func(c *decoder.Config) { c.Rope.Partial = 1.5 },
		"Rope.Partial is NaN":             func(c *decoder.Config) { c.Rope.Partial = math.NaN() },
		"DeltaNet.KeyHeads is 0":          func(c *decoder.Config) { qwen35(c); c.DeltaNet.KeyHeads = 0 },
		"DeltaNet.ValueHeads is 5":        func(c *decoder.Config) { qwen35(c); c.DeltaNet.ValueHeads = 5 },
		"DeltaNet.KeyDim is -1":           func(c *decoder.Config) { qwen35(c); c.DeltaNet.KeyDim = -1 },
		"DeltaNet.ValueDim is 1073741824": func(c *decoder.Config) { qwen35(c); c.DeltaNet.ValueDim = 1 << 30 },
		"DeltaNet.Kernel is 1,":           func(c *decoder.Config) { qwen35(c); c.DeltaNet.Kernel = 1 },
		"Rope.AttentionFactor is -1": func(c *decoder.Config) {
			c.Rope = decoder.Rope{Type: decoder.RopeYarn, Theta: 1e4, Factor: 2, Original: 8, AttentionFactor: -1}
		},
	} {
		c := small()
		change(&c)
		_, err := decoder.New(c)
		require.ErrorContains(t, err, want)
	}
}
