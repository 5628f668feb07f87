package jinja

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/internal/python"
)

// unsupported is what cases.jsonl.gz has and this package refuses by name, with the number of cases. No published chat
// template is known to need any of it.
var unsupported = map[string]int{
	"** is not supported for floats":       4,
	"a function cannot be printed":         1,
	"slices of ranges are not supported":   5,
	"Markup.join is not supported":         3,
	"Markup.partition is not supported":    1,
	"Markup.removeprefix is not supported": 1,
	"Markup.removesuffix is not supported": 1,
	"Markup.replace is not supported":      3,
	"Markup.rpartition is not supported":   1,
	"Markup.rsplit is not supported":       3,
	"Markup.split is not supported":        6,
	"Markup.splitlines is not supported":   1,
}

// A model is trained on exactly the prompts that Jinja2 makes of its template. Every difference in an operator, filter, test,
// method or in white space control would show it prompts that it has never seen.
func TestCasesAsJinja2(t *testing.T) {
	messages, err := python.ParseJSON(`[{"role": "user", "content": "Hé <b>", "meta": {"k": [1, 2.0]}}, {"role": "assistant", "content": "ok", "meta": {"k": "x"}}]`)
	require.NoError(t, err)
	refused := map[string]int{}
	lines := golden.Lines(t, filepath.Join("testdata", "cases.jsonl.gz"))
	if testing.Short() { // the race detector has no use for all of them
		lines = lines[len(lines)-1000:]
	}
	for _, line := range lines {
		var c struct {
			Template, Error string
			Expected        *string
		}
		require.NoError(t, json.Unmarshal(line, &c))
		tmpl, err := Parse(c.Template)
		var out Output
		if err == nil {
			out, err = tmpl.Render(t.Context(), map[string]any{"messages": messages}, time.Date(2026, 3, 5, 9, 8, 7, 0, time.UTC))
		}
		var raised python.Error
		switch {
		case errors.Is(err, errInternal):
			t.Errorf("%s\n got %v", c.Template, err)
		case c.Expected == nil && err == nil:
			t.Errorf("%s\n got %q\nwant error %s", c.Template, out.Text, c.Error)
		case c.Expected == nil:
		case errors.As(err, &raised) && raised.Type == "NotImplementedError":
			refused[raised.Message]++
		case err != nil:
			t.Errorf("%s\n got error %v\nwant %q", c.Template, err, *c.Expected)
		case out.Text != *c.Expected:
			t.Errorf("%s\n got %q\nwant %q", c.Template, out.Text, *c.Expected)
		}
	}
	if !testing.Short() {
		require.Equal(t, unsupported, refused)
	}
	t.Logf("%d cases, %d refused", len(lines), len(refused))
}

// The time that a prompt takes beside what sampling its completions takes.
func BenchmarkRender(b *testing.B) {
	source := golden.Read(b, filepath.Join("..", "..", "..", "..", "testdata", "golden", "chat", "templates", "qwen3_5_think.jinja"))
	messages, err := python.ParseJSON(`[{"role": "system", "content": "Answer."}, {"role": "user", "content": "Question"}]`)
	require.NoError(b, err)
	t, err := Parse(string(source))
	require.NoError(b, err)
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, err := Parse(string(source)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("render", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := t.Render(b.Context(), map[string]any{"messages": messages, "add_generation_prompt": true, "tools": nil}, time.Time{}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
