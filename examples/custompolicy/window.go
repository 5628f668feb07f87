package main

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/policy"
)

// window is a small network of our own, no transformer: a token's hidden state is a two-layer perceptron of the last few
// tokens (Bengio et al. 2003). It has no Extend and no HiddenGroups, so it samples and trains by full forward passes.
type window struct {
	vocab, width, embed, hidden int // width: how many tokens it looks at
}

var _ policy.Policy = window{}

// Params names the weights. Everything else gets them in this order.
func (p window) Params() []policy.Param {
	weight := func(name string, dims ...int) policy.Param {
		return policy.Param{Name: name, Shape: shapes.Make(dtypes.Float32, dims...), Decay: len(dims) > 1}
	}
	return []policy.Param{
		weight("embedding", p.vocab, p.embed),
		weight("in.weight", p.width*p.embed, p.hidden),
		weight("in.bias", p.hidden),
		weight("out.weight", p.hidden, p.vocab),
		weight("out.bias", p.vocab),
	}
}

func (p window) VocabSize() int  { return p.vocab }
func (window) MaxPositions() int { return 32 }

// Hidden is [B,T,hidden]. It depends on the last tokens alone, so the only thing to heed is the filler at the left of a row:
// nothing may look at it. Here it counts as zeros, as does what lies before the first token.
func (p window) Hidden(w policy.Vars, in policy.Inputs) *graph.Node {
	embedding, weight, bias := w[0], w[1], w[2]
	g := in.Tokens.Graph()
	rows, length := in.Tokens.Shape().Dim(0), in.Tokens.Shape().Dim(1)
	x := graph.Gather(embedding, graph.ExpandAxes(in.Tokens, -1)) // [B,T,E]
	if in.Pad != nil {
		at := graph.Iota(g, shapes.Make(dtypes.Int32, rows, length, 1), 1)
		real := graph.GreaterOrEqual(at, graph.Reshape(in.Pad, rows, 1, 1))
		x = graph.Mul(x, graph.ConvertDType(real, x.DType()))
	}
	before := graph.Zeros(g, shapes.Make(x.DType(), rows, p.width-1, p.embed))
	x = graph.Concatenate([]*graph.Node{before, x}, 1)
	seen := make([]*graph.Node, p.width)
	for k := range seen {
		seen[k] = graph.Slice(x, graph.AxisRange(), graph.AxisRange(k, k+length), graph.AxisRange())
	}
	h := graph.Concatenate(seen, -1) // [B,T,width*E]
	h = graph.Dot(graph.Reshape(h, rows*length, p.width*p.embed), weight).Product()
	h = graph.Tanh(graph.Add(h, graph.ExpandAxes(bias, 0)))
	return graph.Reshape(h, rows, length, p.hidden)
}

// Logits is [N,V] from [N,hidden], in float32.
func (p window) Logits(w policy.Vars, hidden *graph.Node) *graph.Node {
	out := graph.Add(graph.Dot(hidden, w[3]).Product(), graph.ExpandAxes(w[4], 0))
	return graph.ConvertDType(out, dtypes.Float32)
}

// random are weights to begin with: normally distributed, scaled by the number of inputs, biases 0.
func (p window) random(seed uint64) (*policy.Weights, error) {
	rng := rand.New(rand.NewPCG(seed, 0))
	var ts []*tensors.Tensor
	for _, param := range p.Params() {
		dims := param.Shape.Dimensions
		values := make([]float32, param.Shape.Size())
		if len(dims) > 1 {
			scale := 1 / math.Sqrt(float64(dims[0]))
			if param.Name == "embedding" {
				scale = 1
			}
			for i := range values {
				values[i] = float32(rng.NormFloat64() * scale)
			}
		}
		ts = append(ts, tensors.FromFlatDataAndDimensions(values, dims...))
	}
	w, err := policy.NewWeights(0, p.Params(), ts)
	if err != nil {
		return nil, fmt.Errorf("the first weights: %w", err)
	}
	return w, nil
}
