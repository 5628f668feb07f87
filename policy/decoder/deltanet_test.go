package decoder_test

import (
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

// However a row is cut into pieces, and whatever filler stands before it, its states must be those of one pass: the engine takes a
// prompt as one piece and every further token alone.
func TestRecurrentLayersInPieces(t *testing.T) {
	b := testbackend.Go(t)
	c := small()
	c.MaxPositions = 256
	qwen35(&c)
	d, w := build(t, c)
	defer w.Free()
	n := len(w.Params)
	const rows, width = 3, 150 // three chunks
	r := rand.New(rand.NewPCG(8, 9))
	tokens, pads := randomTokens(r, rows, width, c.Vocab), []int32{0, 70, 3}
	out := call(t, b, func(in []*graph.Node) []*graph.Node {
		h := d.Hidden(in[:n], policy.Inputs{Tokens: in[n], Pad: in[n+1]})
		bare := d.Hidden(in[:n], policy.Inputs{Tokens: graph.Slice(in[n], graph.AxisElem(1), graph.AxisRange(70))})
		return []*graph.Node{h, bare}
	}, w.Tensors, tokens, pads)
	want, bare := values(t, out[0]), values(t, out[1])
	requireNear(t, distance(bare, want[(width+70)*c.Hidden:2*width*c.Hidden]), 1e-4, "a row without its filler")

	extend, err := backend.Compile(b, "extend", func(in []*graph.Node) []*graph.Node {
		h, next := d.Extend(in[:n], in[n+3:], policy.Inputs{Tokens: in[n], Pad: in[n+1], Start: in[n+2]})
		return append([]*graph.Node{h}, next...)
	})
	require.NoError(t, err)
	defer extend.Close()
	for _, longest := range []int{1, 4, 20, 100, width} {
		var cache []*tensors.Tensor
		for _, s := range d.Cache(rows, width, dtypes.Float32) {
			cache = append(cache, tensors.FromShape(s))
		}
		for start := 0; start < width; {
			end := min(width, start+1+r.IntN(longest))
			piece := make([][]int32, rows)
			for i := range piece {
				piece[i] = tokens[i][start:end]
			}
			out, err := extend.Call(0, w.Tensors, piece, pads, int32(start), backend.Donate(cache))
			require.NoError(t, err)
			got := values(t, out[0])
			cache = out[1:]
			for i := range rows {
				if from := max(start, int(pads[i])); from < end {
					a := got[(i*(end-start)+from-start)*c.Hidden : (i+1)*(end-start)*c.Hidden]
					requireNear(t, distance(a, want[(i*width+from)*c.Hidden:(i*width+end)*c.Hidden]), 1e-4, "row", i, "tokens from", from, "to", end)
				}
			}
			start = end
		}
		backend.Free(cache...)
	}
}

// A state must not grow with the number of tokens, which is what these layers are for, and must be kept in float32.
func TestRecurrentCache(t *testing.T) {
	c := small()
	qwen35(&c)
	d, err := decoder.New(c)
	require.NoError(t, err)
	few, many := d.Cache(2, 10, dtypes.BFloat16), d.Cache(2, 1000, dtypes.BFloat16)
	require.Equal(t, few[:2], many[:2])
	require.Equal(t, []int{2, 3, 2*2*4 + 6*5}, few[0].Dimensions)
	require.Equal(t, []int{2, 6, 4, 5}, few[1].Dimensions)
	require.Equal(t, dtypes.Float32, few[1].DType)
	require.Equal(t, 1000, many[2].Dimensions[2])
	precise := 0
	for _, p := range d.Params() {
		if p.Float32 {
			precise++
		}
	}
	require.Equal(t, 2, precise, "decay and norm")
}
