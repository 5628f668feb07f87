package rollout

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:staticcheck // the graph's operations read as formulae
)

// Draw draws one token for each of B rows in a graph, as [Distribution] says but in float32. It takes float32 logits [B,V]
// and uniforms in [0,1) [B], and returns for each row the token, its log-prob over the whole vocabulary and its log-prob
// under the distribution that it was drawn from: [B] int32, float32, float32. The token of a row with a logit that is not
// finite is -1.
//
// Nothing is sorted, so that Draw can stand in the body of a loop.
func Draw(logits, uniform *Node, s Sampling) (token, full, filtered *Node) {
	g := logits.Graph()
	vocab := logits.Shape().Dim(1)
	ids := Iota(g, shapes.Make(dtypes.Int32, logits.Shape().Dimensions...), 1)
	none := Const(g, int32(vocab))
	z := Sub(logits, ReduceAndKeep(logits, ReduceMax, 1))
	if s.Temperature != 0 {
		z = DivScalar(z, s.Temperature)
	}
	weight := Exp(z)
	logSum := Log(ReduceSum(weight, 1))
	if s.Temperature == 0 {
		token = ReduceMin(Where(Equal(z, ZerosLike(z)), ids, none), 1)
		filtered = ZerosLike(uniform)
	} else {
		weight = mask(weight, keep(logits, weight, s))
		sums := cumulate(weight)
		total := Slice(sums, AxisRange(), AxisElem(-1)) // [B,1]
		kept := GreaterThan(weight, ZerosLike(weight))
		above := LogicalAnd(kept, GreaterThan(sums, Mul(ExpandAxes(uniform, 1), total)))
		last := ReduceMax(Where(kept, ids, Const(g, int32(0))), 1) // for a product that rounds up to the total
		token = Min(last, ReduceMin(Where(above, ids, none), 1))
		filtered = Neg(Log(Reshape(total, -1)))
	}
	chosen := ReduceSum(mask(z, Equal(ids, ExpandAxes(token, 1))), 1)
	full = Sub(chosen, logSum)
	if s.Temperature != 0 {
		filtered = Add(chosen, filtered)
	}
	return Where(LogicalAll(IsFinite(logits), 1), token, Const(g, int32(-1))), full, filtered
}

// keep says which tokens the filters keep, bool [B,V]. The weights are exp(logits/T) with 1 for the likeliest token.
func keep(logits, weight *Node, s Sampling) *Node {
	kept := Equal(logits, logits)
	if s.Order == VLLM && s.MinP > 0 {
		kept = minP(weight, s.MinP)
	}
	if s.TopK > 0 && s.TopK < logits.Shape().Dim(1) {
		b := border{stay: s.Order != Joint}
		limit := MulScalar(Ones(logits.Graph(), shapes.Make(dtypes.Float32, logits.Shape().Dim(0), 1)), s.TopK)
		kept = LogicalAnd(kept, b.within(logits, OnesLike(weight), limit))
	}
	if s.TopP > 0 && s.TopP < 1 {
		b := border{highFirst: true}
		if s.Order == Joint {
			b = border{inclusive: true}
		} else {
			weight = mask(weight, kept)
		}
		limit := MulScalar(ReduceAndKeep(weight, ReduceSum, 1), math.Max(s.TopP, 1e-30)) // not 0 in float32
		kept = LogicalAnd(kept, b.within(logits, weight, limit))
	}
	if s.Order != VLLM && s.MinP > 0 {
		kept = LogicalAnd(kept, minP(weight, s.MinP))
	}
	return kept
}

