package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/policy"
)

// attention is how the tokens of a batch see each other and the cache in one layer: rotated queries [n,Heads,HeadDim], rotated
// keys and values [n,KVHeads,HeadDim], to mixed values [n,Heads*HeadDim].
type attention func(layer int, q, k, v *graph.Node) *graph.Node

// masked is the score of keys that a query must not see. It is finite: a row of filler, which sees nothing, gets some average
// and not NaN.
const masked = float32(-1e9)

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

// queries are headsFirst, scaled.
func (d *Decoder) queries(q *graph.Node, rows int) *graph.Node {
	return d.headsFirst(graph.MulScalar(q, d.cfg.AttentionScale), rows)
}

// scores of queries [B,KVHeads,r,HeadDim] for keys [B,KVHeads,S,HeadDim], float32 [B,KVHeads,r,S]. The mask may be nil.
func scores(q, k, mask *graph.Node) *graph.Node {
	s := dot32(q, k).General([]int{3}, []int{0, 1}, []int{3}, []int{0, 1})
	if mask != nil {
		s = graph.Where(mask, s, graph.Const(s.Graph(), masked))
	}
	return s
}

// dot32 prepares a product with a float32 result.
func dot32(a, b *graph.Node) *graph.DotBuilder {
	dot := graph.Dot(a, b)
	if a.DType() != dtypes.Float32 {
		dot = dot.WithOutputDType(dtypes.Float32)
	}
	return dot
}

// highest is the largest score of each query, [B,KVHeads,r,1]. Subtracting it keeps exp in range and does not change the
// softmax, so no gradient flows through it.
func highest(s *graph.Node) *graph.Node {
	return graph.StopGradient(graph.ReduceAndKeep(s, graph.ReduceMax, -1))
}

// weigh sums exp(s-top) times the values [B,KVHeads,S,HeadDim] over the keys, and exp(s-top) alone: float32
// [B,KVHeads,r,HeadDim] and [B,KVHeads,r,1]. Their quotient is attention; it is taken last, on the smaller array.
func weigh(s, top, v *graph.Node) (sum, total *graph.Node) {
	e := graph.Exp(graph.Sub(s, top))
	sum = dot32(graph.ConvertDType(e, v.DType()), v).General([]int{3}, []int{0, 1}, []int{2}, []int{0, 1})
	return sum, graph.ReduceAndKeep(e, graph.ReduceSum, -1)
}

// mixed is what weigh's sums amount to, [B,width,Heads*HeadDim] in the dtype of the computation.
func (d *Decoder) mixed(sum, total *graph.Node, dtype dtypes.DType) *graph.Node {
	return d.headsLast(graph.ConvertDType(graph.Mul(sum, graph.Reciprocal(total)), dtype))
}

// attend is attention of queries for keys under a mask, [B,width,Heads*HeadDim].
func (d *Decoder) attend(q, k, v, mask *graph.Node) *graph.Node {
	s := scores(q, k, mask)
	sum, total := weigh(s, highest(s), v)
	return d.mixed(sum, total, v.DType())
}

// mask tells which keys a query sees: those in slots from pad [B] (nil: 0) up to its own, of which only the last window ones (0:
// all). Query slots are [width]; nil: behind all keys, and no window. It is boolean, a quarter of float32's memory, and written
// out as [rows,KVHeads,width*Heads/KVHeads,S] once for all layers; it is nil if nothing is hidden.
func (d *Decoder) mask(querySlots, keySlots, pad *graph.Node, window, rows, width int) *graph.Node {
	c, s := d.cfg, keySlots.Shape().Dim(0)
	keys := graph.Reshape(keySlots, 1, 1, s)
	var seen *graph.Node
	if querySlots != nil {
		queries := graph.Reshape(querySlots, 1, width, 1)
		seen = graph.LessOrEqual(keys, queries)
		if window > 0 {
			seen = graph.LogicalAnd(seen, graph.GreaterThan(keys, graph.AddScalar(queries, -window)))
		}
	}
	if pad != nil {
		unpadded := graph.GreaterOrEqual(keys, graph.Reshape(pad, -1, 1, 1))
		if seen == nil {
			seen = unpadded
		} else {
			seen = graph.LogicalAnd(seen, unpadded)
		}
	}
	if seen == nil {
		return nil
	}
	dims := seen.Shape().Dimensions
	m := graph.Reshape(seen, dims[0], 1, dims[1], 1, s)
	m = graph.BroadcastToDims(m, rows, c.KVHeads, width, c.Heads/c.KVHeads, s)
	return graph.Reshape(m, rows, c.KVHeads, -1, s)
}

