package hf

import (
	"fmt"

	"github.com/grouper-rl/grouper/policy/decoder"
)

// SmolLM 3: some layers have no rotary positions.
var _ = define(family{
	modelTypes: []string{"smollm3"},
	class:      "SmolLM3ForCausalLM",
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
	absent: map[string]any{"num_key_value_heads": 4, "rope_theta": 2e6, "tie_word_embeddings": true, "no_rope_layer_interval": 4},
	read: func(k *keys, d *decoder.Config) {
		d.QKVBias, d.MLPBias = or(k, "attention_bias", false), or(k, "mlp_bias", false)
		d.OutputBias = d.QKVBias
		d.Rope = k.rope()
		// Despite its name, the list has 1 for layers with rotary positions.
		rotated, ok := get[[]int](k, "no_rope_layers")
		interval := or(k, "no_rope_layer_interval", 0)
		switch {
		case ok && len(rotated) < d.Layers:
			k.fail(fmt.Errorf("no_rope_layers has %d entries, num_hidden_layers is %d", len(rotated), d.Layers))
		case !ok && interval < 1:
			k.fail(fmt.Errorf("no_rope_layer_interval is %d, allowed: 1 or more", interval))
		}
		if k.err != nil || d.Layers < 0 || d.Layers > decoder.MaxLayers {
			return // the decoder's Validate says what is wrong with the number of layers
		}
		layers := make([]decoder.Layer, d.Layers)
		for i := range layers {
			if ok && rotated[i] == 0 || !ok && (i+1)%interval == 0 {
				layers[i].Rope = decoder.NoRope
				d.PerLayer = layers
			}
		}
		window := 0
		if or(k, "use_sliding_window", false) {
			window = or(k, "sliding_window", 0)
		}
		k.windows(d, k.layerTypes(d.Layers, func(i int) string {
			if window > 0 && layers[i].Rope == decoder.NoRope {
				return slidingAttention
			}
			return fullAttention
		}, fullAttention, slidingAttention), window)
	},
	write: func(d decoder.Config, c map[string]any) {
		c["attention_bias"], c["mlp_bias"] = d.QKVBias, d.MLPBias
		rotated := make([]int, d.Layers)
		for i := range rotated {
			if len(d.PerLayer) == 0 || d.PerLayer[i].Rope != decoder.NoRope {
				rotated[i] = 1
			}
		}
		c["no_rope_layers"] = rotated
		writeWindows(d, c)
	},
})
