package chat

import (
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/golden"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func ask(t *testing.T, tmpl *Template, r Request) string {
	t.Helper()
	r.Messages = append(r.Messages, NewMessage("user", "hi"))
	out, err := tmpl.Render(t.Context(), r)
	require.NoError(t, err)
	return out.Text
}

// Folders keep their template in different places. Taking another one than transformers does would train on other prompts.
func TestLoad(t *testing.T) {
	tool := Request{Tools: []json.RawMessage{json.RawMessage(`{"name": "f"}`)}}
	for name, c := range map[string]struct {
		files   fstest.MapFS
		request Request
		want    string
	}{
		"the file before the others": {fstest.MapFS{
			"chat_template.jinja": file("file"), "tokenizer_config.json": file(`{"chat_template": "config"}`), "chat_template.json": file(`{"chat_template": "legacy"}`),
		}, Request{}, "file"},
		"config before the legacy file": {fstest.MapFS{
			"tokenizer_config.json": file(`{"chat_template": "config"}`), "chat_template.json": file(`{"chat_template": "legacy"}`),
		}, Request{}, "config"},
		"legacy file": {fstest.MapFS{"tokenizer_config.json": file(`{"chat_template": null}`), "chat_template.json": file(`{"chat_template": "legacy"}`)}, Request{}, "legacy"},
		"list without tools": {fstest.MapFS{
			"tokenizer_config.json": file(`{"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}`),
		}, Request{}, "a"},
		"list with tools": {fstest.MapFS{
			"tokenizer_config.json": file(`{"chat_template": [{"name": "default", "template": "a"}, {"name": "tool_use", "template": "b"}]}`),
		}, tool, "b"},
		"tools without a template for them": {fstest.MapFS{"chat_template.jinja": file("{{ tools[0].name }}")}, tool, "f"},
		"file beside the file": {fstest.MapFS{
			"chat_template.jinja": file("a"), "additional_chat_templates/tool_use.jinja": file("b"),
		}, tool, "b"},
		"special tokens": {fstest.MapFS{
			"chat_template.jinja":     file("{{ bos_token }}{{ eos_token }}{{ pad_token is defined }}{{ unk_token is defined }}"),
			"tokenizer_config.json":   file(`{"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null, "added_tokens_decoder": {}}`),
			"special_tokens_map.json": file(`{"bos_token": "[old]"}`),
		}, Request{}, "<s></s>FalseFalse"},
		"special tokens of the old kind": {fstest.MapFS{
			"chat_template.jinja":     file("{{ bos_token }}{{ eos_token }}"),
			"tokenizer_config.json":   file(`{"bos_token": "<s>", "eos_token": "</s>"}`),
			"special_tokens_map.json": file(`{"bos_token": {"content": "[old]"}}`),
		}, Request{}, "[old]</s>"},
		"an argument before a special token": {fstest.MapFS{
			"chat_template.jinja": file("{{ bos_token }}"), "tokenizer_config.json": file(`{"bos_token": "<s>"}`),
		}, Request{Args: map[string]any{"bos_token": ""}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			tmpl, err := Load(c.files)
			require.NoError(t, err)
			require.Equal(t, c.want, ask(t, tmpl, c.request))
		})
	}
}

// A damaged folder must be named when it is loaded, not when the first prompt is made.
func TestLoadErrors(t *testing.T) {
	_, err := Load(fstest.MapFS{"tokenizer_config.json": file(`{}`)})
	require.ErrorIs(t, err, ErrNoTemplate)
	for want, files := range map[string]fstest.MapFS{
		"tokenizer_config.json: unexpected end": {"tokenizer_config.json": file(`{`)},
		"neither a string nor a list":           {"tokenizer_config.json": file(`{"chat_template": 5}`)},
		`chat template "default": line 2`:       {"chat_template.jinja": file("a\n{% if %}")},
		`chat template "tool_use": line 1`:      {"tokenizer_config.json": file(`{"chat_template": [{"name": "tool_use", "template": "{{"}]}`)},
		"bos_token is neither a string nor":     {"chat_template.jinja": file("a"), "tokenizer_config.json": file(`{"bos_token": 5}`)},
		"chat_template.json: unexpected end":    {"chat_template.json": file(`{`)},
		`"default": UnicodeDecodeError`:         {"chat_template.jinja": file("\xff")},
	} {
		_, err := Load(files)
		require.ErrorContains(t, err, want)
	}
	tmpl, err := Load(fstest.MapFS{"tokenizer_config.json": file(`{"chat_template": [{"name": "rag", "template": "a"}]}`)})
	require.NoError(t, err)
	_, err = tmpl.Render(t.Context(), Request{})
	require.ErrorContains(t, err, `none is "default"`)
}

