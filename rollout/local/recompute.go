package local

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/policy"
)

// recompute lets a policy without a cache of its own be used like one that has: its cache is the tokens so far, and every
// Extend computes all of them.
type recompute struct{ policy.Policy }

// Cache is the tokens, [rows,capacity] int32.
func (recompute) Cache(rows, capacity int, _ dtypes.DType) []shapes.Shape {
	return []shapes.Shape{shapes.Make(dtypes.Int32, rows, capacity)}
}

// Extend puts the tokens into their slots and computes the whole rows.
func (r recompute) Extend(w policy.Vars, cache []*graph.Node, in policy.Inputs) (hidden *graph.Node, next []*graph.Node) {
	g, old := in.Tokens.Graph(), cache[0]
	rows, width, capacity := old.Shape().Dim(0), in.Tokens.Shape().Dim(1), old.Shape().Dim(1)
	// Row i of x [n,…] for each i of the indices.
	take := func(x, indices *graph.Node) *graph.Node { return graph.Gather(x, graph.ExpandAxes(indices, -1)) }

	// Which of the new tokens belongs into each slot.
	which := graph.Sub(graph.Iota(g, shapes.Make(dtypes.Int32, capacity), 0), in.Start)
	first, last := graph.Const(g, int32(0)), graph.Const(g, int32(width-1))
	isNew := graph.LogicalAnd(graph.GreaterOrEqual(which, first), graph.LessOrEqual(which, last))
	added := graph.Transpose(take(graph.Transpose(in.Tokens, 0, 1), graph.Min(graph.Max(which, first), last)), 0, 1)
	tokens := graph.Where(graph.BroadcastToDims(graph.Reshape(isNew, 1, capacity), rows, capacity), added, old)

	all := r.Hidden(w, policy.Inputs{Tokens: tokens, Pad: in.Pad})
	slots := graph.Add(graph.Iota(g, shapes.Make(dtypes.Int32, width), 0), in.Start)
	return graph.Transpose(take(graph.Transpose(all, 0, 1), slots), 0, 1), []*graph.Node{tokens}
}
