package decoder

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
)

// deltaCase is input of the delta rule, drawn at random.
type deltaCase struct {
	rows, width, keyHeads, share, keyDim, valueDim int
	alike                                          bool // keys that resemble each other, full corrections, hardly any decay
}

func (c deltaCase) draw(seed uint64) (args []any) {
	r := rand.New(rand.NewPCG(seed, 4))
	array := func(f func() float32, dims ...int) {
		n := 1
		for _, d := range dims {
			n *= d
		}
		v := make([]float32, n)
		for i := range v {
			v[i] = f()
		}
		args = append(args, tensors.FromFlatDataAndDimensions(v, dims...))
	}
	normal := func() float32 { return float32(r.NormFloat64()) }
	unit := func(mean float32, scale float64, dims ...int) {
		array(func() float32 { return mean + normal() }, dims...)
		_ = tensors.MutableFlatData(args[len(args)-1].(*tensors.Tensor), func(v []float32) {
			for at := 0; at < len(v); at += c.keyDim {
				square := 0.0
				for _, x := range v[at : at+c.keyDim] {
					square += float64(x) * float64(x)
				}
				for i := range c.keyDim {
					v[at+i] = float32(float64(v[at+i]) * scale / math.Sqrt(square))
				}
			}
		})
	}
	valueHeads := c.keyHeads * c.share
	mean, decay := float32(0), float32(1)
	if c.alike {
		mean, decay = 20, 1e-3
	}
	unit(0, 1/math.Sqrt(float64(c.keyDim)), c.rows, c.width, c.keyHeads, c.keyDim)
	unit(mean, 1, c.rows, c.width, c.keyHeads, c.keyDim)
	array(normal, c.rows, c.width, valueHeads, c.valueDim)
	array(func() float32 { return -decay * r.Float32() }, c.rows, c.width, valueHeads)
	array(func() float32 {
		if c.alike {
			return 1
		}
		return r.Float32()
	}, c.rows, c.width, valueHeads)
	array(normal, c.rows, valueHeads, c.keyDim, c.valueDim)
	array(normal, c.rows, c.width, valueHeads*c.valueDim)   // weights of the output in the loss
	array(normal, c.rows, valueHeads, c.keyDim, c.valueDim) // and of the state
	return args
}

// The chunked form must be the recurrence, gradients too: otherwise training would see another network than sampling. Keys that resemble
// each other are what repeated text gives; there a solver that is not stable loses all digits.
func TestDeltaChunksEqualSteps(t *testing.T) {
	for i, c := range []deltaCase{
		{rows: 2, width: 37, keyHeads: 2, share: 3, keyDim: 4, valueDim: 6},
		{rows: 1, width: 5*deltaChunk - 3, keyHeads: 1, share: 2, keyDim: 8, valueDim: 4, alike: true},
		{rows: 2, width: 1, keyHeads: 1, share: 2, keyDim: 4, valueDim: 3},
		{rows: 1, width: 2, keyHeads: 2, share: 1, keyDim: 2, valueDim: 2},
		{rows: 1, width: deltaChunk, keyHeads: 1, share: 1, keyDim: 4, valueDim: 4},
		{rows: 1, width: deltaChunk + 1, keyHeads: 1, share: 2, keyDim: 4, valueDim: 4},
		{rows: 2, width: 4 * deltaChunk, keyHeads: 1, share: 1, keyDim: 3, valueDim: 4},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			run := func(b *backend.Backend, rule func(x deltaHeads, state *graph.Node) (out, after *graph.Node)) [][]float32 {
				f, err := backend.Compile(b, "delta rule", func(in []*graph.Node) []*graph.Node {
					out, after := rule(deltaHeads{q: in[0], k: in[1], v: in[2], decay: in[3], rate: in[4]}, in[5])
					loss := graph.Add(graph.ReduceAllSum(graph.Mul(out, in[6])), graph.ReduceAllSum(graph.Mul(after, in[7])))
					return append([]*graph.Node{out, after}, graph.Gradient(loss, in[:6]...)...)
				})
				require.NoError(t, err)
				defer f.Close()
				out, err := f.Call(0, c.draw(7)...)
				require.NoError(t, err)
				defer backend.Free(out...)
				all := make([][]float32, len(out))
				for i, x := range out {
					all[i], err = tensors.CopyFlatData[float32](x)
					require.NoError(t, err)
				}
				return all
			}
			// XLA would take minutes to compile this for hundreds of tokens.
			steps := run(testbackend.Go(t), func(x deltaHeads, state *graph.Node) (*graph.Node, *graph.Node) {
				var outs []*graph.Node
				for i := range c.width {
					token := func(x *graph.Node) *graph.Node { return part(x, 1, i, i+1) }
					var out *graph.Node
					out, state = deltaStep(deltaHeads{token(x.q), token(x.k), token(x.v), token(x.decay), token(x.rate)}, state)
					outs = append(outs, out)
				}
				return graph.Concatenate(outs, 1), state
			})
			testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
				if i > 1 && b.Kind() != backend.Go {
					t.Skip("compiling takes long")
				}
				chunks := run(b, deltaChunks)
				for i, name := range []string{"output", "state", "q", "k", "v", "decay", "rate", "first state"} {
					largest, off := 0.0, 0.0
					for j, want := range steps[i] {
						largest = max(largest, math.Abs(float64(want)))
						off = max(off, math.Abs(float64(want)-float64(chunks[i][j])))
						require.False(t, math.IsNaN(float64(chunks[i][j])))
					}
					require.LessOrEqual(t, off, 1e-5*max(1, largest), name)
				}
			})
		})
	}
}
