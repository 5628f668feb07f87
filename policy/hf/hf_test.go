package hf_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/internal/safetensors"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

func Example() {
	ctx := context.Background()
	tok, err := tokenizer.NewChar(tokenizer.CharConfig{Special: []string{"<pad>", "<eos>"}, Alphabet: "abc>", EOS: "<eos>", Pad: "<pad>"})
	if err != nil {
		panic(err)
	}
	d, err := decoder.New(decoder.Config{Vocab: tok.VocabSize(), Hidden: 16, Layers: 1, Heads: 2, Intermediate: 32, MaxPositions: 64,
		NormEps: 1e-6, Rope: decoder.Rope{Theta: 1e4}, QKNorm: true, Tied: true, DType: dtypes.BFloat16})
	if err != nil {
		panic(err)
	}
	model, err := hf.New(d, tok)
	if err != nil {
		panic(err)
	}
	weights, err := d.Init(1)
	if err != nil {
		panic(err)
	}
	tmp, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(tmp)
	if err := hf.Save(ctx, filepath.Join(tmp, "model"), model, weights); err != nil {
		panic(err)
	}
	loaded, again, err := hf.Load(ctx, os.DirFS(filepath.Join(tmp, "model")))
	if err != nil {
		panic(err)
	}
	a, _ := weights.Digest()
	b, _ := again.Digest()
	fmt.Println(loaded.Generation.EOS, loaded.Tokenizer.VocabSize(), again.Size(), a == b)
	// Output: [1] 6 2720 true
}

func small() decoder.Config {
	return decoder.Config{Vocab: 11, Hidden: 8, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 6, Intermediate: 12, MaxPositions: 32, NormEps: 1e-5,
		Rope: decoder.Rope{Theta: 5e5}, InitDeviation: 0.3}
}

func build(t *testing.T, c decoder.Config) (*hf.Model, *policy.Weights) {
	t.Helper()
	d, err := decoder.New(c)
	require.NoError(t, err)
	m, err := hf.New(d, nil)
	require.NoError(t, err)
	w, err := d.Init(7)
	require.NoError(t, err)
	return m, w
}

// A model that is saved must come back with the same configuration and the same bits, or the published weights are not the
// trained ones.
func TestRoundTrip(t *testing.T) {
	for name, change := range map[string]func(*decoder.Config){
		"llama":         func(*decoder.Config) {},
		"llama, biases": func(c *decoder.Config) { c.QKVBias, c.OutputBias, c.MLPBias = true, true, true },
		"qwen2":         func(c *decoder.Config) { c.QKVBias, c.Tied = true, true },
		"qwen3":         func(c *decoder.Config) { c.QKNorm = true },
		"qwen3, biases": func(c *decoder.Config) { c.QKNorm, c.QKVBias, c.OutputBias = true, true, true },
		"bfloat16":      func(c *decoder.Config) { c.DType = dtypes.BFloat16 },
		"linear":        func(c *decoder.Config) { c.Rope.Type, c.Rope.Factor = decoder.RopeLinear, 2 },
		"llama3": func(c *decoder.Config) {
			c.Rope = decoder.Rope{Type: decoder.RopeLlama3, Theta: 5e5, Factor: 8, Original: 16, LowFreqFactor: 1, HighFreqFactor: 4}
		},
		"qwen2, windows": func(c *decoder.Config) { c.QKVBias, c.PerLayer = true, []decoder.Layer{{}, {Window: 5}} },
		"qwen3, windows": func(c *decoder.Config) { c.QKNorm, c.PerLayer = true, []decoder.Layer{{Window: 5}, {}} },
		"mistral":        func(c *decoder.Config) { c.PerLayer = []decoder.Layer{{Window: 5}, {Window: 5}} },
		"olmo2": func(c *decoder.Config) {
			c.Norms, c.NormStyle, c.WholeQKNorm, c.QKVBias, c.OutputBias = decoder.NormsAfter, decoder.NormOLMo, true, true, true
		},
		"smollm3": func(c *decoder.Config) { c.PerLayer = []decoder.Layer{{Rope: decoder.NoRope, Window: 5}, {}} },
		"gemma3": func(c *decoder.Config) {
			gemma(c)
			c.PerLayer = []decoder.Layer{{Window: 4, Rope: decoder.LocalRope}, {}}
			c.LocalRope = decoder.Rope{Theta: 3e4}
		},
		"gemma3, global layers alone": gemma,
		"qwen3_moe": func(c *decoder.Config) {
			c.QKNorm, c.PerLayer = true, []decoder.Layer{{Experts: true, Window: 3}, {Window: 3}}
			c.Experts = decoder.Experts{Count: 3, Chosen: 2, Intermediate: 5, Renormalize: true}
		},
		"qwen3_5": qwen35,
		"qwen3_5, every layer recurrent": func(c *decoder.Config) {
			qwen35(c)
			c.DType, c.Tied, c.QKVBias, c.OutputBias, c.PerLayer[1].Recurrent = dtypes.BFloat16, true, true, true, true
		},
		"yarn": func(c *decoder.Config) {
			c.Rope = decoder.Rope{Type: decoder.RopeYarn, Theta: 1e4, Factor: 4, Original: 16, BetaFast: 8, BetaSlow: 2, AttentionFactor: 1.25}
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := small()
			change(&c)
			m, w := build(t, c)
			defer w.Free()
			m.Files["chat_template.jinja"] = []byte("{{ messages }}")
			dir := filepath.Join(t.TempDir(), "model")
			require.NoError(t, hf.Save(t.Context(), dir, m, w))
			got, gw, err := hf.Load(t.Context(), os.DirFS(dir))
			require.NoError(t, err)
			defer gw.Free()
			require.Equal(t, m.Config(), got.Config())
			require.Equal(t, m.Files, got.Files)
			require.Equal(t, digest(t, w), digest(t, gw))
			entries, err := os.ReadDir(filepath.Dir(dir))
			require.NoError(t, err)
			require.Len(t, entries, 1, "temporary folders are left behind")
		})
	}
}

