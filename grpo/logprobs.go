package grpo

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/internal/reduce"
	"github.com/grouper-rl/grouper/policy"
)

// LogProbs builds the graph of log_softmax(logits/temperature)[token] and of the entropy of that distribution, in nats, both
// float32 of tokens' shape. Hidden is [N,T,D], the state that predicts each token; tokens is [N,T] int32.
//
// Logits are made for chunk positions at a time (0: all at once) and made again for the gradient, one chunk after the
// other, so that no more than a few arrays [chunk,V] exist together.
func LogProbs(p policy.Policy, w policy.Vars, hidden, tokens *graph.Node, temperature float64, chunk int) (logp, entropy *graph.Node) {
	positions, width := tokens.Shape().Size(), hidden.Shape().Dim(-1)
	flat, ids := graph.Reshape(hidden, positions, width), graph.Reshape(tokens, positions)
	shape := tokens.Shape().Dimensions
	if chunk <= 0 || chunk >= positions {
		logp, entropy = tokenLogProbs(p.Logits(w, flat), ids, temperature)
		return graph.Reshape(logp, shape...), graph.Reshape(entropy, shape...)
	}
	var logps, entropies []*graph.Node
	var queue queue
	for start := 0; start < positions; start += chunk {
		piece := graph.AxisRange(start, min(start+chunk, positions))
		states := queue.enter(graph.Slice(flat, piece, graph.AxisRange()))
		next := make(policy.Vars, len(w))
		for i, v := range w { // each from the one before, so that the gradient is added up from piece to piece
			next[i] = queue.watch(v)
		}
		w = next
		l, e := tokenLogProbs(p.Logits(w, states), graph.Slice(ids, piece), temperature)
		logps, entropies = append(logps, queue.leave(l)), append(entropies, queue.leave(e))
	}
	return graph.Reshape(graph.Concatenate(logps, 0), shape...), graph.Reshape(graph.Concatenate(entropies, 0), shape...)
}

// queue makes checkpointed pieces of a graph wait for each other, forward from the first to the last and in the gradient from
// the last to the first. A compiler that is free to run independent pieces together keeps the memory of all of them.
type queue struct {
	forward  []*graph.Node // marks of the piece before
	backward []*graph.Node // marks of the gradient of the piece behind
	next     []*graph.Node // marks of the gradient of this piece
}

// enter is where a piece reads what differs from piece to piece.
func (q *queue) enter(x *graph.Node) *graph.Node {
	x = after(x, q.forward)
	q.forward = nil
	return q.watch(x.Checkpoint())
}

// watch makes the gradients of pieces to come wait for that of an input of this one.
func (q *queue) watch(x *graph.Node) *graph.Node {
	return graph.IdentityWithCustomGradient(x, func(_, v *graph.Node) *graph.Node {
		q.next = append(q.next, mark(v))
		return v
	})
}

// leave is where the outputs of a piece go out. Gradients are built from the last node to the first.
func (q *queue) leave(x *graph.Node) *graph.Node {
	x = x.StopCheckpoint()
	q.forward = append(q.forward, mark(x))
	return graph.IdentityWithCustomGradient(x, func(_, v *graph.Node) *graph.Node {
		if q.next != nil {
			q.backward, q.next = q.next, nil
		}
		return after(v, q.backward)
	})
}

// after is x, once the marked nodes are done.
func after(x *graph.Node, marks []*graph.Node) *graph.Node {
	if len(marks) == 0 {
		return x
	}
	return graph.SchedulingBarrier(x, marks...)
}

// mark is something to wait for in x's stead. On XLA a SchedulingBarrier adds 0 times what it waits for, which would spread
// a NaN: a mark is a bool.
func mark(x *graph.Node) *graph.Node {
	first := graph.Slice(graph.Reshape(x, x.Shape().Size()), graph.AxisRange(0, 1))
	return graph.GreaterThan(first, graph.ZerosLike(first))
}

// tokenLogProbs takes float logits [n,V] and tokens [n].
func tokenLogProbs(logits, tokens *graph.Node, temperature float64) (logp, entropy *graph.Node) {
	if temperature != 1 {
		logits = graph.DivScalar(logits, temperature)
	}
	highest := graph.StopGradient(graph.ReduceAndKeep(logits, graph.ReduceMax, -1))
	shifted := graph.Sub(logits, highest)
	exp := graph.Exp(shifted)
	total := reduce.Sum(exp)
	logTotal := graph.Squeeze(graph.Log(total), -1)
	ids := graph.Iota(logits.Graph(), shapes.Make(dtypes.Int32, logits.Shape().Dimensions...), -1)
	zeros := graph.ZerosLike(shifted)
	// Selecting and summing is cheaper than a gather, whose gradient is a scatter.
	chosen := graph.Where(graph.Equal(ids, graph.BroadcastToDims(graph.ExpandAxes(tokens, -1), ids.Shape().Dimensions...)), shifted, zeros)
	logp = graph.Sub(graph.ReduceSum(chosen, -1), logTotal)
	// -Σ p·log p = log Z - Σ p·shifted; tokens of probability 0 may have a logit of -Inf.
	finite := graph.Where(graph.GreaterThan(exp, zeros), shifted, zeros)
	mean := graph.Squeeze(reduce.Sum(graph.Mul(graph.Div(exp, total), finite)), -1)
	return logp, graph.Sub(logTotal, mean)
}
