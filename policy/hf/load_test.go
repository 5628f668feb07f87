package hf_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/safetensors"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// folder is a saved small model in memory, to be spoiled.
func folder(t *testing.T, change func(*decoder.Config)) fstest.MapFS {
	t.Helper()
	c := small()
	if change != nil {
		change(&c)
	}
	m, w := build(t, c)
	defer w.Free()
	dir := filepath.Join(t.TempDir(), "model")
	require.NoError(t, hf.Save(t.Context(), dir, m, w))
	out := fstest.MapFS{}
	for _, name := range []string{"config.json", "generation_config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		out[name] = &fstest.MapFile{Data: data}
	}
	return out
}

// edit changes keys of a folder's configuration; nil removes one.
func edit(t *testing.T, fsys fstest.MapFS, changes map[string]any) {
	t.Helper()
	var c map[string]any
	require.NoError(t, json.Unmarshal(fsys["config.json"].Data, &c))
	for k, v := range changes {
		if c[k] = v; v == nil {
			delete(c, k)
		}
	}
	data, err := json.Marshal(c)
	require.NoError(t, err)
	fsys["config.json"] = &fstest.MapFile{Data: data}
}

// rewrite changes a folder's tensors.
func rewrite(t *testing.T, fsys fstest.MapFS, change func([]safetensors.Tensor) []safetensors.Tensor) {
	t.Helper()
	raw := fsys["model.safetensors"].Data
	f, err := safetensors.Open(bytes.NewReader(raw), int64(len(raw)))
	require.NoError(t, err)
	var b bytes.Buffer
	require.NoError(t, safetensors.Write(&b, nil, change(f.Tensors())))
	fsys["model.safetensors"] = &fstest.MapFile{Data: b.Bytes()}
}

// A model that is not computed as its makers meant it must be refused by the key that says so, never guessed at.
func TestLoadRefusesConfig(t *testing.T) {
	rope := func(m map[string]any) map[string]any { return map[string]any{"rope_parameters": m} }
	for _, c := range []struct {
		changes     map[string]any
		want        string
		unsupported bool
	}{
		{map[string]any{"model_type": "mamba"}, `model_type is "mamba"`, true},
		{map[string]any{"model_type": nil}, "model_type", true},
		{map[string]any{"hidden_act": "relu"}, `hidden_act is "relu"`, true},
		{map[string]any{"layer_types": []string{"full_attention", "sliding_attention"}}, `layer_types[1] is "sliding_attention"`, true},
		{map[string]any{"layer_types": []string{"full_attention"}}, "layer_types has 1 entries", false},
		{map[string]any{"model_type": "qwen3", "layer_types": []string{"sliding_attention", "full_attention"}}, "sliding_window is missing", false},
		{map[string]any{"quantization_config": map[string]any{"bits": 4}}, "quantization_config", true},
		{rope(map[string]any{"rope_type": "longrope"}), `rope_type is "longrope"`, true},
		{rope(map[string]any{"rope_type": "default", "partial_rotary_factor": 0.5}), "partial_rotary_factor", true},
		{rope(map[string]any{"full_attention": map[string]any{"rope_theta": 1e4}}), "full_attention", true},
		{rope(map[string]any{"rope_type": "yarn", "factor": 2.0, "mscale": 1.0}), "mscale", true},
		{rope(map[string]any{"rope_type": "linear"}), "rope_parameters.factor is missing", false},
		{rope(map[string]any{"rope_type": "llama3", "factor": 2.0}), "low_freq_factor is missing", false},
		{rope(map[string]any{"rope_type": "yarn", "factor": 2.0, "original_max_position_embeddings": 1.5}), "whole number", false},
		{rope(map[string]any{"rope_type": "linear", "factor": 0.5}), "Factor is 0.5", false},
		{rope(map[string]any{"rope_theta": 0.0}), "Theta is 0", false},
		{map[string]any{"rope_parameters": 3}, "rope_parameters", false},
		{map[string]any{"vocab_size": nil}, "vocab_size is missing", false},
		{map[string]any{"hidden_size": "eight"}, "hidden_size", false},
		{map[string]any{"hidden_size": 1 << 40}, "Hidden is 1099511627776", false},
		{map[string]any{"num_hidden_layers": 0}, "Layers is 0", false},
		{map[string]any{"num_hidden_layers": 1 << 30}, "Layers is", false},
		{map[string]any{"num_key_value_heads": 3}, "KVHeads is 3", false},
		{map[string]any{"num_attention_heads": 3, "num_key_value_heads": 3, "head_dim": nil}, "head_dim is missing", false},
		{map[string]any{"head_dim": 5}, "HeadDim is 5", false},
		{map[string]any{"head_dim": 0}, "head_dim is 0", false},
		{map[string]any{"rms_norm_eps": -1}, "NormEps is -1", false},
		{map[string]any{"vocab_size": 1 << 23, "hidden_size": 1 << 23, "head_dim": 2}, "weights, allowed", false},
		{map[string]any{"eos_token_id": "x"}, "config.json", false},
		{map[string]any{"tie_word_embeddings": true}, "lm_head.weight", false},
		{map[string]any{"intermediate_size": 13}, `"model.layers.0.mlp.gate_proj.weight" has shape [12 8], config.json asks for [13 8]`, false},
		{map[string]any{"num_hidden_layers": 3}, `"model.layers.2.input_layernorm.weight" is missing`, false},
		{map[string]any{"num_hidden_layers": 1}, `"model.layers.1.input_layernorm.weight" does not belong`, false},
	} {
		fsys := folder(t, nil)
		edit(t, fsys, c.changes)
		_, _, err := hf.Load(t.Context(), fsys)
		require.ErrorContains(t, err, c.want)
		require.Equal(t, c.unsupported, errors.Is(err, hf.ErrUnsupported), "%v", err)
	}
}

