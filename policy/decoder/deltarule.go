package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// deltaHeads are what T tokens of B rows bring to the heads of a gated DeltaNet layer, in float32. Value head i belongs to key head
// i/(ValueHeads/KeyHeads).
type deltaHeads struct {
	q, k  *graph.Node // [B,T,KeyHeads,KeyDim], of length 1 and for q times KeyDim^-1/2
	v     *graph.Node // [B,T,ValueHeads,ValueDim]
	decay *graph.Node // [B,T,ValueHeads], the logarithm of what a token leaves of the state: 0 or less
	rate  *graph.Node // [B,T,ValueHeads], how far a token corrects the state: 0 to 1
}

// deltaChunk is the longest chunk. The work for a token grows with it, and the number of chunks falls.
const deltaChunk = 64

// deltaRule is the gated delta rule (Gated Delta Networks, arXiv 2412.06464, equation 10): with a state S [KeyDim,ValueDim] for each value
// head, each token does
//
//	S = exp(decay) S;  S = S + k (rate (v - S^T k))^T;  o = S^T q
//
// It takes the state [B,ValueHeads,KeyDim,ValueDim] before the tokens and returns o [B,T,ValueHeads*ValueDim] and the state after them.
func deltaRule(x deltaHeads, state *graph.Node) (out, after *graph.Node) {
	if x.q.Shape().Dim(1) == 1 {
		return deltaStep(x, state)
	}
	return deltaChunks(x, state)
}

// deltaStep is the rule for one token of each row, as it stands.
func deltaStep(x deltaHeads, state *graph.Node) (out, after *graph.Node) {
	rows, keyHeads, keyDim := x.q.Shape().Dim(0), x.q.Shape().Dim(2), x.q.Shape().Dim(3)
	valueHeads, valueDim := x.v.Shape().Dim(2), x.v.Shape().Dim(3)
	perHead := func(x *graph.Node) *graph.Node { // [B,ValueHeads,KeyDim]
		x = graph.Reshape(x, rows, keyHeads, 1, keyDim)
		return graph.Reshape(graph.BroadcastToDims(x, rows, keyHeads, valueHeads/keyHeads, keyDim), rows, valueHeads, keyDim)
	}
	read := func(x, state *graph.Node) *graph.Node { // [B,ValueHeads,ValueDim]
		return graph.Dot(x, state).General([]int{2}, []int{0, 1}, []int{2}, []int{0, 1})
	}
	q, k, v := perHead(x.q), perHead(x.k), graph.Reshape(x.v, rows, valueHeads, valueDim)
	state = graph.Mul(state, graph.Exp(graph.Reshape(x.decay, rows, valueHeads, 1, 1)))
	change := graph.Mul(graph.Sub(v, read(k, state)), graph.Reshape(x.rate, rows, valueHeads, 1))
	after = graph.Add(state, graph.Mul(graph.ExpandAxes(k, 3), graph.ExpandAxes(change, 2)))
	return graph.Reshape(read(q, after), rows, 1, valueHeads*valueDim), after
}

