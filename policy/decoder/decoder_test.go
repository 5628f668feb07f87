package decoder_test

import (
	"maps"
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
