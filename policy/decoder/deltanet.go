package decoder

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/policy"
)

// DeltaNet configures gated DeltaNet layers (Gated Delta Networks, arXiv 2412.06464) as Qwen 3.5 has them. Queries, keys and values pass a
// short causal convolution, one for each channel, and SiLU. Each value head keeps a state [KeyDim,ValueDim], which all tokens of a row
// change in turn by the gated delta rule and read; what they read is normed over ValueDim and multiplied by the SiLU of a gate.
// The memory of a row does not grow with its length.
type DeltaNet struct {
	KeyHeads   int // heads of queries and keys
	ValueHeads int // heads of values; a multiple of KeyHeads: value head i has key head i/(ValueHeads/KeyHeads)
	KeyDim     int // width of a query or key
	ValueDim   int // width of a value
	Kernel     int // tokens that the convolution sees, the present one included; 2 or more
}

// channels of the convolution: queries, keys and values of all heads.
func (n DeltaNet) channels() int { return 2*n.KeyHeads*n.KeyDim + n.ValueHeads*n.ValueDim }

// size is about how many weights a layer has for each unit of Config.Hidden.
func (n DeltaNet) size() float64 {
	return 2*float64(n.KeyHeads)*float64(n.KeyDim) + 3*float64(n.ValueHeads)*float64(n.ValueDim) + 2*float64(n.ValueHeads)
}

func (n DeltaNet) validate() error {
	for _, f := range []struct {
		name       string
		value      int
		least, max int
	}{
		{"KeyHeads", n.KeyHeads, 1, 1 << 16}, {"ValueHeads", n.ValueHeads, 1, 1 << 16}, {"KeyDim", n.KeyDim, 1, 1 << 16},
		{"ValueDim", n.ValueDim, 1, 1 << 16}, {"Kernel", n.Kernel, 2, 1 << 10},
	} {
		if f.value < f.least || f.value > f.max {
			return fmt.Errorf("decoder config: DeltaNet.%s is %d, allowed: %d to %d", f.name, f.value, f.least, f.max)
		}
	}
	if n.ValueHeads%n.KeyHeads != 0 {
		return fmt.Errorf("decoder config: DeltaNet.ValueHeads is %d, allowed: a multiple of KeyHeads (%d)", n.ValueHeads, n.KeyHeads)
	}
	return nil
}

// deltaTokens are what n tokens bring to a gated DeltaNet layer.
type deltaTokens struct {
	mixed *graph.Node // [n,channels]: queries, keys and values, before the convolution
	decay *graph.Node // [n,ValueHeads] float32: logarithm of what a token leaves of the state
	rate  *graph.Node // [n,ValueHeads] float32: how far it corrects the state
}

// recurrence is how the tokens of a batch pass through the states of a layer: to what they read, float32 [n,ValueHeads*ValueDim].
type recurrence func(layer int, x deltaTokens, kernel *graph.Node) *graph.Node

// deltaNet is a gated DeltaNet layer's output for normed states h [n,D]. In half precision only the products with matrices are in it.
func (l layerVars) deltaNet(h *graph.Node, recur recurrence, keep func(*graph.Node) *graph.Node) *graph.Node {
	n := l.d.cfg.DeltaNet
	wide := func(x *graph.Node) *graph.Node { return graph.ConvertDType(x, dtypes.Float32) }
	row := func(role Role) *graph.Node { return graph.Reshape(wide(l.weight(role)), 1, -1) }
	step := graph.Softplus(graph.Add(wide(l.linear(DeltaStep, h)), row(DeltaStepBias)))
	x := deltaTokens{
		mixed: keep(l.linear(DeltaInput, h)),
		decay: keep(graph.Neg(graph.Mul(graph.Exp(row(DeltaLogDecay)), step))),
		rate:  keep(graph.Sigmoid(wide(l.linear(DeltaRate, h)))),
	}
	out := graph.Reshape(keep(recur(l.layer, x, l.weight(DeltaConvolution))), -1, n.ValueHeads, n.ValueDim)
	square := graph.ReduceAndKeep(graph.Mul(out, out), graph.ReduceMean, -1)
	out = graph.Div(out, graph.Sqrt(graph.AddScalar(square, l.d.cfg.NormEps)))
	out = graph.Mul(out, graph.ExpandLeftToRank(wide(l.weight(DeltaNorm)), 3))
	gate := wide(l.linear(DeltaGate, h))
	out = graph.Mul(graph.Reshape(out, -1, n.ValueHeads*n.ValueDim), graph.Mul(gate, graph.Sigmoid(gate)))
	return l.linear(DeltaOutput, graph.ConvertDType(out, h.DType()))
}

// memory is all that a gated DeltaNet layer knows of the earlier tokens of rows.
type memory struct {
	window *graph.Node // [B,Kernel-1,channels]: their last inputs of the convolution, oldest first
	state  *graph.Node // [B,ValueHeads,KeyDim,ValueDim] float32
}

// forgetful is the memory before the first token.
func (n DeltaNet) forgetful(g *graph.Graph, dtype dtypes.DType, rows int) memory {
	return memory{
		window: graph.Zeros(g, shapes.Make(dtype, rows, n.Kernel-1, n.channels())),
		state:  graph.Zeros(g, shapes.Make(dtypes.Float32, rows, n.ValueHeads, n.KeyDim, n.ValueDim)),
	}
}