// span is a range of positions.
type span struct{ start, end int }

// blocks cuts width queries into pieces of QueryBlock.
func (d *Decoder) blocks(width int) (spans []span) {
	for start := 0; start < width; start += d.cfg.QueryBlock {
		spans = append(spans, span{start, min(start+d.cfg.QueryBlock, width)})
	}
	return spans
}

// inBlocks attends with one block of the queries [B,KVHeads,width*Heads/KVHeads,HeadDim] after the other and returns all mixed
// values, [B*width,Heads*HeadDim]. The barrier keeps the compiler from computing the scores of several blocks at once.
func (d *Decoder) inBlocks(spans []span, q *graph.Node, attend func(i int, block *graph.Node) *graph.Node) *graph.Node {
	share := d.cfg.Heads / d.cfg.KVHeads
	out := make([]*graph.Node, len(spans))
	for i, s := range spans {
		block := part(q, 2, s.start*share, s.end*share)
		if i > 0 {
			block = graph.SchedulingBarrier(block, out[i-1])
		}
		out[i] = attend(i, block)
	}
	if len(out) == 1 {
		return flat(out[0])
	}
	return flat(graph.Concatenate(out, 1))
}

// view is the keys of one block of queries, and which of them each query sees.
type view struct {
	keys span
	mask *graph.Node
}

// window is how many tokens a layer's attention sees among size of them; 0: all.
func (d *Decoder) window(layer, size int) int {
	if w := d.at(layer).Window; w < size {
		return w
	}
	return 0
}

// byWindow makes what depends on the layers' windows once for each window.
func byWindow[T any](d *Decoder, size int, build func(window int) T) (of func(layer int) T) {
	built := map[int]T{}
	for i := range d.cfg.Layers {
		if d.at(i).Recurrent {
			continue
		}
		w := d.window(i, size)
		if _, ok := built[w]; !ok {
			built[w] = build(w)
		}
	}
	return func(layer int) T { return built[d.window(layer, size)] }
}

// first is the first of the slots that a query in a slot sees.
func first(slot, window int) int {
	if window == 0 {
		return 0
	}
	return max(0, slot-window+1)
}

// views are those of blocks of queries in width slots of rows, for keys in the same slots.
func (d *Decoder) views(g *graph.Graph, spans []span, pad *graph.Node, window, rows, width int) []view {
	slots := slotsOf(g, nil, width)
	out := make([]view, len(spans))
	for i, s := range spans {
		keys := span{first(s.start, window), s.end}
		out[i] = view{keys, d.mask(part(slots, 0, s.start, s.end), part(slots, 0, keys.start, keys.end), pad, window, rows, s.end-s.start)}
	}
	return out
}

// within is attention inside rows of tokens, in blocks of queries, each for the keys that one of its queries sees.
func (d *Decoder) within(in policy.Inputs) attention {
	rows, width := in.Tokens.Shape().Dim(0), in.Tokens.Shape().Dim(1)
	spans := d.blocks(width)
	views := byWindow(d, width, func(window int) []view { return d.views(in.Tokens.Graph(), spans, in.Pad, window, rows, width) })
	return func(layer int, q, k, v *graph.Node) *graph.Node {
		views := views(layer)
		k, v = d.headsFirst(k, rows), d.headsFirst(v, rows)
		return d.inBlocks(spans, d.queries(q, rows), func(i int, block *graph.Node) *graph.Node {
			keys := views[i].keys
			return d.attend(block, part(k, 2, keys.start, keys.end), part(v, 2, keys.start, keys.end), views[i].mask)
		})
	}
}

// part is x from start to end on one axis.
func part(x *graph.Node, axis, start, end int) *graph.Node {
	if start == 0 && end == x.Shape().Dim(axis) {
		return x
	}
	return graph.SliceAxis(x, axis, graph.AxisRange(start, end))
}

// flat joins the two leading axes.
func flat(x *graph.Node) *graph.Node {
	dims := x.Shape().Dimensions
	return graph.Reshape(x, append([]int{dims[0] * dims[1]}, dims[2:]...)...)
}
