package jinja

import (
	"math"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/internal/python"
)

// filters are those of Jinja that chat templates use, and tojson as transformers has it.
var filters map[string]callable

func init() { // not in the declaration, which would depend on itself: map calls filters by name
	filters = map[string]callable{
		"tojson":     fn("value ensure_ascii indent separators sort_keys", tojson, false, nil, nil, false),
		"string":     fn("value", func(e *evaluator, a []any) any { return e.soft(a[0]) }),
		"safe":       fn("value", func(e *evaluator, a []any) any { return safe(e.str(a[0])) }),
		"escape":     fn("value", escapeFilter),
		"e":          fn("value", escapeFilter),
		"trim":       fn("value chars", func(e *evaluator, a []any) any { return strip(e, []any{e.soft(a[0]), a[1]}) }, nil),
		"upper":      fn("value", func(e *evaluator, a []any) any { return upper(e, []any{e.soft(a[0])}) }),
		"lower":      fn("value", func(e *evaluator, a []any) any { return lower(e, []any{e.soft(a[0])}) }),
		"capitalize": fn("value", func(e *evaluator, a []any) any { return capitalize(e, []any{e.soft(a[0])}) }),
		"replace":    fn("value old new count", replaceFilter, nil),
		"indent":     fn("value width first blank", indent, python.NewInt(4), false, false),
		"join":       fn("value d attribute", joinFilter, "", nil),
		"length":     fn("value", lengthFilter),
		"count":      fn("value", lengthFilter),
		"default":    fn("value default_value boolean", defaultFilter, "", false),
		"d":          fn("value default_value boolean", defaultFilter, "", false),
		"int":        fn("value default base", intFilter, python.Int{}, python.NewInt(10)),
		"float":      fn("value default", floatFilter, 0.0),
		"abs":        fn("value", abs),
		"round":      fn("value precision method", round, python.Int{}, "common"),
		"list":       fn("value", func(e *evaluator, a []any) any { return e.iterate(a[0]) }),
		"items":      fn("value", itemsFilter),
		"first":      fn("value", first),
		"last":       fn("value", last),
		"reverse":    fn("value", reverse),
		"sort":       fn("value reverse case_sensitive attribute", sortFilter, false, false, nil),
		"dictsort":   fn("value case_sensitive by reverse", dictsort, false, "key", false),
		"unique":     fn("value case_sensitive attribute", unique, false, nil),
		"min":        fn("value case_sensitive attribute", func(e *evaluator, a []any) any { return extreme(e, "<", a) }, false, nil),
		"max":        fn("value case_sensitive attribute", func(e *evaluator, a []any) any { return extreme(e, ">", a) }, false, nil),
		"sum":        fn("value attribute start", sum, nil, python.Int{}),
		"batch":      fn("value linecount fill_with", batch, nil),
		"map":        variadic(mapFilter),
		"select":     variadic(func(e *evaluator, v values) any { return choose(e, v, false, true) }),
		"reject":     variadic(func(e *evaluator, v values) any { return choose(e, v, false, false) }),
		"selectattr": variadic(func(e *evaluator, v values) any { return choose(e, v, true, true) }),
		"rejectattr": variadic(func(e *evaluator, v values) any { return choose(e, v, true, false) }),
	}
}

// soft is str(v) that leaves a safe string safe.
func (e *evaluator) soft(v any) any {
	if s, ok := v.(safe); ok {
		return s
	}
	return e.str(v)
}

func escapeFilter(e *evaluator, a []any) any {
	if s, ok := a[0].(safe); ok {
		return s
	}
	return safe(e.escape(e.str(a[0])))
}

func replaceFilter(e *evaluator, a []any) any {
	count := a[3]
	if count == nil {
		count = python.NewInt(-1)
	}
	return replace(e, []any{e.str(a[0]), e.str(a[1]), e.str(a[2]), count})
}

func indent(e *evaluator, a []any) any {
	width, ok := asString(a[1])
	if !ok {
		n := max(0, e.index(a[1]))
		e.allocate(n)
		width = strings.Repeat(" ", n)
	}
	lines := python.SplitLines(e.text("indent", a[0]) + "\n")
	e.allocate(len(lines) * len(width))
	e.spend(len(lines))
	for i, line := range lines {
		if i == 0 && truth(a[2]) || i > 0 && (line != "" || truth(a[3])) {
			lines[i] = width + line
		}
	}
	return like(a[0], strings.Join(lines, "\n"))
}

func joinFilter(e *evaluator, a []any) any {
	items := e.iterate(a[0])
	parts := make([]string, len(items))
	d := e.str(a[1])
	for i, item := range items {
		parts[i] = e.str(e.getter(item, a[2], nil))
		e.allocate(len(parts[i]) + len(d))
	}
	return strings.Join(parts, d)
}

