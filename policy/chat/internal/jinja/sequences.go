package jinja

import (
	"slices"
	"strconv"
	"strings"

	"github.com/grouper-rl/grouper/internal/python"
)

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
