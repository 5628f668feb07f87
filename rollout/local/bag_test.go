package local_test

import (
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/policy"
)

// bag is a policy that is easy to compute by hand: the state of a token is the sum of the embeddings of all tokens up to it
// and of its learned position. It has no cache.
type bag struct{ vocab, dim, positions int }

func (p bag) Params() []policy.Param {
	shape := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }
	return []policy.Param{
		{Name: "embedding", Shape: shape(p.vocab, p.dim)},
		{Name: "position", Shape: shape(p.positions, p.dim)},
		{Name: "output", Shape: shape(p.dim, p.vocab)},
	}
}

func (p bag) VocabSize() int    { return p.vocab }
func (p bag) MaxPositions() int { return p.positions }

func (p bag) Hidden(w policy.Vars, in policy.Inputs) *graph.Node {
	g, rows := in.Tokens.Graph(), in.Tokens.Shape().Dim(0)
	in.Start = graph.Const(g, int32(0))
	hidden, _ := p.extend(w, graph.Zeros(g, shapes.Make(w[0].DType(), rows, p.dim)), in)
	return hidden
}

func (p bag) Logits(w policy.Vars, hidden *graph.Node) *graph.Node {
	return graph.ConvertDType(graph.DotGeneral(hidden, []int{1}, nil, w[2], []int{0}, nil), dtypes.Float32)
}

// extend goes on from the sum so far, [B,D].
func (p bag) extend(w policy.Vars, sum *graph.Node, in policy.Inputs) (hidden, next *graph.Node) {
	g, rows, width := in.Tokens.Graph(), in.Tokens.Shape().Dim(0), in.Tokens.Shape().Dim(1)
	slots := graph.Add(graph.Iota(g, shapes.Make(dtypes.Int32, rows, width), 1), in.Start)
	position := graph.Sub(slots, graph.Reshape(in.Pad, rows, 1))
	isToken := graph.ConvertDType(graph.GreaterOrEqual(position, graph.Const(g, int32(0))), w[0].DType())
	// Filler on the right may lie beyond the last position.
	position = graph.Min(graph.Max(position, graph.Const(g, int32(0))), graph.Const(g, int32(p.positions-1)))
	x := graph.Mul(graph.Gather(w[0], graph.ExpandAxes(in.Tokens, -1)), graph.ExpandAxes(isToken, -1))
	upTo := graph.ConvertDType(graph.LowerTriangular(g, width), x.DType()) // [t,s]
	sums := graph.TransposeAllAxes(graph.DotGeneral(x, []int{1}, nil, upTo, []int{1}, nil), 0, 2, 1)
	sums = graph.Add(sums, graph.Reshape(sum, rows, 1, p.dim))
	next = graph.Reshape(graph.Slice(sums, graph.AxisRange(), graph.AxisElem(-1)), rows, p.dim)
	return graph.Add(sums, graph.Gather(w[1], graph.ExpandAxes(position, -1))), next
}

// recurrent is bag with a cache: the sum so far, which has no axis of slots.
type recurrent struct{ bag }

func (p recurrent) Cache(rows, _ int, _ dtypes.DType) []shapes.Shape {
	return []shapes.Shape{shapes.Make(dtypes.Float32, rows, p.dim)}
}

func (p recurrent) Extend(w policy.Vars, cache []*graph.Node, in policy.Inputs) (*graph.Node, []*graph.Node) {
	hidden, next := p.extend(w, graph.ConvertDType(cache[0], w[0].DType()), in)
	return hidden, []*graph.Node{graph.ConvertDType(next, dtypes.Float32)}
}

// bagWeights are random weights, and the function that gives the logits after some tokens.
func bagWeights(t testing.TB, p bag, update int) (w *policy.Weights, logits func(tokens []int32) []float64) {
	r := rand.New(rand.NewPCG(uint64(update), 3))
	var values [][]float32
	var ts []*tensors.Tensor
	for _, param := range p.Params() {
		v := make([]float32, param.Shape.Size())
		for i := range v {
			v[i] = float32(r.NormFloat64()) / 2
		}
		values = append(values, v)
		ts = append(ts, tensors.FromFlatDataAndDimensions(v, param.Shape.Dimensions...))
	}
	w, err := policy.NewWeights(update, p.Params(), ts)
	require.NoError(t, err)
	return w, func(tokens []int32) []float64 {
		out := make([]float64, p.vocab)
		for d := range p.dim {
			h := float64(values[1][(len(tokens)-1)*p.dim+d])
			for _, token := range tokens {
				h += float64(values[0][int(token)*p.dim+d])
			}
			for v := range out {
				out[v] += h * float64(values[2][d*p.vocab+v])
			}
		}
		return out
	}
}
