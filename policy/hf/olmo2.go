package hf

import "github.com/grouper-rl/grouper/policy/decoder"

// OLMo 2.
var _ = define(family{
	modelTypes: []string{"olmo2"},
	class:      "Olmo2ForCausalLM",
	names: decoder.Names{
		decoder.Embedding:         "model.embed_tokens.weight",
		decoder.Query:             "model.layers.{layer}.self_attn.q_proj.weight",
		decoder.Key:               "model.layers.{layer}.self_attn.k_proj.weight",
		decoder.Value:             "model.layers.{layer}.self_attn.v_proj.weight",
		decoder.Output:            "model.layers.{layer}.self_attn.o_proj.weight",
		decoder.QueryNorm:         "model.layers.{layer}.self_attn.q_norm.weight",
		decoder.KeyNorm:           "model.layers.{layer}.self_attn.k_norm.weight",
		decoder.AttentionPostNorm: "model.layers.{layer}.post_attention_layernorm.weight",
		decoder.Gate:              "model.layers.{layer}.mlp.gate_proj.weight",
		decoder.Up:                "model.layers.{layer}.mlp.up_proj.weight",
		decoder.Down:              "model.layers.{layer}.mlp.down_proj.weight",
		decoder.MLPPostNorm:       "model.layers.{layer}.post_feedforward_layernorm.weight",
		decoder.FinalNorm:         "model.norm.weight",
		decoder.Head:              "lm_head.weight",
	},
	absent: map[string]any{"rms_norm_eps": 1e-5},
	read: func(k *keys, d *decoder.Config) {
		d.Norms, d.NormStyle, d.WholeQKNorm = decoder.NormsAfter, decoder.NormOLMo, true
		d.QKVBias = or(k, "attention_bias", false)
		d.OutputBias = d.QKVBias
		d.Rope = k.rope()
		k.sameLayers(d.Layers, fullAttention)
	},
	write: func(d decoder.Config, c map[string]any) { c["attention_bias"] = d.QKVBias },
})
