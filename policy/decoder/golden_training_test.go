package decoder_test

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/policy"
)

// training checks loss, gradients, and parameters after each optimizer's steps.
func (m *goldenModel) training(t *testing.T, b *backend.Backend) {
	if m.get(t, "right.loss_mask") == nil {
		t.Skip("no loss")
	}
	ids := m.get(t, "right.input_ids").rows()
	mask := m.get(t, "right.loss_mask")
	width, n := mask.dims[1], len(m.weights)
	weigh := make([][]float32, mask.dims[0]) // of the log-prob of token t, which state t-1 predicts
	total := 0.0
	for i, v := range mask.v {
		if i%width > 0 {
			weigh[i/width] = append(weigh[i/width], float32(v))
		}
		total += v
	}
	gradients, err := backend.Compile(b, "gradients", func(in []*graph.Node) []*graph.Node {
		w := policy.Vars(in[:n])
		h := graph.Slice(m.Hidden(w, policy.Inputs{Tokens: in[n]}), graph.AxisRange(), graph.AxisRange(0, width-1))
		lp := graph.LogSoftmax(m.Logits(w, graph.Reshape(h, -1, h.Shape().Dim(2))), -1)
		next := graph.Slice(in[n], graph.AxisRange(), graph.AxisRange(1, width))
		lp = graph.ReduceSum(graph.Mul(lp, graph.OneHot(graph.Reshape(next, -1), m.VocabSize(), dtypes.Float32)), -1)
		loss := graph.Neg(graph.DivScalar(graph.ReduceAllSum(graph.Mul(lp, graph.Reshape(in[n+1], -1))), total))
		return append([]*graph.Node{loss}, graph.Gradient(loss, in[:n]...)...)
	})
	require.NoError(t, err)
	defer gradients.Close()
	run := func(w [][]float32) (loss float64, grads [][]float32) {
		var args []*tensors.Tensor
		for i, x := range w {
			args = append(args, tensors.FromFlatDataAndDimensions(x, m.weights[i].Shape().Dimensions...))
		}
		out, err := gradients.Call(0, args, ids, weigh)
		require.NoError(t, err)
		for _, x := range out {
			grads = append(grads, values(t, x))
		}
		backend.Free(append(out, args...)...)
		return float64(grads[0][0]), grads[1:]
	}
	loss, grads := run(m.start)
	require.InDelta(t, m.scalars["loss"], loss, m.tol.loss, "loss")
	norm := 0.0
	for i, p := range m.Params() {
		for _, g := range grads[i] {
			norm += float64(g) * float64(g)
		}
		gold := m.get(t, "grad."+p.Name)
		if gold == nil {
			continue
		}
		largest := 0.0
		for _, g := range gold.v {
			largest = max(largest, math.Abs(g))
		}
		for j, g := range grads[i] {
			if !(math.Abs(float64(g)-gold.v[j]) <= m.tol.gradient*largest) {
				t.Fatalf("gradient of %s [%d]: %v, want %v (largest %v)", p.Name, j, g, gold.v[j], largest)
			}
		}
	}
	if want, ok := m.scalars["grad_norm"]; ok {
		require.InEpsilon(t, want, math.Sqrt(norm), m.tol.gradient, "gradient norm")
	}
	for _, o := range optimizers {
		if m.get(t, o.name+".first16") == nil {
			continue
		}
		w := make([][]float32, n)
		for i := range w {
			w[i] = slices.Clone(m.start[i])
		}
		slots := newSlots(w)
		for step := 1; step <= o.steps; step++ {
			_, g := run(w)
			for i := range w {
				o.update(step, w[i], g[i], slots[0][i], slots[1][i])
			}
		}
		m.compareStep(t, o.name, o.steps, w, grads)
	}
}

// compareStep compares parameters after an optimizer with samples, norms and sums.
func (m *goldenModel) compareStep(t *testing.T, name string, steps int, w, grads [][]float32) {
	index := map[string]int{}
	for i, p := range m.Params() {
		index[p.Name] = i
	}
	first, strided := m.get(t, name+".first16"), m.get(t, name+".strided16")
	sums, norms, deltas := m.get(t, name+".sum"), m.get(t, name+".l2"), m.get(t, name+".delta_l2")
	adam := name == "adamw1" || name == "adamw3"
	for row, param := range m.order {
		i, ok := index[param]
		require.True(t, ok, param)
		largest, sum, square, moved := 0.0, 0.0, 0.0, 0.0
		for j, x := range w[i] {
			largest = max(largest, math.Abs(float64(grads[i][j])))
			sum += float64(x)
			square += float64(x) * float64(x)
			d := float64(x) - float64(m.start[i][j])
			moved += d * d
		}
		sample := func(gold *array, k, at int) {
			tol := m.tol.step[name]
			if adam && math.Abs(float64(grads[i][at])) <= keptGradient*largest {
				tol = 2 * adamRate * float64(steps) // rounding noise decides the sign
			}
			got, want := float64(w[i][at]), gold.v[row*16+k]
			if !(math.Abs(got-want) <= tol) {
				t.Fatalf("%s: %s[%d] is %v, want %v", name, param, at, got, want)
			}
		}
		size := len(w[i])
		for k := range min(16, size) {
			sample(first, k, k)
			if size >= 16 {
				sample(strided, k, k*(size/16))
			} else {
				sample(strided, k, k)
			}
		}
		l2 := norms.v[row]
		require.InDelta(t, l2, math.Sqrt(square), tolSum*l2, "%s: l2 of %s", name, param)
		require.InDelta(t, sums.v[row], sum, tolSum*l2, "%s: sum of %s", name, param)
		require.InEpsilon(t, deltas.v[row], math.Sqrt(moved), m.tol.delta[name], "%s: movement of %s", name, param)
	}
}

// optimizers are the README's, one element at a time in float64.
var optimizers = []struct {
	name   string
	steps  int
	update func(step int, p, g []float32, m, v []float64)
}{
	{"sgd1", 1, sgd}, {"sgdm2", 2, sgd}, {"adamw1", 1, adamw}, {"adamw3", 3, adamw},
}

func sgd(step int, p, g []float32, u, _ []float64) {
	for i := range p {
		u[i] = 0.9*u[i] + float64(g[i]) // u is zero before the first step
		p[i] = float32(float64(p[i]) - 0.1*u[i])
	}
}

func adamw(step int, p, g []float32, m, v []float64) {
	for i := range p {
		x, d := float64(p[i]), float64(g[i])
		x -= adamRate * 0.1 * x
		m[i] = 0.9*m[i] + 0.1*d
		v[i] = 0.98*v[i] + 0.02*d*d
		mean, square := m[i]/(1-math.Pow(0.9, float64(step))), v[i]/(1-math.Pow(0.98, float64(step)))
		p[i] = float32(x - adamRate*mean/(math.Sqrt(square)+1e-8))
	}
}

func newSlots(w [][]float32) (slots [2][][]float64) {
	for k := range slots {
		for _, x := range w {
			slots[k] = append(slots[k], make([]float64, len(x)))
		}
	}
	return slots
}
