package hf

import (
	"fmt"

	"github.com/grouper-rl/grouper/policy/decoder"
)

// Qwen 3 with mixtures of experts.
var _ = define(family{
	modelTypes: []string{"qwen3_moe"},
	class:      "Qwen3MoeForCausalLM",
	names: decoder.Names{
		decoder.Embedding:     "model.embed_tokens.weight",
		decoder.AttentionNorm: "model.layers.{layer}.input_layernorm.weight",
		decoder.Query:         "model.layers.{layer}.self_attn.q_proj.weight",
		decoder.Key:           "model.layers.{layer}.self_attn.k_proj.weight",
		decoder.Value:         "model.layers.{layer}.self_attn.v_proj.weight",
		decoder.Output:        "model.layers.{layer}.self_attn.o_proj.weight",
		decoder.QueryNorm:     "model.layers.{layer}.self_attn.q_norm.weight",
		decoder.KeyNorm:       "model.layers.{layer}.self_attn.k_norm.weight",
		decoder.MLPNorm:       "model.layers.{layer}.post_attention_layernorm.weight",
		decoder.Router:        "model.layers.{layer}.mlp.gate.weight",
		decoder.ExpertGate:    "model.layers.{layer}.mlp.experts.{expert}.gate_proj.weight",
		decoder.ExpertUp:      "model.layers.{layer}.mlp.experts.{expert}.up_proj.weight",
		decoder.ExpertDown:    "model.layers.{layer}.mlp.experts.{expert}.down_proj.weight",
		decoder.Gate:          "model.layers.{layer}.mlp.gate_proj.weight",
		decoder.Up:            "model.layers.{layer}.mlp.up_proj.weight",
		decoder.Down:          "model.layers.{layer}.mlp.down_proj.weight",
		decoder.FinalNorm:     "model.norm.weight",
		decoder.Head:          "lm_head.weight",
	},
	absent: map[string]any{
		"sliding_window": 4096, "num_key_value_heads": 4, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
		"decoder_sparse_step": 1,
	},
	read: func(k *keys, d *decoder.Config) {
		d.QKNorm, d.QKVBias = true, or(k, "attention_bias", false)
		d.OutputBias = d.QKVBias
		d.Rope = k.rope()
		if or(k, "use_sliding_window", false) {
			k.everyWindow(d)
		} else {
			k.sameLayers(d.Layers, fullAttention)
		}
		d.Experts = decoder.Experts{
			Count:  or(k, "num_local_experts", or(k, "num_experts", 0)), // transformers 5 and 4
			Chosen: or(k, "num_experts_per_tok", 0), Intermediate: or(k, "moe_intermediate_size", 0),
			Renormalize: or(k, "norm_topk_prob", false),
		}
		step := or(k, "decoder_sparse_step", 0)
		if step < 1 {
			k.fail(fmt.Errorf("decoder_sparse_step is %d, allowed: 1 or more", step))
		}
		if k.err != nil || d.Layers < 0 || d.Layers > decoder.MaxLayers {
			return // the decoder's Validate says what is wrong with the number of layers
		}
		if d.PerLayer == nil {
			d.PerLayer = make([]decoder.Layer, d.Layers)
		}
		for i := range d.PerLayer {
			d.PerLayer[i].Experts = d.Experts.Count > 0 && (i+1)%step == 0
		}
		for _, i := range or(k, "mlp_only_layers", []int(nil)) {
			if i >= 0 && i < d.Layers {
				d.PerLayer[i].Experts = false
			}
		}
	},
	write: func(d decoder.Config, c map[string]any) {
		c["attention_bias"], c["use_sliding_window"] = d.QKVBias, len(d.PerLayer) > 0 && d.PerLayer[0].Window > 0
		writeEveryWindow(d, c)
		c["num_local_experts"], c["num_experts_per_tok"] = d.Experts.Count, d.Experts.Chosen
		c["moe_intermediate_size"], c["norm_topk_prob"] = d.Experts.Intermediate, d.Experts.Renormalize
		plain := []int{}
		for i, l := range d.PerLayer {
			if !l.Experts {
				plain = append(plain, i)
			}
		}
		c["mlp_only_layers"], c["decoder_sparse_step"] = plain, 1
	},
})
