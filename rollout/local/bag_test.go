package local_test

import (
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:staticcheck // the graph's operations read as formulae
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

func (p bag) Hidden(w policy.Vars, in policy.Inputs) *Node {
	g, rows := in.Tokens.Graph(), in.Tokens.Shape().Dim(0)
	in.Start = Const(g, int32(0))
	hidden, _ := p.extend(w, Zeros(g, shapes.Make(w[0].DType(), rows, p.dim)), in)
	return hidden
}

func (p bag) Logits(w policy.Vars, hidden *Node) *Node {
	return ConvertDType(DotGeneral(hidden, []int{1}, nil, w[2], []int{0}, nil), dtypes.Float32)
}

// extend goes on from the sum so far, [B,D].
func (p bag) extend(w policy.Vars, sum *Node, in policy.Inputs) (hidden, next *Node) {
	g, rows, width := in.Tokens.Graph(), in.Tokens.Shape().Dim(0), in.Tokens.Shape().Dim(1)
	slots := Add(Iota(g, shapes.Make(dtypes.Int32, rows, width), 1), in.Start)
	position := Sub(slots, Reshape(in.Pad, rows, 1))
	isToken := ConvertDType(GreaterOrEqual(position, Const(g, int32(0))), w[0].DType())
	// Filler on the right may lie beyond the last position.
	position = Min(Max(position, Const(g, int32(0))), Const(g, int32(p.positions-1)))
	x := Mul(Gather(w[0], ExpandAxes(in.Tokens, -1)), ExpandAxes(isToken, -1))
	upTo := ConvertDType(LowerTriangular(g, width), x.DType()) // [t,s]
	sums := TransposeAllAxes(DotGeneral(x, []int{1}, nil, upTo, []int{1}, nil), 0, 2, 1)
	sums = Add(sums, Reshape(sum, rows, 1, p.dim))
	next = Reshape(Slice(sums, AxisRange(), AxisElem(-1)), rows, p.dim)
	return Add(sums, Gather(w[1], ExpandAxes(position, -1))), next
}

// recurrent is bag with a cache: the sum so far, which has no axis of slots.
type recurrent struct{ bag }

func (p recurrent) Cache(rows, _ int) []shapes.Shape {
	return []shapes.Shape{shapes.Make(dtypes.Float32, rows, p.dim)}
}

func (p recurrent) Extend(w policy.Vars, cache []*Node, in policy.Inputs) (*Node, []*Node) {
	hidden, next := p.extend(w, ConvertDType(cache[0], w[0].DType()), in)
	return hidden, []*Node{ConvertDType(next, dtypes.Float32)}
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