func lengthFilter(e *evaluator, a []any) any {
	n, ok := length(a[0])
	if !ok {
		fail("TypeError", "object of type '%s' has no len()", typeName(a[0]))
	}
	return python.NewInt(n)
}

func defaultFilter(_ *evaluator, a []any) any {
	if _, ok := a[0].(undefined); ok || truth(a[2]) && !truth(a[0]) {
		return a[1]
	}
	return a[0]
}

func intFilter(e *evaluator, a []any) any {
	switch v := a[0].(type) {
	case undefined:
		v.fail()
	case bool, python.Int:
		n, _ := integer(v)
		return n
	case string, safe:
		base := e.index(a[2])
		if base != 10 {
			fail("NotImplementedError", "int with base %d is not supported", base)
		}
		if n, err := python.ParseInt(e.str(v), base); err == nil {
			return n
		}
	}
	f, ok := toFloat(e, a[0])
	_, isFloat := a[0].(float64)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) && !isFloat {
		return a[1]
	}
	return python.IntOf(f)
}

// toFloat is float(v), if v is a number or the text of one.
func toFloat(e *evaluator, v any) (float64, bool) {
	if s, ok := asString(v); ok {
		f, err := python.ParseFloat(s)
		return f, err == nil
	}
	if u, ok := v.(undefined); ok {
		u.fail()
	}
	f, _, ok := floats(v, 0.0)
	return f, ok
}

func floatFilter(e *evaluator, a []any) any {
	if f, ok := toFloat(e, a[0]); ok {
		return f
	}
	return a[1]
}

func abs(e *evaluator, a []any) any {
	if u, ok := a[0].(undefined); ok {
		u.fail()
	}
	if n, ok := integer(a[0]); ok {
		return n.Abs()
	}
	f, ok := a[0].(float64)
	if !ok {
		fail("TypeError", "bad operand type for abs(): '%s'", typeName(a[0]))
	}
	return max(f, -f)
}

func round(e *evaluator, a []any) any {
	if u, ok := a[0].(undefined); ok {
		u.fail()
	}
	digits := e.index(a[1])
	if how, _ := asString(a[2]); how != "common" {
		fail("NotImplementedError", "round with method %s is not supported", e.repr(a[2]))
	}
	if n, ok := integer(a[0]); ok {
		if digits < 0 {
			fail("NotImplementedError", "round of an int to tens is not supported")
		}
		return n
	}
	f, ok := a[0].(float64)
	if !ok {
		fail("TypeError", "type %s doesn't define __round__ method", typeName(a[0]))
	}
	return python.Round(f, digits)
}

func itemsFilter(e *evaluator, a []any) any {
	return e.generator(func() []any {
		switch v := a[0].(type) {
		case undefined:
			return nil
		case *python.Dict:
			return e.pairs(v)
		}
		fail("TypeError", "Can only get item pairs from a mapping.")
		return nil
	}, all)
}

// all keeps an item as it is.
func all(item any) (any, bool) { return item, true }

// pairs lists keys and values of a dict as tuples.
func (e *evaluator) pairs(d *python.Dict) []any {
	e.spend(d.Len())
	list := make([]any, 0, d.Len())
	for key, v := range d.All() {
		list = append(list, python.Tuple{key, v})
	}
	return list
}

func first(e *evaluator, a []any) any {
	if s, ok := a[0].(*series); ok && s.next != nil {
		if item, ok := s.next(); ok {
			return item
		}
	} else if items := e.iterate(a[0]); len(items) > 0 {
		return items[0]
	}
	return undefined{"No first item, sequence was empty."}
}

func last(e *evaluator, a []any) any {
	if items := e.reversible(a[0]); len(items) > 0 {
		if s, ok := items[len(items)-1].(string); ok {
			return like(a[0], s)
		}
		return items[len(items)-1]
	}
	return undefined{"No last item, sequence was empty."}
}

// reversible lists the items of what reversed() takes.
func (e *evaluator) reversible(v any) []any {
	if s, ok := v.(*series); ok && s.next != nil {
		fail("TypeError", "'%s' object is not reversible", typeName(v))
	}
	return e.iterate(v)
}

func reverse(e *evaluator, a []any) any {
	items := slices.Clone(e.iterate(a[0]))
	slices.Reverse(items)
	if _, ok := asString(a[0]); ok {
		var b strings.Builder
		for _, c := range items {
			b.WriteString(c.(string))
		}
		return like(a[0], b.String())
	}
	return e.generator(func() []any { return items }, all)
}