// sha256sum of the file in the folder must be what a run records.
func TestDigest(t *testing.T) {
	tmpl, err := Load(fstest.MapFS{"chat_template.jinja": file("abc")})
	require.NoError(t, err)
	digest, err := tmpl.Digest(false)
	require.NoError(t, err)
	require.Equal(t, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", digest)
}

// Arguments reach the template with Python's types: a model's prompt shows whether a number was 1 or 1.0.
func TestArguments(t *testing.T) {
	tmpl, err := Parse("{{ x }}|{{ x|tojson }}", nil)
	require.NoError(t, err)
	for want, x := range map[string]any{
		"None|null":           nil,
		"True|true":           true,
		"3|3":                 3,
		"-4|-4":               int64(-4),
		"3.0|3.0":             3.0,
		"é|\"é\"":             "é",
		"[1, 'a']|[1, \"a\"]": []any{1, "a"},
		"{'a': 1, 'b': [2.5]}|{\"a\": 1, \"b\": [2.5]}":                                   map[string]any{"b": []any{2.5}, "a": 1},
		"{'b': 1.0, 'a': 12345678901234567890}|{\"b\": 1.0, \"a\": 12345678901234567890}": json.RawMessage(`{"b": 1.0, "a": 12345678901234567890}`),
	} {
		require.Equal(t, want, ask(t, tmpl, Request{Args: map[string]any{"x": x}}))
	}
	for want, r := range map[string]Request{
		`Args["x"]: a *big.Int cannot be given`: {Args: map[string]any{"x": big.NewInt(1)}},
		`Args["x"]: not valid UTF-8`:            {Args: map[string]any{"x": []any{"\xff"}}},
		`Args["x"]: JSONDecodeError`:            {Args: map[string]any{"x": json.RawMessage("{")}},
		`Args has "tools"`:                      {Args: map[string]any{"tools": nil}},
		"Tools[0]: must be a JSON object":       {Tools: []json.RawMessage{json.RawMessage(`5`)}},
		"Messages[0] is empty":                  {Messages: []Message{{}}},
		"Messages[0] is not valid UTF-8":        {Messages: []Message{NewMessage("user", "\xff")}},
		"Continue and GenerationPrompt":         {GenerationPrompt: true, Continue: "content"},
		"Continue without a message":            {Continue: "content"},
	} {
		_, err := tmpl.Render(t.Context(), r)
		require.ErrorContains(t, err, want)
	}
	require.ErrorContains(t, json.Unmarshal([]byte(`[5]`), new([]Message)), "must be a JSON object")
}

// Going on with a message must end the prompt exactly where the message ends, or say that it cannot.
func TestContinue(t *testing.T) {
	tmpl, err := Parse("{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content|trim if trimmed else m.content }}{% else %}{{ m.content|map(attribute='text')|join }}{% endif %}</>{% endfor %}", nil)
	require.NoError(t, err)
	conversation := func(text string) (messages []Message) {
		require.NoError(t, json.Unmarshal([]byte(text), &messages))
		return messages
	}
	for _, c := range []struct {
		messages, field string
		trimmed         bool
		want, failure   string
	}{
		{messages: `[{"role": "a", "content": "One, "}]`, field: "content", want: "<a>One, "},
		{messages: `[{"role": "a", "content": "One, "}]`, field: "content", trimmed: true, want: "<a>One,"},
		{messages: `[{"role": "a", "content": [{"text": "One"}, {"text": "Two"}, {"image": 1}]}]`, field: "content", want: "<a>OneTwo"},
		{messages: `[{"role": "a", "content": [{"image": 1}, 5]}]`, field: "content", failure: "it has no text"},
		{messages: `[{"role": "a", "content": 5}]`, field: "content", failure: "it is no text"},
		{messages: `[{"role": "a", "content": [{"text": 5}]}]`, field: "content", failure: "no string"},
		{messages: `[{"role": "a", "content": null}]`, field: "content", failure: "no such field"},
		{messages: `[{"role": "a", "content": "x", "text": "y"}]`, field: "text", failure: "left that field out"},
		{messages: `[{"role": "a", "content": "x", "thinking": "y"}]`, field: "thinking", failure: "does not read that field"},
		{messages: `[{"role": "a", "content": "x", "thinking": [1], "reasoning": [1]}]`, field: "reasoning", failure: "does not read that field"},
	} {
		out, err := tmpl.Render(t.Context(), Request{Messages: conversation(c.messages), Continue: c.field, Args: map[string]any{"trimmed": c.trimmed}})
		if c.failure != "" {
			require.ErrorContains(t, err, c.failure, c.messages)
			continue
		}
		require.NoError(t, err, c.messages)
		require.Equal(t, c.want, out.Text)
	}
}

// A model that is rewarded for an answer in unfinished reasoning learns not to finish it.
func TestReasoning(t *testing.T) {
	closed := &Reasoning{Open: "<think>", Close: "</think>"}
	opened := &Reasoning{Open: "<think>", Close: "</think>", Opened: true}
	for _, c := range []struct {
		r                        *Reasoning
		reply, reasoning, answer string
		finished                 bool
	}{
		{closed, "<think>\nr\n</think>\n\na\n", "r", "a", true},
		{closed, "<think>\n\n</think>\n\na", "", "a", true},
		{closed, " a ", "", " a ", true}, // did not reason
		{closed, "<think>\nr <answer>1</answer>", "r <answer>1</answer>", "", false},
		{closed, "r\n</think>\na", "r", "a", true},
		{closed, "<think>r</think>a<think>s", "r", "", false},
		{closed, "<think>r</think>a<think>s</think>b", "r", "b", true},
		{closed, "<think>r</think>", "r", "", true},
		{closed, "", "", "", true},
		{opened, "r\n</think>\n\na", "r", "a", true},
		{opened, "r <answer>1</answer>", "r <answer>1</answer>", "", false},
		{opened, "<think>r</think>a", "r", "a", true},
		{opened, "r</think>s</think>a", "r", "a", true},
		{opened, "", "", "", false},
		{nil, "<think>r</think>a", "", "<think>r</think>a", true},
	} {
		reasoning, answer, finished := c.r.Split(c.reply)
		require.Equal(t, []any{c.reasoning, c.answer, c.finished}, []any{reasoning, answer, finished}, "%+v %q", c.r, c.reply)
		require.Equal(t, c.answer, c.r.Answer(c.reply))
	}
}

const thinking = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>" +
	"{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}{% endif %}"

// Whether a reply begins inside the reasoning follows from the prompts, which the template's arguments decide.
func TestFormat(t *testing.T) {
	for _, c := range []struct {
		source    string
		config    FormatConfig
		prompt    string
		reasoning *Reasoning
	}{
		{thinking, FormatConfig{}, "<user>Q<assistant><think>\n", &Reasoning{Open: "<think>", Close: "</think>", Opened: true}},
		{thinking, FormatConfig{System: "S", Args: map[string]any{"enable_thinking": false}}, "<system>S<user>Q<assistant><think>\n\n</think>\n\n", &Reasoning{Open: "<think>", Close: "</think>"}},
		{thinking, FormatConfig{System: "S", Shots: []Shot{{"1", "one"}, {"2", "two"}}}, "<system>S<user>1<assistant>one<user>2<assistant>two<user>Q<assistant><think>\n",
			&Reasoning{Open: "<think>", Close: "</think>", Opened: true}},
		{"{{ messages[0].content }}{# [THINK] [/THINK] #}", FormatConfig{}, "Q", &Reasoning{Open: "[THINK]", Close: "[/THINK]"}},
		{"{{ messages[0].content }}", FormatConfig{}, "Q", nil},
		{thinking, FormatConfig{Reasoning: &Reasoning{Open: "(", Close: ")"}}, "<user>Q<assistant><think>\n", &Reasoning{Open: "(", Close: ")"}},
	} {
		var err error
		c.config.Template, err = Parse(c.source, nil)
		require.NoError(t, err)
		f, err := NewFormat(c.config)
		require.NoError(t, err)
		prompt, err := f.Prompt("Q")
		require.NoError(t, err)
		require.Equal(t, c.prompt, prompt)
		require.Equal(t, c.reasoning, f.Reasoning())
	}
}

// Settings that the template refuses must stop the program before a run directory is made.
func TestFormatErrors(t *testing.T) {
	_, err := NewFormat(FormatConfig{})
	require.ErrorContains(t, err, "Template is nil")
	tmpl, err := Parse("{% if reasoning_effort == 'high' %}{{ raise_exception('Unexpected reasoning effort') }}{% endif %}", nil)
	require.NoError(t, err)
	_, err = NewFormat(FormatConfig{Template: tmpl, Args: map[string]any{"reasoning_effort": "high"}})
	require.ErrorIs(t, err, ErrRaised)
	require.ErrorContains(t, err, "Unexpected reasoning effort")
	_, err = NewFormat(FormatConfig{Template: tmpl, Reasoning: &Reasoning{Open: "<think>"}})
	require.ErrorContains(t, err, "Open and Close")
}

// A run that is resumed with other settings of its prompts is another run, so all of them are recorded.
func TestFormatRecord(t *testing.T) {
	tmpl, err := Parse("{{ messages|length }}", map[string]string{"bos_token": "<s>"})
	require.NoError(t, err)
	f, err := NewFormat(FormatConfig{
		Template: tmpl, System: "S", Shots: []Shot{{"1", "one"}}, Args: map[string]any{"enable_thinking": false}, Tools: []json.RawMessage{json.RawMessage(`{"b": 1.0, "a": 2}`)},
		Now: time.Date(2026, 3, 5, 9, 8, 7, 0, time.UTC),
	})
	require.NoError(t, err)
	data, err := json.Marshal(f)
	require.NoError(t, err)
	require.JSONEq(t, `{"args":{"enable_thinking":false},"now":"2026-03-05T09:08:07","shots":[{"question":"1","reply":"one"}],"special_tokens":{"bos_token":"<s>"},"system":"S","tools":[{"b":1.0,"a":2}]}`, string(data))
	require.Contains(t, string(data), `{"b":1.0,"a":2}`, "the prompt shows this order and this number")
	require.Len(t, f.Digest(), 64)
}

// Templates come from strangers, and so may conversations.
func FuzzRender(f *testing.F) {
	for _, source := range []string{
		thinking,
		"{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles') }}{% endif %}{{ message.content | trim }}{% endfor %}",
		"{%- set ns = namespace(last=messages|length - 1) %}{%- for m in messages[::-1] %}{% if m.role == 'user' %}{% set ns.last = loop.revindex0 %}{% endif %}{% endfor %}{{ ns.last }}",
		"{%- macro part(x, n=2) -%}{{ x|tojson(indent=n) }}{%- endmacro %}{% if tools %}{% for t in tools %}{{ part(t) }}{% endfor %}{% endif %}",
		"{% generation %}{{ messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|join(', ') }}{% endgeneration %}{% raw %}{{ }}{% endraw %}",
		"{% set x %}{{ 'a' ~ 1 ~ none }}{% endset %}{{ x|upper if x is string and x|length > 2 else x.split('a')[-1].strip() }}{% break %}",
		"{{ [1, 2.5, (3,), {'a': -1 // 2}] + [x] * 3 }}{{ 'x' in 'xy' and not 1 < 2 <= 3 }}{{ messages[0].content[1:-1:2] }}{{ strftime_now('%Y') }}",
	} {
		f.Add(source, `[{"role": "user", "content": "Hé <b>"}, {"role": "assistant", "content": [{"type": "text", "text": "x"}], "reasoning": "r"}]`)
	}
	for _, file := range golden.Glob(f, "chat/templates/*.jinja") {
		f.Add(string(golden.Read(f, file)), `[{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.0}}}]}, {"role": "tool", "content": "c"}]`)
	}
	f.Fuzz(func(t *testing.T, source, conversation string) {
		tmpl, err := Parse(source, map[string]string{"bos_token": "<s>"})
		var messages []Message
		if err != nil || json.Unmarshal([]byte(conversation), &messages) != nil {
			return
		}
		r := Request{Messages: messages, GenerationPrompt: true, Now: time.Date(2026, 3, 5, 9, 8, 7, 0, time.UTC), Args: map[string]any{"x": "1"},
			Tools: []json.RawMessage{json.RawMessage(`{"name": "f", "parameters": {"a": [1, 1.0]}}`)}}
		first, err := tmpl.Render(t.Context(), r)
		if err != nil && strings.Contains(err.Error(), "internal error") {
			t.Fatal(err)
		}
		if again, _ := tmpl.Render(t.Context(), r); again.Text != first.Text {
			t.Fatalf("%q and %q", first.Text, again.Text)
		}
		r.GenerationPrompt, r.Continue = false, "content"
		_, _ = tmpl.Render(t.Context(), r)
	})
}
