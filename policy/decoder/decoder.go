// Package decoder is a decoder-only transformer built from a configuration: RMSNorm, rotary positions, grouped-query
// attention and a gated MLP, as in Llama, Qwen 2 and Qwen 3. Weights have the names and shapes of Hugging Face's checkpoints.
package decoder

import (
	"fmt"
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
// stream have that dtype, norms, rotations, softmax and logits are computed in float32.
type Decoder struct {
	cfg    Config
	params []policy.Param
	index  map[string]int // of params
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
	d := &Decoder{cfg: cfg.withDefaults(), index: map[string]int{}}
	d.addParams()
	return d, nil
}

// Config is the configuration with its defaults filled in.
func (d *Decoder) Config() Config { return d.cfg }

// Params lists the weights: the embedding, the layers from the first to the last, the final norm and, if untied, the
// output projection. Matrices are [out,in].
func (d *Decoder) Params() []policy.Param { return slices.Clone(d.params) }

// VocabSize is the number of token ids.
func (d *Decoder) VocabSize() int { return d.cfg.Vocab }

// MaxPositions is the longest sequence.
func (d *Decoder) MaxPositions() int { return d.cfg.MaxPositions }

// Names of tensors outside the layers.
const (
	embedName = "model.embed_tokens.weight"
	normName  = "model.norm.weight"
	headName  = "lm_head.weight"
)

func (d *Decoder) addParams() {
	c := d.cfg
	add := func(name string, axes []string, dims ...int) {
		d.index[name] = len(d.params)
		// Matrices decay; norms and biases, the vectors, do not.
		d.params = append(d.params, policy.Param{Name: name, Shape: shapes.Make(c.DType, dims...), Decay: len(dims) > 1, Axes: axes})
	}
	add(embedName, []string{"vocab", "embed"}, c.Vocab, c.Hidden)
	for i := range c.Layers {
		layer := fmt.Sprintf("model.layers.%d.", i)
		norm := func(name, axis string, dim int) { add(layer+name+".weight", []string{axis}, dim) }
		linear := func(name, outAxis, inAxis string, out, in int, bias bool) {
			add(layer+name+".weight", []string{outAxis, inAxis}, out, in)
			if bias {
				add(layer+name+".bias", []string{outAxis}, out)
			}
		}
		heads, kvHeads := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
		norm("input_layernorm", "embed", c.Hidden)
		linear("self_attn.q_proj", "heads", "embed", heads, c.Hidden, c.QKVBias)
		linear("self_attn.k_proj", "kv_heads", "embed", kvHeads, c.Hidden, c.QKVBias)
		linear("self_attn.v_proj", "kv_heads", "embed", kvHeads, c.Hidden, c.QKVBias)
		linear("self_attn.o_proj", "embed", "heads", c.Hidden, heads, c.OutputBias)
		if c.QKNorm {
			norm("self_attn.q_norm", "head_dim", c.HeadDim)
			norm("self_attn.k_norm", "head_dim", c.HeadDim)
		}
		norm("post_attention_layernorm", "embed", c.Hidden)
		linear("mlp.gate_proj", "mlp", "embed", c.Intermediate, c.Hidden, c.MLPBias)
		linear("mlp.up_proj", "mlp", "embed", c.Intermediate, c.Hidden, c.MLPBias)
		linear("mlp.down_proj", "embed", "mlp", c.Hidden, c.Intermediate, c.MLPBias)
	}
	add(normName, []string{"embed"}, c.Hidden)
	if !c.Tied {
		add(headName, []string{"vocab", "embed"}, c.Vocab, c.Hidden)
	}
}

// Hidden returns the states [B,T,D] after the final norm.
func (d *Decoder) Hidden(w policy.Vars, in policy.Inputs) *graph.Node {
	x := d.forward(w, flat(in.Tokens), flat(positionsOf(in)), d.within(in))
	return graph.Reshape(x, in.Tokens.Shape().Dim(0), in.Tokens.Shape().Dim(1), d.cfg.Hidden)
}

// Logits maps states [N,D] to float32 logits [N,V].
func (d *Decoder) Logits(w policy.Vars, hidden *graph.Node) *graph.Node {
	head := embedName
	if !d.cfg.Tied {
		head = headName
	}
	return matmul(hidden, w[d.index[head]], dtypes.Float32)
}

// forward runs tokens [n] at positions [n] through all layers and the final norm, to [n,D].
func (d *Decoder) forward(w policy.Vars, tokens, positions *graph.Node, attend attention) *graph.Node {
	x := d.embed(w, tokens)
	turnQ, turnK := d.rotation(positions, d.cfg.Heads), d.rotation(positions, d.cfg.KVHeads)
	for i := range d.cfg.Layers {
		x = d.layer(w, i, x, turnQ, turnK, attend)
	}
	return d.norm(x, w[d.index[normName]])
}

// embed looks tokens [n] up, [n,D]. The detour over float32 makes the gradient's sum over all tokens a float32 one. (A product
// with one-hot rows was slower on both backends at every vocabulary size, its gradient included.)
func (d *Decoder) embed(w policy.Vars, tokens *graph.Node) *graph.Node {
	table := w[d.index[embedName]]
	x := graph.Gather(graph.ConvertDType(table, dtypes.Float32), graph.ExpandAxes(tokens, -1))
	return graph.ConvertDType(x, table.DType())
}

// layer adds attention and the MLP to the residual stream x [n,D].
func (d *Decoder) layer(w policy.Vars, i int, x *graph.Node, turnQ, turnK rotation, attend attention) *graph.Node {
	c, n := d.cfg, x.Shape().Dim(0)
	weight := func(name string) *graph.Node { return w[d.index[fmt.Sprintf("model.layers.%d.%s.weight", i, name)]] }
	linear := func(name string, x *graph.Node) *graph.Node {
		y := matmul(x, weight(name), x.DType())
		if b, ok := d.index[fmt.Sprintf("model.layers.%d.%s.bias", i, name)]; ok {
			y = graph.Add(y, graph.Reshape(w[b], 1, -1))
		}
		return y
	}
	heads := func(name string, h *graph.Node, count int) *graph.Node {
		return graph.Reshape(linear(name, h), n, count, c.HeadDim)
	}

	// With Rematerialize only what passes through keep is stored for the backward pass.
	keep := func(x *graph.Node) *graph.Node {
		if c.Rematerialize {
			return x.Checkpoint()
		}
		return x
	}
	x = keep(x)
	h := d.norm(x, weight("input_layernorm"))
	q, k, v := heads("self_attn.q_proj", h, c.Heads), heads("self_attn.k_proj", h, c.KVHeads), heads("self_attn.v_proj", h, c.KVHeads)
	if c.QKNorm {
		q, k = d.norm(q, weight("self_attn.q_norm")), d.norm(k, weight("self_attn.k_norm"))
	}
	mixed := keep(attend(i, keep(turnQ.apply(q)), keep(turnK.apply(k)), keep(v)))
	x = graph.Add(x, linear("self_attn.o_proj", mixed))

	h = d.norm(x, weight("post_attention_layernorm"))
	gate := linear("mlp.gate_proj", h)
	gate = graph.Mul(gate, graph.Sigmoid(gate))
	x = graph.Add(x, linear("mlp.down_proj", graph.Mul(gate, linear("mlp.up_proj", h))))
	if c.Rematerialize {
		x = x.StopCheckpoint()
	}
	return x
}

// norm is RMSNorm over the last axis, computed in float32; the result is cast down before it meets the weights, as
// Llama and Qwen do.
func (d *Decoder) norm(x, weight *graph.Node) *graph.Node {
	f := graph.ConvertDType(x, dtypes.Float32)
	square := graph.ReduceAndKeep(graph.Mul(f, f), graph.ReduceMean, -1)
	inverse := graph.Reciprocal(graph.Sqrt(graph.AddScalar(square, d.cfg.NormEps)))
	normed := graph.ConvertDType(graph.Mul(f, inverse), x.DType())
	return graph.Mul(normed, graph.ExpandLeftToRank(weight, x.Rank()))
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