// deltaChunks is the rule for many tokens (Parallelizing Linear Transformers with the Delta Rule, arXiv 2406.06484, section 3, with the
// decays of arXiv 2412.06464, section 3.3). Within a chunk, with D the decay from one token to a later one, the changes V' that the tokens
// make to the state solve a triangular system:
//
//	(I + L) V' = rate (V - exp(decay so far) K S)    L = rate (K K^T) D below the diagonal
//	O = exp(decay so far) Q S + ((Q K^T) D) V'
//	S' = exp(decay) S + (exp(decay to come) K)^T V'
//
// All chunks are computed at once, save for the states before them, which are an associative scan: no loop, which could not be
// differentiated, and a number of operations that grows with the logarithm of T. Memory grows linearly with T.
func deltaChunks(x deltaHeads, state *graph.Node) (out, after *graph.Node) {
	rows, width, keyHeads, keyDim := x.q.Shape().Dim(0), x.q.Shape().Dim(1), x.q.Shape().Dim(2), x.q.Shape().Dim(3)
	share, valueDim := x.v.Shape().Dim(2)/keyHeads, x.v.Shape().Dim(3) // value heads of a key head
	count := (width + deltaChunk - 1) / deltaChunk
	size := (width + count - 1) / count
	g := x.q.Graph()
	// cut goes from [B,T,…] to [B,count,size,…]. Filler changes nothing: its keys are zero and its decay is 0.
	cut := func(x *graph.Node, dims ...int) *graph.Node {
		if more := count*size - width; more > 0 {
			empty := x.Shape().Clone()
			empty.Dimensions[1] = more
			x = graph.Concatenate([]*graph.Node{x, graph.Zeros(g, empty)}, 1)
		}
		return graph.Reshape(x, append([]int{rows, count, size}, dims...)...)
	}
	q := graph.TransposeAllAxes(cut(x.q, keyHeads, keyDim), 0, 3, 1, 2, 4) // [B,KeyHeads,count,size,KeyDim]
	k := graph.TransposeAllAxes(cut(x.k, keyHeads, keyDim), 0, 3, 1, 2, 4)
	v := graph.TransposeAllAxes(cut(x.v, keyHeads, share, valueDim), 0, 3, 1, 4, 2, 5) // [B,KeyHeads,count,share,size,ValueDim]
	decay := graph.TransposeAllAxes(cut(x.decay, keyHeads, share), 0, 3, 1, 4, 2)      // [B,KeyHeads,count,share,size]
	rate := graph.TransposeAllAxes(cut(x.rate, keyHeads, share), 0, 3, 1, 4, 2)

	from, to := graph.Iota(g, shapes.Make(dtypes.Int32, size, size), 1), graph.Iota(g, shapes.Make(dtypes.Int32, size, size), 0)
	matrix := func(is *graph.Node) *graph.Node { // [size,size] to the rank of the rest
		return graph.ExpandLeftToRank(graph.ConvertDType(is, dtypes.Float32), 6)
	}
	upTo, below := matrix(graph.GreaterOrEqual(to, from)), matrix(graph.GreaterThan(to, from))
	sofar := graph.DotGeneral(decay, []int{4}, nil, graph.Reshape(upTo, size, size), []int{1}, nil) // sums of decays
	// Between a token and an earlier one; 0 for later ones, whose exponential could overflow.
	later := graph.MulScalar(graph.OneMinus(upTo), masked)
	between := graph.Exp(graph.Add(graph.Sub(graph.ExpandAxes(sofar, 5), graph.ExpandAxes(sofar, 4)), later))
	last := part(sofar, 4, size-1, size)
	grown := graph.ExpandAxes(graph.Exp(sofar), 5) // [B,KeyHeads,count,share,size,1]
	k, q = graph.ExpandAxes(k, 3), graph.ExpandAxes(q, 3)

	system := graph.Mul(graph.Mul(graph.ExpandAxes(rate, 5), between), graph.Mul(times(k, turned(k)), below))
	solved := graph.Mul(unitLowerInverse(system), graph.ExpandAxes(rate, 4)) // (I+L)^-1 rate
	values := times(solved, v)
	keys := times(solved, graph.Mul(k, grown))
	write := turned(graph.Mul(k, graph.ExpandAxes(graph.Exp(graph.Sub(last, sofar)), 5)))
	kept := graph.ExpandAxes(graph.Exp(last), 5)

	states := graph.Reshape(state, rows, keyHeads, 1, share, keyDim, valueDim)
	if count > 1 {
		early := func(x *graph.Node) *graph.Node { return part(x, 2, 0, count-1) }
		w := early(write)
		eye := graph.Mul(early(kept), identity(g, keyDim, 6))
		states = affineScan(graph.Sub(eye, times(w, early(keys))), times(w, early(values)), states)
	}
	changes := graph.Sub(values, times(keys, states))
	out = graph.Add(times(graph.Mul(q, grown), states), times(graph.Mul(times(q, turned(k)), between), changes))
	out = graph.Reshape(graph.TransposeAllAxes(out, 0, 2, 4, 1, 3, 5), rows, count*size, -1)

	final := func(x *graph.Node) *graph.Node { return part(x, 2, count-1, count) }
	after = graph.Add(graph.Mul(final(kept), final(states)), times(final(write), final(changes)))
	return part(out, 1, 0, width), graph.Reshape(after, state.Shape().Dimensions...)
}

