package rollout_test

import (
	"context"
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/chat"
	"github.com/grouper-rl/grouper/policy/tokenizer"
	"github.com/grouper-rl/grouper/rollout"
)

// chatFolder is a model folder with a template like Qwen3.5's, which begins with a special token and opens the reasoning.
var chatFolder = fstest.MapFS{
	"chat_template.jinja": {Data: []byte("{{ bos_token }}{% for m in messages %}{{ '<|im_start|>' + m.role + '|' + m.content + '<|im_end|>' }}{% endfor %}" +
		"{% if add_generation_prompt %}{{ '<|im_start|>assistant|<think>' }}{# </think> #}{% endif %}{% if messages[-1].content == 'bad' %}{{ raise_exception('No.') }}{% endif %}")},
	"tokenizer_config.json": {Data: []byte(`{"bos_token": "<s>"}`)},
}

func chatFormat(t *testing.T) rollout.Format {
	t.Helper()
	tok, err := tokenizer.NewChar(tokenizer.CharConfig{
		Special:  []string{"<s>", "<|im_start|>", "<|im_end|>", "<think>", "</think>"},
		Alphabet: "abcdefghijklmnopqrstuvwxyzS|<>/ 0123456789", BOS: "<s>", EOS: "<|im_end|>",
	})
	require.NoError(t, err)
	tmpl, err := chat.Load(chatFolder)
	require.NoError(t, err)
	format, err := chat.NewFormat(chat.FormatConfig{Template: tmpl, System: "S"})
	require.NoError(t, err)
	return rollout.Format{Tokenizer: tok, Chat: format}
}

// The template writes all special tokens of a prompt. One that the tokenizer added again would be a prompt that the model
// was never trained on.
func TestChatPrompt(t *testing.T) {
	f := chatFormat(t)
	tokens, err := f.Encode(envs.Task{ID: "t", Question: "one"})
	require.NoError(t, err)
	text, err := f.Tokenizer.Decode(tokens)
	require.NoError(t, err)
	require.Equal(t, "<s><|im_start|>system|S<|im_end|><|im_start|>user|one<|im_end|><|im_start|>assistant|<think>", text)
	require.EqualValues(t, 0, tokens[0])
	require.NotContains(t, tokens[1:], int32(0))

	f.Prompt = func(task envs.Task) string { return "asked " + task.Question }
	tokens, err = f.Encode(envs.Task{ID: "t", Question: "one"})
	require.NoError(t, err)
	text, err = f.Tokenizer.Decode(tokens)
	require.NoError(t, err)
	require.Contains(t, text, "user|asked one<|im_end|>")

	_, err = f.Encode(envs.Task{ID: "t7", Question: "bad"})
	require.NoError(t, err)
	f.Prompt = nil
	_, err = f.Encode(envs.Task{ID: "t7", Question: "bad"})
	require.ErrorIs(t, err, chat.ErrRaised)
	require.ErrorContains(t, err, `task "t7"`)
	require.ErrorContains(t, err, "No.")
}

// scripted completes every prompt with the same text.
type scripted struct {
	tokenizer rollout.Tokenizer
	text      string
}

func (scripted) Load(context.Context, *policy.Weights) error { return nil }

func (e scripted) Generate(_ context.Context, reqs []rollout.Request, s rollout.Sampling) ([][]rollout.Completion, error) {
	tokens, err := e.tokenizer.Encode(e.text)
	if err != nil {
		return nil, err
	}
	c := rollout.Completion{Tokens: append(tokens, s.Stop[0]), Finish: rollout.Stop}
	c.LogProbs, c.Filtered = make([]float32, len(c.Tokens)), make([]float32, len(c.Tokens))
	return [][]rollout.Completion{{c}}, nil
}

// graded records what it is given.
type graded struct{ text *string }

func (g graded) Grade(_ context.Context, _ envs.Task, reply envs.Reply) (envs.Score, error) {
	*g.text = reply.Text
	return envs.Score{}, nil
}

// Only the answer is graded: a right answer that is thought of and not given earns nothing. What is recorded is all that the
// model wrote.
func TestOnlyTheAnswerIsGraded(t *testing.T) {
	f := chatFormat(t)
	for reply, answer := range map[string]string{
		"try 1</think> <answer>2</answer>": "<answer>2</answer>",
		"so <answer>2</answer>":            "",
	} {
		got := "nothing"
		sampler := rollout.Sampler{Engine: scripted{f.Tokenizer, reply}, Format: f, Grader: graded{&got}, Sampling: rollout.Sampling{MaxTokens: 99, Stop: []int32{2}}}
		groups, err := sampler.Groups(t.Context(), []rollout.Job{{Task: envs.Task{ID: "t", Question: "one"}, Seeds: make([]rollout.Seed, 1)}})
		require.NoError(t, err)
		require.Equal(t, answer, got)
		require.Equal(t, []string{reply}, groups[0].Texts)
	}
}

// A format with the chat template of a model folder asks as the model was taught to be asked.
func ExampleFormat() {
	tmpl, err := chat.Load(chatFolder)
	if err != nil {
		panic(err)
	}
	format, err := chat.NewFormat(chat.FormatConfig{Template: tmpl, System: "be brief"})
	if err != nil {
		panic(err)
	}
	tok, err := tokenizer.NewChar(tokenizer.CharConfig{Special: []string{"<s>", "<|im_start|>", "<|im_end|>", "<think>"}, Alphabet: "abcdefghijklmnopqrstuvwxyz| "})
	if err != nil {
		panic(err)
	}
	prompt, err := rollout.Format{Tokenizer: tok, Chat: format}.Encode(envs.Task{Question: "who are you"})
	if err != nil {
		panic(err)
	}
	text, err := tok.Decode(prompt)
	if err != nil {
		panic(err)
	}
	fmt.Println(text)
	fmt.Printf("%q\n", format.Reasoning().Answer("they ask who i am</think>a model"))
	// Output:
	// <s><|im_start|>system|be brief<|im_end|><|im_start|>user|who are you<|im_end|><|im_start|>assistant|<think>
	// "a model"
}
