// Package decoder is a decoder-only transformer built from a configuration: RMSNorm, rotary positions, grouped-query
// attention or gated DeltaNet, and a gated MLP or a mixture of experts, as in Llama, Qwen 2, 3 and 3.5, Mistral, OLMo 2, SmolLM 3 and
// Gemma 3. Weights have the names and shapes of Hugging Face's checkpoints.
package decoder

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/policy"
)

// Decoder is a decoder transformer. It holds no weights and is safe for concurrent use. Its methods build graphs and
// panic, as GoMLX does, when shapes do not fit; run them inside a backend.Func.
//
// Weights may be passed as float32 or bfloat16, whatever dtype they are stored in; matrix products and the residual
// stream have that dtype, norms, rotations, softmax, the states of recurrent layers and logits are computed in float32.
type Decoder struct {
	cfg     Config
	params  []policy.Param
	tensors []tensor       // what each of the params is
	index   map[tensor]int // of params
}

var (
	_ policy.Incremental  = (*Decoder)(nil)
	_ policy.SharedPrompt = (*Decoder)(nil)
)

// New makes a decoder from a valid configuration.
func New(cfg Config) (*Decoder, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	d := &Decoder{cfg: cfg.withDefaults(), index: map[tensor]int{}}
	if err := d.addParams(); err != nil {
		return nil, err
	}
	return d, nil
}

// Config is the configuration with its defaults filled in.
func (d *Decoder) Config() Config { return d.cfg }

// MarshalJSON gives the settings that decide what is computed from given weights, as a run records them.
func (d *Decoder) MarshalJSON() ([]byte, error) {
	c := d.cfg
	c.Names, c.DTypes, c.InitDeviation = nil, nil, 0
	return json.Marshal(c)
}

// Params lists the weights: the embedding, the layers from the first to the last, the final norm and, if untied, the
// output projection. Matrices are [out,in].
func (d *Decoder) Params() []policy.Param { return slices.Clone(d.params) }

// VocabSize is the number of token ids.
func (d *Decoder) VocabSize() int { return d.cfg.Vocab }

// MaxPositions is the longest sequence.
func (d *Decoder) MaxPositions() int { return d.cfg.MaxPositions }

// at is what layer i has of its own.
func (d *Decoder) at(i int) Layer {
	if len(d.cfg.PerLayer) == 0 {
		return Layer{}
	}
	return d.cfg.PerLayer[i]
}

// Hidden returns the states [B,T,D] after the final norm.
func (d *Decoder) Hidden(w policy.Vars, in policy.Inputs) *graph.Node {
	x := d.forward(w, flat(in.Tokens), flat(positionsOf(in)), mixing{d.within(in), d.recurWithin(in)})
	return graph.Reshape(x, in.Tokens.Shape().Dim(0), in.Tokens.Shape().Dim(1), d.cfg.Hidden)
}

// Logits maps states [N,D] to float32 logits [N,V].
func (d *Decoder) Logits(w policy.Vars, hidden *graph.Node) *graph.Node {
	head := Head
	if d.cfg.Tied {
		head = Embedding
	}
	return matmul(hidden, w[d.index[tensor{role: head}]], dtypes.Float32)
}

// forward runs tokens [n] at positions [n] through all layers and the final norm, to [n,D].
func (d *Decoder) forward(w policy.Vars, tokens, positions *graph.Node, mix mixing) *graph.Node {
	x := d.embed(w, tokens)
	turns := d.rotations(positions)
	for i := range d.cfg.Layers {
		x = d.layer(w, i, x, turns[d.at(i).Rope], mix)
	}
	return d.norm(x, w[d.index[tensor{role: FinalNorm}]])
}

// embed looks tokens [n] up, [n,D]. The detour over float32 makes the gradient's sum over all tokens a float32 one. (A product
// with one-hot rows was slower on both backends at every vocabulary size, its gradient included.)
func (d *Decoder) embed(w policy.Vars, tokens *graph.Node) *graph.Node {
	table := w[d.index[tensor{role: Embedding}]]
	x := graph.Gather(graph.ConvertDType(table, dtypes.Float32), graph.ExpandAxes(tokens, -1))
	x = graph.ConvertDType(x, table.DType())
	if d.cfg.EmbeddingScale != 1 {
		x = graph.MulScalar(x, d.cfg.EmbeddingScale)
	}
	return x
}

// mixing is how the tokens of a batch reach each other.
type mixing struct {
	attend attention
	recur  recurrence
}

// layer adds attention, or what stands in its place, and the MLP to the residual stream x [n,D].
func (d *Decoder) layer(w policy.Vars, i int, x *graph.Node, turn rotations, mix mixing) *graph.Node {
	l := layerVars{d: d, w: w, layer: i}
	// With Rematerialize only what passes through keep is stored for the backward pass.
	keep := func(x *graph.Node) *graph.Node {
		if d.cfg.Rematerialize {
			return x.Checkpoint()
		}
		return x
	}
	x = keep(x)
	x = l.add(x, AttentionNorm, AttentionPostNorm, func(h *graph.Node) *graph.Node {
		if d.at(i).Recurrent {
			return l.deltaNet(h, mix.recur, keep)
		}
		return l.attention(h, turn, mix.attend, keep)
	})
	x = l.add(x, MLPNorm, MLPPostNorm, func(h *graph.Node) *graph.Node {
		if d.at(i).Experts {
			return l.experts(h)
		}
		return l.linear(Down, graph.Mul(d.activate(l.linear(Gate, h)), l.linear(Up, h)))
	})
	if d.cfg.Rematerialize {
		x = x.StopCheckpoint()
	}
	return x
}

