package optim_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/gotype"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy"
)

func compile(t *testing.T, b *backend.Backend, f func(in []*graph.Node) []*graph.Node) *backend.Func {
	t.Helper()
	fn, err := backend.Compile(b, t.Name(), f)
	require.NoError(t, err)
	t.Cleanup(fn.Close)
	return fn
}

func call(t *testing.T, f *backend.Func, args ...any) []*tensors.Tensor {
	t.Helper()
	out, err := f.Call(0, args...)
	require.NoError(t, err)
	return out
}

func flat[T gotype.Supported](t *testing.T, x *tensors.Tensor) []T {
	t.Helper()
	v, err := tensors.CopyFlatData[T](x)
	require.NoError(t, err)
	return v
}

type stepFunc func(scalars []float64, masters, slots, grads []*tensors.Tensor) (nextMasters, nextSlots, weights []*tensors.Tensor, norms []float32)

// compileStep compiles a whole update, as a trainer does.
func compileStep(t *testing.T, b *backend.Backend, opt optim.Optimizer, params []policy.Param, maxNorm float64) stepFunc {
	t.Helper()
	n, s := len(params), len(params)*len(opt.Slots())
	f := compile(t, b, func(in []*graph.Node) []*graph.Node {
		state := optim.State{Masters: in[:n], Slots: in[n : n+s]}
		next := optim.Apply(opt, params, state, in[n+s:2*n+s], in[2*n+s:], maxNorm)
		norms, _ := optim.Check(opt, params, state, in[n+s:2*n+s], in[2*n+s:], maxNorm)
		return append(append(append(next.Masters, next.Slots...), optim.Round(params, next.Masters)...), norms)
	})
	return func(scalars []float64, masters, slots, grads []*tensors.Tensor) (_, _, _ []*tensors.Tensor, norms []float32) {
		args := []any{masters, slots, grads}
		for _, v := range scalars {
			args = append(args, float32(v))
		}
		out := call(t, f, args...)
		return out[:n], out[n : n+s], out[n+s : 2*n+s], flat[float32](t, out[2*n+s])
	}
}

// What would spoil the weights must be found before the step, and named by its parameter.
func TestCheckNamesWhatIsNotFinite(t *testing.T) {
	params := []policy.Param{
		{Name: "a", Shape: shapes.Make(dtypes.Float32, 2), Decay: true},
		{Name: "b", Shape: shapes.Make(dtypes.Float32, 1)},
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, opt := range []optim.Optimizer{optim.AdamW{WeightDecay: 0.1}, optim.SGD{Momentum: 0.9}} {
		n, s := len(params), len(params)*len(opt.Slots())
		testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
			check := compile(t, b, func(in []*graph.Node) []*graph.Node {
				norms, bad := optim.Check(opt, params, optim.State{Masters: in[:n], Slots: in[n : n+s]}, in[n+s:2*n+s], in[2*n+s:], 1)
				return []*graph.Node{norms, bad}
			})
			for _, c := range []struct {
				name         string
				master, grad float32 // of b
				lr           float64
				norm, bad    bool // finite norm of b's gradient; something bad about b
			}{
				{"fine", 3, 1, .1, true, false},
				{"NaN gradient", 3, nan, .1, false, true},
				{"infinite gradient", 3, inf, .1, false, true},
				{"negative infinite gradient", 3, -inf, .1, false, true},
				{"gradient whose square overflows", 3, 1e20, .1, false, false},
				{"infinite weight", inf, 1, .1, true, true},
				{"overflowing step", 3, 1, 1e39, true, true},
			} {
				t.Run(fmt.Sprintf("%T/%s", opt, c.name), func(t *testing.T) {
					tensor := func(v ...float32) *tensors.Tensor { return tensors.FromFlatDataAndDimensions(v, len(v)) }
					args := []any{[]*tensors.Tensor{tensor(1, -2), tensor(c.master)}, optim.NewSlots(opt, params), []*tensors.Tensor{tensor(3, 4), tensor(c.grad)}}
					for _, v := range opt.Scalars(c.lr, 1) {
						args = append(args, float32(v))
					}
					out := call(t, check, args...)
					norms, bad := flat[float32](t, out[0]), flat[float32](t, out[1])
					require.Equal(t, float32(5), norms[0])
					require.Equal(t, c.norm, norms[1] <= math.MaxFloat32, "norm %v", norms[1])
					if c.norm { // else the norm says all
						require.Equal(t, c.bad, bad[1] != 0, "bad %v", bad)
					}
				})
			}
		})
	}
}

