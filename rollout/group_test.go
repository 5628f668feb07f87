package rollout_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// raw is a tokenizer whose tokens are bytes, so that a completion can end within a character.
type raw struct{}

func (raw) Encode(text string) (out []int32, err error) {
	for i := range len(text) {
		out = append(out, int32(text[i]))
	}
	return out, nil
}

func (raw) Decode(tokens []int32) (string, error) {
	var out []byte
	for _, t := range tokens {
		out = append(out, byte(t))
	}
	return string(out), nil
}

// says is an engine that always samples the same bytes.
type says string

func (says) Load(context.Context, *policy.Weights) error { return nil }

func (e says) Generate(_ context.Context, reqs []rollout.Request, _ rollout.Sampling) ([][]rollout.Completion, error) {
	tokens, _ := raw{}.Encode(string(e))
	out := make([][]rollout.Completion, len(reqs))
	for i, r := range reqs {
		for range r.Seeds {
			zeros := make([]float32, len(tokens))
			out[i] = append(out[i], rollout.Completion{Tokens: tokens, LogProbs: zeros, Filtered: zeros, Finish: rollout.Length})
		}
	}
	return out, nil
}

// listener is a grader that keeps what it was given.
type listener struct{ heard *string }

func (l listener) Grade(_ context.Context, _ envs.Task, reply envs.Reply) (envs.Score, error) {
	*l.heard = reply.Text
	return envs.Score{}, nil
}

// panicking is a part that panics in one of its methods.
type panicking struct {
	raw
	says
	in string
}

func (p panicking) maybe(method string) {
	if p.in == method {
		panic("oops in " + method)
	}
}

func (p panicking) Load(ctx context.Context, w *policy.Weights) error {
	p.maybe("Load")
	return p.says.Load(ctx, w)
}

func (p panicking) Generate(ctx context.Context, reqs []rollout.Request, s rollout.Sampling) ([][]rollout.Completion, error) {
	p.maybe("Generate")
	return p.says.Generate(ctx, reqs, s)
}

func (p panicking) Encode(text string) ([]int32, error) {
	p.maybe("Encode")
	return p.raw.Encode(text)
}

func (p panicking) Decode(tokens []int32) (string, error) {
	p.maybe("Decode")
	return p.raw.Decode(tokens)
}

func (p panicking) Grade(context.Context, envs.Task, envs.Reply) (envs.Score, error) {
	p.maybe("Grade")
	return envs.Score{}, nil
}

// A fault of a user's part must not end the program: what the run has is kept, and the error says which part it is.
func TestPanickingParts(t *testing.T) {
	for in, part := range map[string]string{
		"": "", "Load": "the engine", "Generate": "the engine", "Encode": "Format.Tokenizer", "Decode": "Format.Tokenizer", "Grade": "the grader", "Prompt": "Format.Prompt",
	} {
		p := panicking{says: "a", in: in}
		s := rollout.Sampler{
			Engine: p, Format: rollout.Format{Tokenizer: p, Prompt: func(task envs.Task) string { p.maybe("Prompt"); return task.Question }}, Grader: p,
			Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 8},
		}
		err := s.Load(t.Context(), nil)
		if err == nil {
			_, err = s.Groups(t.Context(), []rollout.Job{{Task: envs.Task{ID: "x", Question: "?"}, Seeds: make([]rollout.Seed, 1)}})
		}
		if in == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, part+" panicked: oops in "+in)
		if in != "Load" {
			require.ErrorContains(t, err, `task "x"`)
		}
	}
}

// A completion that was cut off within a character must be graded as the text that the record keeps. JSON keeps no broken
// UTF-8: a grader that had seen the bytes might judge otherwise than verification, which has only the record.
func TestTextIsGradedAsItIsRecorded(t *testing.T) {
	var heard string
	s := rollout.Sampler{
		Engine: says("caf\xc3"), Format: rollout.Format{Tokenizer: raw{}}, Grader: listener{&heard},
		Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 8},
	}
	groups, err := s.Groups(t.Context(), []rollout.Job{{Task: envs.Task{ID: "x", Question: "?"}, Seeds: make([]rollout.Seed, 1)}})
	require.NoError(t, err)
	require.Equal(t, "caf\uFFFD", heard)
	require.Equal(t, heard, groups[0].Texts[0])
	require.Equal(t, []int32{'c', 'a', 'f', 0xc3}, groups[0].Completions[0].Tokens, "what is trained on is what was sampled")

	data, err := json.Marshal(groups[0].Texts[0])
	require.NoError(t, err)
	var recorded string
	require.NoError(t, json.Unmarshal(data, &recorded))
	require.Equal(t, heard, recorded)
}
