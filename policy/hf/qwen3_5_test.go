package hf_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/safetensors"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/hf"
)

// Where config.json leaves keys out, the model is the one that transformers makes of it.
func TestQwen35Absent(t *testing.T) {
	fsys := folder(t, func(c *decoder.Config) {
		c.Layers, c.HeadDim = 4, 8
		qwen35(c)
		c.Rope.Partial, c.DeltaNet.Kernel = 0.25, 4
		c.PerLayer = []decoder.Layer{{Recurrent: true}, {Recurrent: true}, {Recurrent: true}, {}}
	})
	want, w, err := hf.Load(t.Context(), fsys)
	require.NoError(t, err)
	w.Free()
	edit(t, fsys, map[string]any{
		"layer_types": nil, "linear_conv_kernel_dim": nil, "attention_bias": nil,
		"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 5e5, "mrope_section": []int{1, 0, 0}, "mrope_interleaved": true},
	})
	got, w, err := hf.Load(t.Context(), fsys)
	require.NoError(t, err)
	w.Free()
	require.Equal(t, want.Config(), got.Config())
}

// A variant of the model that is not computed as its makers meant it must be refused by the key that says so.
func TestQwen35Refuses(t *testing.T) {
	for _, c := range []struct {
		changes     map[string]any
		want        string
		unsupported bool
	}{
		{map[string]any{"attn_output_gate": false}, "attn_output_gate is false", true},
		{map[string]any{"hidden_act": "gelu_pytorch_tanh"}, "hidden_act", true},
		{map[string]any{"layer_types": []string{"linear_attention", "sliding_attention"}}, `layer_types[1] is "sliding_attention"`, true},
		{map[string]any{"layer_types": nil, "full_attention_interval": 0}, "full_attention_interval is 0", false},
		{map[string]any{"rope_parameters": map[string]any{"rope_theta": 1e4, "partial_rotary_factor": 0.5}}, "Partial is 0.5", false}, // three of six
		{map[string]any{"rope_parameters": map[string]any{"rope_theta": 1e4, "new_key": 1}}, "new_key", true},
		{map[string]any{"linear_num_value_heads": 0}, "DeltaNet.ValueHeads is 0", false},
		{map[string]any{"linear_num_key_heads": 2}, "DeltaNet.ValueHeads is 3", false},
		{map[string]any{"linear_conv_kernel_dim": 1}, "DeltaNet.Kernel is 1", false},
		{map[string]any{"linear_key_head_dim": 1 << 40}, "DeltaNet.KeyDim", false},
		{map[string]any{"linear_value_head_dim": 6}, `"model.layers.0.linear_attn.in_proj_qkv.weight" has shape [23 8], config.json asks for [26 8]`, false},
	} {
		fsys := folder(t, qwen35)
		edit(t, fsys, c.changes)
		_, _, err := hf.Load(t.Context(), fsys)
		require.ErrorContains(t, err, c.want)
		require.Equal(t, c.unsupported, errors.Is(err, hf.ErrUnsupported), "%v", err)
	}
}

// What a checkpoint has beside the text model must be in the saved one, whatever its type, or the folder no longer opens elsewhere. If it
// cannot be had, there must be no folder that looks whole.
func TestPassedThrough(t *testing.T) {
	fsys := folder(t, func(c *decoder.Config) { qwen35(c); c.DType = dtypes.BFloat16 })
	tower := safetensors.Tensor{Name: "model.visual.x", DType: "F16", Shape: []int{2, 3}, Data: safetensors.Bytes([]byte("twelve bytes"))}
	text := fsys["model.safetensors"]
	rewrite(t, fsys, func(ts []safetensors.Tensor) []safetensors.Tensor {
		for i, x := range ts {
			if x.Name == "model.layers.0.linear_attn.A_log" { // in float32, as released checkpoints have it
				ts[i].DType, ts[i].Data = "F32", safetensors.Bytes(make([]byte, 12))
			}
		}
		return append(ts, tower)
	})
	m, w, err := hf.Load(t.Context(), fsys)
	require.NoError(t, err)
	defer w.Free()
	require.Equal(t, []string{tower.Name}, m.PassedThrough)
	for i, p := range w.Params {
		want := dtypes.BFloat16
		if p.Name == "model.layers.0.linear_attn.A_log" {
			want = dtypes.Float32
		}
		require.Equal(t, want, w.Tensors[i].DType(), p.Name)
	}
	parent := t.TempDir()
	require.NoError(t, hf.Save(t.Context(), filepath.Join(parent, "a"), m, w))
	source := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(source, "model.safetensors"), fsys["model.safetensors"].Data, 0o644))
	require.Equal(t, contents(t, source), contents(t, filepath.Join(parent, "a")))

	changed := *fsys["model.safetensors"] // the same tensors, but others than those that were loaded
	changed.ModTime = time.Now()
	fsys["model.safetensors"] = &changed
	require.ErrorContains(t, hf.Save(t.Context(), filepath.Join(parent, "b"), m, w), `"model.visual.x": model.safetensors is not the file that was loaded`)
	fsys["model.safetensors"] = text
	require.ErrorContains(t, hf.Save(t.Context(), filepath.Join(parent, "b"), m, w), `"model.visual.x" is no longer`)
	delete(fsys, "model.safetensors")
	require.ErrorContains(t, hf.Save(t.Context(), filepath.Join(parent, "c"), m, w), "model.safetensors")
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