// Reinforcement learning lives on updates of 1e-6, which bfloat16 weights cannot hold: the masters must add them up.
func TestMastersKeepTinyUpdates(t *testing.T) {
	params := []policy.Param{{Name: "w", Shape: shapes.Make(dtypes.BFloat16, 1)}}
	opt := optim.Adam{}
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		step := compileStep(t, b, opt, params, 0)
		masters, slots := []*tensors.Tensor{tensors.FromValue([]float32{0.5})}, optim.NewSlots(opt, params)
		var weights []*tensors.Tensor
		move := func(updates int) float32 {
			for range updates {
				masters, slots, weights, _ = step(opt.Scalars(1e-6, 1000), masters, slots, []*tensors.Tensor{tensors.FromValue([]float32{-0.3})})
			}
			return flat[bfloat16.BFloat16](t, weights[0])[0].Float32()
		}
		require.Equal(t, float32(0.5), move(20), "the stored weight cannot move yet")
		require.Greater(t, flat[float32](t, masters[0])[0], float32(0.5), "the master has moved")
		masters = []*tensors.Tensor{tensors.FromValue([]float32{0.5 + 1.0/512 - 4e-6})}
		require.Equal(t, float32(0.5+1.0/256), move(20), "a master that crosses the rounding border moves the stored weight")
	})
}

// With lr 1e-6 decoupled decay takes 1e-7 of a weight an update; as a factor in float32 it would be 19 % too much.
func TestAdamWTinyDecay(t *testing.T) {
	params := []policy.Param{{Name: "w", Shape: shapes.Make(dtypes.Float32, 1), Decay: true}}
	opt := optim.AdamW{WeightDecay: 0.1}
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		step := compileStep(t, b, opt, params, 0)
		masters, slots := []*tensors.Tensor{tensors.FromValue([]float32{1.9999999})}, optim.NewSlots(opt, params)
		before := float64(flat[float32](t, masters[0])[0])
		const updates = 100
		for k := range updates {
			masters, slots, _, _ = step(opt.Scalars(1e-6, k+1), masters, slots, []*tensors.Tensor{tensors.FromValue([]float32{0})})
		}
		lost := 1 - float64(flat[float32](t, masters[0])[0])/before
		require.InDelta(t, updates*1e-7, lost, 0.25*updates*1e-7, "share of the weight lost")
	})
}

// A setting that cannot work has to be refused before the run, by name.
func TestValidate(t *testing.T) {
	for want, opt := range map[string]optim.Optimizer{
		"Adam.Beta1 is 1,":          optim.Adam{Beta1: 1},
		"Adam.Beta2 is -0.1,":       optim.Adam{Beta2: -0.1},
		"AdamW.Eps is NaN,":         optim.AdamW{Eps: math.NaN()},
		"AdamW.WeightDecay is -1,":  optim.AdamW{WeightDecay: -1},
		"SGD.Momentum is 1,":        optim.SGD{Momentum: 1},
		"SGD.Dampening is 2,":       optim.SGD{Momentum: .9, Dampening: 2},
		"SGD.Nesterov is true,":     optim.SGD{Nesterov: true},
		"SGD.WeightDecay is +Inf, ": optim.SGD{WeightDecay: math.Inf(1)},
	} {
		require.ErrorContains(t, opt.Validate(), want)
	}
	for _, opt := range []optim.Optimizer{optim.Adam{}, optim.AdamW{}, optim.SGD{}, optim.SGD{Momentum: 0.9, Nesterov: true}} {
		require.NoError(t, opt.Validate())
	}
}

// A run's record must say which settings acted, also where the user left them at 0.
func TestRecordedSettings(t *testing.T) {
	for want, opt := range map[string]optim.Optimizer{
		`{"beta1":0.9,"beta2":0.98,"eps":1e-8,"weight_decay":0.1}`:        optim.Adam{Beta2: 0.98, WeightDecay: 0.1},
		`{"beta1":0.9,"beta2":0.999,"eps":1e-8,"weight_decay":0}`:         optim.AdamW{},
		`{"momentum":0.9,"dampening":0,"nesterov":true,"weight_decay":0}`: optim.SGD{Momentum: 0.9, Nesterov: true},
	} {
		got, err := json.Marshal(opt)
		require.NoError(t, err)
		require.JSONEq(t, want, string(got))
	}
}
