package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/internal/python"
)

// methods are those of Python's types, by the type's name.
var methods = map[string]map[string]builtin{
	"str": {
		"strip":        fn("self chars", strip, nil),
		"lstrip":       fn("self chars", stripLeft, nil),
		"rstrip":       fn("self chars", stripRight, nil),
		"split":        fn("self sep maxsplit", func(e *evaluator, a []any) any { return split(e, a, false) }, nil, python.NewInt(-1)),
		"rsplit":       fn("self sep maxsplit", func(e *evaluator, a []any) any { return split(e, a, true) }, nil, python.NewInt(-1)),
		"splitlines":   fn("self", func(e *evaluator, a []any) any { return list(e, python.SplitLines(e.str(a[0]))) }),
		"partition":    fn("self sep", func(e *evaluator, a []any) any { return partition(e, a, false) }),
		"rpartition":   fn("self sep", func(e *evaluator, a []any) any { return partition(e, a, true) }),
		"startswith":   fn("self prefix", func(e *evaluator, a []any) any { return affix(e, a, strings.HasPrefix) }),
		"endswith":     fn("self suffix", func(e *evaluator, a []any) any { return affix(e, a, strings.HasSuffix) }),
		"removeprefix": fn("self prefix", func(e *evaluator, a []any) any { return strings.TrimPrefix(e.str(a[0]), e.text("removeprefix", a[1])) }),
		"removesuffix": fn("self suffix", func(e *evaluator, a []any) any { return strings.TrimSuffix(e.str(a[0]), e.text("removesuffix", a[1])) }),
		"replace":      fn("self old new count", replace, python.NewInt(-1)),
		"upper":        fn("self", upper),
		"lower":        fn("self", lower),
		"capitalize":   fn("self", capitalize),
		"find":         fn("self sub", func(e *evaluator, a []any) any { return find(e, a, strings.Index) }),
		"rfind":        fn("self sub", func(e *evaluator, a []any) any { return find(e, a, strings.LastIndex) }),
		"count": fn("self sub", func(e *evaluator, a []any) any {
			return python.NewInt(strings.Count(e.str(a[0]), e.text("count", a[1])))
		}),
		"join":      fn("self iterable", join),
		"isspace":   fn("self", func(e *evaluator, a []any) any { s := e.str(a[0]); return s != "" && python.Strip(s) == "" }),
		"isalpha":   fn("self", func(e *evaluator, a []any) any { return python.IsAlpha(e.str(a[0])) }),
		"isalnum":   fn("self", func(e *evaluator, a []any) any { return python.IsAlnum(e.str(a[0])) }),
		"isdecimal": fn("self", func(e *evaluator, a []any) any { return python.IsDecimal(e.str(a[0])) }),
	},
	"dict": {
		"get":  fn("self key default", get, nil),
		"keys": fn("self", func(e *evaluator, a []any) any { return &series{kind: "dict_keys", items: e.iterate(a[0])} }),
		"items": fn("self", func(e *evaluator, a []any) any {
			return &series{kind: "dict_items", items: e.pairs(a[0].(*python.Dict))}
		}),
		"copy":   fn("self", func(_ *evaluator, a []any) any { return a[0] }),
		"values": fn("self", dictValues),
	},
	"list": {
		"copy":  fn("self", func(_ *evaluator, a []any) any { return a[0] }),
		"count": fn("self value", count),
		"index": fn("self value", index),
	},
	"tuple": {
		"count": fn("self value", count),
		"index": fn("self value", index),
	},
}

// mutating methods are those that the sandbox refuses.
var mutating = map[string][]string{
	"dict": {"clear", "pop", "popitem", "setdefault", "update"},
	"list": {"append", "clear", "extend", "insert", "pop", "remove", "reverse", "sort"},
}

// missing methods exist in Python and not here.
var missing = map[string][]string{
	"str": {"casefold", "center", "encode", "expandtabs", "format", "format_map", "index", "isascii", "isdigit", "isidentifier", "islower",
		"isnumeric", "isprintable", "istitle", "isupper", "ljust", "maketrans", "rindex", "rjust", "swapcase", "title", "translate", "zfill"},
	"dict": {"fromkeys"},
}

// A safe string has the methods that only look at it or change characters; the others escape their arguments.
func init() {
	methods["Markup"] = map[string]builtin{}
	missing["Markup"] = slices.Clone(missing["str"])
	for name, m := range methods["str"] {
		switch name {
		case "split", "rsplit", "splitlines", "partition", "rpartition", "removeprefix", "removesuffix", "replace", "join":
			missing["Markup"] = append(missing["Markup"], name)
		default:
			methods["Markup"][name] = m
		}
	}
}

func list(e *evaluator, parts []string) any {
	e.spend(len(parts))
	items := make([]any, len(parts))
	for i, s := range parts {
		items[i] = s
	}
	return items
}

func strip(e *evaluator, a []any) any { return stripLeft(e, []any{stripRight(e, a), a[1]}) }

func stripLeft(e *evaluator, a []any) any {
	return strings.TrimLeftFunc(e.str(a[0]), stripped(e, a[1]))
}

func stripRight(e *evaluator, a []any) any {
	return strings.TrimRightFunc(e.str(a[0]), stripped(e, a[1]))
}

// stripped says which characters are stripped: white space if chars is nil.
func stripped(e *evaluator, chars any) func(rune) bool {
	if chars == nil {
		return python.IsSpace
	}
	set := e.text("strip", chars)
	return func(c rune) bool {
		e.read(set)
		return strings.ContainsRune(set, c)
	}
}