// A file that means two things, or that is none, must be refused by name: it must not panic, wait, or be taken for absent.
func TestLoadRefusesFiles(t *testing.T) {
	twice := func(data []byte, key string) []byte {
		return append([]byte(`{"`+key+`": 1, `), bytes.TrimLeft(data, " {\n")...)
	}
	for want, spoil := range map[string]func(fstest.MapFS){
		"config.json: text_config: json: cannot unmarshal array": func(f fstest.MapFS) {
			f["config.json"].Data = []byte(`{"model_type": "qwen3_5", "text_config": [], "tie_word_embeddings": true, "quantization_config": {}}`)
		},
		`config.json: key "vocab_size" stands twice`: func(f fstest.MapFS) { f["config.json"].Data = twice(f["config.json"].Data, "vocab_size") },
		`generation_config.json: key "top_k" stands twice`: func(f fstest.MapFS) {
			f["generation_config.json"].Data = []byte(`{"top_k": 5, "top_k": 6}`)
		},
		`model.safetensors.index.json: key "a" stands twice`: func(f fstest.MapFS) {
			delete(f, "model.safetensors")
			f["model.safetensors.index.json"] = &fstest.MapFile{Data: []byte(`{"weight_map": {"a": "x.safetensors", "a": "y.safetensors"}}`)}
		},
	} {
		fsys := folder(t, nil)
		spoil(fsys)
		_, _, err := hf.Load(t.Context(), fsys)
		require.ErrorContains(t, err, want)
	}
	fsys := folder(t, nil)
	for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json", "chat_template.jinja", "model.safetensors"} {
		for want, put := range map[string]func(string) error{
			"not a regular file": func(path string) error { return syscall.Mkfifo(path, 0o644) },
			"a link to a file":   func(path string) error { return os.Symlink("nowhere", path) },
		} {
			dir := t.TempDir()
			require.NoError(t, os.CopyFS(dir, fsys))
			require.NoError(t, errors.Join(os.RemoveAll(filepath.Join(dir, name)), put(filepath.Join(dir, name))))
			m, _, err := hf.Load(t.Context(), os.DirFS(dir))
			if err == nil {
				err = m.ChatErr
			}
			require.ErrorContains(t, err, name+": "+want)
		}
	}
}

