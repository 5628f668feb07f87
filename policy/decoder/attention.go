package decoder

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/policy"
)

// attention is how the tokens of a batch see each other and the cache in one layer: rotated queries [n,Heads,HeadDim], rotated
// keys and values [n,KVHeads,HeadDim], to mixed values [n,Heads*HeadDim].
type attention func(layer int, q, k, v *graph.Node) *graph.Node

// masked is added to the scores of keys that a query must not see. It is finite: a row of filler, which sees nothing, gets
// some average and not NaN.
const masked = -1e9

// headsFirst turns n = rows*width tokens [n,heads,HeadDim] into [rows,KVHeads,width*heads/KVHeads,HeadDim]: the queries
// that share a key head become rows of one matrix, and keys are never repeated.
func (d *Decoder) headsFirst(x *graph.Node, rows int) *graph.Node {
	c := d.cfg
	x = graph.Reshape(x, rows, -1, c.KVHeads, x.Shape().Dim(1)/c.KVHeads*c.HeadDim)
	return graph.Reshape(graph.TransposeAllAxes(x, 0, 2, 1, 3), rows, c.KVHeads, -1, c.HeadDim)
}

// headsLast undoes headsFirst for x [rows,KVHeads,width*Heads/KVHeads,dim]: [rows,width,Heads*dim].
func (d *Decoder) headsLast(x *graph.Node) *graph.Node {
	c, rows, dim := d.cfg, x.Shape().Dim(0), x.Shape().Dim(3)
	x = graph.Reshape(x, rows, c.KVHeads, -1, c.Heads/c.KVHeads*dim)
	return graph.Reshape(graph.TransposeAllAxes(x, 0, 2, 1, 3), rows, -1, c.Heads*dim)
}

// queries are headsFirst, scaled by HeadDim^-1/2.
func (d *Decoder) queries(q *graph.Node, rows int) *graph.Node {
	return d.headsFirst(graph.MulScalar(q, 1/math.Sqrt(float64(d.cfg.HeadDim))), rows)
}

// scores of queries [B,KVHeads,r,HeadDim] for keys [B,KVHeads,S,HeadDim], float32 [B,KVHeads,r,S]. The mask may be nil.
func scores(q, k, mask *graph.Node) *graph.Node {
	dot := graph.Dot(q, k)
	if q.DType() != dtypes.Float32 {
		dot = dot.WithOutputDType(dtypes.Float32)
	}
	s := dot.General([]int{3}, []int{0, 1}, []int{3}, []int{0, 1})
	if mask != nil {
		s = graph.Add(s, mask)
	}
	return s
}

// highest is the largest score of each query, [B,KVHeads,r,1]. Subtracting it keeps exp in range and does not change the softmax, so
// no gradient flows through it.
func highest(s *graph.Node) *graph.Node {
	return graph.StopGradient(graph.ReduceAndKeep(s, graph.ReduceMax, -1))
}

// gather sums exp(s-top) times the values [B,KVHeads,S,HeadDim] over the keys, and exp(s-top) alone: float32 [B,KVHeads,r,HeadDim]
// and [B,KVHeads,r,1]. Their quotient is attention; it is taken last, on the smaller array.
func gather(s, top, v *graph.Node) (sum, total *graph.Node) {
	e := graph.Exp(graph.Sub(s, top))
	sum = graph.DotGeneral(graph.ConvertDType(e, v.DType()), []int{3}, []int{0, 1}, v, []int{2}, []int{0, 1})
	return sum, graph.ReduceAndKeep(e, graph.ReduceSum, -1)
}

// attend is attention of queries for keys under a mask, [B,width,Heads*HeadDim].
func (d *Decoder) attend(q, k, v, mask *graph.Node) *graph.Node {
	s := scores(q, k, mask)
	sum, total := gather(s, highest(s), v)
	return d.headsLast(divide(sum, total))
}

