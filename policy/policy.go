// Package policy says what Grouper asks of a policy: a network that maps tokens to hidden states and hidden states to
// logits, written as pure functions over GoMLX graph nodes. Weights go in and come out as lists in the order of Params.
package policy

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Param describes one weight tensor.
type Param struct {
	Name  string       // unique; for Hugging Face models the tensor's name there
	Shape shapes.Shape // dimensions and the dtype that it is stored and exported in
	Decay bool         // whether weight decay applies (norms and biases: no)
	Axes  []string     // a logical name for each dimension, for sharding: "vocab", "embed", "heads", "mlp", …
	// Float32 asks for it in float32 among the Vars, whatever the dtype of the computation.
	Float32 bool
}

// ComputeDType is the dtype in which a computation in c gets the weight.
func (p Param) ComputeDType(c dtypes.DType) dtypes.DType {
	if p.Float32 {
		return dtypes.Float32
	}
	return c
}

// Vars are the weights as graph nodes, in the order of Params. Their dtype is that of the computation, which need not be
// the stored one; see [Param.ComputeDType].
type Vars []*graph.Node

// Inputs is a batch of B rows of T tokens. Rows may be padded on the left with filler tokens that nothing attends to.
// Filler on the right needs no mark: attention is causal, so nothing before it sees it.
type Inputs struct {
	Tokens *graph.Node // [B,T] int32
	Pad    *graph.Node // [B] int32: how many filler tokens stand at the left of each row; nil: none
	Start  *graph.Node // scalar int32, Extend only: the cache slot of Tokens[:,0]
	// The position of Tokens[b,t] is max(0, Start + t - Pad[b]), with Start 0 where there is no cache.
}

// Groups is a training batch in which N consecutive completions continue one prompt.
type Groups struct {
	Prompts     Inputs      // [G,P], padded on the left, so that the last token of each prompt stands at P-1
	Completions *graph.Node // [G*N,T] int32, padded on the right; rows g*N … g*N+N-1 continue prompt g
}

// Policy is a causal language model.
//
// A policy with settings implements json.Marshaler: they are recorded with the run, which then does not go on with others.
type Policy interface {
	// Params lists the weights in a fixed order.
	Params() []Param
	// VocabSize is V, the number of token ids.
	VocabSize() int
	// MaxPositions is the longest sequence, prompt and completion together, that the model is made for.
	MaxPositions() int
	// Hidden returns the final hidden states [B,T,D]; the state of token t predicts token t+1.
	Hidden(w Vars, in Inputs) *graph.Node
	// Logits maps hidden states [N,D] to float32 logits [N,V].
	Logits(w Vars, hidden *graph.Node) *graph.Node
}

// Incremental is a policy that can go on from a cache of earlier tokens.
type Incremental interface {
	Policy
	// Cache gives the shapes of the cache arrays for a number of rows and of token slots, in a computation with the given
	// dtype. Axis 0 of each is the row. At most one axis of each depends on capacity; an array without one holds all that there is
	// to know of the earlier tokens, as the state of a recurrent layer does. Arrays start as zeros.
	Cache(rows, capacity int, compute dtypes.DType) []shapes.Shape
	// Extend appends T >= 1 tokens to every row, writing cache slots Start … Start+T-1, and returns their hidden states
	// [B,T,D] and the new cache. Slots below Pad[b] are never attended to. Prefill and decoding are both this method.
	Extend(w Vars, cache []*graph.Node, in Inputs) (hidden *graph.Node, next []*graph.Node)
}

// SharedPrompt is a policy that computes the prompt of a group once for all its completions
// (Prefix Grouper, arXiv 2506.05433), with the same result as separate rows.
type SharedPrompt interface {
	Policy
	// HiddenGroups is as [CompletionHidden].
	HiddenGroups(w Vars, in Groups) *graph.Node
}

// CompletionHidden returns [G*N,T+1,D]: for each completion the state of the prompt's last token, then the state of each of
// its own tokens. State t predicts completion token t. A policy without HiddenGroups gets separate rows.
func CompletionHidden(p Policy, w Vars, in Groups) *graph.Node {
	if s, ok := p.(SharedPrompt); ok {
		return s.HiddenGroups(w, in)
	}
	return CompletionHiddenSeparate(p, w, in)
}

// CompletionHiddenSeparate is [CompletionHidden] with the prompt repeated in each row, for any policy.
func CompletionHiddenSeparate(p Policy, w Vars, in Groups) *graph.Node {
	prompts := in.Prompts.Tokens
	g, width := prompts.Shape().Dim(0), prompts.Shape().Dim(1)
	rows := in.Completions.Shape().Dim(0)
	repeat := func(x *graph.Node) *graph.Node { // [G,…] -> [G*N,…]
		d := x.Shape().Dimensions
		wide := append([]int{g, rows / g}, d[1:]...)
		flat := append([]int{rows}, d[1:]...)
		return graph.Reshape(graph.BroadcastToDims(graph.ExpandAxes(x, 1), wide...), flat...)
	}
	row := Inputs{Tokens: graph.Concatenate([]*graph.Node{repeat(prompts), in.Completions}, 1)}
	if in.Prompts.Pad != nil {
		row.Pad = repeat(in.Prompts.Pad)
	}
	hidden := p.Hidden(w, row)
	return graph.Slice(hidden, graph.AxisRange(), graph.AxisRange(width-1), graph.AxisRange())
}
