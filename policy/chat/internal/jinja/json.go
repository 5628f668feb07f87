package jinja

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/grouper-rl/grouper/internal/python"
)

// jsonWriter is json.dumps with transformers' defaults: no escapes of characters that are not ASCII.
type jsonWriter struct {
	e            *evaluator
	b            []byte
	ascii        bool
	indent       string
	lines        bool // every element on a line of its own
	comma, colon string
	sort         bool
	depth        int
}

// tojson has the parameters of json.dumps: x, ensure_ascii, indent, separators, sort_keys.
func tojson(e *evaluator, args []any) any {
	w := jsonWriter{e: e, ascii: truth(args[1]), comma: ", ", colon: ": ", sort: truth(args[4])}
	switch indent := args[2].(type) {
	case nil:
	case string:
		w.lines, w.indent = true, indent
	default:
		n := max(0, e.index(indent))
		e.allocate(n)
		w.lines, w.indent = true, strings.Repeat(" ", n)
	}
	if w.lines {
		w.comma = ","
	}
	if args[3] != nil {
		parts := e.iterate(args[3])
		if len(parts) != 2 {
			fail("ValueError", "tojson takes two separators, got %d", len(parts))
		}
		for i, to := range []*string{&w.comma, &w.colon} {
			s, ok := asString(parts[i])
			if !ok {
				fail("TypeError", "a separator of tojson is a %s", typeName(parts[i]))
			}
			*to = s
		}
	}
	w.value(args[0])
	return string(w.b)
}

func (w *jsonWriter) write(s string) {
	w.e.allocate(len(s))
	w.b = append(w.b, s...)
}

func (w *jsonWriter) value(v any) {
	w.e.enter()
	defer func() { w.e.depth-- }()
	switch v := v.(type) {
	case nil:
		w.write("null")
	case bool:
		w.write(fmt.Sprint(v))
	case python.Int:
		w.write(v.String())
	case float64:
		w.write(jsonFloat(v))
	case string:
		w.string(v)
	case safe:
		w.string(string(v))
	case []any:
		w.list("[", "]", len(v), func(i int) { w.value(v[i]) })
	case python.Tuple:
		w.list("[", "]", len(v), func(i int) { w.value(v[i]) })
	case *python.Dict:
		keys := make([]string, 0, v.Len())
		for key := range v.All() {
			keys = append(keys, key)
		}
		if w.sort {
			slices.Sort(keys)
		}
		w.list("{", "}", len(keys), func(i int) {
			w.string(keys[i])
			w.write(w.colon)
			item, _ := v.Get(keys[i])
			w.value(item)
		})
	default:
		fail("TypeError", "Object of type %s is not JSON serializable", typeName(v))
	}
}

func jsonFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return python.FloatRepr(f)
}

func (w *jsonWriter) list(open, closing string, n int, element func(i int)) {
	w.write(open)
	w.depth++
	for i := range n {
		if i > 0 {
			w.write(w.comma)
		}
		w.newline()
		element(i)
	}
	w.depth--
	if n > 0 {
		w.newline()
	}
	w.write(closing)
}

func (w *jsonWriter) newline() {
	if w.lines {
		w.write("\n")
		for range w.depth {
			w.write(w.indent)
		}
	}
}

func (w *jsonWriter) string(s string) {
	w.e.allocate(len(s) + 2)
	b := append(w.b, '"')
	for _, c := range s {
		if i := strings.IndexRune("\"\\\b\f\n\r\t", c); i >= 0 {
			b = append(b, '\\', `"\bfnrt`[i])
			continue
		}
		switch {
		case c < ' ' || w.ascii && c > '~' && c <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, c)
		case w.ascii && c > 0xffff:
			high, low := utf16.EncodeRune(c)
			b = fmt.Appendf(b, `\u%04x\u%04x`, high, low)
		default:
			b = append(b, string(c)...)
		}
	}
	w.b = append(b, '"')
}
