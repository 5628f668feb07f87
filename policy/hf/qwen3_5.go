package hf

import (
	"encoding/json"
	"fmt"

	"github.com/grouper-rl/grouper/policy/decoder"
)

// Qwen 3.5's dense text model, alone or within the model that sees images: gated DeltaNet layers, and every few layers gated attention.
var _ = define(family{
	modelTypes: []string{"qwen3_5_text"},
	wrappers:   []string{"qwen3_5"},
	class:      "Qwen3_5ForCausalLM",
	names: decoder.Names{
		decoder.Embedding:        "model.embed_tokens.weight",
		decoder.AttentionNorm:    "model.layers.{layer}.input_layernorm.weight",
		decoder.Query:            "model.layers.{layer}.self_attn.q_proj.weight",
		decoder.Key:              "model.layers.{layer}.self_attn.k_proj.weight",
		decoder.Value:            "model.layers.{layer}.self_attn.v_proj.weight",
		decoder.Output:           "model.layers.{layer}.self_attn.o_proj.weight",
		decoder.QueryNorm:        "model.layers.{layer}.self_attn.q_norm.weight",
		decoder.KeyNorm:          "model.layers.{layer}.self_attn.k_norm.weight",
		decoder.DeltaInput:       "model.layers.{layer}.linear_attn.in_proj_qkv.weight",
		decoder.DeltaGate:        "model.layers.{layer}.linear_attn.in_proj_z.weight",
		decoder.DeltaRate:        "model.layers.{layer}.linear_attn.in_proj_b.weight",
		decoder.DeltaStep:        "model.layers.{layer}.linear_attn.in_proj_a.weight",
		decoder.DeltaStepBias:    "model.layers.{layer}.linear_attn.dt_bias",
		decoder.DeltaLogDecay:    "model.layers.{layer}.linear_attn.A_log",
		decoder.DeltaConvolution: "model.layers.{layer}.linear_attn.conv1d.weight",
		decoder.DeltaNorm:        "model.layers.{layer}.linear_attn.norm.weight",
		decoder.DeltaOutput:      "model.layers.{layer}.linear_attn.out_proj.weight",
		decoder.MLPNorm:          "model.layers.{layer}.post_attention_layernorm.weight",
		decoder.Gate:             "model.layers.{layer}.mlp.gate_proj.weight",
		decoder.Up:               "model.layers.{layer}.mlp.up_proj.weight",
		decoder.Down:             "model.layers.{layer}.mlp.down_proj.weight",
		decoder.FinalNorm:        "model.norm.weight",
		decoder.Head:             "lm_head.weight",
	},
	roots:  []string{"model.", "model.language_model."},
	towers: []string{"model.visual.", "mtp."},
	absent: map[string]any{
		"vocab_size": 248320, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 32, "num_attention_heads": 16,
		"num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 32768, "partial_rotary_factor": 0.25,
		"linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_num_key_heads": 16,
		"linear_num_value_heads": 32,
	},
	read: func(k *keys, d *decoder.Config) {
		if !or(k, "attn_output_gate", true) {
			k.unsupported("attn_output_gate", false, "true")
		}
		if d.Activation != "" && d.Activation != decoder.SiLU { // it is that of the convolution, too
			k.unsupported("hidden_act", fmt.Sprintf("%q", d.Activation), "silu")
		}
		d.NormStyle, d.QKNorm, d.GatedOutput = decoder.NormOffset, true, true
		d.QKVBias = or(k, "attention_bias", false)
		d.OutputBias = d.QKVBias
		d.Rope = k.textRope()
		d.DeltaNet = decoder.DeltaNet{
			KeyHeads: need[int](k, "linear_num_key_heads"), ValueHeads: need[int](k, "linear_num_value_heads"),
			KeyDim: need[int](k, "linear_key_head_dim"), ValueDim: need[int](k, "linear_value_head_dim"),
			Kernel: need[int](k, "linear_conv_kernel_dim"),
		}
		interval := or(k, "full_attention_interval", 4)
		if interval < 1 {
			k.fail(fmt.Errorf("full_attention_interval is %d, allowed: 1 or more", interval))
			return
		}
		for _, t := range k.layerTypes(d.Layers, func(i int) string {
			if (i+1)%interval == 0 {
				return fullAttention
			}
			return linearAttention
		}, fullAttention, linearAttention) {
			d.PerLayer = append(d.PerLayer, decoder.Layer{Recurrent: t == linearAttention})
		}
	},
	write: func(d decoder.Config, c map[string]any) {
		r := writeRope(d.Rope)
		r["partial_rotary_factor"] = d.Rope.Partial
		c["rope_parameters"], c["attention_bias"] = r, d.QKVBias
		c["linear_num_key_heads"], c["linear_num_value_heads"] = d.DeltaNet.KeyHeads, d.DeltaNet.ValueHeads
		c["linear_key_head_dim"], c["linear_value_head_dim"] = d.DeltaNet.KeyDim, d.DeltaNet.ValueDim
		c["linear_conv_kernel_dim"] = d.DeltaNet.Kernel
		types := []string{}
		for _, l := range d.PerLayer {
			if l.Recurrent {
				types = append(types, linearAttention)
			} else {
				types = append(types, fullAttention)
			}
		}
		c["layer_types"] = types
	},
})

// textRope reads rotary positions for part of each head. What the positions of images add to them is left out: for text its three
// axes are equal.
func (k *keys) textRope() decoder.Rope {
	key := "rope_parameters"
	if !k.has(key) {
		key = "rope_scaling"
	}
	raw := k.raw[key]
	if k.has(key) {
		all := need[map[string]json.RawMessage](k, key)
		delete(all, "mrope_section")
		delete(all, "mrope_interleaved")
		var err error
		if raw, err = json.Marshal(all); err != nil {
			k.fail(fmt.Errorf("%s: %w", key, err))
		}
	}
	r, err := parseRope(key, raw, or(k, "rope_theta", 10000.0), or(k, "partial_rotary_factor", 1.0), or(k, "max_position_embeddings", 0))
	if err != nil {
		k.fail(err)
	}
	return r
}
