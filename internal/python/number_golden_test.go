package python

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"testing"

	"github.com/grouper-rl/grouper/internal/golden"
)

// A digit that is printed, rounded or read in another way than in Python is another question, answer or score.
func TestNumberGolden(t *testing.T) {
	cases := 0
	for _, path := range golden.Glob(t, "reasoninggym/pynum.json") {
		var file struct {
			Repr        [][2]any
			JSON        [][2]any `json:"json_dumps"`
			Round       [][3]any
			RoundToInt  [][2]any `json:"round_to_int"`
			NumpyRound  [][3]any `json:"numpy_round"`
			Format      [][3]any
			FormatInt   [][3]string `json:"format_int"`
			DivMod      [][4]string `json:"floordiv_mod"`
			FloatDivMod [][4]any    `json:"float_floordiv_mod"`
			Pow         [][3]any
			Parse       [][6]any
			Decimal     []map[string]any
			Compare     [][3]any `json:"decimal_compare"`
		}
		decode(t, golden.Read(t, path), &file)
		same := func(what string, got, want any) {
			t.Helper()
			cases++
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s is %v, want %v", what, got, want)
			}
		}
		for _, c := range file.Repr {
			same("repr", FloatRepr(float(c[0])), c[1])
		}
		for _, c := range file.JSON {
			same("json.dumps", FloatRepr(float(c[0])), c[1])
		}
		for _, c := range file.Round {
			same(fmt.Sprintf("round(%v, %v)", c[0], c[1]), FloatRepr(Round(float(c[0]), whole(c[1]))), FloatRepr(float(c[2])))
		}
		for _, c := range file.RoundToInt {
			got, _ := big.NewFloat(math.RoundToEven(float(c[0]))).Int(nil)
			same(fmt.Sprintf("round(%v)", c[0]), got, c[1])
		}
		for _, c := range file.NumpyRound {
			same(fmt.Sprintf("numpy.round(%v, %v)", c[0], c[1]), FloatRepr(NumpyRound(float(c[0]), whole(c[1]))), FloatRepr(float(c[2])))
		}
		for _, c := range file.Format {
			same(fmt.Sprintf("format(%v, %q)", c[0], c[1]), FormatFloat(float(c[0]), c[1].(string)), c[2])
		}
		for _, c := range file.FormatInt {
			same(fmt.Sprintf("format(%v, %q)", c[0], c[1]), FormatInt(integer(c[0]), c[1]), c[2])
		}
		for _, c := range file.DivMod {
			q, m := integer(c[0]).DivMod(integer(c[1]))
			same(fmt.Sprintf("divmod(%v, %v)", c[0], c[1]), [2]any{q, m}, [2]any{c[2], c[3]})
		}
		for _, c := range file.FloatDivMod {
			q, m := FloatDivMod(float(c[0]), float(c[1]))
			same(fmt.Sprintf("divmod(%v, %v)", c[0], c[1]), FloatRepr(q)+" "+FloatRepr(m), FloatRepr(float(c[2]))+" "+FloatRepr(float(c[3])))
		}
		for _, c := range file.Pow {
			text, isInt := c[0].(string)
			if !isInt || whole(c[1]) < 0 {
				continue // powers of floats come from C's pow, and no generator here needs them
			}
			same(fmt.Sprintf("%v ** %v", c[0], c[1]), integer(text).Pow(uint(whole(c[1]))), c[2])
		}
		for _, c := range file.Parse {
			text := c[0].(string)
			n, err := ParseInt(text, 10)
			same(fmt.Sprintf("int(%q)", text), outcome(n, err), c[1])
			n, err = ParseInt(text, 0)
			same(fmt.Sprintf("int(%q, 0)", text), outcome(n, err), c[2])
			f, err := ParseFloat(text)
			want := c[3]
			if _, failed := want.(map[string]any); !failed {
				want = FloatRepr(float(want))
			}
			same(fmt.Sprintf("float(%q)", text), outcome(FloatRepr(f), err), want)
			d, err := ParseDecimal(text)
			same(fmt.Sprintf("Decimal(%q)", text), outcome(d, err), c[4])
			r, err := ParseFraction(text)
			if err == nil {
				same(fmt.Sprintf("Fraction(%q)", text), r.RatString(), c[5])
			} else {
				same(fmt.Sprintf("Fraction(%q)", text), outcome(nil, err), c[5])
			}
		}
		for _, c := range file.Decimal {
			cases += decimalCase(t, c)
		}
		for _, c := range file.Compare {
			same(fmt.Sprintf("Decimal(%q) == Decimal(%q)", c[0], c[1]), decimal(t, c[0]).Equal(decimal(t, c[1])), c[2])
		}
	}
	t.Logf("%d numbers", cases)
	if cases == 0 {
		t.Fatal("no case ran")
	}
}

