package decoder_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/policy"
)

// Tolerances of golden/models/README.md for the long sequence.
const (
	tolLongLogits   = 1e-3
	tolLongGradient = 5e-4
	tolLongSum      = 3e-4
)

// near fails for NaN, too.
func near(t *testing.T, got, want, tol float64, what string, place ...any) {
	t.Helper()
	if !(math.Abs(got-want) <= tol) {
		t.Fatalf("%s %v: %v, want %v", what, place, got, want)
	}
}

// steps takes the rows through the cache, token by token and in two pieces, and checks logits and what the recurrent layers remember.
func (m *goldenModel) steps(t *testing.T, b *backend.Backend) {
	gold := m.get(t, "right.logits_step")
	if gold == nil {
		t.Skip("no logits by step")
	}
	ids, lengths := m.get(t, "right.input_ids").rows(), m.get(t, "right.attention_mask").lengths()
	rows, width, n := len(ids), len(ids[0]), len(m.weights)
	extend, err := backend.Compile(b, "steps", func(in []*graph.Node) []*graph.Node {
		w := policy.Vars(in[:n])
		h, next := m.Extend(w, in[n+2:], policy.Inputs{Tokens: in[n], Start: in[n+1]})
		return append([]*graph.Node{m.Logits(w, graph.Reshape(h, -1, h.Shape().Dim(2)))}, next...)
	})
	require.NoError(t, err)
	defer extend.Close()
	pieces := []int{1}
	if b.Kind() == backend.Go { // compiling takes long, and greedy goes on from longer pieces on XLA
		pieces = append(pieces, width/2)
	}
	for _, piece := range pieces {
		var cache []*tensors.Tensor
		for _, s := range m.Cache(rows, width, dtypes.Float32) {
			cache = append(cache, tensors.FromShape(s))
		}
		oldest := map[int][]float32{} // of the convolution's inputs, by layer, before the last token
		for at := 0; at+piece <= width; at += piece {
			if at == lengths[0]-1 {
				for i, l := range m.Decoder.Config().PerLayer {
					if l.Recurrent {
						oldest[i] = values(t, cache[2*i])[:cache[2*i].Shape().Dim(2)]
					}
				}
			}
			tokens := make([][]int32, rows)
			for i := range tokens {
				tokens[i] = ids[i][at : at+piece]
			}
			out, err := extend.Call(0, m.weights, tokens, int32(at), backend.Donate(cache))
			require.NoError(t, err)
			cache = out[1:]
			logits := values(t, out[0])
			for i, length := range lengths {
				for j := at; j < min(at+piece, length); j++ {
					for v := range m.VocabSize() {
						got := float64(logits[(i*piece+j-at)*m.VocabSize()+v])
						near(t, got, gold.v[(i*width+j)*m.VocabSize()+v], m.tol.value, "logits by step", i, j, v)
					}
				}
			}
			backend.Free(out[0])
			if at+piece == lengths[0] {
				m.compareMemory(t, cache, oldest)
			}
		}
		backend.Free(cache...)
	}
}

// compareMemory compares the cache of row 0. The cache has one input of the convolution less than the golden file: the oldest, which
// the next token does not see.
func (m *goldenModel) compareMemory(t *testing.T, cache []*tensors.Tensor, oldest map[int][]float32) {
	for i, l := range m.Decoder.Config().PerLayer {
		state, inputs := m.get(t, fmt.Sprintf("row0.recurrent_state.%d", i)), m.get(t, fmt.Sprintf("row0.conv_state.%d", i))
		require.Equal(t, l.Recurrent, state != nil)
		if !l.Recurrent {
			continue
		}
		for j, x := range values(t, cache[2*i+1])[:len(state.v)] {
			near(t, float64(x), state.v[j], m.tol.value, "state", i, j)
		}
		window := values(t, cache[2*i])
		channels, taps := inputs.dims[0], inputs.dims[1]
		for c := range channels {
			for k := 1; k < taps; k++ {
				near(t, float64(window[(k-1)*channels+c]), inputs.v[c*taps+k], m.tol.value, "input of the convolution", i, c, k)
			}
			if oldest[i] != nil {
				near(t, float64(oldest[i][c]), inputs.v[c*taps], m.tol.value, "oldest input of the convolution", i, c)
			}
		}
	}
}

// long is a sequence of several chunks, and its gradient.
func (m *goldenModel) long(t *testing.T, b *backend.Backend) {
	gold := m.get(t, "long.logits")
	if gold == nil {
		t.Skip("no long sequence")
	}
	ids, n := m.get(t, "long.input_ids").rows(), len(m.weights)
	width := len(ids[0])
	out := call(t, b, func(in []*graph.Node) []*graph.Node {
		w := policy.Vars(in[:n])
		h := m.Hidden(w, policy.Inputs{Tokens: in[n]})
		logits := m.Logits(w, graph.Reshape(h, width, -1))
		next := graph.Slice(in[n], graph.AxisRange(), graph.AxisRange(1, width))
		lp := graph.LogSoftmax(graph.Slice(logits, graph.AxisRange(0, width-1)), -1)
		lp = graph.Mul(lp, graph.OneHot(graph.Reshape(next, -1), m.VocabSize(), dtypes.Float32))
		loss := graph.Neg(graph.DivScalar(graph.ReduceAllSum(lp), width-1))
		return append([]*graph.Node{logits, loss}, graph.Gradient(loss, in[:n]...)...)
	}, m.weights, ids)
	defer backend.Free(out...)
	for i, x := range values(t, out[0]) {
		near(t, float64(x), gold.v[i], tolLongLogits, "logits", i/m.VocabSize(), i%m.VocabSize())
	}
	if want, ok := m.scalars["long_loss"]; ok {
		near(t, float64(values(t, out[1])[0]), want, m.tol.loss, "loss")
	}
	index := map[string]int{}
	for i, p := range m.Params() {
		index[p.Name] = i
	}
	first, strided := m.get(t, "long.grad.first16"), m.get(t, "long.grad.strided16")
	sums, norms := m.get(t, "long.grad.sum"), m.get(t, "long.grad.l2")
	for row, param := range m.order {
		grad := values(t, out[2+index[param]])
		largest, sum, square := 0.0, 0.0, 0.0
		for _, g := range grad {
			largest = max(largest, math.Abs(float64(g)))
			sum += float64(g)
			square += float64(g) * float64(g)
		}
		for k := range min(16, len(grad)) {
			at := k
			if len(grad) >= 16 {
				at = k * (len(grad) / 16)
			}
			near(t, float64(grad[k]), first.v[row*16+k], tolLongGradient*largest, "gradient", param, k)
			near(t, float64(grad[at]), strided.v[row*16+k], tolLongGradient*largest, "gradient", param, at)
		}
		near(t, math.Sqrt(square), norms.v[row], tolLongSum*norms.v[row], "norm of the gradient", param)
		near(t, sum, sums.v[row], tolLongSum*norms.v[row], "sum of the gradient", param)
	}
}
