package jinja

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/internal/python"
)

// Values are None (nil), bool, python.Int, float64, string, []any (a list), python.Tuple, *python.Dict, and the types below. None
// of them can be changed by a template but a namespace.

// undefined is the value of what does not exist. Printing it gives nothing; most else is an error with the hint.
type undefined struct{ hint string }

func (u undefined) fail() { fail("UndefinedError", "%s", u.hint) }

// safe is markupsafe's Markup, a string that "+" does not escape while it escapes what it is added to.
type safe string

// namespace is what namespace() returns: its attributes can be set.
type namespace struct{ attributes *python.Dict }

func (n *namespace) set(name string, v any) {
	if strings.HasPrefix(name, "_") {
		fail("SecurityError", "cannot store underscore-prefixed attribute %q on a namespace", name)
	}
	n.attributes.Set(name, v)
}

// series is what else can be iterated: the views of a dict, a range, and the generators that some filters return.
type series struct {
	kind  string // as Python prints it
	items []any
	next  func() (any, bool) // of a generator, which has no items, no length, and is empty after it was iterated
}

// generator applies a function to items, of which it may leave some out. Nothing is done, and nothing fails, before an
// element is asked for.
func (e *evaluator) generator(items func() []any, each func(item any) (any, bool)) *series {
	var rest []any
	started := false
	return &series{kind: "generator", next: func() (any, bool) {
		e.enter()
		defer func() { e.depth-- }()
		if !started {
			rest, started = items(), true
		}
		for len(rest) > 0 {
			item := rest[0]
			rest = rest[1:]
			e.spend(1)
			if v, ok := each(item); ok {
				return v, true
			}
		}
		return nil, false
	}}
}

// callable is what can be called.
type callable interface {
	call(e *evaluator, args values) any
}

// typeName is Python's name of a value's type.
func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case python.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case safe:
		return "Markup"
	case []any:
		return "list"
	case python.Tuple:
		return "tuple"
	case *python.Dict:
		return "dict"
	case undefined:
		return "Undefined"
	case *namespace:
		return "Namespace"
	case *loop:
		return "LoopContext"
	case *series:
		return v.kind
	}
	return "function"
}

// describe names a value in messages as Jinja does.
func describe(v any) string {
	if v == nil {
		return "None"
	}
	return "'" + typeName(v) + " object'"
}

func asString(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case safe:
		return string(v), true
	}
	return "", false
}

// like makes a result of the same kind of string as what it was made from.
func like(v any, s string) any {
	if _, ok := v.(safe); ok {
		return safe(s)
	}
	return s
}

// truth is bool(v).
func truth(v any) bool {
	switch v := v.(type) {
	case nil, undefined:
		return false
	case bool:
		return v
	case python.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case *series:
		return v.next != nil || len(v.items) > 0
	case string:
		return v != ""
	case safe:
		return v != ""
	}
	n, ok := length(v)
	return !ok || n > 0
}

// length is len(v), if v has one.
func length(v any) (int, bool) {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v), true
	case safe:
		return utf8.RuneCountInString(string(v)), true
	case []any:
		return len(v), true
	case python.Tuple:
		return len(v), true
	case *python.Dict:
		return v.Len(), true
	case undefined:
		return 0, true
	case *loop:
		return v.total(), true
	case *series:
		return len(v.items), v.next == nil
	}
	return 0, false
}

// items lists what iterating over a value gives, if that is possible. An iterator is empty afterwards.
func (e *evaluator) items(v any) ([]any, bool) {
	var list []any
	switch v := v.(type) {
	case []any:
		list = v
	case python.Tuple:
		list = v
	case *series:
		list = v.items
		if v.next != nil {
			for item, ok := v.next(); ok; item, ok = v.next() {
				list = append(list, item)
			}
		}
	case string, safe:
		s := e.str(v)
		e.spend(len(s))
		for _, c := range s {
			list = append(list, string(c))
		}
		return list, true
	case *python.Dict:
		for key := range v.All() {
			list = append(list, key)
		}
	case undefined:
	default:
		return nil, false
	}
	e.spend(len(list))
	return list, true
}

func (e *evaluator) iterate(v any) []any {
	items, ok := e.items(v)
	if !ok {
		fail("TypeError", "'%s' object is not iterable", typeName(v))
	}
	return items
}

// attribute is v.name: an attribute or method, else an element.
func (e *evaluator) attribute(v any, name string) any {
	if found, ok := e.own(v, name); ok {
		return found
	}
	if d, ok := v.(*python.Dict); ok {
		if found, ok := d.Get(name); ok {
			return found
		}
	}
	return undefined{describe(v) + " has no attribute '" + name + "'"}
}

// own gives attributes and methods.
func (e *evaluator) own(v any, name string) (any, bool) {
	switch v := v.(type) {
	case undefined:
		v.fail()
	case *namespace:
		return v.attributes.Get(name)
	case *loop:
		return v.attribute(e, name), true
	}
	kind := typeName(v)
	m, ok := methods[kind][name]
	switch {
	case ok:
		return bound{v, m}, true
	case slices.Contains(mutating[kind], name):
		return undefined{"access to attribute '" + name + "' of '" + kind + "' object is unsafe"}, true
	case slices.Contains(missing[kind], name):
		fail("NotImplementedError", "%s.%s is not supported", kind, name)
	}
	return nil, false
}

// item is v[key]: an element, else an attribute or method.
func (e *evaluator) item(v, key any) any {
	e.read(key)
	switch v := v.(type) {
	case undefined:
		v.fail()
	case *python.Dict:
		if key, ok := asString(key); ok {
			if found, ok := v.Get(key); ok {
				return found
			}
		}
	case string, safe:
		if s := []rune(e.str(v)); isIndex(key) {
			e.spend(len(s))
			if i, ok := e.position(key, len(s)); ok {
				return like(v, string(s[i]))
			}
		}
	case []any, python.Tuple, *series:
		items := elements(v)
		if i, ok := e.position(key, len(items)); ok {
			return items[i]
		}
	}
	if name, ok := asString(key); ok {
		if found, ok := e.own(v, name); ok {
			return found
		}
		return undefined{describe(v) + " has no attribute '" + name + "'"}
	}
	return undefined{describe(v) + " has no element " + e.repr(key)}
}

// elements lists what an index can pick from.
func elements(v any) []any {
	switch v := v.(type) {
	case []any:
		return v
	case python.Tuple:
		return v
	case *series:
		if v.indexed() {
			return v.items
		}
	}
	return nil
}

func (s *series) indexed() bool { return strings.HasPrefix(s.kind, "range") }

func (s *series) view() bool { return s.kind == "dict_keys" || s.kind == "dict_items" }

func isIndex(v any) bool {
	switch v.(type) {
	case bool, python.Int:
		return true
	}
	return false
}

// position turns an index, which may count from the end, into a place in a sequence of n elements.
func (e *evaluator) position(key any, n int) (int, bool) {
	if !isIndex(key) {
		return 0, false
	}
	i := e.index(key)
	if i < 0 {
		i += n
	}
	return i, i >= 0 && i < n
}

// far is more than the length of any sequence; products of it with a length are still integers.
const far = 1 << 32

// index is operator.index(v), cut off at far.
func (e *evaluator) index(v any) int {
	switch v := v.(type) {
	case undefined:
		v.fail()
	case bool:
		if v {
			return 1
		}
		return 0
	case python.Int:
		n, ok := v.Int64()
		if !ok {
			n = far * int64(v.Sign())
		}
		return int(min(max(n, -far), far))
	}
	fail("TypeError", "'%s' object cannot be interpreted as an integer", typeName(v))
	return 0
}
