package hf_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/chat"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

// python runs testdata/peer.py with the interpreter that the environment variable GROUPER_PYTHON names, if that can import modules.
func python(t *testing.T, modules string) func(args ...string) []byte {
	t.Helper()
	program := os.Getenv("GROUPER_PYTHON")
	if program == "" {
		t.Skip("GROUPER_PYTHON names no Python interpreter")
	}
	if out, err := exec.CommandContext(t.Context(), program, "-c", "import "+modules).CombinedOutput(); err != nil {
		t.Skipf("%s -c 'import %s': %v: %s", program, modules, err, out)
	}
	return func(args ...string) []byte {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append([]string{"testdata/peer.py"}, args...)...)
		cmd.Env = append(os.Environ(), "HF_HUB_OFFLINE=1")
		said := &tail{}
		cmd.Stderr = said
		out, err := cmd.Output()
		require.NoError(t, err, "%v: %s", args, said)
		return out
	}
}

// tail keeps the end of what is written.
type tail []byte

func (b *tail) Write(p []byte) (int, error) {
	*b = append(*b, p...)
	*b = (*b)[max(0, len(*b)-4000):]
	return len(p), nil
}

func (b *tail) String() string { return string(*b) }

// The library that everyone reads weights with must find in an exported folder what its manifest says.
func TestPythonReads(t *testing.T) {
	peer := python(t, "safetensors, numpy")
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		m, w := model(t, dtype)
		for _, size := range []int64{0, 2000} {
			dir := filepath.Join(t.TempDir(), "out")
			_, err := hf.Export(t.Context(), dir, m, w, hf.ExportOptions{ShardSize: size})
			require.NoError(t, err)
			t.Logf("%s", peer("check", dir))
		}
	}
}

// What that library writes must be loaded bit for bit.
func TestPythonWrites(t *testing.T) {
	peer := python(t, "safetensors, numpy")
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		m, w := model(t, dtype)
		dir, written := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
		require.NoError(t, hf.Save(t.Context(), dir, m, w))
		var want map[string]string
		require.NoError(t, json.Unmarshal(peer("write", dir, written), &want))
		_, back, err := hf.Load(t.Context(), os.DirFS(written))
		require.NoError(t, err)
		require.Equal(t, len(want), len(back.Params))
		for i, p := range back.Params {
			got, err := policy.TensorDigest(back.Tensors[i])
			require.NoError(t, err)
			require.Equal(t, want[p.Name], got, p.Name)
		}
	}
}

// ask is what transformers has to answer as Grouper does.
type ask struct {
	Texts  []askText   `json:"texts"`
	Chats  []askChat   `json:"chats"`
	Greedy []askGreedy `json:"greedy"`
}

type (
	askText struct {
		Text string  `json:"text"`
		IDs  []int32 `json:"ids"`
	}
	askChat struct {
		Messages json.RawMessage `json:"messages"`
		Text     string          `json:"text"`
	}
	askGreedy struct {
		Prompt []int32 `json:"prompt"`
		Tokens []int32 `json:"tokens"`
	}
)

// An exported folder must be the same model to those who run it with transformers: no tensor missing or left over, the same tokens.
func TestTransformers(t *testing.T) {
	peer := python(t, "torch, transformers")
	b, err := backend.Open(t.Context(), "auto")
	require.NoError(t, err)
	dirs := []string{}
	for _, path := range golden.Glob(t, "models/*/config.json") {
		dirs = append(dirs, filepath.Dir(path))
	}
	if dir := os.Getenv("GROUPER_SMOLLM2"); dir != "" {
		dirs = append(dirs, dir)
	}
	done := map[string]bool{} // the repository's are mostly found again in the other folder
	for _, dir := range dirs {
		m, w, err := hf.Load(t.Context(), os.DirFS(dir))
		require.NoError(t, err)
		if key := string(m.Files["config.json"]) + digest(t, w); done[key] {
			w.Free()
			continue
		} else {
			done[key] = true
		}
		t.Run(filepath.Base(dir), func(t *testing.T) {
			defer w.Free()
			out := filepath.Join(t.TempDir(), "out")
			_, err = hf.Export(t.Context(), out, m, w, hf.ExportOptions{ShardSize: int64(w.Size())})
			require.NoError(t, err)
			question := ask{Texts: []askText{}, Chats: []askChat{}, Greedy: greedily(t, b, m, w)}
			if m.Tokenizer != nil {
				question.texts(t, m)
			}
			data, err := json.Marshal(question)
			require.NoError(t, err)
			name := filepath.Join(t.TempDir(), "ask.json")
			require.NoError(t, os.WriteFile(name, data, 0o644))
			t.Logf("%s", peer("run", out, name))
		})
	}
	require.NotEmpty(t, dirs)
}

// greedily continues prompts of random tokens.
func greedily(t *testing.T, b *backend.Backend, m *hf.Model, w *policy.Weights) []askGreedy {
	engine, err := local.New(b, m, local.Options{})
	require.NoError(t, err)
	defer engine.Close()
	require.NoError(t, engine.Load(t.Context(), w))
	random := rand.New(rand.NewPCG(1, 2))
	reqs := make([]rollout.Request, 4)
	for i := range reqs {
		reqs[i] = rollout.Request{Prompt: make([]int32, 3+4*i), Seeds: make([]rollout.Seed, 1)}
		for k := range reqs[i].Prompt {
			reqs[i].Prompt[k] = random.Int32N(int32(m.VocabSize()))
		}
	}
	done, err := engine.Generate(t.Context(), reqs, rollout.Sampling{MaxTokens: 16})
	require.NoError(t, err)
	out := make([]askGreedy, len(reqs))
	for i, group := range done {
		require.Len(t, group[0].Tokens, 16)
		out[i] = askGreedy{reqs[i].Prompt, group[0].Tokens}
	}
	return out
}

// texts adds texts and conversations.
func (a *ask) texts(t *testing.T, m *hf.Model) {
	for _, text := range []string{"Hello, world!", " two  spaces\n\n12345", "naïve 你好 🐟", "<|im_start|>user"} {
		ids, err := m.Tokenizer.Encode(text)
		require.NoError(t, err)
		a.Texts = append(a.Texts, askText{text, ids})
	}
	if m.Chat == nil {
		return
	}
	for _, spelled := range []string{
		`[{"role":"user","content":"What is 6 times 7?"}]`,
		`[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"},{"role":"assistant","content":"Hello."},{"role":"user","content":"Bye"}]`,
	} {
		var messages []chat.Message
		require.NoError(t, json.Unmarshal([]byte(spelled), &messages))
		rendered, err := m.Chat.Render(t.Context(), chat.Request{Messages: messages, GenerationPrompt: true})
		require.NoError(t, err)
		a.Chats = append(a.Chats, askChat{json.RawMessage(spelled), rendered.Text})
	}
}
