package decoder

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/policy"
)

// Cache gives, for each layer, the shapes of its keys and of its values: [rows,KVHeads,capacity,HeadDim] both, in the dtype of the
// computation. In place of these a gated DeltaNet layer has the last inputs of its convolution, [rows,Kernel-1,channels] in that dtype,
// and its state, [rows,ValueHeads,KeyDim,ValueDim] in float32, neither of which depends on the capacity. Extend takes caches of
// any float dtype.
func (d *Decoder) Cache(rows, capacity int, dtype dtypes.DType) []shapes.Shape {
	out := make([]shapes.Shape, 0, 2*d.cfg.Layers)
	for i := range d.cfg.Layers {
		if n := d.cfg.DeltaNet; d.at(i).Recurrent {
			out = append(out, shapes.Make(dtype, rows, n.Kernel-1, n.channels()),
				shapes.Make(dtypes.Float32, rows, n.ValueHeads, n.KeyDim, n.ValueDim))
			continue
		}
		keys := shapes.Make(dtype, rows, d.cfg.KVHeads, capacity, d.cfg.HeadDim)
		out = append(out, keys, keys)
	}
	return out
}

// Extend appends T tokens to every row, in slots Start … Start+T-1, which must lie within the cache. It can stand in the body of a
// loop if weights, cache and inputs are the loop's state.
func (d *Decoder) Extend(w policy.Vars, cache []*graph.Node, in policy.Inputs) (hidden *graph.Node, next []*graph.Node) {
	c := d.cfg
	g, rows, width := in.Tokens.Graph(), in.Tokens.Shape().Dim(0), in.Tokens.Shape().Dim(1)
	capacity := 0
	for i := range c.Layers {
		if !d.at(i).Recurrent {
			capacity = cache[2*i].Shape().Dim(2)
		}
	}
	if in.Start == nil {
		in.Start = graph.Const(g, int32(0))
	}
	slots := slotsOf(g, in.Start, width)
	spans := d.blocks(width)
	masks := byWindow(d, capacity, func(window int) []*graph.Node {
		keySlots, masks := slotsOf(g, nil, capacity), make([]*graph.Node, len(spans))
		for i, s := range spans {
			masks[i] = d.mask(part(slots, 0, s.start, s.end), keySlots, in.Pad, window, rows, s.end-s.start)
		}
		return masks
	})
	next = make([]*graph.Node, len(cache))
	attend := func(layer int, q, k, v *graph.Node) *graph.Node {
		write := func(old, x *graph.Node) *graph.Node {
			return overwrite(old, graph.ConvertDType(d.headsFirst(x, rows), old.DType()), in.Start)
		}
		keys, values := write(cache[2*layer], k), write(cache[2*layer+1], v)
		next[2*layer], next[2*layer+1] = keys, values
		keys, values = graph.ConvertDType(keys, q.DType()), graph.ConvertDType(values, q.DType())
		return d.inBlocks(spans, d.queries(q, rows), func(i int, block *graph.Node) *graph.Node {
			return d.attend(block, keys, values, masks(layer)[i])
		})
	}
	x := d.forward(w, flat(in.Tokens), flat(positionsOf(in)), mixing{attend, d.recurFrom(cache, next, in)})
	return graph.Reshape(x, rows, width, c.Hidden), next
}

// overwrite puts x [B,H,T,D] into slots start … start+T-1 of a cache [B,H,S,D].
func overwrite(cache, x, start *graph.Node) *graph.Node {
	g := cache.Graph()
	if g.Backend().Capabilities().Operations[compute.OpTypeDynamicUpdateSlice] {
		zero := graph.Const(g, int32(0))
		return graph.DynamicUpdateSlice(cache, x, []*graph.Node{zero, zero, start, zero})
	}
	// The slots' old values are subtracted and the new ones added, so that the result is exact: -old+old is 0.
	b, h, s, width := cache.Shape().Dim(0), cache.Shape().Dim(1), cache.Shape().Dim(2), x.Shape().Dim(2)
	first := graph.MulScalar(graph.Iota(g, shapes.Make(dtypes.Int32, b*h, width), 0), s)
	at := graph.Add(graph.Add(first, graph.Iota(g, shapes.Make(dtypes.Int32, b*h, width), 1)), start)
	at = graph.Reshape(at, b*h*width, 1)
	lines := graph.Reshape(cache, b*h*s, -1)
	old := graph.Gather(lines, at, true)
	lines = graph.ScatterSum(lines, at, graph.Neg(old), true, true)
	lines = graph.ScatterSum(lines, at, graph.Reshape(x, b*h*width, -1), true, true)
	return graph.Reshape(lines, cache.Shape().Dimensions...)
}
