package python

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func ExampleParseDecimal() {
	a, _ := ParseDecimal("1_000.50")
	b, _ := ParseDecimal("-3e2")
	fmt.Println(DefaultContext.Add(a, b), DefaultContext.Div(a, b))
	// Output: 700.50 -3.3350
}

func ExampleFormatFloat() {
	fmt.Println(FormatFloat(-1234567.891, ",.2f"), FormatFloat(0.25, ".1%"), FloatRepr(100), Round(2.675, 2))
	// Output: -1,234,567.89 25.0% 100.0 2.67
}

func ExampleRepr() {
	fmt.Println(Repr([]string{"it's", "a\n"}), Repr(Tuple{1, nil, 2.0}))
	// Output: ["it's", 'a\n'] (1, None, 2.0)
}

// Scorers read with these functions what a model wrote: any text must give a value or an error, and what was read must be
// the number that its own text stands for.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "1", " -1_000 ", "0x1F", "1e400", "1e999999999999999999", "1e-1999999999999999998", "NaN12", "1/3", "١٢.٥", "[1, {\"a\": \"\\ud800\"}]", strings.Repeat("[", 2000), strings.Repeat("9", 5000), "-Infinity", "\x1f1", "\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, base := range []int{10, 0} {
			n, err := ParseInt(text, base)
			if known(t, err) {
				continue
			}
			if bits := n.Big().BitLen(); bits > 10*(len(text)+1) {
				t.Errorf("%d bits of %q", bits, text)
			}
			if again, err := ParseInt(n.Hex(), 0); err != nil || again.Cmp(n) != 0 {
				t.Errorf("%q is %s, and that is %s, %v", text, n.Hex(), again.Hex(), err)
			}
		}
		if x, err := ParseFloat(text); !known(t, err) {
			if again, err := ParseFloat(FloatRepr(x)); err != nil || again != x && x == x {
				t.Errorf("%q is %v, and that is %v, %v", text, x, again, err)
			}
		}
		if d, err := ParseDecimal(text); !known(t, err) {
			again, err := ParseDecimal(d.String())
			if err != nil || again.String() != d.String() || d.kind <= infinite && !again.Equal(d) {
				t.Errorf("%q is %v, and that is %v, %v", text, d, again, err)
			}
		}
		if r, err := ParseFraction(text); !known(t, err) && len(text) < 100 {
			if _, err := ParseInt(text, 10); err == nil && !r.IsInt() {
				t.Errorf("%q is %v", text, r)
			}
		}
		v, err := ParseJSON(text)
		if !known(t, err) {
			_ = Repr(v)
		} else if json.Valid([]byte(text)) && err.(Error).Type == "JSONDecodeError" {
			t.Errorf("%q: %v", text, err)
		}
		_, _, _, _, _ = Lower(text), Upper(text), SplitLines(text), Fields(text), IsAlnum(text)
	})
}

// known says whether there is an error, which must be one that Python raises.
func known(t *testing.T, err error) bool {
	var e Error
	if err != nil && !errors.As(err, &e) {
		t.Errorf("%T: %v", err, err)
	}
	return err != nil
}

// Exponents at the limits must not make an operation fill memory.
func FuzzDecimal(f *testing.F) {
	f.Add("1e999999999999999999", "1e-1999999999999999997", 28, -3)
	f.Add("-0e7", "Infinity", 1, 999999)
	f.Add("sNaN", "99999.5", 5, 0)
	f.Fuzz(func(t *testing.T, first, second string, precision, exponent int) {
		a, err1 := ParseDecimal(first)
		b, err2 := ParseDecimal(second)
		if err1 != nil || err2 != nil || precision < 1 || precision > 100 {
			return
		}
		c := Context{Precision: precision}
		for _, operation := range []func() any{
			func() any { return c.Add(a, b) },
			func() any { return c.Sub(a, b) },
			func() any { return c.Mul(a, b) },
			func() any { return c.Div(a, b) },
			func() any { return c.Quantize(a, exponent) },
			func() any { return a.Neg(c) },
		} {
			result, err := attempt(operation)
			if known(t, err) {
				continue
			}
			if d := result.(Decimal); d.kind == finite && !d.IsZero() && d.numDigits() > precision {
				t.Errorf("%v with %d digits", d, precision)
			}
		}
		if a.Equal(b) != b.Equal(a) {
			t.Errorf("%v and %v", a, b)
		}
	})
}

func FuzzFormat(f *testing.F) {
	f.Add(1.5, "*^+012,.3%")
	f.Add(math.Inf(-1), "_g")
	f.Add(1e300, "x")
	f.Fuzz(func(t *testing.T, x float64, spec string) {
		_, err := attempt(func() any { return FormatFloat(x, spec) })
		known(t, err)
		if math.Abs(x) < 1e15 {
			_, err = attempt(func() any { return FormatInt(NewInt(int(x)), spec) })
			known(t, err)
		}
	})
}

// A sum that overflows int64 must come out as Python's.
func TestIntAgreesWithBig(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Int {
			n := NewInt(int(rapid.Int64().Draw(t, name)))
			return n.Lsh(rapid.UintRange(0, 70).Draw(t, "shift"))
		}
		a, b := draw("a"), draw("b")
		if b.Sign() == 0 {
			b = NewInt(-1)
		}
		q, m := a.DivMod(b)
		for name, same := range map[string]bool{
			"a-b+b":   a.Sub(b).Add(b).Cmp(a) == 0,
			"a*b/b":   a.Mul(b).FloorDiv(b).Cmp(a) == 0,
			"qb+m":    q.Mul(b).Add(m).Cmp(a) == 0,
			"m":       m.Sign() == 0 || m.Sign() == b.Sign() && m.Abs().Cmp(b.Abs()) < 0,
			"gcd lcm": a.GCD(b).Mul(a.LCM(b)).Cmp(a.Mul(b).Abs()) == 0,
			"text":    a.String() == a.Big().String(),
			"shift":   a.Lsh(3).Rsh(3).Cmp(a) == 0,
			"product": a.Mul(b).Big().Cmp(a.Big().Mul(a.Big(), b.Big())) == 0,
		} {
			if !same {
				t.Fatalf("%s of %v and %v", name, a, b)
			}
		}
	})
}

// str() of a long number raises in Python 3.11, and a generator that meets one must end with that error.
func TestLongIntegersRaise(t *testing.T) {
	for digits, want := range map[int]string{maxDigits: "<nil>", maxDigits + 1: "ValueError", 1_000_000: "ValueError"} {
		_, err := attempt(func() any { return PowerOfTen(digits - 1).Neg().String() })
		if !strings.HasPrefix(fmt.Sprint(err), want) {
			t.Errorf("%d digits: %v", digits, err)
		}
	}
	if _, err := ParseInt(strings.Repeat("1", maxDigits+1), 10); err == nil {
		t.Error("a long integer was read")
	}
}
