package chat

import (
	"strings"

	"github.com/grouper-rl/grouper/internal/python"
)

// Reasoning says how a reply is divided into the model's reasoning and its answer.
type Reasoning struct {
	Open  string `json:"open"`  // what the reasoning begins with, "<think>"
	Close string `json:"close"` // what it ends with, "</think>"
	// Opened says that the prompt ends inside the reasoning, so that replies have no Open (Qwen3.5 and later).
	Opened bool `json:"opened,omitempty"`
}

// families are the markers of models whose template shows them.
var families = []Reasoning{
	{Open: "<think>", Close: "</think>"}, // Qwen3, Qwen3.5 and later, SmolLM3, DeepSeek-R1, GLM, Nemotron
	{Open: "[THINK]", Close: "[/THINK]"}, // Magistral, Ministral
}

// reasoningOf finds the markers of a template in its source, and in the end of a prompt whether the reasoning is open there. It
// returns nil for a template without reasoning.
func reasoningOf(source, prompt string) *Reasoning {
	for _, r := range families {
		if strings.Contains(source, r.Close) {
			r.Opened = strings.HasSuffix(strings.TrimRightFunc(prompt, python.IsSpace), r.Open)
			return &r
		}
	}
	return nil
}

// Split divides a reply. The answer is what follows the last Close, as in the templates of these models, and the
// reasoning what precedes the first, each without the white space around it. Reasoning that is not finished is no answer:
// if there is no Close where there must be one, or Open once more after the last, the answer is "" and finished is false.
// A reply of a model that did not reason is an answer as it is. So is every reply if r is nil.
func (r *Reasoning) Split(reply string) (reasoning, answer string, finished bool) {
	if r == nil {
		return "", reply, true
	}
	last := strings.LastIndex(reply, r.Close)
	if last < 0 {
		if r.Opened || strings.Contains(reply, r.Open) {
			return r.inside(reply), "", false
		}
		return "", reply, true
	}
	reasoning = r.inside(reply[:strings.Index(reply, r.Close)])
	answer = reply[last+len(r.Close):]
	if strings.Contains(answer, r.Open) {
		return reasoning, "", false
	}
	return reasoning, python.Strip(answer), true
}

// inside is reasoning without Open and what stands before it.
func (r *Reasoning) inside(text string) string {
	if at := strings.LastIndex(text, r.Open); at >= 0 {
		text = text[at+len(r.Open):]
	}
	return python.Strip(text)
}

// Answer is the answer that [Reasoning.Split] finds.
func (r *Reasoning) Answer(reply string) string {
	_, answer, _ := r.Split(reply)
	return answer
}
