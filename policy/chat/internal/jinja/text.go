package jinja

import "github.com/grouper-rl/grouper/internal/python"

// str is str(v), which is how a value is printed.
func (e *evaluator) str(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case safe:
		return string(v)
	case undefined:
		return ""
	}
	return e.repr(v)
}

// repr is repr(v).
func (e *evaluator) repr(v any) string { return string(e.appendRepr(nil, v)) }

func (e *evaluator) appendRepr(b []byte, v any) []byte {
	e.enter()
	defer func() { e.depth-- }()
	start := len(b)
	list := func(open string, items []any, closing string) {
		b = append(b, open...)
		for i, item := range items {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = e.appendRepr(b, item)
		}
		b = append(b, closing...)
	}
	switch v := v.(type) {
	case nil, bool, python.Int, float64, string:
		b = python.AppendRepr(b, v)
		e.allocate(len(b) - start)
	case safe:
		b = append(python.AppendRepr(append(b, "Markup("...), string(v)), ')')
		e.allocate(len(b) - start)
	case undefined:
		b = append(b, "Undefined"...)
	case []any:
		list("[", v, "]")
	case python.Tuple:
		closing := ")"
		if len(v) == 1 {
			closing = ",)"
		}
		list("(", v, closing)
	case *python.Dict:
		b = append(b, '{')
		i := 0
		for key, item := range v.All() {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(e.appendRepr(b, key), ": "...)
			b = e.appendRepr(b, item)
			i++
		}
		b = append(b, '}')
	case *macro:
		b = append(append(append(b, "<Macro "...), python.Repr(v.name)...), '>')
	case *series:
		switch {
		case v.indexed():
			b = append(b, v.kind...)
		case v.next != nil:
			fail("NotImplementedError", "a %s cannot be printed", v.kind)
		default:
			list(v.kind+"([", v.items, "])")
		}
	case *namespace:
		b = append(e.appendRepr(append(b, "<Namespace "...), v.attributes), '>')
	default:
		fail("NotImplementedError", "a %s cannot be printed", typeName(v))
	}
	return b
}