func upper(e *evaluator, a []any) any {
	s := e.str(a[0])
	e.allocate(3 * len(s))
	return like(a[0], python.Upper(s))
}

func lower(e *evaluator, a []any) any {
	s := e.str(a[0])
	e.allocate(2 * len(s))
	return like(a[0], python.Lower(s))
}

func capitalize(e *evaluator, a []any) any {
	s := e.str(a[0])
	c, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return a[0]
	}
	e.allocate(2 * len(s))
	rest := strings.TrimPrefix(python.Lower(s), python.Lower(s[:n])) // in the whole text, since a final sigma depends on what is before
	return like(a[0], string(unicode.ToTitle(c))+rest)
}

func replace(e *evaluator, a []any) any {
	s, old, with := e.str(a[0]), e.text("replace", a[1]), e.text("replace", a[2])
	n := e.index(a[3])
	if all := strings.Count(s, old); n < 0 || n > all {
		n = all
	}
	e.allocate(len(s) + n*len(with))
	e.spend(n)
	return strings.Replace(s, old, with, n)
}

// split is str.split, or str.rsplit from the right. At most max parts are split off.
func split(e *evaluator, a []any, right bool) any {
	s, most := e.str(a[0]), e.index(a[2])
	cut := func(s string) (before, after string, ok bool) { return cutSpace(s, right) }
	if a[1] != nil {
		sep := e.text("split", a[1])
		switch {
		case sep == "":
			fail("ValueError", "empty separator")
		case most < 0:
			return list(e, strings.Split(s, sep))
		}
		cut = func(s string) (before, after string, ok bool) {
			if i := strings.LastIndex(s, sep); right && i >= 0 {
				return s[:i], s[i+len(sep):], true
			}
			if right {
				return s, "", false
			}
			return strings.Cut(s, sep)
		}
	} else if most < 0 {
		return list(e, python.Fields(s))
	} else if right {
		s = strings.TrimRightFunc(s, python.IsSpace)
	} else {
		s = strings.TrimLeftFunc(s, python.IsSpace)
	}
	parts := []string{}
	for len(parts) < most {
		before, after, ok := cut(s)
		if !ok {
			break
		}
		part, rest := before, after
		if right {
			part, rest = after, before
		}
		parts, s = append(parts, part), rest
	}
	if a[1] != nil || s != "" {
		parts = append(parts, s)
	}
	if right {
		slices.Reverse(parts)
	}
	return list(e, parts)
}

// cutSpace cuts at the first white space, or at the last.
func cutSpace(s string, right bool) (before, after string, ok bool) {
	at := strings.IndexFunc(s, python.IsSpace)
	if right {
		at = strings.LastIndexFunc(s, python.IsSpace)
	}
	if at < 0 {
		return s, "", false
	}
	_, n := utf8.DecodeRuneInString(s[at:])
	before, after = s[:at], s[at+n:]
	if right {
		return strings.TrimRightFunc(before, python.IsSpace), after, true
	}
	return before, strings.TrimLeftFunc(after, python.IsSpace), true
}

func partition(e *evaluator, a []any, right bool) any {
	s, sep := e.str(a[0]), e.text("partition", a[1])
	if sep == "" {
		fail("ValueError", "empty separator")
	}
	i := strings.Index(s, sep)
	if right {
		i = strings.LastIndex(s, sep)
	}
	switch {
	case i >= 0:
		return python.Tuple{s[:i], sep, s[i+len(sep):]}
	case right:
		return python.Tuple{"", "", s}
	}
	return python.Tuple{s, "", ""}
}

func affix(e *evaluator, a []any, has func(s, affix string) bool) any {
	s := e.str(a[0])
	options, ok := a[1].(python.Tuple)
	if !ok {
		options = python.Tuple{a[1]}
	}
	return slices.ContainsFunc(options, func(o any) bool {
		e.read(o)
		return has(s, e.text("startswith or endswith", o))
	})
}

func find(e *evaluator, a []any, in func(s, sub string) int) any {
	s := e.str(a[0])
	i := in(s, e.text("find", a[1]))
	if i > 0 {
		i = utf8.RuneCountInString(s[:i])
	}
	return python.NewInt(i)
}

func join(e *evaluator, a []any) any {
	sep := e.str(a[0])
	items := e.iterate(a[1])
	parts := make([]string, len(items))
	for i, item := range items {
		parts[i] = e.text("join", item)
		e.allocate(len(parts[i]) + len(sep))
	}
	return strings.Join(parts, sep)
}

func get(e *evaluator, a []any) any {
	if e.contains(a[0], a[1]) {
		key, _ := asString(a[1])
		v, _ := a[0].(*python.Dict).Get(key)
		return v
	}
	return a[2]
}

func dictValues(e *evaluator, a []any) any {
	s := &series{kind: "dict_values"}
	for _, v := range a[0].(*python.Dict).All() {
		e.spend(1)
		s.items = append(s.items, v)
	}
	return s
}

func count(e *evaluator, a []any) any {
	n := 0
	for _, item := range e.iterate(a[0]) {
		if e.equal(item, a[1]) {
			n++
		}
	}
	return python.NewInt(n)
}

func index(e *evaluator, a []any) any {
	for i, item := range e.iterate(a[0]) {
		if e.equal(item, a[1]) {
			return python.NewInt(i)
		}
	}
	fail("ValueError", "%s is not in list", e.repr(a[1]))
	return nil
}
