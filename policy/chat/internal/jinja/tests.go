package jinja

import "github.com/grouper-rl/grouper/internal/python"

// tests are what can stand after "is".
var tests map[string]callable

func init() { // not in the declaration: the tests "filter" and "test" look names up
	tests = map[string]callable{
		"defined":     is(func(v any) bool { _, ok := v.(undefined); return !ok }),
		"undefined":   is(func(v any) bool { _, ok := v.(undefined); return ok }),
		"none":        is(func(v any) bool { return v == nil }),
		"boolean":     is(func(v any) bool { _, ok := v.(bool); return ok }),
		"true":        is(func(v any) bool { return v == true }),
		"false":       is(func(v any) bool { return v == false }),
		"integer":     is(func(v any) bool { _, ok := v.(python.Int); return ok }),
		"float":       is(func(v any) bool { _, ok := v.(float64); return ok }),
		"number":      is(isNumber),
		"string":      is(func(v any) bool { _, ok := asString(v); return ok }),
		"escaped":     is(func(v any) bool { _, ok := v.(safe); return ok }),
		"mapping":     is(func(v any) bool { _, ok := v.(*python.Dict); return ok }),
		"callable":    is(isCallable),
		"iterable":    is(isIterable),
		"sequence":    is(isSequence),
		"lower":       fn("value", func(e *evaluator, a []any) any { return e.isCase(a[0], lower, upper) }),
		"upper":       fn("value", func(e *evaluator, a []any) any { return e.isCase(a[0], upper, lower) }),
		"odd":         fn("value", func(e *evaluator, a []any) any { return e.remainder(a[0], python.NewInt(2), 1) }),
		"even":        fn("value", func(e *evaluator, a []any) any { return e.remainder(a[0], python.NewInt(2), 0) }),
		"divisibleby": fn("value num", func(e *evaluator, a []any) any { return e.remainder(a[0], a[1], 0) }),
		"in":          fn("value seq", func(e *evaluator, a []any) any { return e.contains(a[1], a[0]) }),
		"sameas":      fn("value other", sameAs),
		"filter":      is(func(v any) bool { return named(filters, v) }),
		"test":        is(func(v any) bool { return named(tests, v) }),
	}
	for op, names := range map[string][]string{
		"==": {"==", "eq", "equalto"}, "!=": {"!=", "ne"}, ">": {">", "gt", "greaterthan"}, ">=": {">=", "ge"}, "<": {"<", "lt", "lessthan"}, "<=": {"<=", "le"},
	} {
		for _, name := range names {
			tests[name] = fn("value other", func(e *evaluator, a []any) any { return e.compares(op, a[0], a[1]) })
		}
	}
}

// isCase says whether a text is what one of two functions makes of it, and not what the other does.
func (e *evaluator) isCase(v any, is, other func(*evaluator, []any) any) bool {
	s := []any{e.str(v)}
	return s[0] == is(e, s) && s[0] != other(e, s)
}

func is(test func(v any) bool) builtin {
	return fn("value", func(_ *evaluator, a []any) any { return test(a[0]) })
}

// isCallable is true of undefined, too, though calling it is an error.
func isCallable(v any) bool {
	_, callable := v.(callable)
	_, undefined := v.(undefined)
	return callable || undefined
}

func isNumber(v any) bool {
	_, isFloat := v.(float64)
	_, isInteger := integer(v)
	return isFloat || isInteger
}

// named says whether a table has a name.
func named(table map[string]callable, v any) bool {
	checkHashable(v)
	name, ok := asString(v)
	return ok && table[name] != nil
}

func isIterable(v any) bool {
	switch v.(type) {
	case *series, *loop:
		return true
	}
	_, sized := length(v)
	return sized
}

// isSequence says whether a value has a length and can be subscripted. Undefined has both in Python, though using it is an error.
func isSequence(v any) bool {
	if s, ok := v.(*series); ok {
		return s.indexed()
	}
	_, isLoop := v.(*loop)
	_, sized := length(v)
	return sized && !isLoop
}

func (e *evaluator) remainder(v, by any, want int) bool {
	rest := e.eval(arithmetic{"%", literal{v}, literal{by}})
	return e.equal(rest, python.NewInt(want))
}

// sameAs is "is" where Python defines it: for None, True and False, and for different types.
func sameAs(_ *evaluator, a []any) any {
	switch a[1].(type) {
	case nil, bool:
		return a[0] == a[1]
	}
	if typeName(a[0]) != typeName(a[1]) {
		return false
	}
	fail("NotImplementedError", "sameas of two values of type %s is not supported", typeName(a[0]))
	return nil
}