// decimalCase compares the operations on two Decimals in a context and returns how many there are.
func decimalCase(t *testing.T, c map[string]any) int {
	t.Helper()
	a, b := decimal(t, c["a"]), decimal(t, c["b"])
	context := Context{Precision: whole(c["prec"])}
	got := map[string]func() any{
		"add": func() any { return context.Add(a, b) },
		"sub": func() any { return context.Sub(a, b) },
		"mul": func() any { return context.Mul(a, b) },
		"div": func() any { return context.Div(a, b) },
		"neg": func() any { return a.Neg(context) },
		"cmp": func() any { return a.Cmp(b) },
		"quantize_3": func() any {
			return context.Quantize(a, -3)
		},
		"adjusted": func() any { return a.Adjusted() },
		"fixed":    func() any { return a.Fixed(-1) },
		"float":    func() any { return FloatRepr(a.Float64()) },
	}
	cases := 0
	for name, want := range c {
		operation, ok := got[name]
		if !ok {
			continue
		}
		if name == "float" {
			want = FloatRepr(float(want))
		}
		result, err := attempt(operation)
		if fmt.Sprint(outcome(result, err)) != fmt.Sprint(want) {
			t.Errorf("%s of %v and %v with %d digits is %v, want %v", name, a, b, context.Precision, outcome(result, err), want)
		}
		cases++
	}
	return cases
}

func attempt(f func() any) (result any, err error) {
	defer Catch(&err)
	return f(), nil
}

// outcome is a result or, as the golden files have it, an error's type.
func outcome(result any, err error) any {
	if err == nil {
		return result
	}
	var e Error
	if !errors.As(err, &e) {
		return err
	}
	return map[string]any{"error": e.Type}
}

// float reads a float of the golden files: a number, or "nan", "inf" or "-inf".
func float(v any) float64 {
	f, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if err != nil {
		panic(err)
	}
	return f
}

func whole(v any) int {
	n, err := strconv.Atoi(fmt.Sprint(v))
	if err != nil {
		panic(err)
	}
	return n
}

func integer(text string) Int { return NewBigInt(bigInt(text)) }

func decimal(t *testing.T, v any) Decimal {
	t.Helper()
	d, err := ParseDecimal(fmt.Sprint(v))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The generator of knights_knaves draws from numpy.
func TestNumpyGolden(t *testing.T) {
	draws := 0
	for _, path := range golden.Glob(t, "reasoninggym/nprandom.json") {
		var file struct {
			Generators []struct {
				Seed string
				Ops  []struct {
					Op             string
					Low, High      string
					N, Times, Size int
					Out            []float64
				}
			} `json:"default_rng"`
		}
		decode(t, golden.Read(t, path), &file)
		for _, c := range file.Generators {
			g := NewGenerator(integer(c.Seed))
			for _, op := range c.Ops {
				var got []float64
				switch op.Op {
				case "integers":
					low, high := whole(op.Low), whole(op.High)
					for range op.N {
						got = append(got, float64(g.Integers(low, high)))
					}
				case "choice":
					for range op.Times {
						got = append(got, float64(g.Choice(op.N)))
					}
				case "choice_noreplace":
					for _, n := range g.ChoiceNoReplace(op.N, op.Size) {
						got = append(got, float64(n))
					}
				case "random":
					for range op.N {
						got = append(got, g.Float64())
					}
				default:
					t.Fatalf("no operation %q", op.Op)
				}
				draws += len(got)
				if fmt.Sprint(got) != fmt.Sprint(op.Out) {
					t.Errorf("seed %s, %+v: got %v", c.Seed, op, got)
				}
			}
		}
	}
	t.Logf("%d draws", draws)
	if draws == 0 {
		t.Fatal("no case ran")
	}
}
