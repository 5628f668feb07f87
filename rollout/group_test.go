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