// affineScan gives S_0 … S_M, where S_0 is start and S_{i+1} = a_i S_i + b_i, for matrices a [B,H,M,r,n,n], b [B,H,M,r,n,m] and start
// [B,H,1,r,n,m]. Pairs of steps are joined into one, so that every other state comes from a scan of half the length; the states between
// follow in one step.
func affineScan(a, b, start *graph.Node) *graph.Node {
	steps := a.Shape().Dim(2)
	if steps == 0 {
		return start
	}
	if steps == 1 {
		return graph.Concatenate([]*graph.Node{start, graph.Add(times(a, start), b)}, 2)
	}
	pairs := steps / 2
	a0, b0 := everyOther(a, 0), everyOther(b, 0)
	a1, b1 := everyOther(a, 1), everyOther(b, 1)
	first, second := part(a0, 2, 0, pairs), part(b0, 2, 0, pairs)
	even := affineScan(times(a1, first), graph.Add(times(a1, second), b1), start) // pairs+1 states
	odd := graph.Add(times(a0, part(even, 2, 0, a0.Shape().Dim(2))), b0)
	dims := append([]int{}, odd.Shape().Dimensions...)
	n := dims[2]
	dims[2] *= 2
	both := graph.Concatenate([]*graph.Node{graph.ExpandAxes(part(even, 2, 0, n), 3), graph.ExpandAxes(odd, 3)}, 3)
	both = graph.Reshape(both, dims...)
	if n == pairs {
		both = graph.Concatenate([]*graph.Node{both, part(even, 2, pairs, pairs+1)}, 2)
	}
	return both
}

// everyOther takes the even (0) or odd (1) entries of axis 2.
func everyOther(x *graph.Node, first int) *graph.Node {
	return graph.SliceAxis(x, 2, graph.AxisRange(first).Stride(2))
}

// unitLowerInverse is (I+l)^-1 for strictly lower triangular matrices l [...,n,n]. The inverses of blocks of 1, 2, 4, … on the diagonal
// give those of twice the size: the inverse of [[A,0],[C,B]] is [[A^-1,0],[-B^-1 C A^-1,B^-1]]. That is as stable as substitution; the
// product (I-l)(I+l^2)(I+l^4)… is not: with keys that resemble each other the powers grow beyond all digits.
func unitLowerInverse(l *graph.Node) *graph.Node {
	g, n := l.Graph(), l.Shape().Dim(-1)
	row, column := graph.Iota(g, shapes.Make(dtypes.Int32, n, n), 0), graph.Iota(g, shapes.Make(dtypes.Int32, n, n), 1)
	apart := graph.BitwiseXor(row, column) // from size to 2 size-1: in the two halves of one block of 2 size
	corners := func(size int) *graph.Node {
		here := graph.LogicalAnd(graph.GreaterOrEqual(apart, graph.Const(g, int32(size))), graph.LessThan(apart, graph.Const(g, int32(2*size))))
		return graph.Mul(l, graph.ExpandLeftToRank(graph.ConvertDType(here, dtypes.Float32), l.Rank()))
	}
	eye := identity(g, n, l.Rank())
	x := graph.Sub(eye, corners(1))
	for size := 2; size < n; size *= 2 {
		x = graph.Sub(x, times(times(x, corners(size)), x))
	}
	// One Newton step changes only the last digits. Its gradient is that of the inverse, so nothing above needs to be stored.
	x = graph.StopGradient(x)
	return graph.Add(x, times(x, graph.Sub(graph.Sub(eye, x), times(l, x))))
}

// times is the matrix product over the last two axes; the leading ones are equal.
func times(a, b *graph.Node) *graph.Node {
	lead := make([]int, a.Rank()-2)
	for i := range lead {
		lead[i] = i
	}
	return graph.Dot(a, b).General([]int{a.Rank() - 1}, lead, []int{b.Rank() - 2}, lead)
}

// turned swaps the last two axes.
func turned(x *graph.Node) *graph.Node { return graph.Transpose(x, -2, -1) }

// identity is the [n,n] identity matrix, expanded to a rank.
func identity(g *graph.Graph, n, rank int) *graph.Node {
	row, column := graph.Iota(g, shapes.Make(dtypes.Int32, n, n), 0), graph.Iota(g, shapes.Make(dtypes.Int32, n, n), 1)
	return graph.ExpandLeftToRank(graph.ConvertDType(graph.Equal(row, column), dtypes.Float32), rank)
}
