package python

import (
	"math"
	"testing"
)

// Values are CPython's. A complex answer that Python reads must not be wrong here, and the other way round.
func TestParseComplex(t *testing.T) {
	for _, c := range []struct {
		text   string
		re, im float64
	}{
		{"1", 1, 0}, {" 1+2j\n", 1, 2}, {"( -1.5e3-.5J )", -1500, -0.5}, {"j", 0, 1}, {"-j", 0, -1}, {"2+j", 2, 1}, {"2-j", 2, -1},
		{"1_0+2_0j", 10, 20}, {"1e400-infj", math.Inf(1), math.Inf(-1)}, {"٣+１j", 3, 1}, {"1.j", 0, 1}, {"-infinityj", 0, math.Inf(-1)}, {"1e5+1e-5j", 1e5, 1e-5},
	} {
		if z, err := ParseComplex(c.text); err != nil || real(z) != c.re || imag(z) != c.im {
			t.Errorf("%q is %v, %v", c.text, z, err)
		}
	}
	for _, text := range []string{"", "()", "(1", "1)", "1 + 2j", "2j+1", "1+2", "1+-2j", "1++2j", "1j+2j", "1e+j", "_1j", "1__0j", "+", "i", "((1))", "1jj", "e5j"} {
		if z, err := ParseComplex(text); err == nil {
			t.Errorf("%q is %v, must be an error", text, z)
		}
	}
}

func TestIntOf(t *testing.T) {
	for f, want := range map[float64]string{2.9: "2", -2.9: "-2", 1e22: "10000000000000000000000", -0.5: "0"} {
		if got := IntOf(f).String(); got != want {
			t.Errorf("int(%v) is %s, want %s", f, got, want)
		}
	}
	for _, f := range []float64{math.NaN(), math.Inf(1)} {
		var err error
		func() {
			defer Catch(&err)
			IntOf(f)
		}()
		if err == nil {
			t.Errorf("int(%v): no error", f)
		}
	}
}