// Damaged weights must be refused by the tensor's name, not trained on.
func TestLoadRefusesWeights(t *testing.T) {
	constant := func(dtype safetensors.DType, n int, shape ...int) safetensors.Tensor {
		return safetensors.Tensor{Name: "x", DType: dtype, Shape: shape, Data: safetensors.Bytes(make([]byte, n))}
	}
	spoil := func(name string, change func(t *safetensors.Tensor)) func([]safetensors.Tensor) []safetensors.Tensor {
		return func(ts []safetensors.Tensor) []safetensors.Tensor {
			for i := range ts {
				if ts[i].Name == name {
					change(&ts[i])
				}
			}
			return ts
		}
	}
	bad := func(bits uint32) func(*safetensors.Tensor) {
		return func(x *safetensors.Tensor) {
			data := make([]byte, x.Size())
			binary.LittleEndian.PutUint32(data[12:], bits)
			x.Data = safetensors.Bytes(data)
		}
	}
	for _, c := range []struct {
		change func([]safetensors.Tensor) []safetensors.Tensor
		want   string
	}{
		{func(ts []safetensors.Tensor) []safetensors.Tensor { return ts[1:] }, `is missing`},
		{func(ts []safetensors.Tensor) []safetensors.Tensor { return append(ts, constant("F32", 4, 1)) }, `"x" does not belong`},
		{spoil("model.norm.weight", func(x *safetensors.Tensor) { x.DType, x.Data = "F16", safetensors.Bytes(make([]byte, 16)) }), `"model.norm.weight" has dtype F16`},
		{func([]safetensors.Tensor) []safetensors.Tensor { return nil }, "no tensors"},
		{spoil("model.norm.weight", bad(math.Float32bits(float32(math.NaN())))), `"model.norm.weight": element 3 is NaN or infinite`},
		{spoil("lm_head.weight", bad(math.Float32bits(float32(math.Inf(-1))))), `"lm_head.weight": element 3 is NaN or infinite`},
		{spoil("model.norm.weight", func(x *safetensors.Tensor) { x.Shape = []int{2, 4} }), `"model.norm.weight" has shape [2 4]`},
	} {
		fsys := folder(t, nil)
		rewrite(t, fsys, c.change)
		_, _, err := hf.Load(t.Context(), fsys)
		require.ErrorContains(t, err, c.want)
	}
	half := folder(t, func(c *decoder.Config) { c.DType = dtypes.BFloat16 })
	rewrite(t, half, spoil("model.norm.weight", func(x *safetensors.Tensor) {
		x.Data = safetensors.Bytes([]byte{0, 0, 0xc0, 0x7f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	}))
	_, _, err := hf.Load(t.Context(), half)
	require.ErrorContains(t, err, `"model.norm.weight": element 1 is NaN or infinite`)

	cut := folder(t, nil)
	cut["model.safetensors"].Data = cut["model.safetensors"].Data[:len(cut["model.safetensors"].Data)-1]
	_, _, err = hf.Load(t.Context(), cut)
	require.ErrorIs(t, err, safetensors.ErrFormat)
	require.ErrorContains(t, err, "model.safetensors")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = hf.Load(ctx, folder(t, nil))
	require.ErrorIs(t, err, context.Canceled)
	for _, name := range []string{"config.json", "model.safetensors"} {
		fsys := folder(t, nil)
		delete(fsys, name)
		_, _, err = hf.Load(t.Context(), fsys)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.ErrorContains(t, err, name)
	}
}

// Sharded checkpoints must be exactly what their index says; a shard of another download would mix two models.
func TestShards(t *testing.T) {
	shard := func(t *testing.T) (fstest.MapFS, map[string]string) {
		fsys := folder(t, nil)
		raw := fsys["model.safetensors"].Data
		f, err := safetensors.Open(bytes.NewReader(raw), int64(len(raw)))
		require.NoError(t, err)
		delete(fsys, "model.safetensors")
		index := map[string]string{}
		all := f.Tensors()
		for i, ts := range [][]safetensors.Tensor{all[:5], all[5:]} {
			name := fmt.Sprintf("model-%05d-of-00002.safetensors", i+1)
			var b bytes.Buffer
			require.NoError(t, safetensors.Write(&b, nil, ts))
			fsys[name] = &fstest.MapFile{Data: b.Bytes()}
			for _, x := range ts {
				index[x.Name] = name
			}
		}
		return fsys, index
	}
	load := func(t *testing.T, fsys fstest.MapFS, index map[string]string) error {
		data, err := json.Marshal(map[string]any{"weight_map": index})
		require.NoError(t, err)
		fsys["model.safetensors.index.json"] = &fstest.MapFile{Data: data}
		_, w, err := hf.Load(t.Context(), fsys)
		if err == nil {
			_, plain, perr := hf.Load(t.Context(), folder(t, nil))
			require.NoError(t, perr)
			require.Equal(t, digest(t, plain), digest(t, w))
		}
		return err
	}
	const first = "model-00001-of-00002.safetensors"
	fsys, index := shard(t)
	require.NoError(t, load(t, fsys, index))
	index["lm_head.weight"] = "model-00002-of-00002.safetensors"
	require.ErrorContains(t, load(t, fsys, index), `"lm_head.weight" is not in model-00002`)
	delete(index, "lm_head.weight")
	require.ErrorContains(t, load(t, fsys, index), `"lm_head.weight" in `+first+` is not in`)
	index["lm_head.weight"] = "../" + first
	require.ErrorContains(t, load(t, fsys, index), "not a file of the folder")
	index["lm_head.weight"] = "model-00003.safetensors"
	require.ErrorIs(t, load(t, fsys, index), fs.ErrNotExist)
	require.ErrorContains(t, load(t, fsys, nil), "empty")
	fsys, index = shard(t)
	fsys["model-00002-of-00002.safetensors"] = fsys[first]
	require.ErrorContains(t, load(t, fsys, index), "is in "+first+" and in")
}

// Many tied checkpoints store the output projection as well; it must be the embedding.
func TestTiedHead(t *testing.T) {
	fsys := folder(t, func(c *decoder.Config) { c.Tied = true })
	withHead := func(change func(*safetensors.Tensor)) func([]safetensors.Tensor) []safetensors.Tensor {
		return func(ts []safetensors.Tensor) []safetensors.Tensor {
			for _, x := range ts {
				if x.Name == "model.embed_tokens.weight" {
					x.Name = "lm_head.weight"
					change(&x)
					return append(ts, x, safetensors.Tensor{Name: "model.layers.0.self_attn.rotary_emb.inv_freq", DType: "F32", Shape: []int{1}, Data: safetensors.Bytes(make([]byte, 4))})
				}
			}
			return nil
		}
	}
	rewrite(t, fsys, withHead(func(*safetensors.Tensor) {}))
	_, w, err := hf.Load(t.Context(), fsys)
	require.NoError(t, err)
	w.Free()
	fsys = folder(t, func(c *decoder.Config) { c.Tied = true })
	rewrite(t, fsys, withHead(func(x *safetensors.Tensor) { x.Data = safetensors.Bytes(make([]byte, x.Size())) }))
	_, _, err = hf.Load(t.Context(), fsys)
	require.ErrorContains(t, err, "tie_word_embeddings")
}

// The tokens that end a completion decide where sampling stops.
func TestGeneration(t *testing.T) {
	fsys := folder(t, nil)
	edit(t, fsys, map[string]any{"eos_token_id": 3, "bos_token_id": 1})
	fsys["generation_config.json"] = &fstest.MapFile{Data: []byte(`{"eos_token_id":[4,5],"pad_token_id":0,"temperature":0.6,"top_k":20,"top_p":0.95,"max_new_tokens":64}`)}
	m, w, err := hf.Load(t.Context(), fsys)
	require.NoError(t, err)
	w.Free()
	require.Equal(t, hf.Generation{EOS: []int32{4, 5}, BOS: 1, Pad: 0, Temperature: 0.6, TopK: 20, TopP: 0.95, MaxNewTokens: 64}, m.Generation)
	delete(fsys, "generation_config.json")
	m, w, err = hf.Load(t.Context(), fsys)
	require.NoError(t, err)
	w.Free()
	require.Equal(t, hf.Generation{EOS: []int32{3}, BOS: 1, Pad: tokenizer.None}, m.Generation)
	fsys["generation_config.json"] = &fstest.MapFile{Data: []byte(`{"eos_token_id":"no"}`)}
	_, _, err = hf.Load(t.Context(), fsys)
	require.ErrorContains(t, err, "generation_config.json")
}

// A tokenizer that is not ours is no error: the policy can still be trained on tokens.
func TestTokenizers(t *testing.T) {
	fsys := folder(t, nil)
	fsys["tokenizer.json"] = &fstest.MapFile{Data: []byte(`{"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`)}
	m, w, err := hf.Load(t.Context(), fsys)
	require.NoError(t, err)
	w.Free()
	require.Nil(t, m.Tokenizer)
	require.ErrorContains(t, m.TokenizerErr, "decoder")
	require.Contains(t, m.Files, "tokenizer.json")
	m, w, err = hf.Load(t.Context(), folder(t, nil))
	require.NoError(t, err)
	w.Free()
	require.ErrorIs(t, m.TokenizerErr, fs.ErrNotExist, "one that is not there")

	tok, err := tokenizer.NewChar(tokenizer.CharConfig{Alphabet: "abcdefghijklm"})
	require.NoError(t, err)
	files, err := tok.Files()
	require.NoError(t, err)
	fsys["tokenizer.json"] = &fstest.MapFile{Data: files["tokenizer.json"]}
	_, _, err = hf.Load(t.Context(), fsys)
	require.ErrorContains(t, err, "13 tokens, vocab_size in config.json is 11")
	_, err = hf.New(m.Decoder, tok)
	require.ErrorContains(t, err, "13 tokens")
	fsys["tokenizer.json"] = &fstest.MapFile{Data: []byte(`{`)}
	_, _, err = hf.Load(t.Context(), fsys)
	require.ErrorContains(t, err, "tokenizer.json")
}
