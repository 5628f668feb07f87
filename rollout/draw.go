package rollout

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/internal/reduce"
)

// Draw draws one token for each of B rows in a graph, as [Distribution] says but in float32. It takes float32 logits [B,V]
// and uniforms in [0,1) [B], and returns for each row the token, its log-prob over the whole vocabulary and its log-prob
// under the distribution that it was drawn from: [B] int32, float32, float32. The token of a row with a logit that is not
// finite is -1.
//
// Nothing is sorted, so that Draw can stand in the body of a loop.
func Draw(logits, uniform *graph.Node, s Sampling) (token, full, filtered *graph.Node) {
	g := logits.Graph()
	vocab := logits.Shape().Dim(1)
	ids := graph.Iota(g, shapes.Make(dtypes.Int32, logits.Shape().Dimensions...), 1)
	none := graph.Const(g, int32(vocab))
	z := graph.Sub(logits, graph.ReduceAndKeep(logits, graph.ReduceMax, 1))
	if s.Temperature != 0 {
		z = graph.DivScalar(z, s.Temperature)
	}
	weight := graph.Exp(z)
	logSum := graph.Squeeze(graph.Log(reduce.Sum(weight)), 1)
	if s.Temperature == 0 {
		token = graph.ReduceMin(graph.Where(graph.Equal(z, graph.ZerosLike(z)), ids, none), 1)
		filtered = graph.ZerosLike(uniform)
	} else {
		weight = mask(weight, keep(logits, weight, s))
		sums := cumulate(weight)
		total := graph.Slice(sums, graph.AxisRange(), graph.AxisElem(-1)) // [B,1]
		kept := graph.GreaterThan(weight, graph.ZerosLike(weight))
		above := graph.LogicalAnd(kept, graph.GreaterThan(sums, graph.Mul(graph.ExpandAxes(uniform, 1), total)))
		last := graph.ReduceMax(graph.Where(kept, ids, graph.Const(g, int32(0))), 1) // for a product that rounds up to the total
		token = graph.Min(last, graph.ReduceMin(graph.Where(above, ids, none), 1))
		filtered = graph.Neg(graph.Log(graph.Reshape(total, -1)))
	}
	chosen := graph.ReduceSum(mask(z, graph.Equal(ids, graph.ExpandAxes(token, 1))), 1)
	full = graph.Sub(chosen, logSum)
	if s.Temperature != 0 {
		filtered = graph.Add(chosen, filtered)
	}
	return graph.Where(graph.LogicalAll(graph.IsFinite(logits), 1), token, graph.Const(g, int32(-1))), full, filtered
}

// keep says which tokens the filters keep, bool [B,V]. The weights are exp(logits/T) with 1 for the likeliest token.
func keep(logits, weight *graph.Node, s Sampling) *graph.Node {
	kept := graph.Equal(logits, logits)
	if s.Order == VLLM && s.MinP > 0 {
		kept = minP(weight, s.MinP)
	}
	if s.TopK > 0 && s.TopK < logits.Shape().Dim(1) {
		b := border{stay: s.Order != Joint}
		limit := graph.MulScalar(graph.Ones(logits.Graph(), shapes.Make(dtypes.Float32, logits.Shape().Dim(0), 1)), s.TopK)
		kept = graph.LogicalAnd(kept, b.within(logits, graph.OnesLike(weight), limit))
	}
	if s.TopP > 0 && s.TopP < 1 {
		b := border{highFirst: true}
		if s.Order == Joint {
			b = border{inclusive: true}
		} else {
			weight = mask(weight, kept)
		}
		limit := graph.MulScalar(graph.ReduceAndKeep(weight, graph.ReduceSum, 1), math.Max(s.TopP, 1e-30)) // not 0 in float32
		kept = graph.LogicalAnd(kept, b.within(logits, weight, limit))
	}
	if s.Order != VLLM && s.MinP > 0 {
		kept = graph.LogicalAnd(kept, minP(weight, s.MinP))
	}
	return kept
}

func minP(weight *graph.Node, p float64) *graph.Node {
	return graph.GreaterOrEqual(weight, graph.Scalar(weight.Graph(), weight.DType(), p))
}

// border is a rule by which tokens are kept, going down from the largest logit, until the weight of those before reaches a
// limit.
type border struct {
	inclusive bool // keep a token that has exactly the limit before it
	stay      bool // of equal logits keep all or none
	highFirst bool // take equal logits by descending id, not by ascending id
}

// pairwiseLimit is the vocabulary up to which comparing all pairs of tokens costs no more than bisection: XLA compiles the
// long chain of narrow reductions slowly.
const pairwiseLimit = 64

// within says which tokens are kept [B,V]; logits and weight are [B,V], limit is [B,1].
func (b border) within(logits, weight, limit *graph.Node) *graph.Node {
	if logits.Shape().Dim(1) <= pairwiseLimit {
		return b.pairwise(logits, weight, limit)
	}
	return b.bisect(logits, weight, limit)
}

