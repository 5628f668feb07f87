package reasoninggym

import (
	"math"
	"strings"
	"testing"
	"time"
)

// Values are those of float(parse_expr(text)) in sympy 1.14. An answer that upstream takes for an expression must not be junk here,
// nor the other way round.
func TestEvaluateSympy(t *testing.T) {
	for text, want := range map[string]float64{
		" 15 - 4 + 95\n": 106, "29.": 29, "5 // 2": 2, "7 % 4": 3, "-5 % 3": 1, "-5//3": -2, "5.5//2": 2, "3.5%-2": -0.5, "2^3": 1, "6&3": 2, "6|3": 7, "1<<3": 8, "8>>1": 4, "~5": -6,
		"3!": 6, "3!!": 3, "-3!": -6, "2**3!": 64, "(1+2)!": 6, "0.5!": 0.886226925452758, "5!=3": 1, "2**-3**2": 0.001953125, "-2**2": -4, "2**3**2": 512, "5*-3": -15, "+-+5": -5, "5--3": 8,
		"1/3*3": 1, "10**400-10**400+5": 5, "10**400": math.Inf(1), "2.0**5000": math.Inf(1), "0/0": math.NaN(), "oo-oo": math.NaN(), "1/oo": 0, "0**0": 1, "2**(1/2)": math.Sqrt2,
		"0x1F": 31, "0b11": 3, "0o17": 15, "1_000": 1000, "07.5": 7.5, "1_0.5": 10.5, "1e3": 1000, ".5": 0.5, "00": 0, "1e400": math.Inf(1),
		"max(1, 2)": 2, "max(1,)": 1, "pow(2, 3, )": 8, "min(3,4,5)": 3, "abs(-3)": 3, "sqrt(16)": 4, "sqrt(2)": math.Sqrt2, "pi": math.Pi, "E": math.E, "log(10)": math.Ln10, "log(100,10)": 2, "round(2.5)": 2, "round(7/2)": 4,
		"floor(5/2)": 2, "ceiling(5/2)": 3, "factorial(4)": 24, "pow(2,3)": 8, "Rational(1,2)": 0.5, "Mod(5,3)": 2, "exp(0)": 1, "170!/169!": 170, "True": 1, "(1==1)+2": 3, "1 == 1 == 1": 1,
		"15 - 4 # c": 11, "(1+\n2)": 3, "(1\r\n+2)": 3, "1+\\\n2": 3, "1\x0c+2": 3, "1* *3": 1, "'1.5'": 1.5, "\"15\"": 15, "5-0j": 5, "2**1000000": math.Inf(1), "9**9**9**9": math.Inf(1), "0**9**9**9": 0,
	} {
		v, err := evaluateSympy(text)
		got := v.Float64()
		if err != nil || !(math.Abs(got-want) <= 1e-15*math.Abs(want)) && got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{
		"1/0", "1.0/0", "5//0", "5%0", "0**-1", "(-8)**(1/3)", "sqrt(-1)", "2.0^3", "(1/2)^1", "3!!!", "(-1)!", "1<2", "'1 5'", "02", "1__0", "5j", "x", "x + 1", "1,2", "(1,2)", "(1,)", "max(,)", "max()", "()", "[1]", "{}", "None",
		"1..", "5.real", "(5)(3)", "5 5", "5 !", "! 5", "5 = 5", "*5", "1\r\n+2", "1\x0b+2", "1\x00", "é", "2 pi", "(1", "1)", "max", "max(1,2", "5 -", "5\\", "1e+", "٣", "max(nan,1)", "1<<-1", "-",
		"",
	} {
		if v, err := evaluateSympy(text); err == nil {
			t.Errorf("%q is %v, must have no value", text, v.Float64())
		}
	}
}

// A model writes what it likes: no answer may keep a scorer busy.
func TestEvaluateSympyEnds(t *testing.T) {
	for name, text := range map[string]string{
		"parentheses": strings.Repeat("(", 9999), "signs": strings.Repeat("-", 9999) + "1", "powers": strings.Repeat("9**", 6000) + "9", "digits": strings.Repeat("9", 9999),
		"products": "1" + strings.Repeat("*999999999", 1900), "fractions": "1" + strings.Repeat("+1/999983", 1900), "factorials": "1" + strings.Repeat("+900!", 3000), "calls": strings.Repeat("sqrt(", 3000),
		"roots": strings.Repeat("sqrt(", 190) + "2" + strings.Repeat(")", 190), "shifts": "1" + strings.Repeat("<<4000>>3999", 1500), "long": strings.Repeat("1+", 1e7) + "1",
		"powers of fractions": "1" + strings.Repeat("+(7/9)**999", 1700), "remainders": "1" + strings.Repeat("%(9**999/7**999)", 1200),
	} {
		start := time.Now()
		v, err := evaluateSympy(text)
		if d := time.Since(start); d > 30*time.Second { // some hundredths on a machine that has nothing else to do
			t.Errorf("%s: %v (%v, %v)", name, d, v.Float64(), err)
		} else {
			t.Log(name, d, v.Float64(), err)
		}
	}
}
