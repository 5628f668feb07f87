package hf

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/grouper-rl/grouper/policy/decoder"
)

// Gemma 3's text model, alone or within a model that sees images.
var _ = define(family{
	modelTypes: []string{"gemma3_text"},
	wrappers:   []string{"gemma3"},
	class:      "Gemma3ForCausalLM",
	names: decoder.Names{
		decoder.Embedding:         "model.embed_tokens.weight",
		decoder.AttentionNorm:     "model.layers.{layer}.input_layernorm.weight",
		decoder.Query:             "model.layers.{layer}.self_attn.q_proj.weight",
		decoder.Key:               "model.layers.{layer}.self_attn.k_proj.weight",
		decoder.Value:             "model.layers.{layer}.self_attn.v_proj.weight",
		decoder.Output:            "model.layers.{layer}.self_attn.o_proj.weight",
		decoder.QueryNorm:         "model.layers.{layer}.self_attn.q_norm.weight",
		decoder.KeyNorm:           "model.layers.{layer}.self_attn.k_norm.weight",
		decoder.AttentionPostNorm: "model.layers.{layer}.post_attention_layernorm.weight",
		decoder.MLPNorm:           "model.layers.{layer}.pre_feedforward_layernorm.weight",
		decoder.Gate:              "model.layers.{layer}.mlp.gate_proj.weight",
		decoder.Up:                "model.layers.{layer}.mlp.up_proj.weight",
		decoder.Down:              "model.layers.{layer}.mlp.down_proj.weight",
		decoder.MLPPostNorm:       "model.layers.{layer}.post_feedforward_layernorm.weight",
		decoder.FinalNorm:         "model.norm.weight",
		decoder.Head:              "lm_head.weight",
	},
	roots:  []string{"model.", "model.language_model.", "language_model.model."},
	towers: []string{"vision_tower.", "multi_modal_projector.", "model.vision_tower.", "model.multi_modal_projector."},
	// The text_config of released checkpoints has only what differs from these.
	absent: map[string]any{
		"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
		"num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072, "hidden_activation": "gelu_pytorch_tanh",
		"tie_word_embeddings": true, "query_pre_attn_scalar": 256.0, "sliding_window": 4096,
		"rope_theta": 1e6, "rope_local_base_freq": 1e4,
	},
	read: func(k *keys, d *decoder.Config) {
		k.none("attn_logit_softcapping", "final_logit_softcapping", "use_bidirectional_attention")
		d.Norms, d.NormStyle, d.QKNorm = decoder.NormsAround, decoder.NormOffset, true
		d.QKVBias = or(k, "attention_bias", false)
		d.OutputBias = d.QKVBias
		d.EmbeddingScale = math.Sqrt(float64(d.Hidden))
		scalar := or(k, "query_pre_attn_scalar", 0.0)
		if !(scalar > 0) {
			k.fail(fmt.Errorf("query_pre_attn_scalar is %v, allowed: above 0", scalar))
		}
		d.AttentionScale = 1 / math.Sqrt(scalar)
		d.Rope, d.LocalRope = gemmaRopes(k)
		pattern := or(k, "sliding_window_pattern", or(k, "_sliding_window_pattern", 6))
		if pattern < 1 {
			k.fail(fmt.Errorf("sliding_window_pattern is %d, allowed: 1 or more", pattern))
			return
		}
		k.windows(d, k.layerTypes(d.Layers, func(i int) string {
			if (i+1)%pattern == 0 {
				return fullAttention
			}
			return slidingAttention
		}, fullAttention, slidingAttention), or(k, "sliding_window", 0))
		for i := range d.PerLayer {
			if d.PerLayer[i].Window > 0 {
				d.PerLayer[i].Rope = decoder.LocalRope
			}
		}
	},
	write: func(d decoder.Config, c map[string]any) {
		delete(c, "hidden_act")
		c["hidden_activation"], c["attention_bias"] = d.Activation, d.QKVBias
		scalar := 1 / (d.AttentionScale * d.AttentionScale)
		if whole := math.Round(scalar); 1/math.Sqrt(whole) == d.AttentionScale {
			scalar = whole
		}
		c["query_pre_attn_scalar"] = scalar
		c["rope_parameters"] = map[string]any{fullAttention: writeRope(d.Rope)}
		if d.LocalRope != (decoder.Rope{}) {
			c["rope_parameters"] = map[string]any{fullAttention: writeRope(d.Rope), slidingAttention: writeRope(d.LocalRope)}
		}
		writeWindows(d, c)
	},
})

// gemmaRopes reads the rotary positions of global layers, and of local ones: rope_parameters by layer type in transformers 5, keys
// of their own in transformers 4.
func gemmaRopes(k *keys) (global, local decoder.Rope) {
	theta, localTheta := or(k, "rope_theta", 0.0), or(k, "rope_local_base_freq", 0.0)
	if !k.has("rope_parameters") {
		return k.ropeOf("rope_scaling", k.raw["rope_scaling"], theta), k.ropeOf("rope_local_base_freq", nil, localTheta)
	}
	byType := need[map[string]json.RawMessage](k, "rope_parameters")
	for t := range byType {
		if t != fullAttention && t != slidingAttention {
			k.unsupported("rope_parameters", fmt.Sprintf("with key %q", t), "full_attention, sliding_attention")
		}
	}
	return k.ropeOf("rope_parameters."+fullAttention, byType[fullAttention], theta),
		k.ropeOf("rope_parameters."+slidingAttention, byType[slidingAttention], localTheta)
}
