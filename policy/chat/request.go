package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/internal/python"
)

// Message is one message of a conversation: a JSON object, whose keys keep their order, with a role, a content and whatever
// else the template reads (reasoning_content, tool_calls, …). Decode a conversation by json.Unmarshal into a []Message.
type Message struct{ fields *python.Dict }

// NewMessage returns a message with a role ("system", "user", "assistant", …) and a text.
func NewMessage(role, content string) Message {
	d := python.NewDict()
	d.Set("role", role)
	d.Set("content", content)
	return Message{d}
}

// UnmarshalJSON implements json.Unmarshaler. Numbers stay what they are: 1 and 1.0 differ, and integers may have any size.
func (m *Message) UnmarshalJSON(data []byte) error {
	v, err := parse(data)
	if err != nil {
		return err
	}
	d, ok := v.(*python.Dict)
	if !ok {
		return errors.New("a message must be a JSON object")
	}
	m.fields = d
	return nil
}

func parse(data []byte) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not valid UTF-8")
	}
	return python.ParseJSON(string(data))
}

// Request is a conversation and how to render it.
type Request struct {
	Messages []Message
	Tools    []json.RawMessage // JSON schemas of the functions that the model may call; nil: none
	// GenerationPrompt asks for the beginning of the assistant's next message (add_generation_prompt).
	GenerationPrompt bool
	// Continue names the field of the last message that the model is to go on with, mostly "content": the prompt ends
	// where that field ends (continue_final_message).
	Continue string
	// Args are the template's other arguments: "enable_thinking", "reasoning_effort", "preserve_thinking", "documents", …
	// Values are nil, bool, integers, float64, string, []any, map[string]any (whose keys are sorted) and json.RawMessage.
	Args map[string]any
	// Now is what strftime_now reads. It is never the clock: if it is zero, a template that asks for the time fails.
	Now time.Time
}

// reserved are variables that are no template arguments.
var reserved = []string{"messages", "tools", "add_generation_prompt", "continue_final_message"}

// variables makes what the template sees: the messages without fields that are null, with reasoning under all the names that
// templates read it by, and with a mark where the prompt is to end.
func (r Request) variables(source string, special map[string]string) (map[string]any, *continuation, error) {
	if r.Continue != "" && r.GenerationPrompt {
		return nil, nil, errors.New("chat request: Continue and GenerationPrompt cannot be used together")
	}
	vars := map[string]any{"documents": nil, "add_generation_prompt": r.GenerationPrompt, "tools": nil}
	for name, token := range special {
		vars[name] = token
	}
	for _, name := range slices.Sorted(maps.Keys(r.Args)) {
		if slices.Contains(reserved, name) {
			return nil, nil, fmt.Errorf("chat request: Args has %q, which has a field of its own", name)
		}
		v, err := value(r.Args[name])
		if err != nil {
			return nil, nil, fmt.Errorf("chat request: Args[%q]: %w", name, err)
		}
		vars[name] = v
	}
	if r.Tools != nil {
		tools := []any{}
		for i, schema := range r.Tools {
			tool, err := parse(schema)
			if _, ok := tool.(*python.Dict); err == nil && !ok {
				err = errors.New("must be a JSON object")
			}
			if err != nil {
				return nil, nil, fmt.Errorf("chat request: Tools[%d]: %w", i, err)
			}
			tools = append(tools, tool)
		}
		vars["tools"] = tools
	}
	messages := make([]any, len(r.Messages))
	for i, m := range r.Messages {
		if m.fields == nil {
			return nil, nil, fmt.Errorf("chat request: Messages[%d] is empty", i)
		}
		for _, text := range m.fields.All() {
			if s, ok := text.(string); ok && !utf8.ValidString(s) {
				return nil, nil, fmt.Errorf("chat request: Messages[%d] is not valid UTF-8", i)
			}
		}
		messages[i] = prepared(m.fields)
	}
	vars["messages"] = messages
	if r.Continue == "" {
		return vars, nil, nil
	}
	if len(messages) == 0 {
		return nil, nil, errors.New("chat request: Continue without a message")
	}
	c, err := newContinuation(r.Continue, source, messages[len(messages)-1].(*python.Dict))
	return vars, c, err
}

