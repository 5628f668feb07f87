package reasoninggym

import (
	"fmt"
	"maps"
	"slices"
)

// systemPrompts are upstream's reasoning_gym.utils.SYSTEM_PROMPTS.
var systemPrompts = map[string]string{
	"DeepSeekZero": `A conversation between User and Assistant. The user asks a question, and the Assistant solves it.
The assistant first thinks about the reasoning process in the mind and then provides the user with the answer. The reasoning process and answer are enclosed within <think> </think> and <answer> </answer> tags, respectively, i.e., <think> reasoning process here </think>
<answer>answer here</answer>
Do not explain your reasoning inside the answer tags, provide only the final answer. When an example is provided, you should strictly follow the format of the output/answer in that example.
`,
	"default": `Given a problem, your task is to answer the question by thinking step-by-step in a clear and specific manner.
Once you have thought about the reasoning process, provide the answer in the following format:
<answer>answer here</answer>
Do not explain your reasoning inside the answer tags, provide only the final answer. When an example is provided, you should strictly follow the format of the output/answer in that example.
`,
	"simple":         "You are a helpful assistant that answers questions accurately and concisely. When asked to solve a problem, show your work step by step. Provide your final answer between <answer> and </answer> tags.",
	"direct":         "Answer the question directly. Provide your answer between <answer> and </answer> tags. Do not return any preamble, explanation, or reasoning.",
	"chain_of_draft": "Think step by step, but only keep a minimum draft for each thinking step, with 5 words at most. Return the answer at the end of the response enclosed in <answer> </answer> tags.",
}

// SystemPrompt returns one of upstream's system prompts, which ask for the answer in the form that envs.Extract reads:
// "default", "simple", "direct", "chain_of_draft" and "DeepSeekZero".
func SystemPrompt(name string) (string, error) {
	prompt, ok := systemPrompts[name]
	if !ok {
		return "", fmt.Errorf("reasoninggym: system prompt %q, allowed: %q", name, slices.Sorted(maps.Keys(systemPrompts)))
	}
	return prompt, nil
}