// add is x + post(f(pre(x))), with the norms that the layer has.
func (l layerVars) add(x *graph.Node, pre, post Role, f func(*graph.Node) *graph.Node) *graph.Node {
	h := x
	if w := l.weight(pre); w != nil {
		h = l.d.norm(h, w)
	}
	h = f(h)
	if w := l.weight(post); w != nil {
		h = l.d.norm(h, w)
	}
	return graph.Add(x, h)
}

// attention is that of normed states h [n,D], projected to [n,D].
func (l layerVars) attention(h *graph.Node, turn rotations, attend attention, keep func(*graph.Node) *graph.Node) *graph.Node {
	c := l.d.cfg
	q, k, v := l.linear(Query, h), l.linear(Key, h), l.linear(Value, h)
	if c.WholeQKNorm {
		q, k = l.d.norm(q, l.weight(QueryNorm)), l.d.norm(k, l.weight(KeyNorm))
	}
	heads := func(x *graph.Node, count int) *graph.Node { return graph.Reshape(x, -1, count, c.HeadDim) }
	var gate *graph.Node
	if c.GatedOutput {
		both := graph.Reshape(q, -1, c.Heads, 2*c.HeadDim)
		q, gate = part(both, 2, 0, c.HeadDim), graph.Reshape(part(both, 2, c.HeadDim, 2*c.HeadDim), -1, c.Heads*c.HeadDim)
	}
	q, k, v = heads(q, c.Heads), heads(k, c.KVHeads), heads(v, c.KVHeads)
	if c.QKNorm {
		q, k = l.d.norm(q, l.weight(QueryNorm)), l.d.norm(k, l.weight(KeyNorm))
	}
	mixed := keep(attend(l.layer, keep(turn.q.apply(q)), keep(turn.k.apply(k)), keep(v)))
	if gate != nil {
		mixed = graph.Mul(mixed, graph.Sigmoid(gate))
	}
	return l.linear(Output, mixed)
}

// activate is the MLP's non-linearity.
func (d *Decoder) activate(x *graph.Node) *graph.Node {
	if d.cfg.Activation == SiLU {
		return graph.Mul(x, graph.Sigmoid(x))
	}
	cubic := graph.Mul(graph.Mul(graph.Mul(x, x), x), graph.Scalar(x.Graph(), x.DType(), 0.044715))
	inner := graph.MulScalar(graph.Add(x, cubic), math.Sqrt(2/math.Pi))
	return graph.Mul(graph.MulScalar(x, 0.5), graph.AddScalar(graph.Tanh(inner), 1))
}

// norm is RMSNorm over the last axis, computed in float32.
func (d *Decoder) norm(x, weight *graph.Node) *graph.Node {
	f := graph.ConvertDType(x, dtypes.Float32)
	square := graph.ReduceAndKeep(graph.Mul(f, f), graph.ReduceMean, -1)
	inverse := graph.Reciprocal(graph.Sqrt(graph.AddScalar(square, d.cfg.NormEps)))
	normed := graph.Mul(f, inverse)
	if d.cfg.NormStyle == NormLlama {
		return graph.Mul(graph.ConvertDType(normed, x.DType()), graph.ExpandLeftToRank(weight, x.Rank()))
	}
	weight = graph.ConvertDType(weight, dtypes.Float32)
	if d.cfg.NormStyle == NormOffset {
		weight = graph.AddScalar(weight, 1)
	}
	return graph.ConvertDType(graph.Mul(normed, graph.ExpandLeftToRank(weight, x.Rank())), x.DType())
}

// matmul is x W^T for x [n,in] and W [out,in], accumulated in float32.
func matmul(x, w *graph.Node, out dtypes.DType) *graph.Node {
	dot := graph.Dot(x, w)
	if out != x.DType() {
		dot = dot.WithOutputDType(out)
	}
	return dot.General([]int{1}, nil, []int{1}, nil)
}

// positionsOf gives max(0, Start+t-Pad[b]), [B,T] int32; [1,T] stretched to B rows where nothing is padded.
func positionsOf(in policy.Inputs) *graph.Node {
	rows, width := in.Tokens.Shape().Dim(0), in.Tokens.Shape().Dim(1)
	p := slotsOf(in.Tokens.Graph(), in.Start, width)
	if in.Pad == nil {
		return graph.BroadcastToDims(graph.Reshape(p, 1, width), rows, width)
	}
	p = graph.Sub(graph.Reshape(p, 1, width), graph.Reshape(in.Pad, rows, 1))
	return graph.MaxScalar(p, 0)
}

// slotsOf gives start, start+1, …, as [width] int32.
func slotsOf(g *graph.Graph, start *graph.Node, width int) *graph.Node {
	s := graph.Iota(g, shapes.Make(dtypes.Int32, width), 0)
	if start != nil {
		s = graph.Add(s, start)
	}
	return s
}