// pass takes rows of tokens through a memory: what they read, [B*T,ValueHeads*ValueDim], and the memory after them. Where pad [B] (nil: none)
// is above the slots [T], tokens are filler. The inputs of filler are zero, so that a memory without earlier tokens stays as it is.
func (n DeltaNet) pass(x deltaTokens, kernel *graph.Node, before memory, slots, pad *graph.Node) (read *graph.Node, after memory) {
	rows := before.state.Shape().Dim(0)
	byRow := func(x *graph.Node) *graph.Node { return graph.Reshape(x, rows, -1, x.Shape().Dim(1)) }
	mixed := byRow(x.mixed)
	width := mixed.Shape().Dim(1)
	if pad != nil {
		real := graph.GreaterOrEqual(graph.Reshape(slots, 1, width, 1), graph.Reshape(pad, rows, 1, 1))
		mixed = graph.Mul(mixed, graph.ConvertDType(real, mixed.DType()))
	}
	window := graph.Concatenate([]*graph.Node{graph.ConvertDType(before.window, mixed.DType()), mixed}, 1)
	var sum *graph.Node
	for i := range n.Kernel {
		tap := graph.Reshape(part(graph.ConvertDType(kernel, dtypes.Float32), 2, i, i+1), 1, 1, -1)
		term := graph.Mul(graph.ConvertDType(part(window, 1, i, i+width), dtypes.Float32), tap)
		if sum == nil {
			sum = term
		} else {
			sum = graph.Add(sum, term)
		}
	}
	sum = graph.Mul(sum, graph.Sigmoid(sum))

	keys := n.KeyHeads * n.KeyDim
	unit := func(x *graph.Node) *graph.Node {
		x = graph.Reshape(x, rows, width, n.KeyHeads, n.KeyDim)
		square := graph.ReduceAndKeep(graph.Mul(x, x), graph.ReduceSum, -1)
		return graph.Div(x, graph.Sqrt(graph.AddScalar(square, 1e-6))) // this 1e-6 is not Config.NormEps: upstream's l2norm has it
	}
	out, state := deltaRule(deltaHeads{
		q:     graph.MulScalar(unit(part(sum, 2, 0, keys)), 1/math.Sqrt(float64(n.KeyDim))),
		k:     unit(part(sum, 2, keys, 2*keys)),
		v:     graph.Reshape(part(sum, 2, 2*keys, n.channels()), rows, width, n.ValueHeads, n.ValueDim),
		decay: byRow(x.decay),
		rate:  byRow(x.rate),
	}, graph.ConvertDType(before.state, dtypes.Float32))
	return flat(out), memory{window: part(window, 1, width, width+n.Kernel-1), state: state}
}

// recurWithin is the recurrence of rows of tokens from their beginning.
func (d *Decoder) recurWithin(in policy.Inputs) recurrence {
	rows, width := in.Tokens.Shape().Dim(0), in.Tokens.Shape().Dim(1)
	g, n := in.Tokens.Graph(), d.cfg.DeltaNet
	return func(_ int, x deltaTokens, kernel *graph.Node) *graph.Node {
		read, _ := n.pass(x, kernel, n.forgetful(g, x.mixed.DType(), rows), slotsOf(g, nil, width), in.Pad)
		return read
	}
}

// recurFrom is the recurrence of tokens that go on from a cache; it fills in the next one.
func (d *Decoder) recurFrom(cache, next []*graph.Node, in policy.Inputs) recurrence {
	slots := slotsOf(in.Tokens.Graph(), in.Start, in.Tokens.Shape().Dim(1))
	return func(layer int, x deltaTokens, kernel *graph.Node) *graph.Node {
		window, state := cache[2*layer], cache[2*layer+1]
		read, after := d.cfg.DeltaNet.pass(x, kernel, memory{window, state}, slots, in.Pad)
		next[2*layer] = graph.ConvertDType(after.window, window.DType())
		next[2*layer+1] = graph.ConvertDType(after.state, state.DType())
		return read
	}
}

// recurAcrossGroups is the recurrence of prompts, and of the completions of each, which all go on from the memory after it.
func (d *Decoder) recurAcrossGroups(prompts policy.Inputs, groups, each, length int) recurrence {
	g, n := prompts.Tokens.Graph(), d.cfg.DeltaNet
	width := prompts.Tokens.Shape().Dim(1)
	cut, all := groups*width, groups*width+groups*each*length
	repeat := func(x *graph.Node) *graph.Node { // [groups,…] -> [groups*each,…]
		dims := x.Shape().Dimensions
		x = graph.BroadcastToDims(graph.ExpandAxes(x, 1), append([]int{groups, each}, dims[1:]...)...)
		return flat(x)
	}
	return func(_ int, x deltaTokens, kernel *graph.Node) *graph.Node {
		slice := func(start, end int) deltaTokens {
			return deltaTokens{part(x.mixed, 0, start, end), part(x.decay, 0, start, end), part(x.rate, 0, start, end)}
		}
		none := n.forgetful(g, x.mixed.DType(), groups)
		ofPrompts, after := n.pass(slice(0, cut), kernel, none, slotsOf(g, nil, width), prompts.Pad)
		after = memory{repeat(after.window), repeat(after.state)}
		ofCompletions, _ := n.pass(slice(cut, all), kernel, after, nil, nil)
		return graph.Concatenate([]*graph.Node{ofPrompts, ofCompletions}, 0)
	}
}
