package jinja

import (
	"math"
	"slices"
	"strconv"
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
		"list":       fn("value", func(e *evaluator, a []any) any { return slices.Clone(e.iterate(a[0])) }),
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

// getter follows an attribute such as "function.name" or "0"; nil is the item itself. Unless it is nil, otherwise stands for
// what is undefined on the way.
func (e *evaluator) getter(item, attribute, otherwise any) any {
	parts := []any{attribute}
	if path, ok := asString(attribute); ok {
		parts = nil
		for part := range strings.SplitSeq(path, ".") {
			if n, err := strconv.ParseUint(part, 10, 31); err == nil {
				parts = append(parts, python.NewInt(int(n)))
			} else {
				parts = append(parts, part)
			}
		}
	} else if attribute == nil {
		parts = nil
	}
	for _, part := range parts {
		item = e.item(item, part)
		if _, ok := item.(undefined); ok && otherwise != nil {
			item = otherwise
		}
	}
	return item
}

// key is what an item is sorted by.
func (e *evaluator) key(item, attribute, caseSensitive any) any {
	v := e.getter(item, attribute, nil)
	if s, ok := asString(v); ok && !truth(caseSensitive) {
		return lower(e, []any{s})
	}
	return v
}

func sortFilter(e *evaluator, a []any) any {
	attributes := []any{a[3]}
	if path, ok := asString(a[3]); ok {
		attributes = nil
		for part := range strings.SplitSeq(path, ",") {
			attributes = append(attributes, part)
		}
	}
	return e.sorted(e.iterate(a[0]), a[1], func(item any) any {
		keys := make([]any, len(attributes))
		for i, attribute := range attributes {
			keys[i] = e.key(item, attribute, a[2])
		}
		return keys
	})
}

func (e *evaluator) sorted(items []any, reverse any, key func(any) any) []any {
	type keyed struct{ key, item any }
	list := make([]keyed, len(items))
	for i, item := range items {
		list[i] = keyed{key(item), item}
	}
	slices.SortStableFunc(list, func(x, y keyed) int {
		c := e.compare("<", x.key, y.key)
		if truth(reverse) {
			c = -c
		}
		return c % 2 // what cannot be ordered stays
	})
	out := make([]any, len(list))
	for i, k := range list {
		out[i] = k.item
	}
	return out
}

func dictsort(e *evaluator, a []any) any {
	d, ok := a[0].(*python.Dict)
	if !ok {
		fail("TypeError", "dictsort takes a dict, not '%s'", typeName(a[0]))
	}
	part := map[string]int{"key": 0, "value": 1}
	by, _ := asString(a[2])
	at, ok := part[by]
	if !ok {
		fail("FilterArgumentError", `You can only sort by either "key" or "value"`)
	}
	return e.sorted(e.pairs(d), a[3], func(item any) any { return e.key(item, python.NewInt(at), a[1]) })
}

func unique(e *evaluator, a []any) any {
	var seen []any
	return e.generator(func() []any { return e.iterate(a[0]) }, func(item any) (any, bool) {
		key := e.key(item, a[2], a[1])
		checkHashable(key)
		if slices.ContainsFunc(seen, func(s any) bool { return e.equal(s, key) }) {
			return nil, false
		}
		seen = append(seen, key)
		return item, true
	})
}

func extreme(e *evaluator, op string, a []any) any {
	items := e.iterate(a[0])
	if len(items) == 0 {
		return undefined{"No aggregated item, sequence was empty."}
	}
	best := items[0]
	for _, item := range items[1:] {
		if e.ordered(op, e.key(item, a[2], a[1]), e.key(best, a[2], a[1])) {
			best = item
		}
	}
	return best
}

func sum(e *evaluator, a []any) any {
	if _, ok := asString(a[2]); ok {
		fail("TypeError", "sum() can't sum strings")
	}
	total := a[2]
	for _, item := range e.iterate(a[0]) {
		total = e.eval(arithmetic{"+", literal{total}, literal{e.getter(item, a[1], nil)}})
	}
	return total
}

func batch(e *evaluator, a []any) any {
	return e.generator(func() []any {
		n := e.index(a[1])
		if n < 1 {
			fail("ValueError", "batch of %d elements", n)
		}
		var batches []any
		for part := range slices.Chunk(e.iterate(a[0]), n) {
			part = slices.Clone(part)
			if a[2] != nil {
				e.spend(n - len(part))
				for len(part) < n {
					part = append(part, a[2])
				}
			}
			batches = append(batches, part)
		}
		return batches
	}, all)
}

func mapFilter(e *evaluator, v values) any {
	rest := v.positional[1:]
	apply := func(item any) any {
		return e.filter(e.text("a filter's name", rest[0]), item, values{rest[1:], slices.Clone(v.names), slices.Clone(v.named)})
	}
	return e.generator(func() []any {
		if !truth(v.positional[0]) {
			return nil
		}
		switch {
		case len(rest) == 0 && slices.Contains(v.names, "attribute"):
			attribute, _ := v.take(1, "attribute")
			otherwise, _ := v.take(1, "default")
			if len(v.names) > 0 {
				fail("FilterArgumentError", "unexpected keyword argument %q", v.names[0])
			}
			apply = func(item any) any { return e.getter(item, attribute, otherwise) }
		case len(rest) == 0:
			fail("FilterArgumentError", "map requires a filter argument")
		}
		return e.iterate(v.positional[0])
	}, func(item any) (any, bool) { return apply(item), true })
}

// choose keeps the items, or those with an attribute, that pass a test or do not; without a test those that are true or are not.
func choose(e *evaluator, v values, attribute, keep bool) any {
	rest := v.positional[1:]
	var path any
	return e.generator(func() []any {
		switch {
		case !truth(v.positional[0]):
			return nil
		case attribute && len(rest) == 0:
			fail("FilterArgumentError", "missing parameter for attribute name")
		case attribute:
			path, rest = rest[0], rest[1:]
		}
		return e.iterate(v.positional[0])
	}, func(item any) (any, bool) {
		tested := e.getter(item, path, nil)
		if len(rest) == 0 {
			return item, truth(tested) == keep
		}
		return item, keep == e.test(e.text("a test's name", rest[0]), tested, values{rest[1:], slices.Clone(v.names), slices.Clone(v.named)})
	})
}
