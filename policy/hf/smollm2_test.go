package hf_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/grpo"
	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/chat"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

// realModel is the folder of a real SmolLM2-135M-Instruct, which the environment variable GROUPER_SMOLLM2 names.
func realModel(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("GROUPER_SMOLLM2")
	if dir == "" {
		t.Skip("GROUPER_SMOLLM2 names no folder of SmolLM2-135M-Instruct")
	}
	return dir
}

// reference is what transformers computes in float32 with that folder. Log-probs there have six digits behind the point, logits five.
type reference struct {
	SHA256  map[string]string
	StopIDs []int32 `json:"stop_ids"`
	Prompts []referencePrompt
	Texts   []struct {
		Text    string
		IDs     []int32
		Decoded *string // if it is not Text
	} `json:"tokenizer"`
}

type referencePrompt struct {
	Name                 string
	Messages             []chat.Message
	Prompt               string
	InputIDs             []int32      `json:"input_ids"`
	LastLogits           [][2]float64 `json:"last_logits_top8"` // token and logit
	LastLogSumExp        float64      `json:"last_logsumexp"`
	Continuation         string
	ContinuationIDs      []int32   `json:"continuation_ids"`
	ContinuationLogProbs []float64 `json:"continuation_logprobs"`
	GreedyIDs            []int32   `json:"greedy_ids"`
	GreedyLogProbs       []float64 `json:"greedy_logprobs"`
	GreedyMinGap         float64   `json:"greedy_min_gap"` // least distance of the two best logits
	GreedyText           string    `json:"greedy_text"`
	GreedyFinish         string    `json:"greedy_finish"`
}

// tolerance of logits and log-probs: that of the golden models. (The reference itself is up to 3.3e-5 from what transformers computes in
// float64.)
const tolerance = 1e-4

// A model from the hub must compute what transformers computes, from the text of a conversation to the text of the reply:
// training on the wrong tokens, or on logits of another model, would go unnoticed.
func TestSmolLM2(t *testing.T) {
	dir := realModel(t)
	done := map[string]bool{} // the repository's is mostly found again in the other folder
	for _, path := range golden.Glob(t, "smollm2/*.json") {
		data := golden.Read(t, path)
		if done[string(data)] {
			continue
		}
		done[string(data)] = true
		var ref reference
		require.NoError(t, json.Unmarshal(data, &ref), path)
		t.Run(golden.Name(t, path), func(t *testing.T) { ref.compare(t, dir) })
	}
}

func (ref *reference) compare(t *testing.T, dir string) {
	for name, want := range ref.SHA256 {
		require.Equal(t, want, fileDigest(t, filepath.Join(dir, name)), "%s is not the file that the reference was made from", name)
	}
	m, w, err := hf.Load(t.Context(), os.DirFS(dir))
	require.NoError(t, err)
	defer w.Free()
	require.NoError(t, m.TokenizerErr)
	require.Equal(t, ref.StopIDs, m.Generation.EOS)
	require.NotEmpty(t, ref.Prompts)
	require.NotEmpty(t, ref.Texts)
	t.Run("tokens", func(t *testing.T) { ref.tokens(t, m) })
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		w, err := w.Host() // a tensor stays with the backend that it met first
		require.NoError(t, err)
		defer w.Free()
		prompts := ref.Prompts
		if b.Kind() == backend.Go {
			t.Logf("the shortest 2 of %d prompts: all take this backend a minute", len(prompts))
			prompts = slices.Clone(prompts)
			slices.SortStableFunc(prompts, func(a, b referencePrompt) int { return cmp.Compare(a.size(), b.size()) })
			prompts = prompts[:min(2, len(prompts))]
		}
		t.Run("training", func(t *testing.T) { training(t, b, m, w, prompts) })
		t.Run("greedy", func(t *testing.T) { greedy(t, b, m, w, prompts) })
	})
}

func (p referencePrompt) size() int {
	return len(p.InputIDs) + len(p.ContinuationIDs) + len(p.GreedyIDs)
}

// tokens compares prompts and token ids.
func (ref *reference) tokens(t *testing.T, m *hf.Model) {
	require.NoError(t, m.ChatErr)
	for _, p := range ref.Prompts {
		rendered, err := m.Chat.Render(t.Context(), chat.Request{Messages: p.Messages, GenerationPrompt: true})
		require.NoError(t, err, p.Name)
		require.Equal(t, p.Prompt, rendered.Text, p.Name)
		for text, want := range map[string][]int32{p.Prompt: p.InputIDs, p.Continuation: p.ContinuationIDs} {
			ids, err := m.Tokenizer.Encode(text)
			require.NoError(t, err, p.Name)
			require.Equal(t, want, ids, p.Name)
		}
		text, err := m.Tokenizer.Decode(p.GreedyIDs)
		require.NoError(t, err, p.Name)
		require.Equal(t, p.GreedyText, text, p.Name)
	}
	for _, c := range ref.Texts {
		ids, err := m.Tokenizer.Encode(c.Text)
		require.NoError(t, err, "%q", c.Text)
		require.Equal(t, append([]int32{}, c.IDs...), append([]int32{}, ids...), "%q", c.Text)
		want := c.Text
		if c.Decoded != nil {
			want = *c.Decoded
		}
		text, err := m.Tokenizer.Decode(ids)
		require.NoError(t, err, "%q", c.Text)
		require.Equal(t, want, text, "%q", c.Text)
	}
	t.Logf("%d prompts and %d texts", len(ref.Prompts), len(ref.Texts))
}