// reasoningFields are the names that a message's reasoning is given by, the one that templates read first.
var reasoningFields = []string{"reasoning_content", "thinking", "reasoning"}

// prepared is a message as transformers shows it to a template.
func prepared(fields *python.Dict) *python.Dict {
	var reasoning any
	for _, name := range reasoningFields {
		if v, ok := fields.Get(name); ok && v != nil {
			reasoning = v
			break
		}
	}
	m := python.NewDict()
	if reasoning != nil {
		m.Set("thinking", reasoning)
	}
	for name, v := range fields.All() {
		if v != nil {
			m.Set(name, v)
		}
	}
	if reasoning != nil {
		m.Set("reasoning_content", reasoning)
	}
	return m
}

// value converts an argument to what templates compute with.
func value(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, float64:
		return v, nil
	case int:
		return python.NewInt(v), nil
	case int64:
		return python.NewInt(int(v)), nil
	case string:
		if !utf8.ValidString(v) {
			return nil, errors.New("not valid UTF-8")
		}
		return v, nil
	case json.RawMessage:
		return parse(v)
	case []any:
		list := make([]any, len(v))
		for i, item := range v {
			var err error
			if list[i], err = value(item); err != nil {
				return nil, err
			}
		}
		return list, nil
	case map[string]any:
		d := python.NewDict()
		for _, key := range slices.Sorted(maps.Keys(v)) {
			item, err := value(v[key])
			if err != nil {
				return nil, err
			}
			d.Set(key, item)
		}
		return d, nil
	}
	return nil, fmt.Errorf("a %T cannot be given to a template", v)
}

// mark stands at the end of the field that the model goes on with. The space shows whether the template strips it.
const mark = "CONTINUE_FINAL_MESSAGE_TAG "

// continuation is the field whose end the prompt is cut at.
type continuation struct {
	field, text string
}

// newContinuation puts the mark into a message, as transformers does.
func newContinuation(field, source string, message *python.Dict) (*continuation, error) {
	fail := func(format string, args ...any) (*continuation, error) {
		return nil, fmt.Errorf("chat request: Continue %q: "+format, append([]any{field}, args...)...)
	}
	final, ok := message.Get(field)
	if !ok {
		return fail("the last message has no such field")
	}
	fields := []string{field}
	if slices.Contains(reasoningFields, field) { // each copy is marked, since the template may read any
		fields = nil
		for _, name := range reasoningFields {
			v, _ := message.Get(name)
			text, isText := v.(string)
			if name == field || isText && any(text) == final {
				fields = append(fields, name)
			}
		}
	}
	if !slices.ContainsFunc(fields, func(name string) bool { return strings.Contains(source, name) }) {
		return fail("the template does not read that field")
	}
	switch final := final.(type) {
	case string:
		for _, name := range fields {
			message.Set(name, final+mark)
		}
		return &continuation{field, final}, nil
	case []any:
		parts := slices.Clone(final)
		for i, part := range slices.Backward(parts) {
			p, ok := part.(*python.Dict)
			if !ok {
				continue
			}
			text, ok := p.Get("text")
			if !ok {
				continue
			}
			s, ok := text.(string)
			if !ok {
				return fail("its last text is no string")
			}
			marked := python.NewDict()
			for key, v := range p.All() {
				marked.Set(key, v)
			}
			marked.Set("text", s+mark)
			parts[i] = marked
			message.Set(field, parts)
			return &continuation{field, s}, nil
		}
		return fail("it has no text")
	}
	return fail("it is no text")
}

// cut ends a prompt at the mark.
func (c *continuation) cut(prompt string) (string, error) {
	at := strings.LastIndex(prompt, strings.TrimSpace(mark))
	if at < 0 || !strings.Contains(prompt, python.Strip(c.text)) {
		return "", fmt.Errorf("chat request: Continue %q: the template left that field out or changed it", c.field)
	}
	if strings.HasPrefix(prompt[at:], mark) {
		return prompt[:at], nil
	}
	return strings.TrimRightFunc(prompt[:at], python.IsSpace), nil
}
