package hf_test

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/safetensors"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/hf"
)

// rename changes the names of a folder's tensors.
func rename(t *testing.T, fsys fstest.MapFS, to func(string) string, more ...safetensors.Tensor) {
	t.Helper()
	rewrite(t, fsys, func(ts []safetensors.Tensor) []safetensors.Tensor {
		for i := range ts {
			ts[i].Name = to(ts[i].Name)
		}
		return append(ts, more...)
	})
}

// Released Gemma 3 and Mistral checkpoints wrap the text model in one that sees images, with names that changed between versions
// of transformers. Users want to train the text model of these, too.
func TestTextWithinVision(t *testing.T) {
	gemmaConfig := func(c *decoder.Config) {
		gemma(c)
		c.Layers, c.PerLayer = 3, []decoder.Layer{{Window: 4, Rope: decoder.LocalRope}, {Window: 4, Rope: decoder.LocalRope}, {}}
		c.LocalRope = decoder.Rope{Theta: 1e4}
	}
	mistral := func(c *decoder.Config) { c.PerLayer = []decoder.Layer{{Window: 4}, {Window: 4}} }
	vision := func(name string) safetensors.Tensor {
		return safetensors.Tensor{Name: name, DType: "F16", Shape: []int{2}, Data: safetensors.Bytes(make([]byte, 4))}
	}
	under := func(root, head string) func(string) string {
		return func(name string) string {
			if rest, ok := strings.CutPrefix(name, "model."); ok {
				return root + rest
			}
			return head + name
		}
	}
	for name, c := range map[string]struct {
		change  func(*decoder.Config)
		wrapper string
		rename  func(string) string
		towers  []string
	}{
		"gemma3, old names":   {gemmaConfig, "gemma3", under("language_model.model.", "language_model."), []string{"multi_modal_projector.a", "vision_tower.b"}},
		"gemma3, new names":   {gemmaConfig, "gemma3", under("model.language_model.", ""), []string{"model.multi_modal_projector.a", "model.vision_tower.b"}},
		"mistral3, old names": {mistral, "mistral3", under("language_model.model.", "language_model."), []string{"vision_tower.b"}},
		"mistral3, new names": {mistral, "mistral3", under("model.language_model.", ""), []string{"model.vision_tower.b"}},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := folder(t, c.change)
			plain, pw, err := hf.Load(t.Context(), fsys)
			require.NoError(t, err)
			defer pw.Free()
			require.Empty(t, plain.PassedThrough)

			var text map[string]any
			require.NoError(t, json.Unmarshal(fsys["config.json"].Data, &text))
			text["eos_token_id"] = 7
			data, err := json.Marshal(map[string]any{"model_type": c.wrapper, "text_config": text, "vision_config": map[string]any{"hidden_size": 3}})
			require.NoError(t, err)
			fsys["config.json"] = &fstest.MapFile{Data: data}
			delete(fsys, "generation_config.json")
			var towers []safetensors.Tensor
			for _, x := range c.towers {
				towers = append(towers, vision(x))
			}
			rename(t, fsys, c.rename, towers...)
			m, w, err := hf.Load(t.Context(), fsys)
			require.NoError(t, err)
			defer w.Free()
			require.Equal(t, c.towers, m.PassedThrough)
			require.Equal(t, []int32{7}, m.Generation.EOS)
			got, want := m.Config(), plain.Config()
			got.Names, want.Names = nil, nil
			require.Equal(t, want, got)
			for i, p := range plain.Params() {
				require.Equal(t, c.rename(p.Name), m.Params()[i].Name)
				require.Equal(t, pw.Tensors[i].Value(), w.Tensors[i].Value())
			}

			rename(t, fsys, func(s string) string { return s }, vision("audio_tower.x"))
			_, _, err = hf.Load(t.Context(), fsys)
			require.ErrorContains(t, err, `"audio_tower.x" does not belong`)
			edit(t, fsys, map[string]any{"model_type": "llava"})
			_, _, err = hf.Load(t.Context(), fsys)
			require.ErrorIs(t, err, hf.ErrUnsupported)
			require.ErrorContains(t, err, `"llava" with a text_config of type`)
		})
	}
}

// Keys that are absent mean what transformers means by their absence; hub files rely on it.
func TestAbsentKeys(t *testing.T) {
	load := func(t *testing.T, change func(*decoder.Config), keys map[string]any) decoder.Config {
		t.Helper()
		fsys := folder(t, change)
		edit(t, fsys, keys)
		m, w, err := hf.Load(t.Context(), fsys)
		require.NoError(t, err)
		w.Free()
		return m.Config()
	}
	windows := func(c decoder.Config) (out []int) {
		for _, l := range c.PerLayer {
			out = append(out, l.Window)
		}
		return out
	}
	sandwich := func(c *decoder.Config) {
		gemma(c)
		c.Layers = 7
	}
	c := load(t, sandwich, map[string]any{"layer_types": nil, "rope_parameters": nil, "sliding_window": 9, "tie_word_embeddings": nil,
		"hidden_activation": nil, "query_pre_attn_scalar": nil})
	require.Equal(t, []int{9, 9, 9, 9, 9, 0, 9}, windows(c))
	require.Equal(t, decoder.LocalRope, c.PerLayer[0].Rope)
	require.Equal(t, 1e6, c.Rope.Theta)
	require.Equal(t, 1e4, c.LocalRope.Theta)
	require.Equal(t, 1.0/16, c.AttentionScale)
	c = load(t, sandwich, map[string]any{"layer_types": nil, "_sliding_window_pattern": 3, "sliding_window": 9})
	require.Equal(t, []int{9, 9, 0, 9, 9, 0, 9}, windows(c))

	mistral := func(c *decoder.Config) { c.PerLayer = []decoder.Layer{{Window: 4}, {Window: 4}} }
	require.Equal(t, []int{4096, 4096}, windows(load(t, mistral, map[string]any{"sliding_window": nil})))
	require.Nil(t, load(t, mistral, map[string]any{"sliding_window": json.RawMessage("null")}).PerLayer)

	smol := func(c *decoder.Config) { c.Layers, c.PerLayer = 4, []decoder.Layer{{Rope: decoder.NoRope}, {}, {}, {}} }
	c = load(t, smol, map[string]any{"no_rope_layers": nil, "layer_types": nil, "rope_parameters": nil, "use_sliding_window": true, "sliding_window": 6})
	require.Equal(t, []decoder.Layer{{}, {}, {}, {Rope: decoder.NoRope, Window: 6}}, c.PerLayer)
	require.Equal(t, 2e6, c.Rope.Theta)

	biased := func(c *decoder.Config) { c.QKVBias, c.Layers = true, 3 }
	c = load(t, biased, map[string]any{"layer_types": nil, "use_sliding_window": true, "sliding_window": 6, "max_window_layers": 1})
	require.Equal(t, []int{0, 6, 6}, windows(c))
	require.Nil(t, load(t, biased, map[string]any{"layer_types": nil, "sliding_window": 6, "max_window_layers": 1}).PerLayer)
}