func qwen35(c *decoder.Config) {
	c.NormStyle, c.QKNorm, c.GatedOutput, c.Rope.Partial = decoder.NormOffset, true, true, 1./3
	c.PerLayer = []decoder.Layer{{Recurrent: true}, {}}
	c.DeltaNet = decoder.DeltaNet{KeyHeads: 1, ValueHeads: 3, KeyDim: 4, ValueDim: 5, Kernel: 3}
}

func gemma(c *decoder.Config) {
	c.Norms, c.NormStyle, c.QKNorm, c.Tied, c.Activation = decoder.NormsAround, decoder.NormOffset, true, true, decoder.GeluTanh
	c.EmbeddingScale, c.AttentionScale = math.Sqrt(float64(c.Hidden)), 1/math.Sqrt(24)
	c.Rope = decoder.Rope{Type: decoder.RopeLinear, Factor: 8, Theta: 1e6}
}

func digest(t *testing.T, w *policy.Weights) string {
	t.Helper()
	d, err := w.Digest()
	require.NoError(t, err)
	return d
}

// Exporting an unchanged model must give the very bytes that were loaded.
func TestGoldenExport(t *testing.T) {
	ran := 0
	for _, path := range golden.Glob(t, "models/*/config.json") {
		dir := filepath.Dir(path)
		m, w, err := hf.Load(t.Context(), os.DirFS(dir))
		require.NoError(t, err, dir)
		ran++
		t.Run(golden.Name(t, dir), func(t *testing.T) {
			defer w.Free()
			var about struct {
				PassedThrough []string `json:"passed_through"`
			}
			data, err := os.ReadFile(filepath.Join(dir, "golden.json"))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(data, &about))
			require.ElementsMatch(t, about.PassedThrough, m.PassedThrough)
			out := filepath.Join(t.TempDir(), "model")
			require.NoError(t, hf.Save(t.Context(), out, m, w))
			for _, name := range []string{"config.json", "generation_config.json"} {
				requireSameFile(t, filepath.Join(dir, name), filepath.Join(out, name))
			}
			want, got := contents(t, dir), contents(t, out)
			require.Equal(t, want, got)
			if _, err := os.Stat(filepath.Join(dir, "model.safetensors")); err == nil {
				requireSameFile(t, filepath.Join(dir, "model.safetensors"), filepath.Join(out, "model.safetensors"))
			}
		})
	}
	t.Logf("%d golden models", ran)
	require.NotZero(t, ran)
}

func requireSameFile(t *testing.T, a, b string) {
	t.Helper()
	x, err := os.ReadFile(a)
	require.NoError(t, err)
	y, err := os.ReadFile(b)
	require.NoError(t, err)
	require.True(t, bytes.Equal(x, y), "%s differs from %s", b, a)
}

// contents are all tensors of a folder.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "model*.safetensors"))
	require.NoError(t, err)
	all := map[string]string{}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(t, err)
		f, err := safetensors.Open(bytes.NewReader(raw), int64(len(raw)))
		require.NoError(t, err)
		for _, x := range f.Tensors() {
			data := make([]byte, x.Size())
			require.NoError(t, x.ReadInto(data))
			all[x.Name] = fmt.Sprintf("%s %v %x", x.DType, x.Shape, sha256.Sum256(data))
		}
	}
	return all
}

// A failed save must leave nothing, and a folder that is there must survive.
func TestSaveRefuses(t *testing.T) {
	m, w := build(t, small())
	defer w.Free()
	parent := t.TempDir()
	dir := filepath.Join(parent, "model")
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "precious"), nil, 0o644))
	require.ErrorIs(t, hf.Save(t.Context(), dir, m, w), fs.ErrExist)
	other, ow := build(t, func() decoder.Config { c := small(); c.Hidden = 16; return c }())
	defer ow.Free()
	require.ErrorContains(t, hf.Save(t.Context(), filepath.Join(parent, "b"), other, w), "model.embed_tokens.weight")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, hf.Save(ctx, filepath.Join(parent, "c"), m, w), context.Canceled)
	m.Files["../x"] = nil
	require.ErrorContains(t, hf.Save(t.Context(), filepath.Join(parent, "d"), m, w), "not a file of the folder")
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	d, err := decoder.New(func() decoder.Config { c := small(); c.QKNorm, c.MLPBias = true, true; return c }())
	require.NoError(t, err)
	_, err = hf.New(d, nil)
	require.ErrorIs(t, err, hf.ErrUnsupported)
}
