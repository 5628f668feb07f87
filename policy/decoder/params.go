package decoder

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/policy"
)

// addParams lists the tensors that the configuration asks for. Matrices decay; norms and biases, the vectors, do not.
func (d *Decoder) addParams() error {
	c := d.cfg
	names := map[Role]string{} // of the roles in use
	byName, others := map[string]bool{}, map[string]dtypes.DType{}
	var err error
	add := func(t tensor, axes []string, dims ...int) {
		name := c.Names.of(t)
		if err == nil && (name == "" || byName[name]) {
			err = fmt.Errorf("decoder config: Names[%q] is %q for layer %d, expert %d, allowed: a name of its own for each tensor",
				t.role, c.Names[t.role], t.layer, t.expert)
		}
		names[t.role], byName[name] = c.Names[t.role], true
		dtype, ok := c.DTypes[name]
		if !ok || dtype == c.DType {
			dtype = c.DType
		} else {
			others[name] = dtype
		}
		d.index[t] = len(d.params)
		d.tensors = append(d.tensors, t)
		d.params = append(d.params, policy.Param{Name: name, Shape: shapes.Make(dtype, dims...), Decay: len(dims) > 1, Axes: axes,
			Float32: t.role == DeltaLogDecay || t.role == DeltaNorm})
	}
	add(tensor{role: Embedding}, []string{"vocab", "embed"}, c.Vocab, c.Hidden)
	for i := range c.Layers {
		norm := func(role Role, axis string, dim int) { add(tensor{role: role, layer: i}, []string{axis}, dim) }
		linear := func(t tensor, outAxis, inAxis string, out, in int, bias bool) {
			t.layer = i
			add(t, []string{outAxis, inAxis}, out, in)
			if bias {
				t.bias = true
				add(t, []string{outAxis}, out)
			}
		}
		if c.Norms != NormsAfter {
			norm(AttentionNorm, "embed", c.Hidden)
		}
		heads, kvHeads := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
		switch {
		case d.at(i).Recurrent:
			n := c.DeltaNet
			linear(tensor{role: DeltaInput}, "heads", "embed", n.channels(), c.Hidden, false)
			linear(tensor{role: DeltaGate}, "heads", "embed", n.ValueHeads*n.ValueDim, c.Hidden, false)
			linear(tensor{role: DeltaRate}, "heads", "embed", n.ValueHeads, c.Hidden, false)
			linear(tensor{role: DeltaStep}, "heads", "embed", n.ValueHeads, c.Hidden, false)
			add(tensor{role: DeltaStepBias, layer: i}, []string{"heads"}, n.ValueHeads)
			add(tensor{role: DeltaLogDecay, layer: i}, []string{"heads"}, n.ValueHeads)
			add(tensor{role: DeltaConvolution, layer: i}, []string{"heads", "one", "taps"}, n.channels(), 1, n.Kernel)
			norm(DeltaNorm, "head_dim", n.ValueDim)
			linear(tensor{role: DeltaOutput}, "embed", "heads", c.Hidden, n.ValueHeads*n.ValueDim, false)
		case c.GatedOutput:
			linear(tensor{role: Query}, "heads", "embed", 2*heads, c.Hidden, c.QKVBias)
		default:
			linear(tensor{role: Query}, "heads", "embed", heads, c.Hidden, c.QKVBias)
		}
		if !d.at(i).Recurrent {
			linear(tensor{role: Key}, "kv_heads", "embed", kvHeads, c.Hidden, c.QKVBias)
			linear(tensor{role: Value}, "kv_heads", "embed", kvHeads, c.Hidden, c.QKVBias)
			linear(tensor{role: Output}, "embed", "heads", c.Hidden, heads, c.OutputBias)
			switch {
			case c.WholeQKNorm:
				norm(QueryNorm, "heads", heads)
				norm(KeyNorm, "kv_heads", kvHeads)
			case c.QKNorm:
				norm(QueryNorm, "head_dim", c.HeadDim)
				norm(KeyNorm, "head_dim", c.HeadDim)
			}
		}
		if c.Norms != NormsBefore {
			norm(AttentionPostNorm, "embed", c.Hidden)
		}
		if c.Norms != NormsAfter {
			norm(MLPNorm, "embed", c.Hidden)
		}
		if d.at(i).Experts {
			linear(tensor{role: Router}, "experts", "embed", c.Experts.Count, c.Hidden, false)
			for e := range c.Experts.Count {
				linear(tensor{role: ExpertGate, expert: e}, "mlp", "embed", c.Experts.Intermediate, c.Hidden, false)
				linear(tensor{role: ExpertUp, expert: e}, "mlp", "embed", c.Experts.Intermediate, c.Hidden, false)
				linear(tensor{role: ExpertDown, expert: e}, "embed", "mlp", c.Hidden, c.Experts.Intermediate, false)
			}
		} else {
			linear(tensor{role: Gate}, "mlp", "embed", c.Intermediate, c.Hidden, c.MLPBias)
			linear(tensor{role: Up}, "mlp", "embed", c.Intermediate, c.Hidden, c.MLPBias)
			linear(tensor{role: Down}, "embed", "mlp", c.Hidden, c.Intermediate, c.MLPBias)
		}
		if c.Norms != NormsBefore {
			norm(MLPPostNorm, "embed", c.Hidden)
		}
	}
	add(tensor{role: FinalNorm}, []string{"embed"}, c.Hidden)
	if !c.Tied {
		add(tensor{role: Head}, []string{"vocab", "embed"}, c.Vocab, c.Hidden)
	}
	d.cfg.Names, d.cfg.DTypes = names, nil
	if len(others) > 0 {
		d.cfg.DTypes = others
	}
	return err
}

// layerVars are the weights of one layer.
type layerVars struct {
	d     *Decoder
	w     policy.Vars
	layer int
}

// weight is the tensor of a role; nil if the layer has none.
func (l layerVars) weight(role Role) *graph.Node { return l.get(tensor{role: role, layer: l.layer}) }

func (l layerVars) get(t tensor) *graph.Node {
	if i, ok := l.d.index[t]; ok {
		return l.w[i]
	}
	return nil
}

// linear is x W^T, and the bias if there is one, for x [n,in].
func (l layerVars) linear(role Role, x *graph.Node) *graph.Node {
	y := matmul(x, l.weight(role), x.DType())
	if b := l.get(tensor{role: role, layer: l.layer, bias: true}); b != nil {
		y = graph.Add(y, graph.Reshape(b, 1, -1))
	}
	return y
}
