package jinja

import (
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
			words := max(bits(a), bits(b), bits(v.(python.Int))) / 64
			e.spend(words * words / 64)
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
		if !small || n > maxBits {
			n = maxBits + 1
		}
		checkBits(max(bits(a), 1) * int(n))
		return a.Pow(uint(n)), true
	}
	return nil, false
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
