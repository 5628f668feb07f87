package jinja

import (
	"cmp"
	"math"
	"strings"

	"github.com/grouper-rl/grouper/internal/python"
)

// equal is left == right.
func (e *evaluator) equal(left, right any) bool {
	e.enter()
	defer func() { e.depth-- }()
	if a, b, ok := integers(left, right); ok {
		return a.Cmp(b) == 0
	}
	if c, ok := compareNumbers(left, right); ok {
		return c == 0
	}
	if a, ok := asString(left); ok {
		b, ok := asString(right)
		if !ok || len(a) != len(b) {
			return false
		}
		e.read(a)
		return a == b
	}
	switch a := left.(type) {
	case nil:
		return right == nil
	case undefined:
		_, ok := right.(undefined)
		return ok
	case []any:
		b, ok := right.([]any)
		return ok && e.equalItems(a, b)
	case python.Tuple:
		b, ok := right.(python.Tuple)
		return ok && e.equalItems(a, b)
	case *python.Dict:
		b, ok := right.(*python.Dict)
		if !ok || a.Len() != b.Len() {
			return false
		}
		for key, v := range a.All() {
			e.read(key)
			if w, ok := b.Get(key); !ok || !e.equal(v, w) {
				return false
			}
		}
		return true
	case *series:
		b, ok := right.(*series)
		switch {
		case !ok || a == b:
			return ok
		case a.indexed() && b.indexed():
			return e.equalItems(a.items, b.items)
		case a.view() && b.view():
			fail("NotImplementedError", "comparing views of dicts is not supported")
		}
	case *macro, *namespace, *loop:
		return left == right
	}
	return false
}

func (e *evaluator) equalItems(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !e.equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// compareNumbers compares exactly, also an int with a float. NaN is neither less nor equal: it gives 2.
func compareNumbers(left, right any) (int, bool) {
	if a, b, ok := integers(left, right); ok {
		return a.Cmp(b), true
	}
	compare := func(n python.Int, f float64) int {
		switch {
		case math.IsNaN(f):
			return 2
		case math.IsInf(f, 0):
			return -int(math.Copysign(1, f))
		}
		if c := n.Cmp(python.IntOf(f)); c != 0 {
			return c
		}
		return cmp.Compare(0, f-math.Trunc(f))
	}
	a, aFloat := left.(float64)
	b, bFloat := right.(float64)
	switch {
	case aFloat && bFloat:
		if math.IsNaN(a) || math.IsNaN(b) {
			return 2, true
		}
		return cmp.Compare(a, b), true
	case bFloat:
		if n, ok := integer(left); ok {
			return compare(n, b), true
		}
	case aFloat:
		if n, ok := integer(right); ok {
			c := compare(n, a)
			if c != 2 {
				c = -c
			}
			return c, true
		}
	}
	return 0, false
}

// ordered is left op right for <, <=, > and >=.
func (e *evaluator) ordered(op string, left, right any) bool {
	c := e.compare(op, left, right)
	switch op {
	case "<":
		return c == -1
	case "<=":
		return c == -1 || c == 0
	case ">":
		return c == 1
	}
	return c == 1 || c == 0
}

// refuseViews says that views of dicts, which Python treats as sets, are not operands here.
func (e *evaluator) refuseViews(values ...any) {
	for _, v := range values {
		if s, ok := v.(*series); ok && s.view() {
			fail("NotImplementedError", "operations on views of dicts are not supported")
		}
	}
}

// compare is -1, 0 or 1, or 2 where neither is less nor both are equal.
func (e *evaluator) compare(op string, left, right any) int {
	e.enter()
	defer func() { e.depth-- }()
	if c, ok := compareNumbers(left, right); ok {
		return c
	}
	a, aText := asString(left)
	b, bText := asString(right)
	if aText && bText {
		e.read(a)
		return strings.Compare(a, b)
	}
	switch a := left.(type) {
	case undefined:
		a.fail()
	case []any:
		if b, ok := right.([]any); ok {
			return e.compareItems(op, a, b)
		}
	case python.Tuple:
		if b, ok := right.(python.Tuple); ok {
			return e.compareItems(op, a, b)
		}
	}
	if u, ok := right.(undefined); ok {
		u.fail()
	}
	e.refuseViews(left, right)
	fail("TypeError", "'%s' not supported between instances of '%s' and '%s'", op, typeName(left), typeName(right))
	return 0
}

func (e *evaluator) compareItems(op string, a, b []any) int {
	for i := range min(len(a), len(b)) {
		if !e.equal(a[i], b[i]) {
			return e.compare(op, a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// contains is v in container.
func (e *evaluator) contains(container, v any) bool {
	if s, ok := asString(container); ok {
		part, ok := asString(v)
		if !ok {
			fail("TypeError", "'in <string>' requires string as left operand, not %s", typeName(v))
		}
		e.read(s)
		return strings.Contains(s, part)
	}
	if s, ok := container.(*series); ok && s.kind == "dict_keys" {
		checkHashable(v)
	}
	if d, ok := container.(*python.Dict); ok {
		checkHashable(v)
		e.read(v)
		key, ok := asString(v)
		if ok {
			_, ok = d.Get(key)
		}
		return ok
	}
	if s, ok := container.(*series); ok && s.next != nil {
		for item, ok := s.next(); ok; item, ok = s.next() {
			if e.equal(item, v) {
				return true
			}
		}
		return false
	}
	items, ok := e.items(container)
	if !ok {
		fail("TypeError", "argument of type '%s' is not iterable", typeName(container))
	}
	for _, item := range items {
		if e.equal(item, v) {
			return true
		}
	}
	return false
}

// checkHashable refuses what cannot be a key of a dict.
func checkHashable(v any) {
	switch v := v.(type) {
	case []any, *python.Dict:
		fail("TypeError", "unhashable type: '%s'", typeName(v))
	case *series:
		if v.view() {
			fail("TypeError", "unhashable type: '%s'", typeName(v))
		}
	case python.Tuple:
		for _, item := range v {
			checkHashable(item)
		}
	}
}