func minP(weight *Node, p float64) *Node {
	return GreaterOrEqual(weight, Scalar(weight.Graph(), weight.DType(), p))
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
func (b border) within(logits, weight, limit *Node) *Node {
	if logits.Shape().Dim(1) <= pairwiseLimit {
		return b.pairwise(logits, weight, limit)
	}
	return b.bisect(logits, weight, limit)
}

// pairwise compares each token with every other.
func (b border) pairwise(logits, weight, limit *Node) *Node {
	rows, vocab := logits.Shape().Dim(0), logits.Shape().Dim(1)
	own, other := ExpandAxes(logits, 2), ExpandAxes(logits, 1)
	first := GreaterThan(other, own) // [B,i,j]: whether token j comes before token i
	if !b.stay {
		ids := shapes.Make(dtypes.Int32, 1, vocab, vocab)
		i, j := Iota(logits.Graph(), ids, 1), Iota(logits.Graph(), ids, 2)
		if b.highFirst {
			i, j = j, i
		}
		first = LogicalOr(first, LogicalAnd(Equal(other, own), LessThan(j, i)))
	}
	weights := BroadcastToDims(ExpandAxes(weight, 1), rows, vocab, vocab)
	return b.short(ReduceSum(mask(weights, first), 2), limit)
}

// bisect finds the smallest float with less than the limit above it, by bisection over float32's bits. Everything above
// that float is kept, everything below is dropped, and what equals it is counted by id.
func (b border) bisect(logits, weight, limit *Node) *Node {
	g := logits.Graph()
	above := func(key *Node) *Node {
		return ReduceAndKeep(mask(weight, GreaterThan(logits, unkey(key))), ReduceSum, 1)
	}
	low := BroadcastToDims(Const(g, int32(^infinityKey)), logits.Shape().Dim(0), 1)
	high := BroadcastToDims(Const(g, int32(infinityKey)), logits.Shape().Dim(0), 1)
	for range 32 {
		// The mean of low and high, rounded down, without overflow.
		middle := Add(BitwiseAnd(low, high), BitwiseShiftRightArithmeticScalar(BitwiseXor(low, high), int32(1)))
		enough := b.short(above(middle), limit)
		low, high = Where(enough, low, AddScalar(middle, 1)), Where(enough, middle, high)
	}
	threshold := unkey(high)
	if b.stay {
		return GreaterOrEqual(logits, threshold)
	}
	equal := Equal(logits, threshold)
	ties := mask(OnesLike(weight), equal)
	earlier := cumulate(ties)
	if b.highFirst {
		earlier = Sub(Slice(earlier, AxisRange(), AxisElem(-1)), earlier)
	} else {
		earlier = Sub(earlier, ties)
	}
	before := Add(above(high), Mul(earlier, weight))
	return LogicalOr(GreaterThan(logits, threshold), LogicalAnd(equal, b.short(before, limit)))
}

// short says whether the weight before a token is short of the limit.
func (b border) short(before, limit *Node) *Node {
	if b.inclusive {
		return LessOrEqual(before, limit)
	}
	return LessThan(before, limit)
}

// infinityKey is the key of +Inf. The key of a float32 is an int32 with the same order: its bits, all but the sign flipped
// if it is negative.
const infinityKey = 0x7f800000

// unkey turns keys into the floats that they belong to.
func unkey(key *Node) *Node {
	g := key.Graph()
	bits := Where(LessThan(key, Const(g, int32(0))), BitwiseXor(key, Const(g, int32(math.MaxInt32))), key)
	return Bitcast(bits, dtypes.Float32)
}

// mask sets to zero what is not kept.
func mask(x, kept *Node) *Node { return Where(kept, x, ScalarZero(x.Graph(), x.DType())) }

// cumulateBlock is the longest running sum that is computed as one product with a triangular matrix.
const cumulateBlock = 128

// cumulate returns running sums along axis 1 of [B,V]. Products with a triangular matrix cost little on every backend;
// graph.CumSum is a window as wide as the axis, which the Go backend sums anew for each element.
func cumulate(x *Node) *Node {
	g, dtype := x.Graph(), x.DType()
	rows, width := x.Shape().Dim(0), x.Shape().Dim(1)
	if width <= cumulateBlock {
		return DotGeneral(x, []int{1}, nil, ConvertDType(UpperTriangular(g, width), dtype), []int{0}, nil)
	}
	blocks := (width + cumulateBlock - 1) / cumulateBlock
	if fill := blocks*cumulateBlock - width; fill > 0 {
		x = Concatenate([]*Node{x, Zeros(g, shapes.Make(dtype, rows, fill))}, 1)
	}
	inner := cumulate(Reshape(x, rows*blocks, cumulateBlock))
	outer := cumulate(Reshape(Slice(inner, AxisRange(), AxisElem(-1)), rows, blocks))
	before := Concatenate([]*Node{Zeros(g, shapes.Make(dtype, rows, 1)), Slice(outer, AxisRange(), AxisRange(0, -1))}, 1)
	sums := Add(Reshape(inner, rows, blocks, cumulateBlock), ExpandAxes(before, 2))
	return Slice(Reshape(sums, rows, blocks*cumulateBlock), AxisRange(), AxisRange(0, width))
}
