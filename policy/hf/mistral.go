package hf

import "github.com/grouper-rl/grouper/policy/decoder"

// Mistral, alone or as the text model of Mistral 3.
var _ = define(family{
	modelTypes: []string{"mistral"},
	wrappers:   []string{"mistral3"},
	class:      "MistralForCausalLM",
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
	roots:  []string{"model.", "model.language_model.", "language_model.model."},
	towers: []string{"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."},
	absent: map[string]any{"sliding_window": 4096, "num_key_value_heads": 8},
	read: func(k *keys, d *decoder.Config) {
		d.Rope = k.rope()
		k.everyWindow(d)
	},
	write: writeEveryWindow,
})