// pairwise compares each token with every other.
func (b border) pairwise(logits, weight, limit *graph.Node) *graph.Node {
	rows, vocab := logits.Shape().Dim(0), logits.Shape().Dim(1)
	own, other := graph.ExpandAxes(logits, 2), graph.ExpandAxes(logits, 1)
	first := graph.GreaterThan(other, own) // [B,i,j]: whether token j comes before token i
	if !b.stay {
		ids := shapes.Make(dtypes.Int32, 1, vocab, vocab)
		i, j := graph.Iota(logits.Graph(), ids, 1), graph.Iota(logits.Graph(), ids, 2)
		if b.highFirst {
			i, j = j, i
		}
		first = graph.LogicalOr(first, graph.LogicalAnd(graph.Equal(other, own), graph.LessThan(j, i)))
	}
	weights := graph.BroadcastToDims(graph.ExpandAxes(weight, 1), rows, vocab, vocab)
	return b.short(graph.ReduceSum(mask(weights, first), 2), limit)
}

// bisect finds the smallest float with less than the limit above it, by bisection over float32's bits. Everything above
// that float is kept, everything below is dropped, and what equals it is counted by id.
func (b border) bisect(logits, weight, limit *graph.Node) *graph.Node {
	g := logits.Graph()
	above := func(key *graph.Node) *graph.Node {
		return graph.ReduceAndKeep(mask(weight, graph.GreaterThan(logits, unkey(key))), graph.ReduceSum, 1)
	}
	low := graph.BroadcastToDims(graph.Const(g, int32(^infinityKey)), logits.Shape().Dim(0), 1)
	high := graph.BroadcastToDims(graph.Const(g, int32(infinityKey)), logits.Shape().Dim(0), 1)
	for range 32 {
		// The mean of low and high, rounded down, without overflow.
		half := graph.BitwiseShiftRightArithmeticScalar(graph.BitwiseXor(low, high), int32(1))
		middle := graph.Add(graph.BitwiseAnd(low, high), half)
		enough := b.short(above(middle), limit)
		low, high = graph.Where(enough, low, graph.AddScalar(middle, 1)), graph.Where(enough, middle, high)
	}
	threshold := unkey(high)
	if b.stay {
		return graph.GreaterOrEqual(logits, threshold)
	}
	equal := graph.Equal(logits, threshold)
	ties := mask(graph.OnesLike(weight), equal)
	earlier := cumulate(ties)
	if b.highFirst {
		earlier = graph.Sub(graph.Slice(earlier, graph.AxisRange(), graph.AxisElem(-1)), earlier)
	} else {
		earlier = graph.Sub(earlier, ties)
	}
	before := graph.Add(above(high), graph.Mul(earlier, weight))
	return graph.LogicalOr(graph.GreaterThan(logits, threshold), graph.LogicalAnd(equal, b.short(before, limit)))
}

// short says whether the weight before a token is short of the limit.
func (b border) short(before, limit *graph.Node) *graph.Node {
	if b.inclusive {
		return graph.LessOrEqual(before, limit)
	}
	return graph.LessThan(before, limit)
}

// infinityKey is the key of +Inf. The key of a float32 is an int32 with the same order: its bits, all but the sign flipped
// if it is negative.
const infinityKey = 0x7f800000

// unkey turns keys into the floats that they belong to.
func unkey(key *graph.Node) *graph.Node {
	g := key.Graph()
	flipped := graph.BitwiseXor(key, graph.Const(g, int32(math.MaxInt32)))
	return graph.Bitcast(graph.Where(graph.LessThan(key, graph.Const(g, int32(0))), flipped, key), dtypes.Float32)
}

// mask sets to zero what is not kept.
func mask(x, kept *graph.Node) *graph.Node {
	return graph.Where(kept, x, graph.ScalarZero(x.Graph(), x.DType()))
}

// cumulateBlock is the longest running sum that is computed as one product with a triangular matrix.
const cumulateBlock = 128

// cumulate returns running sums along axis 1 of [B,V]. Products with a triangular matrix cost little on every backend;
// graph.CumSum is a window as wide as the axis, which the Go backend sums anew for each element.
func cumulate(x *graph.Node) *graph.Node {
	g, dtype := x.Graph(), x.DType()
	rows, width := x.Shape().Dim(0), x.Shape().Dim(1)
	if width <= cumulateBlock {
		return graph.DotGeneral(x, []int{1}, nil, graph.ConvertDType(graph.UpperTriangular(g, width), dtype), []int{0}, nil)
	}
	blocks := (width + cumulateBlock - 1) / cumulateBlock
	if fill := blocks*cumulateBlock - width; fill > 0 {
		x = graph.Concatenate([]*graph.Node{x, graph.Zeros(g, shapes.Make(dtype, rows, fill))}, 1)
	}
	inner := cumulate(graph.Reshape(x, rows*blocks, cumulateBlock))
	outer := cumulate(graph.Reshape(graph.Slice(inner, graph.AxisRange(), graph.AxisElem(-1)), rows, blocks))
	outer = graph.Slice(outer, graph.AxisRange(), graph.AxisRange(0, -1))
	outer = graph.Concatenate([]*graph.Node{graph.Zeros(g, shapes.Make(dtype, rows, 1)), outer}, 1) // sums before each block
	sums := graph.Add(graph.Reshape(inner, rows, blocks, cumulateBlock), graph.ExpandAxes(outer, 2))
	return graph.Slice(graph.Reshape(sums, rows, blocks*cumulateBlock), graph.AxisRange(), graph.AxisRange(0, width))
}
