package decoder

import (
	"strconv"
	"strings"
)

// Role says what a weight tensor is for. "{layer}" in it: there is one in each layer; "{expert}": one for each expert.
type Role string

// Roles of tensors. Matrices are [out,in].
const (
	Embedding Role = "embedding"  // [Vocab,Hidden]
	FinalNorm Role = "final norm" // [Hidden]
	Head      Role = "head"       // [Vocab,Hidden], unless tied

	AttentionNorm     Role = "{layer} attention norm"      // [Hidden], before attention
	Query             Role = "{layer} query"               // [Heads*HeadDim,Hidden]; [Heads*2*HeadDim,Hidden] with GatedOutput: in each head first the query, then the gate
	Key               Role = "{layer} key"                 // [KVHeads*HeadDim,Hidden]
	Value             Role = "{layer} value"               // [KVHeads*HeadDim,Hidden]
	Output            Role = "{layer} output"              // [Hidden,Heads*HeadDim]
	QueryNorm         Role = "{layer} query norm"          // [HeadDim], or [Heads*HeadDim] with WholeQKNorm
	KeyNorm           Role = "{layer} key norm"            // [HeadDim], or [KVHeads*HeadDim] with WholeQKNorm
	AttentionPostNorm Role = "{layer} attention post norm" // [Hidden], after attention
	DeltaInput        Role = "{layer} delta input"         // [2*KeyHeads*KeyDim+ValueHeads*ValueDim,Hidden]: queries, keys, values of a gated DeltaNet layer
	DeltaGate         Role = "{layer} delta gate"          // [ValueHeads*ValueDim,Hidden]
	DeltaRate         Role = "{layer} delta rate"          // [ValueHeads,Hidden]
	DeltaStep         Role = "{layer} delta step"          // [ValueHeads,Hidden]
	DeltaStepBias     Role = "{layer} delta step bias"     // [ValueHeads]
	DeltaLogDecay     Role = "{layer} delta log decay"     // [ValueHeads]
	DeltaConvolution  Role = "{layer} delta convolution"   // [2*KeyHeads*KeyDim+ValueHeads*ValueDim,1,Kernel]
	DeltaNorm         Role = "{layer} delta norm"          // [ValueDim], plain
	DeltaOutput       Role = "{layer} delta output"        // [Hidden,ValueHeads*ValueDim]
	MLPNorm           Role = "{layer} mlp norm"            // [Hidden], before the MLP
	Gate              Role = "{layer} gate"                // [Intermediate,Hidden]
	Up                Role = "{layer} up"                  // [Intermediate,Hidden]
	Down              Role = "{layer} down"                // [Hidden,Intermediate]
	Router            Role = "{layer} router"              // [Experts.Count,Hidden]
	ExpertGate        Role = "{layer} {expert} gate"       // [Experts.Intermediate,Hidden]
	ExpertUp          Role = "{layer} {expert} up"         // [Experts.Intermediate,Hidden]
	ExpertDown        Role = "{layer} {expert} down"       // [Hidden,Experts.Intermediate]
	MLPPostNorm       Role = "{layer} mlp post norm"       // [Hidden], after the MLP
)

// Names gives the tensors of each role their names in checkpoints. "{layer}" and "{expert}" in a name stand for the numbers of
// layer and expert, from 0. A bias is called as its matrix is, with ".bias" in place of ".weight".
type Names map[Role]string

// usualNames are those that most models on the Hugging Face hub have, for layers with norms in these places.
func usualNames(norms NormPlacement) Names {
	n := Names{
		Embedding:        "model.embed_tokens.weight",
		FinalNorm:        "model.norm.weight",
		Head:             "lm_head.weight",
		AttentionNorm:    "model.layers.{layer}.input_layernorm.weight",
		Query:            "model.layers.{layer}.self_attn.q_proj.weight",
		Key:              "model.layers.{layer}.self_attn.k_proj.weight",
		Value:            "model.layers.{layer}.self_attn.v_proj.weight",
		Output:           "model.layers.{layer}.self_attn.o_proj.weight",
		QueryNorm:        "model.layers.{layer}.self_attn.q_norm.weight",
		KeyNorm:          "model.layers.{layer}.self_attn.k_norm.weight",
		DeltaInput:       "model.layers.{layer}.linear_attn.in_proj_qkv.weight",
		DeltaGate:        "model.layers.{layer}.linear_attn.in_proj_z.weight",
		DeltaRate:        "model.layers.{layer}.linear_attn.in_proj_b.weight",
		DeltaStep:        "model.layers.{layer}.linear_attn.in_proj_a.weight",
		DeltaStepBias:    "model.layers.{layer}.linear_attn.dt_bias",
		DeltaLogDecay:    "model.layers.{layer}.linear_attn.A_log",
		DeltaConvolution: "model.layers.{layer}.linear_attn.conv1d.weight",
		DeltaNorm:        "model.layers.{layer}.linear_attn.norm.weight",
		DeltaOutput:      "model.layers.{layer}.linear_attn.out_proj.weight",
		MLPNorm:          "model.layers.{layer}.post_attention_layernorm.weight",
		Gate:             "model.layers.{layer}.mlp.gate_proj.weight",
		Up:               "model.layers.{layer}.mlp.up_proj.weight",
		Down:             "model.layers.{layer}.mlp.down_proj.weight",
		Router:           "model.layers.{layer}.mlp.gate.weight",
		ExpertGate:       "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight",
		ExpertUp:         "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight",
		ExpertDown:       "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight",
	}
	if norms != NormsBefore {
		n[AttentionPostNorm] = n[MLPNorm]
		n[MLPNorm] = "model.layers.{layer}.pre_feedforward_layernorm.weight"
		n[MLPPostNorm] = "model.layers.{layer}.post_feedforward_layernorm.weight"
	}
	return n
}

// tensor identifies one weight tensor. Numbers that its role does not need are 0.
type tensor struct {
	role          Role
	layer, expert int
	bias          bool
}

// of is the tensor's name.
func (n Names) of(t tensor) string {
	name := n[t.role]
	if t.bias {
		name = strings.TrimSuffix(name, ".weight") + ".bias"
	}
	name = strings.ReplaceAll(name, "{layer}", strconv.Itoa(t.layer))
	return strings.ReplaceAll(name, "{expert}", strconv.Itoa(t.expert))
}
