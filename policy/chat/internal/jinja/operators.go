package jinja

import (
	"cmp"
	"math"
	"strings"

	"github.com/grouper-rl/grouper/internal/python"
)

type arithmetic struct {
	op          string
	left, right expr
}

func (x arithmetic) eval(e *evaluator) any {
	left := e.eval(x.left)
	right := e.eval(x.right)
	if _, ok := asString(left); ok && x.op == "%" {
		fail("NotImplementedError", "formatting with %% is not supported")
	}
	for _, v := range []any{left, right} {
		if u, ok := v.(undefined); ok {
			u.fail()
		}
	}
	if a, b, ok := integers(left, right); ok {
		if v, ok := integerArithmetic(x.op, a, b); ok {
			return v
		}
	}
	if a, b, ok := floats(left, right); ok {
		return floatArithmetic(x.op, a, b)
	}
	switch x.op {
	case "+":
		if v, ok := e.join(left, right); ok {
			return v
		}
	case "*":
		if n, ok := integer(right); ok {
			if v, ok := e.repeat(left, n); ok {
				return v
			}
		}
		if n, ok := integer(left); ok {
			if v, ok := e.repeat(right, n); ok {
				return v
			}
		}
	}
	e.refuseViews(left, right)
	fail("TypeError", "unsupported operand type(s) for %s: '%s' and '%s'", x.op, typeName(left), typeName(right))
	return nil
}

// integer gives an int or a bool as an int.
func integer(v any) (python.Int, bool) {
	switch v := v.(type) {
	case python.Int:
		return v, true
	case bool:
		if v {
			return python.NewInt(1), true
		}
		return python.Int{}, true
	}
	return python.Int{}, false
}

func integers(left, right any) (a, b python.Int, ok bool) {
	a, aOK := integer(left)
	b, bOK := integer(right)
	return a, b, aOK && bOK
}

// floats gives two numbers as floats.
func floats(left, right any) (a, b float64, ok bool) {
	number := func(v any) (float64, bool) {
		if f, ok := v.(float64); ok {
			return f, true
		}
		n, ok := integer(v)
		if !ok {
			return 0, false
		}
		return n.Float64(), true
	}
	a, aOK := number(left)
	if !aOK {
		return 0, 0, false
	}
	b, bOK := number(right)
	return a, b, bOK
}

// integerArithmetic computes with ints; what has no int for a result is left to floats.
func integerArithmetic(op string, a, b python.Int) (any, bool) {
	switch op {
	case "+":
		return a.Add(b), true
	case "-":
		return a.Sub(b), true
	case "*":
		checkBits(bits(a) + bits(b))
		return a.Mul(b), true
	case "//":
		return a.FloorDiv(b), true
	case "%":
		return a.Mod(b), true
	case "**":
		if b.Sign() < 0 {
			return nil, false
		}
		n, small := b.Int64()
		if bits(a) > 1 {
			if !small || n > maxBits {
				n = maxBits
			}
			checkBits(bits(a) * int(n))
		}
		return power(a, b), true
	}
	return nil, false
}

// power is a ** n for n >= 0, where n is small or a is -1, 0 or 1.
func power(a, n python.Int) python.Int {
	if bits(a) <= 1 {
		n = n.Mod(python.NewInt(2)).Add(python.NewInt(2 * min(1, n.Sign())))
	}
	exponent, _ := n.Int64()
	return a.Pow(uint(exponent))
}

func bits(n python.Int) int {
	if small, ok := n.Int64(); ok && small > math.MinInt64 {
		return python.NewInt(int(max(small, -small))).Big().BitLen()
	}
	return n.Big().BitLen()
}

func checkBits(n int) {
	if n > maxBits {
		limit("an integer of more than %d bits", maxBits)
	}
}

func floatArithmetic(op string, a, b float64) any {
	switch op {
	case "+":
		return a + b
	case "-":
		return a - b
	case "*":
		return a * b
	case "/":
		if b == 0 {
			fail("ZeroDivisionError", "division by zero")
		}
		return a / b
	case "//":
		q, _ := python.FloatDivMod(a, b)
		return q
	case "%":
		_, r := python.FloatDivMod(a, b)
		return r
	}
	fail("NotImplementedError", "** is not supported for floats")
	return nil
}

// join is "+" of strings, lists and tuples.
func (e *evaluator) join(left, right any) (any, bool) {
	a, aText := asString(left)
	b, bText := asString(right)
	if aText && bText {
		_, aSafe := left.(safe)
		_, bSafe := right.(safe)
		switch {
		case aSafe && !bSafe:
			b = e.escape(b)
		case bSafe && !aSafe:
			a = e.escape(a)
		}
		e.allocate(len(a) + len(b))
		if aSafe {
			return safe(a + b), true
		}
		return like(right, a+b), true
	}
	switch a := left.(type) {
	case []any:
		if b, ok := right.([]any); ok {
			e.spend(len(a) + len(b))
			return append(append(make([]any, 0, len(a)+len(b)), a...), b...), true
		}
	case python.Tuple:
		if b, ok := right.(python.Tuple); ok {
			e.spend(len(a) + len(b))
			return append(append(make(python.Tuple, 0, len(a)+len(b)), a...), b...), true
		}
	}
	return nil, false
}

var escaper = strings.NewReplacer("&", "&amp;", ">", "&gt;", "<", "&lt;", "'", "&#39;", `"`, "&#34;")

func (e *evaluator) escape(s string) string {
	e.allocate(5 * len(s))
	return escaper.Replace(s)
}

// repeat is "*" of a sequence and a number.
func (e *evaluator) repeat(v any, times python.Int) (any, bool) {
	n := max(e.index(times), 0)
	size, sized := length(v)
	if _, small := times.Int64(); sized && !small {
		fail("OverflowError", "cannot fit 'int' into an index-sized integer")
	}
	if s, ok := asString(v); ok {
		e.allocate(len(s) * n)
		return like(v, strings.Repeat(s, n)), true
	}
	list := func(items []any) []any {
		if size == 0 {
			return nil
		}
		e.spend(size * n)
		repeated := make([]any, 0, size*n)
		for range n {
			repeated = append(repeated, items...)
		}
		return repeated
	}
	switch v := v.(type) {
	case []any:
		return list(v), true
	case python.Tuple:
		return python.Tuple(list(v)), true
	}
	return nil, false
}

type sign struct {
	op string
	x  expr
}

func (x sign) eval(e *evaluator) any {
	v := e.eval(x.x)
	switch n := v.(type) {
	case undefined:
		n.fail()
	case float64:
		if x.op == "-" {
			return -n
		}
		return n
	}
	n, ok := integer(v)
	if !ok {
		fail("TypeError", "bad operand type for unary %s: '%s'", x.op, typeName(v))
	}
	if x.op == "-" {
		return n.Neg()
	}
	return n
}

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
		return ok && a == b
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
		e.spend(len(s) / 64)
		return strings.Contains(s, part)
	}
	if s, ok := container.(*series); ok && s.kind == "dict_keys" {
		checkHashable(v)
	}
	if d, ok := container.(*python.Dict); ok {
		checkHashable(v)
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
