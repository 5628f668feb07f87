package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// FormatConfig says how a model is asked.
type FormatConfig struct {
	Template *Template
	System   string            // the system prompt; "": none
	Shots    []Shot            // earlier turns of the conversation, which show what is wanted; nil: none
	Tools    []json.RawMessage // as in [Request], as are Args and Now
	Args     map[string]any
	Now      time.Time
	// Reasoning overrides how replies are divided; nil: by the markers that the template has, if it has any.
	Reasoning *Reasoning
}

// Shot is a question with the reply that is wanted: few-shot prompting, for models that do not do what the system prompt says.
type Shot struct {
	Question string `json:"question"`
	Reply    string `json:"reply"`
}

// Format asks questions with a chat template, and knows where the answer is in a reply. It is safe for concurrent use.
type Format struct {
	config    FormatConfig
	digest    string
	reasoning *Reasoning
}

// NewFormat renders a question to see that the template takes the settings, and whether its prompts end inside the model's
// reasoning.
func NewFormat(c FormatConfig) (*Format, error) {
	if c.Template == nil {
		return nil, errors.New("chat format: Template is nil")
	}
	if r := c.Reasoning; r != nil && (r.Open == "" || r.Close == "") {
		return nil, fmt.Errorf("chat format: Reasoning is %+v, allowed: Open and Close that are not empty", *r)
	}
	c.Args, c.Shots = maps.Clone(c.Args), slices.Clone(c.Shots)
	f := &Format{config: c, reasoning: c.Reasoning}
	prompt, err := f.Prompt("Question")
	if err != nil {
		return nil, err
	}
	if f.digest, err = c.Template.Digest(c.Tools != nil); err != nil {
		return nil, err
	}
	if f.reasoning == nil {
		v, err := c.Template.pick(c.Tools != nil)
		if err != nil {
			return nil, err
		}
		f.reasoning = reasoningOf(v.source, prompt)
	}
	return f, nil
}

// Prompt is the text that asks a question: the system prompt and the shots if there are any, the question as the user's message,
// and the beginning of the assistant's. The tokenizer must add no special tokens to it.
func (f *Format) Prompt(question string) (string, error) {
	var messages []Message
	if f.config.System != "" {
		messages = append(messages, NewMessage("system", f.config.System))
	}
	for _, shot := range f.config.Shots {
		messages = append(messages, NewMessage("user", shot.Question), NewMessage("assistant", shot.Reply))
	}
	out, err := f.config.Template.Render(context.Background(), Request{ // bounded by itself
		Messages: append(messages, NewMessage("user", question)), GenerationPrompt: true,
		Tools: f.config.Tools, Args: f.config.Args, Now: f.config.Now,
	})
	return out.Text, err
}

// Reasoning says how replies are divided, of which only the answer is graded; nil: they are answers as they are.
func (f *Format) Reasoning() *Reasoning { return f.reasoning }

// Digest is the SHA-256 of the template's source, as [Template.Digest] has it.
func (f *Format) Digest() string { return f.digest }

// MarshalJSON gives what a run records: everything besides the template that prompts depend on.
func (f *Format) MarshalJSON() ([]byte, error) {
	settings := map[string]any{"special_tokens": f.config.Template.special}
	if f.config.System != "" {
		settings["system"] = f.config.System
	}
	if len(f.config.Shots) > 0 {
		settings["shots"] = f.config.Shots
	}
	if f.config.Tools != nil {
		settings["tools"] = f.config.Tools
	}
	if len(f.config.Args) > 0 {
		settings["args"] = f.config.Args
	}
	if !f.config.Now.IsZero() {
		settings["now"] = f.config.Now.Format("2006-01-02T15:04:05")
	}
	return json.Marshal(settings)
}
