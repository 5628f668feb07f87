package optim_test

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy"
)

// goldenCase is a file of testdata/golden/grpo/optim; the README beside it has formulae and tolerance.
type goldenCase struct {
	Kind, Name              string
	Config, Inputs, Outputs json.RawMessage
}

// near is the README's tolerance.
func near(t *testing.T, want, got float64, msg ...any) {
	t.Helper()
	require.InDelta(t, want, got, 1e-5*(0.01+math.Abs(want)), msg...)
}

func decode[T any](t *testing.T, raw json.RawMessage) (v T) {
	t.Helper()
	require.NoError(t, json.Unmarshal(raw, &v))
	return v
}

// A user who trains elsewhere with a known recipe must get the same weights here.
func TestGolden(t *testing.T) {
	kinds := map[string]func(*testing.T, goldenCase){
		"optim": testGoldenOptim, "clip": testGoldenClip, "schedule": testGoldenSchedule, "bf16": testGoldenBF16,
	}
	ran, seen := map[string]int{}, map[string]bool{}
	for _, path := range golden.Glob(t, "grpo/optim/*.json") {
		data := golden.Read(t, path)
		if seen[string(data)] { // the repository's selection stands in $GROUPER_GOLDEN too
			continue
		}
		seen[string(data)] = true
		c := decode[goldenCase](t, data)
		require.Contains(t, kinds, c.Kind, path)
		ran[c.Kind]++
		t.Run(golden.Name(t, path), func(t *testing.T) { kinds[c.Kind](t, c) })
	}
	t.Logf("cases: %v", ran)
}

type goldenSchedule struct {
	Name     string
	Warmup   int
	Total    int
	Cycles   *float64
	MinRatio float64 `json:"min_ratio"`
}

func (s goldenSchedule) build(t *testing.T, lr float64) optim.Schedule {
	t.Helper()
	updates, cycles := s.Total-s.Warmup, 0.5
	if s.Cycles != nil {
		cycles = *s.Cycles
	}
	switch s.Name {
	case "constant", "constant_with_warmup":
		return optim.Constant(lr).WithWarmup(s.Warmup)
	case "linear":
		return optim.Linear(lr, updates).WithWarmup(s.Warmup)
	case "cosine", "cosine_with_min_lr":
		return optim.Cosine(lr, lr*s.MinRatio, updates, cycles).WithWarmup(s.Warmup)
	}
	t.Fatalf("unknown schedule %q", s.Name)
	return nil
}

func testGoldenSchedule(t *testing.T, c goldenCase) {
	config := decode[struct {
		goldenSchedule
		LR float64
	}](t, c.Config)
	schedule := config.build(t, config.LR)
	for k, want := range decode[struct{ LR []float64 }](t, c.Outputs).LR {
		require.InDelta(t, want, schedule(k), 1e-12*config.LR, "update %d", k)
	}
}

func testGoldenBF16(t *testing.T, c goldenCase) {
	bits := decode[struct {
		F32 []uint32 `json:"f32_bits"`
	}](t, c.Inputs).F32
	want := decode[struct {
		BF16 []bfloat16.BFloat16 `json:"bf16_bits"`
	}](t, c.Outputs).BF16
	masters := make([]float32, len(bits))
	for i, b := range bits {
		masters[i] = math.Float32frombits(b)
	}
	params := []policy.Param{{Name: "w", Shape: shapes.Make(dtypes.BFloat16, len(bits))}}
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		f := compile(t, b, func(in []*graph.Node) []*graph.Node { return optim.Round(params, in) })
		got := flat[bfloat16.BFloat16](t, call(t, f, masters)[0])
		for i := range want {
			require.Equal(t, want[i], got[i], "float32 bits %08x: want %04x, got %04x", bits[i], uint16(want[i]), uint16(got[i]))
		}
	})
}

func testGoldenClip(t *testing.T, c goldenCase) {
	maxNorm := decode[struct {
		MaxNorm float64 `json:"max_norm"`
	}](t, c.Config).MaxNorm
	grads := decode[struct{ Grads [][]float32 }](t, c.Inputs).Grads
	want := decode[struct {
		Norm    float64
		Clipped [][]float64
	}](t, c.Outputs)
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		f := compile(t, b, func(in []*graph.Node) []*graph.Node {
			clipped, norm, norms := optim.ClipGlobalNorm(in, maxNorm)
			return append([]*graph.Node{norm, norms}, clipped...)
		})
		args := make([]any, len(grads))
		for i := range grads {
			args[i] = grads[i]
		}
		out := call(t, f, args...)
		near(t, want.Norm, float64(flat[float32](t, out[0])[0]))
		var squares float64
		for _, n := range flat[float32](t, out[1]) {
			squares += float64(n) * float64(n)
		}
		near(t, want.Norm, math.Sqrt(squares), "norms of the single gradients")
		for i, w := range want.Clipped {
			for j, g := range flat[float32](t, out[2+i]) {
				require.InDelta(t, w[j], float64(g), 1e-5*math.Abs(w[j]), "gradient %d[%d]", i, j)
			}
		}
	})
}

