package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing/fstest"

	"github.com/grouper-rl/grouper/policy/chat"
)

// A template comes from a model folder and takes whatever arguments the model's documentation names.
func ExampleTemplate_Render() {
	folder := fstest.MapFS{
		"chat_template.jinja": {Data: []byte(`{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and not enable_thinking %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}`)},
	}
	t, err := chat.Load(folder)
	if err != nil {
		panic(err)
	}
	var messages []chat.Message
	if err := json.Unmarshal([]byte(`[{"role": "user", "content": "Is 91 prime?"}]`), &messages); err != nil {
		panic(err)
	}
	out, err := t.Render(context.Background(), chat.Request{
		Messages: messages, GenerationPrompt: true, Args: map[string]any{"enable_thinking": false},
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%q\n", out.Text)
	// Output:
	// "<|im_start|>user\nIs 91 prime?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
}

// Qwen3.5 and later begin to reason in the prompt, so a reply begins inside the reasoning.
func ExampleReasoning_Split() {
	r := &chat.Reasoning{Open: "<think>", Close: "</think>", Opened: true}
	fmt.Println(r.Split("7 times 13 is 91.\n</think>\n\nNo."))
	fmt.Println(r.Split("7 times 13 is"))
	// Output:
	// 7 times 13 is 91. No. true
	// 7 times 13 is  false
}