// divide takes the quotient in float32 and casts it back.
func divide(sum, total *graph.Node) *graph.Node {
	q := graph.Mul(graph.ConvertDType(sum, dtypes.Float32), graph.Reciprocal(total))
	return graph.ConvertDType(q, sum.DType())
}

// mask lets a query see key slots from pad [B] (nil: 0) up to its own. It is additive, written out as
// [rows,KVHeads,width*Heads/KVHeads,S] once for all layers. Query slots are [width], nil: after all keys. It is nil if nothing is hidden.
func (d *Decoder) mask(querySlots, keySlots, pad *graph.Node, rows, width int) *graph.Node {
	c, s := d.cfg, keySlots.Shape().Dim(0)
	keys := graph.Reshape(keySlots, 1, 1, s)
	var seen *graph.Node
	if querySlots != nil {
		seen = graph.LessOrEqual(keys, graph.Reshape(querySlots, 1, width, 1))
	}
	if pad != nil {
		real := graph.GreaterOrEqual(keys, graph.Reshape(pad, -1, 1, 1))
		if seen == nil {
			seen = real
		} else {
			seen = graph.LogicalAnd(seen, real)
		}
	}
	if seen == nil {
		return nil
	}
	g, dims := seen.Graph(), seen.Shape().Dimensions
	zero, hide := graph.Zeros(g, shapes.Make(dtypes.Float32, dims...)), graph.BroadcastToDims(graph.Const(g, float32(masked)), dims...)
	m := graph.Reshape(graph.Where(seen, zero, hide), dims[0], 1, dims[1], 1, s)
	m = graph.BroadcastToDims(m, rows, c.KVHeads, width, c.Heads/c.KVHeads, s)
	return graph.Reshape(m, rows, c.KVHeads, -1, s)
}

// blocks cuts width queries into pieces of QueryBlock.
func (d *Decoder) blocks(width int) (spans [][2]int) {
	for start := 0; start < width; start += d.cfg.QueryBlock {
		spans = append(spans, [2]int{start, min(start+d.cfg.QueryBlock, width)})
	}
	return spans
}

// within is attention inside rows of tokens, in blocks of queries, each for the keys up to its end.
func (d *Decoder) within(in policy.Inputs) attention {
	rows, width := in.Tokens.Shape().Dim(0), in.Tokens.Shape().Dim(1)
	slots := slotsOf(in.Tokens.Graph(), nil, width)
	spans := d.blocks(width)
	masks := make([]*graph.Node, len(spans))
	for i, s := range spans {
		masks[i] = d.mask(part(slots, 0, s[0], s[1]), part(slots, 0, 0, s[1]), in.Pad, rows, s[1]-s[0])
	}
	return func(_ int, q, k, v *graph.Node) *graph.Node {
		q, k, v = d.queries(q, rows), d.headsFirst(k, rows), d.headsFirst(v, rows)
		share := d.cfg.Heads / d.cfg.KVHeads
		out := make([]*graph.Node, len(spans))
		for i, s := range spans {
			out[i] = d.attend(part(q, 2, s[0]*share, s[1]*share), part(k, 2, 0, s[1]), part(v, 2, 0, s[1]), masks[i])
		}
		return flat(join(out, 1))
	}
}

// part is x from start to end on one axis.
func part(x *graph.Node, axis, start, end int) *graph.Node {
	if start == 0 && end == x.Shape().Dim(axis) {
		return x
	}
	return graph.SliceAxis(x, axis, graph.AxisRange(start, end))
}

// join concatenates pieces along an axis.
func join(xs []*graph.Node, axis int) *graph.Node {
	if len(xs) == 1 {
		return xs[0]
	}
	return graph.Concatenate(xs, axis)
}

// flat joins the two leading axes.
func flat(x *graph.Node) *graph.Node {
	dims := x.Shape().Dimensions
	return graph.Reshape(x, append([]int{dims[0] * dims[1]}, dims[2:]...)...)
}
