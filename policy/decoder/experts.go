package decoder

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
)

// experts is the mixture of experts' output for normed states h [n,D]: one MLP as wide as all experts together, whose hidden units
// are weighted by their expert's share of the token.
func (l layerVars) experts(h *graph.Node) *graph.Node {
	e := l.d.cfg.Experts
	// together joins the experts' matrices of a role on one axis.
	together := func(role Role, axis int) *graph.Node {
		all := make([]*graph.Node, e.Count)
		for i := range all {
			all[i] = l.get(tensor{role: role, layer: l.layer, expert: i})
		}
		return graph.Concatenate(all, axis)
	}
	gate, up := matmul(h, together(ExpertGate, 0), h.DType()), matmul(h, together(ExpertUp, 0), h.DType())
	hidden := graph.Reshape(graph.Mul(l.d.activate(gate), up), -1, e.Count, e.Intermediate)
	shares := graph.ConvertDType(e.shares(matmul(h, l.weight(Router), dtypes.Float32)), h.DType())
	hidden = graph.Mul(hidden, graph.ExpandAxes(shares, -1))
	return matmul(graph.Reshape(hidden, -1, e.Count*e.Intermediate), together(ExpertDown, 1), h.DType())
}

// shares gives each expert's share of each token, [n,Count] float32, from the router's outputs: 0 for those that are not chosen. Of
// equal experts the first is chosen. Sorting is not used, because XLA cannot sort inside a loop.
func (e Experts) shares(routed *graph.Node) *graph.Node {
	p := graph.Softmax(routed, -1)
	left := graph.StopGradient(p)
	var chosen *graph.Node
	for range e.Chosen {
		one := graph.OneHot(graph.ArgMax(left, -1, dtypes.Int32), e.Count, dtypes.Float32)
		left = graph.Sub(left, graph.MulScalar(one, 2)) // below every share that is left
		if chosen == nil {
			chosen = one
		} else {
			chosen = graph.Add(chosen, one)
		}
	}
	p = graph.Mul(p, chosen)
	if e.Renormalize {
		p = graph.Div(p, graph.ReduceAndKeep(p, graph.ReduceSum, -1))
	}
	return p
}
