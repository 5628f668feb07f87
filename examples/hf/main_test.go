package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/verify"
)

// folder makes a model folder with SmolLM2's chat template, a tokenizer of its kind and a small random bfloat16 model.
func folder(t *testing.T) string {
	t.Helper()
	d, err := decoder.New(decoder.Config{Vocab: 879, Hidden: 8, Layers: 1, Heads: 2, KVHeads: 1, HeadDim: 4, Intermediate: 12, MaxPositions: 1024,
		NormEps: 1e-5, Rope: decoder.Rope{Theta: 1e4}, DType: dtypes.BFloat16, Tied: true})
	require.NoError(t, err)
	model, err := hf.New(d, nil)
	require.NoError(t, err)
	model.Generation.EOS = []int32{2}
	model.Files["generation_config.json"] = []byte(`{"eos_token_id": 2}`)
	model.Files["chat_template.jinja"] = golden.Read(t, golden.Glob(t, "chat/templates/smollm2.jinja")[0])
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		model.Files[name] = golden.Read(t, golden.Glob(t, "tokenizers/smollm2/"+name)[0])
	}
	weights, err := d.Init(1)
	require.NoError(t, err)
	defer weights.Free()
	dir := filepath.Join(t.TempDir(), "base")
	require.NoError(t, hf.Save(t.Context(), dir, model, weights))
	return dir
}

// From a model folder to a trained model folder: the run goes on where it stopped, can be verified, and exports what it trained.
func TestFromFolderToFolder(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "trained")
	o := options{
		Options: console.Options{Dir: filepath.Join(dir, "run"), Backend: "go", Optimizer: "sgd", Updates: 1, EvalEvery: 1, Seed: 1},
		model:   folder(t), env: "letter_counting", config: `{"min_words": 1, "max_words": 3}`, system: "Count.", shots: 1,
		maxTokens: 4, temperature: 1, topP: 1, tasks: 2, group: 2, micro: 4, rows: 8, train: 4, validation: 3, samples: 2,
	}
	var printed bytes.Buffer
	require.NoError(t, run(t.Context(), o, &printed))
	require.Contains(t, printed.String(), "4 training tasks, 3 validation tasks")
	require.Contains(t, printed.String(), "evaluation of update 1")

	o.Updates, o.export = 2, out
	require.NoError(t, run(t.Context(), o, &printed))
	require.Contains(t, printed.String(), out)
	checked, err := verify.Run(t.Context(), o.Dir, verify.Options{Grader: func(g checkpoint.Grader) (envs.Grader, error) {
		tasks, err := reasoninggym.FromOrigin(envs.Origin{Name: g.Source, Config: g.Config})
		return envs.CompletedAnswer{Env: tasks}, err
	}})
	require.NoError(t, err)
	require.Empty(t, checked.Findings)

	_, err = hf.Verify(t.Context(), os.DirFS(out), nil)
	require.NoError(t, err)
	trained, weights, err := hf.Load(t.Context(), os.DirFS(out))
	require.NoError(t, err)
	defer weights.Free()
	require.NotNil(t, trained.Chat)
	require.NotNil(t, trained.Tokenizer)
	digest, err := weights.Digest()
	require.NoError(t, err)
	record, err := checkpoint.Read(o.Dir)
	require.NoError(t, err)
	last := record.History.Evaluations[len(record.History.Evaluations)-1]
	require.Equal(t, 2, last.Update)
	require.Equal(t, last.WeightsHash, digest, "the exported weights are those that were evaluated last")

	// what a user gets wrong is said before anything is loaded or written
	for want, change := range map[string]func(*options){
		"-model and -env":       func(o *options) { o.model = "" },
		"-optimizer":            func(o *options) { o.Optimizer = "lion" },
		"-samples":              func(o *options) { o.samples = 99 },
		"-shots":                func(o *options) { o.shots = -1 },
		"-export":               func(o *options) { o.export = out },
		"config.json":           func(o *options) { o.model = dir },
		"tokenizer.json":        func(o *options) { o.model = without(t, o.model, "tokenizer.json") },
		"no chat template":      func(o *options) { o.model = without(t, o.model, "chat_template.jinja") },
		"has eos_token_id":      func(o *options) { o.model = without(t, o.model, "generation_config.json") },
		"not a directory":       func(o *options) { o.export = filepath.Join(o.model, "config.json") },
		"behind the object":     func(o *options) { o.config = `{} }` },
		"-config":               func(o *options) { o.config = "{" },
		"no_such_dataset":       func(o *options) { o.env = "no_such_dataset" },
		"min_words":             func(o *options) { o.config = `{"min_words": 0}` },
		"tasks with a distinct": func(o *options) { o.train = 1 << 20 },
		"MicroBatch is 3":       func(o *options) { o.micro = 3 },
		"Temperature is":        func(o *options) { o.temperature = -1 },
		"TopP is":               func(o *options) { o.topP = 2 },
		"TopK is":               func(o *options) { o.topK = -1 },
		"MaxTokens is":          func(o *options) { o.maxTokens = 0 },
		"backend \"mps\"":       func(o *options) { o.Backend = "mps" },
	} {
		o := o
		o.Dir, o.export = filepath.Join(dir, "other"), ""
		change(&o)
		require.ErrorContains(t, run(t.Context(), o, &printed), want)
		require.NoDirExists(t, filepath.Join(dir, "other", "checkpoints"))
	}
}

// without copies a folder without one of its files.
func without(t *testing.T, folder, name string) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(folder)))
	require.NoError(t, os.Remove(filepath.Join(dir, name)))
	return dir
}
