package jinja

import (
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/internal/python"
)

// expr is an expression. Its value is one of the types that value.go lists.
type expr interface{ eval(e *evaluator) any }

func (e *evaluator) eval(x expr) any {
	e.enter()
	v := x.eval(e)
	e.depth--
	return v
}

func (e *evaluator) all(xs []expr) []any {
	values := make([]any, len(xs))
	for i, x := range xs {
		values[i] = e.eval(x)
	}
	return values
}

type literal struct{ value any }

func (x literal) eval(*evaluator) any { return x.value }

type name string

func (x name) eval(e *evaluator) any {
	if v, ok := e.scope.lookup(string(x)); ok {
		return v
	}
	return undefined{"'" + string(x) + "' is undefined"}
}

type listExpr []expr

func (x listExpr) eval(e *evaluator) any { return e.all(x) }

type tupleExpr []expr

func (x tupleExpr) eval(e *evaluator) any { return python.Tuple(e.all(x)) }

type dictExpr struct{ keys, values []expr }

func (x dictExpr) eval(e *evaluator) any {
	d := python.NewDict()
	for i, k := range x.keys {
		key, ok := asString(e.eval(k))
		if !ok {
			fail("TypeError", "dict keys other than strings are not supported")
		}
		e.read(key)
		d.Set(key, e.eval(x.values[i]))
	}
	return d
}

type logical struct {
	left, right expr
	or          bool
}

func (x logical) eval(e *evaluator) any {
	if left := e.eval(x.left); truth(left) == x.or {
		return left
	}
	return e.eval(x.right)
}

type not struct{ x expr }

func (x not) eval(e *evaluator) any { return !truth(e.eval(x.x)) }

type conditional struct{ test, then, otherwise expr }

func (x conditional) eval(e *evaluator) any {
	switch {
	case truth(e.eval(x.test)):
		return e.eval(x.then)
	case x.otherwise == nil:
		return undefined{"the inline if-expression evaluated to false and no else section was defined"}
	}
	return e.eval(x.otherwise)
}

// comparison is a chain: a < b <= c is a < b and b <= c.
type comparison struct {
	first    expr
	ops      []string
	operands []expr
}

func (x comparison) eval(e *evaluator) any {
	left := e.eval(x.first)
	for i, op := range x.ops {
		right := e.eval(x.operands[i])
		if !e.compares(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (e *evaluator) compares(op string, left, right any) bool {
	switch op {
	case "==":
		return e.equal(left, right)
	case "!=":
		return !e.equal(left, right)
	case "in":
		return e.contains(right, left)
	case "not in":
		return !e.contains(right, left)
	}
	return e.ordered(op, left, right)
}

type concatenation []expr

func (x concatenation) eval(e *evaluator) any {
	parts := make([]string, len(x))
	for i, v := range e.all(x) {
		parts[i] = e.str(v)
		e.allocate(len(parts[i]))
	}
	return strings.Join(parts, "")
}

type attribute struct {
	of   expr
	name string
}

func (x attribute) eval(e *evaluator) any { return e.attribute(e.eval(x.of), x.name) }

type item struct{ of, key expr }

func (x item) eval(e *evaluator) any {
	of := e.eval(x.of)
	return e.item(of, e.eval(x.key))
}

type slice struct{ of, start, stop, step expr }

func (x slice) eval(e *evaluator) any {
	of := e.eval(x.of)
	var bounds [3]*int
	for i, part := range []expr{x.start, x.stop, x.step} {
		if part == nil {
			continue
		}
		if v := e.eval(part); v != nil {
			n := e.index(v)
			bounds[i] = &n
		}
	}
	switch of := of.(type) {
	case undefined:
		of.fail()
	case string, safe:
		return sliced(e, []rune(e.str(of)), bounds, func(r []rune) any { return like(of, string(r)) })
	case []any:
		return sliced(e, of, bounds, func(items []any) any { return items })
	case python.Tuple:
		return sliced(e, of, bounds, func(items python.Tuple) any { return items })
	}
	if s, ok := of.(*series); ok && s.indexed() {
		fail("NotImplementedError", "slices of ranges are not supported")
	}
	fail("TypeError", "%s is not subscriptable with a slice", describe(of))
	return nil
}

// sliced is sequence[start:stop:step].
func sliced[S ~[]T, T any](e *evaluator, s S, bounds [3]*int, result func(S) any) any {
	step := 1
	if bounds[2] != nil {
		step = *bounds[2]
	}
	if step == 0 {
		fail("ValueError", "slice step cannot be zero")
	}
	first, last := 0, len(s) // where bounds are cut off, and what they are if they are not given
	if step < 0 {
		first, last = -1, len(s)-1
	}
	bound := func(given *int, otherwise int) int {
		if given == nil {
			return otherwise
		}
		n := *given
		if n < 0 {
			n += len(s)
		}
		return min(max(n, first), last)
	}
	start, stop := bound(bounds[0], first), bound(bounds[1], last)
	if step < 0 {
		start, stop = bound(bounds[0], last), bound(bounds[1], first)
	}
	e.spend(len(s))
	if step == 1 {
		return result(s[start:max(start, stop):max(start, stop)])
	}
	picked := make(S, 0, max(0, (stop-start)/step+1))
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		picked = append(picked, s[i])
	}
	return result(picked)
}

// arguments are those of a call, a filter or a test.
type arguments struct {
	positional []expr
	names      []string
	named      []expr
}

// values are evaluated arguments.
type values struct {
	positional []any
	names      []string
	named      []any
}

func (e *evaluator) arguments(args arguments) values {
	return values{e.all(args.positional), slices.Clone(args.names), e.all(args.named)}
}

// take removes the named argument of a parameter, or gives the i-th positional one.
func (v *values) take(i int, name string) (any, bool) {
	at := slices.Index(v.names, name)
	switch {
	case i < len(v.positional) && at >= 0:
		fail("TypeError", "got multiple values for argument %q", name)
	case i < len(v.positional):
		return v.positional[i], true
	case at >= 0:
		value := v.named[at]
		v.names, v.named = slices.Delete(v.names, at, at+1), slices.Delete(v.named, at, at+1)
		return value, true
	}
	return nil, false
}

type call struct {
	of   expr
	args arguments
}

func (x call) eval(e *evaluator) any {
	of := e.eval(x.of)
	args := e.arguments(x.args)
	switch f := of.(type) {
	case callable:
		return f.call(e, args)
	case undefined:
		f.fail()
	}
	fail("TypeError", "%s is not callable", describe(of))
	return nil
}

type filter struct {
	of   expr
	name string
	args arguments
}

func (x filter) eval(e *evaluator) any {
	of := e.eval(x.of)
	return e.filter(x.name, of, e.arguments(x.args))
}

func (e *evaluator) filter(name string, of any, args values) any {
	f, ok := filters[name]
	if !ok {
		panic(unknownName("filter", name))
	}
	args.positional = append([]any{of}, args.positional...)
	return f.call(e, args)
}

type test struct {
	of   expr
	name string
	args arguments
}

func (x test) eval(e *evaluator) any {
	of := e.eval(x.of)
	return e.test(x.name, of, e.arguments(x.args))
}

func (e *evaluator) test(name string, of any, args values) bool {
	t, ok := tests[name]
	if !ok {
		panic(unknownName("test", name))
	}
	args.positional = append([]any{of}, args.positional...)
	return truth(t.call(e, args))
}