// training compares logits and log-probs with those that an update computes: all prompts at once, padded on the left, each with
// its continuation.
func training(t *testing.T, b *backend.Backend, m *hf.Model, w *policy.Weights, refs []referencePrompt) {
	width, length := 0, 0
	for _, p := range refs {
		width, length = max(width, len(p.InputIDs)), max(length, len(p.ContinuationIDs))
	}
	rows := len(refs)
	prompts, pads, completions := make([][]int32, rows), make([]int32, rows), make([][]int32, rows)
	for i, p := range refs {
		pads[i] = int32(width - len(p.InputIDs))
		prompts[i] = append(make([]int32, pads[i]), p.InputIDs...)
		completions[i] = make([]int32, length)
		copy(completions[i], p.ContinuationIDs)
	}
	n := len(w.Tensors)
	f, err := backend.Compile(b, "training", func(in []*graph.Node) []*graph.Node {
		vars := make(policy.Vars, n)
		for i, x := range in[:n] {
			vars[i] = graph.ConvertDType(x, dtypes.Float32)
		}
		hidden := policy.CompletionHidden(m, vars, policy.Groups{
			Prompts:     policy.Inputs{Tokens: in[n], Pad: in[n+1]},
			Completions: graph.Slice(in[n+2], graph.AxisRange(), graph.AxisRange(0, length-1)),
		})
		logp, _ := grpo.LogProbs(m, vars, hidden, in[n+2], 1, 0)
		first := graph.Slice(hidden, graph.AxisRange(), graph.AxisElem(0), graph.AxisRange())
		return []*graph.Node{logp, m.Logits(vars, graph.Reshape(first, rows, -1))}
	})
	require.NoError(t, err)
	defer f.Close()
	out, err := f.Call(0, w.Tensors, prompts, pads, completions)
	require.NoError(t, err)
	defer backend.Free(out...)
	logprobs, logits := floats(t, out[0]), floats(t, out[1])
	worst, worstLogit := 0.0, 0.0
	for i, p := range refs {
		own := logits[i*m.VocabSize() : (i+1)*m.VocabSize()]
		sum := 0.0
		for _, x := range own {
			sum += math.Exp(x - p.LastLogSumExp)
		}
		worst = max(worst, near(t, math.Log(sum), 0, "%s: logsumexp", p.Name))
		for _, top := range p.LastLogits {
			worstLogit = max(worstLogit, near(t, own[int(top[0])], top[1], "%s: logit of token %v", p.Name, top[0]))
		}
		for k, want := range p.ContinuationLogProbs {
			worst = max(worst, near(t, logprobs[i*length+k], want, "%s: log-prob of token %d", p.Name, k))
		}
	}
	t.Logf("largest difference of logits %.1e, of log-probs %.1e, allowed %.0e", worstLogit, worst, tolerance)
}

// greedy compares what the engine samples at temperature 0.
func greedy(t *testing.T, b *backend.Backend, m *hf.Model, w *policy.Weights, refs []referencePrompt) {
	engine, err := local.New(b, m, local.Options{})
	require.NoError(t, err)
	defer engine.Close()
	require.NoError(t, engine.Load(t.Context(), w))
	reqs, longest := make([]rollout.Request, len(refs)), 0
	for i, p := range refs {
		reqs[i] = rollout.Request{Prompt: p.InputIDs, Seeds: make([]rollout.Seed, 1)}
		longest = max(longest, len(p.GreedyIDs))
	}
	out, err := engine.Generate(t.Context(), reqs, rollout.Sampling{MaxTokens: longest, Stop: m.Generation.EOS})
	require.NoError(t, err)
	worst := 0.0
	for i, p := range refs {
		got := out[i][0]
		if p.GreedyMinGap < 2*tolerance {
			t.Logf("%s: not compared, two logits are %g apart", p.Name, p.GreedyMinGap)
			continue
		}
		require.Equal(t, p.GreedyIDs, got.Tokens, p.Name)
		require.Equal(t, p.GreedyFinish, string(got.Finish), p.Name)
		for k, want := range p.GreedyLogProbs {
			worst = max(worst, near(t, float64(got.LogProbs[k]), want, "%s: log-prob of token %d", p.Name, k))
		}
	}
	t.Logf("largest difference %.1e, allowed %.0e", worst, tolerance)
}

// near returns the difference, which must be within the tolerance.
func near(t *testing.T, got, want float64, what string, args ...any) float64 {
	t.Helper()
	require.InDelta(t, want, got, tolerance, append([]any{what}, args...)...)
	return math.Abs(got - want)
}

func floats(t *testing.T, x *tensors.Tensor) []float64 {
	t.Helper()
	data, err := tensors.CopyFlatData[float32](x)
	require.NoError(t, err)
	out := make([]float64, len(data))
	for i, v := range data {
		out[i] = float64(v)
	}
	return out
}

func fileDigest(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	require.NoError(t, err)
	return hex.EncodeToString(h.Sum(nil))
}
