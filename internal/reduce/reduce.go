// Package reduce adds up long axes without losing digits.
package reduce

import "github.com/gomlx/gomlx/core/graph"

// block is the longest axis that is added up in one go.
const block = 512

// Sum is the sum of x [n,V] over its last axis, [n,1]. Backends may add one number to the running sum after the other, whose float32 rounding
// errors add up to some 1e-4 of the sum over a vocabulary of 50,000 tokens; so longer axes are summed by blocks, and then the sums of those.
func Sum(x *graph.Node) *graph.Node {
	n, width := x.Shape().Dim(0), x.Shape().Dim(1)
	if width <= block {
		return graph.ReduceAndKeep(x, graph.ReduceSum, 1)
	}
	whole := width / block * block
	inBlocks := func(x *graph.Node) *graph.Node { return graph.ReduceSum(graph.Reshape(x, n, whole/block, block), 2) }
	if whole == width {
		return Sum(inBlocks(x))
	}
	sums := inBlocks(graph.Slice(x, graph.AxisRange(), graph.AxisRange(0, whole)))
	rest := graph.ReduceAndKeep(graph.Slice(x, graph.AxisRange(), graph.AxisRange(whole)), graph.ReduceSum, 1)
	return Sum(graph.Concatenate([]*graph.Node{sums, rest}, 1))
}
