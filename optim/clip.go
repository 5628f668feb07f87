package optim

import "github.com/gomlx/gomlx/core/graph"

// ClipGlobalNorm scales all gradients by min(1, maxNorm/(norm+1e-6)), where norm is the Euclidean norm over all of them, as
// PyTorch's clip_grad_norm_ does; maxNorm 0 leaves them alone. It returns the gradients, the norm before clipping (a
// scalar) and the norm of each gradient ([len(grads)]).
func ClipGlobalNorm(grads []*graph.Node, maxNorm float64) (clipped []*graph.Node, norm, norms *graph.Node) {
	squares := make([]*graph.Node, len(grads))
	for i, g := range grads {
		squares[i] = graph.ReduceAllSum(graph.Square(g))
	}
	all := graph.Stack(squares, 0)
	norm, norms = graph.Sqrt(graph.ReduceAllSum(all)), graph.Sqrt(all)
	if maxNorm == 0 {
		return grads, norm, norms
	}
	scale := graph.MinScalar(graph.Div(graph.ConstAs(norm, maxNorm), graph.AddScalar(norm, 1e-6)), 1)
	clipped = make([]*graph.Node, len(grads))
	for i, g := range grads {
		clipped[i] = graph.Mul(g, scale)
	}
	return clipped, norm, norms
}
