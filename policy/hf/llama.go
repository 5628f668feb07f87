package hf

import "github.com/grouper-rl/grouper/policy/decoder"

// Llama 2 and 3, SmolLM 1 and 2.
var _ = define(family{
	modelTypes: []string{"llama"},
	class:      "LlamaForCausalLM",
	names: decoder.Names{
		decoder.Embedding:     "model.embed_tokens.weight",
		decoder.AttentionNorm: "model.layers.{layer}.input_layernorm.weight",
		decoder.Query:         "model.layers.{layer}.self_attn.q_proj.weight",
		decoder.Key:           "model.layers.{layer}.self_attn.k_proj.weight",
		decoder.Value:         "model.layers.{layer}.self_attn.v_proj.weight",
		decoder.Output:        "model.layers.{layer}.self_attn.o_proj.weight",
		decoder.MLPNorm:       "model.layers.{layer}.post_attention_layernorm.weight",
		decoder.Gate:          "model.layers.{layer}.mlp.gate_proj.weight",
		decoder.Up:            "model.layers.{layer}.mlp.up_proj.weight",
		decoder.Down:          "model.layers.{layer}.mlp.down_proj.weight",
		decoder.FinalNorm:     "model.norm.weight",
		decoder.Head:          "lm_head.weight",
	},
	read: func(k *keys, d *decoder.Config) {
		d.QKVBias, d.MLPBias = or(k, "attention_bias", false), or(k, "mlp_bias", false)
		d.OutputBias = d.QKVBias
		d.Rope = k.rope()
		k.sameLayers(d.Layers, fullAttention)
	},
	write: func(d decoder.Config, c map[string]any) {
		c["attention_bias"], c["mlp_bias"] = d.QKVBias, d.MLPBias
	},
})