// As [TestLoadRefusesConfig], for keys of single families.
func TestFamiliesRefuseConfig(t *testing.T) {
	bases := map[string]func(*decoder.Config){
		"mistral": func(c *decoder.Config) { c.PerLayer = []decoder.Layer{{Window: 4}, {Window: 4}} },
		"gemma3": func(c *decoder.Config) {
			gemma(c)
			c.PerLayer = []decoder.Layer{{Window: 4, Rope: decoder.LocalRope}, {}}
			c.LocalRope.Theta = 1e4
		},
		"smollm3": func(c *decoder.Config) { c.PerLayer = []decoder.Layer{{Rope: decoder.NoRope}, {}} },
		"moe": func(c *decoder.Config) {
			c.QKNorm, c.PerLayer = true, []decoder.Layer{{Experts: true}, {Experts: true}}
			c.Experts = decoder.Experts{Count: 3, Chosen: 2, Intermediate: 5}
		},
	}
	for _, c := range []struct {
		base        string
		changes     map[string]any
		want        string
		unsupported bool
	}{
		{"mistral", map[string]any{"sliding_window": 0}, "sliding_window is 0", false},
		{"mistral", map[string]any{"layer_types": []string{"sliding_attention", "full_attention"}}, `layer_types[1] is "full_attention"`, true},
		{"mistral", map[string]any{"num_hidden_layers": 1 << 30}, "Layers is 1073741824", false},
		{"gemma3", map[string]any{"attn_logit_softcapping": 50.0}, "attn_logit_softcapping is 50", true},
		{"gemma3", map[string]any{"final_logit_softcapping": 30.0}, "final_logit_softcapping is 30", true},
		{"gemma3", map[string]any{"use_bidirectional_attention": true}, "use_bidirectional_attention is true", true},
		{"gemma3", map[string]any{"hidden_activation": "gelu"}, `hidden_activation is "gelu"`, true},
		{"gemma3", map[string]any{"query_pre_attn_scalar": 0}, "query_pre_attn_scalar is 0", false},
		{"gemma3", map[string]any{"layer_types": []string{"chunked_attention", "full_attention"}}, `layer_types[0] is "chunked_attention"`, true},
		{"gemma3", map[string]any{"layer_types": nil, "sliding_window_pattern": 0}, "sliding_window_pattern is 0", false},
		{"gemma3", map[string]any{"sliding_window": json.RawMessage("null")}, "sliding_window is missing", false},
		{"gemma3", map[string]any{"rope_parameters": map[string]any{"other": map[string]any{}}}, `key "other"`, true},
		{"gemma3", map[string]any{"rope_parameters": map[string]any{"full_attention": map[string]any{"rope_type": "dynamic"}}}, `rope_parameters.full_attention.rope_type is "dynamic"`, true},
		{"gemma3", map[string]any{"layer_types": nil, "num_hidden_layers": 1 << 40}, "Layers is", false},
		{"smollm3", map[string]any{"no_rope_layers": []int{1}}, "no_rope_layers has 1 entries", false},
		{"smollm3", map[string]any{"no_rope_layers": nil, "no_rope_layer_interval": 0}, "no_rope_layer_interval is 0", false},
		{"smollm3", map[string]any{"no_rope_layers": nil, "num_hidden_layers": 1 << 40}, "Layers is", false},
		{"moe", map[string]any{"decoder_sparse_step": 0}, "decoder_sparse_step is 0", false},
		{"moe", map[string]any{"num_local_experts": 1 << 40}, "Experts.Count is", false},
		{"moe", map[string]any{"num_experts_per_tok": 4}, "Experts.Chosen is 4", false},
		{"moe", map[string]any{"moe_intermediate_size": 1 << 40}, "Experts.Intermediate is", false},
		{"moe", map[string]any{"num_local_experts": 4}, `"model.layers.0.mlp.gate.weight" has shape [3 8]`, false},
		{"moe", map[string]any{"mlp_only_layers": []int{1}}, `"model.layers.1.mlp.gate_proj.weight" is missing`, false},
		{"moe", map[string]any{"num_hidden_layers": -1}, "Layers is -1", false},
	} {
		fsys := folder(t, bases[c.base])
		edit(t, fsys, maps.Clone(c.changes))
		_, _, err := hf.Load(t.Context(), fsys)
		require.ErrorContains(t, err, c.want)
		require.Equal(t, c.unsupported, errors.Is(err, hf.ErrUnsupported), "%v", err)
	}
}