func testGoldenOptim(t *testing.T, c goldenCase) {
	config := decode[struct {
		Optimizer   string
		LR          float64
		Betas       [2]float64
		Eps         float64
		WeightDecay float64 `json:"weight_decay"`
		Momentum    float64
		Dampening   float64
		Nesterov    bool
		Clip        float64
		Schedule    *goldenSchedule
		ParamDType  string `json:"param_dtype"`
	}](t, c.Config)
	in := decode[struct {
		Params map[string]struct {
			Shape  []int
			Decay  bool
			Values []float32
		}
		Grads []map[string][]float32
	}](t, c.Inputs)
	want := decode[struct {
		LR       []float64
		GradNorm []float64                       `json:"grad_norm"`
		Params   map[string]map[string][]float64 // by update, parameter
		State    map[string]map[string][]float64 // by parameter, torch's name of the slot
		Bits     map[string]map[string][]uint16  `json:"bf16_bits"`
	}](t, c.Outputs)

	adam := optim.Adam{Beta1: config.Betas[0], Beta2: config.Betas[1], Eps: config.Eps, WeightDecay: config.WeightDecay}
	opt, known := map[string]optim.Optimizer{
		"adam":  adam,
		"adamw": optim.AdamW(adam),
		"sgd": optim.SGD{Momentum: config.Momentum, Dampening: config.Dampening, Nesterov: config.Nesterov,
			WeightDecay: config.WeightDecay},
	}[config.Optimizer]
	require.True(t, known, config.Optimizer)
	require.NoError(t, opt.Validate())
	torchSlots := map[string]string{"m": "exp_avg", "v": "exp_avg_sq", "momentum": "momentum_buffer"}
	schedule := optim.Constant(config.LR)
	if config.Schedule != nil {
		schedule = config.Schedule.build(t, config.LR)
	}
	dtype := dtypes.Float32
	if config.ParamDType == "bfloat16" {
		dtype = dtypes.BFloat16
	}
	var params []policy.Param
	for name, p := range in.Params {
		params = append(params, policy.Param{Name: name, Shape: shapes.Make(dtype, p.Shape...), Decay: p.Decay})
	}
	tensor := func(p policy.Param, values []float32) *tensors.Tensor {
		return tensors.FromFlatDataAndDimensions(values, p.Shape.Dimensions...)
	}

	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		step := compileStep(t, b, opt, params, config.Clip)
		var masters, weights []*tensors.Tensor
		for _, p := range params {
			masters = append(masters, tensor(p, in.Params[p.Name].Values))
		}
		slots := optim.NewSlots(opt, params)
		for k, g := range in.Grads {
			lr := schedule(k)
			require.InDelta(t, want.LR[k], lr, 1e-12*config.LR)
			var grads []*tensors.Tensor
			for _, p := range params {
				grads = append(grads, tensor(p, g[p.Name]))
			}
			var norms []float32
			masters, slots, weights, norms = step(opt.Scalars(lr, k+1), masters, slots, grads)
			var squares float64
			for _, n := range norms {
				squares += float64(n) * float64(n)
			}
			near(t, want.GradNorm[k], math.Sqrt(squares), "gradient norm of update %d", k+1)
			for i, p := range params {
				master := flat[float32](t, masters[i])
				for j, w := range want.Params[strconv.Itoa(k+1)][p.Name] {
					near(t, w, float64(master[j]), "update %d, %s[%d]", k+1, p.Name, j)
				}
				if bits := want.Bits[strconv.Itoa(k+1)][p.Name]; bits != nil {
					requireBits(t, bits, flat[bfloat16.BFloat16](t, weights[i]), master)
				}
			}
		}
		names := opt.Slots()
		for i, p := range params {
			for j, name := range names {
				got := flat[float32](t, slots[i*len(names)+j])
				w := want.State[p.Name][torchSlots[name]]
				require.Len(t, got, len(w), "slot %s of %s", name, p.Name)
				for l := range w {
					near(t, w[l], float64(got[l]), "slot %s of %s[%d]", name, p.Name, l)
				}
			}
		}
	})
}

// requireBits wants stored weights equal to the golden ones, unless the master lies so near to a rounding border that the
// tolerance of masters allows both sides.
func requireBits(t *testing.T, want []uint16, got []bfloat16.BFloat16, masters []float32) {
	t.Helper()
	for j := range want {
		tolerance := 1e-5 * (0.01 + math.Abs(float64(masters[j])))
		allowed := []bfloat16.BFloat16{
			bfloat16.FromFloat64(float64(masters[j]) - tolerance), bfloat16.FromFloat64(float64(masters[j]) + tolerance),
		}
		if got[j] != bfloat16.BFloat16(want[j]) && !(slices.Contains(allowed, got[j]) && slices.Contains(allowed, bfloat16.BFloat16(want[j]))) {
			t.Fatalf("weight %d: master %v is stored as %04x, want %04x", j, masters[j], uint16(got[j]), want[j])
		}
	}
}
