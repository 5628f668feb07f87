package reasoninggym

import (
	"fmt"
	"math"
	"math/cmplx"
	"strconv"
	"strings"
	"unicode"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// complexArithmetic is ComplexArithmeticDataset of reasoning_gym/algebra/complex_arithmetic.py.
var complexArithmetic = definition[ComplexArithmeticConfig]{
	name:        "complex_arithmetic",
	category:    "algebra",
	description: "Add, subtract, multiply or divide two complex numbers.",
	defaults: ComplexArithmeticConfig{
		MinReal: -10, MaxReal: 10, MinImag: -10, MaxImag: 10, Operations: []string{"+", "-", "*", "/"},
		OperationsWeights: []Number{Real(0.4), Real(0.4), Real(0.1), Real(0.1)},
	},
	prepare: prepareComplexArithmetic,
	score:   scoreComplex,

	scoreCorrected: scoreComplexCorrected,
	faults: []Fault{
		{What: "nan is right for every task; corrected, it is wrong.", Answer: "nan"},
		{What: "A number near the right one gets a part of the credit; corrected, an answer is right or wrong.", Index: 2, Answer: "12 - 8i"},
		{What: "White space other than blanks makes an answer wrong; corrected, it does not count.", Answer: "({answer}\t)"},
	},
	curriculum: []Attribute{
		scalar("min_real", "min_real", "Least real part", -10, -100, -10000, -100000000),
		scalar("max_real", "max_real", "Largest real part", 10, 100, 10000, 100000000),
		scalar("min_imag", "min_imag", "Least imaginary part", -10, -100, -10000, -100000000),
		scalar("max_imag", "max_imag", "Largest imaginary part", 10, 100, 10000, 100000000),
		scalar("operations_weights", "operations_weights", "How often each operation is asked for",
			[]float64{0.4, 0.4, 0.1, 0.1}, []float64{0.25, 0.25, 0.25, 0.25}, []float64{0.2, 0.2, 0.3, 0.3}, []float64{0.1, 0.1, 0.4, 0.4}),
	},
}

// ComplexArithmeticConfig has the settings of complex_arithmetic.
type ComplexArithmeticConfig struct {
	MinReal           int      `json:"min_real"`           // of both numbers; of a division, of the quotient and the divisor
	MaxReal           int      `json:"max_real"`           // of both numbers
	MinImag           int      `json:"min_imag"`           // of both numbers
	MaxImag           int      `json:"max_imag"`           // of both numbers
	Operations        []string `json:"operations"`         // some of + - * /
	OperationsWeights []Number `json:"operations_weights"` // of the operations, 1 together
}

func (c ComplexArithmeticConfig) validate() error {
	err := check(
		between("max_real", c.MaxReal, c.MinReal, math.MaxInt),
		between("max_imag", c.MaxImag, c.MinImag, math.MaxInt),
		someOf("operations", c.Operations, "+", "-", "*", "/"),
		weightsFor("operations_weights", len(c.Operations), c.OperationsWeights),
		sumOfOne("operations_weights", c.OperationsWeights),
	)
	if err != nil || c.MinReal != 0 || c.MaxReal != 0 || c.MinImag != 0 || c.MaxImag != 0 {
		return err
	}
	for i, op := range c.Operations {
		if op == "/" && c.OperationsWeights[i].value != 0 { // upstream looks for a divisor forever
			return above("max_real", c.MaxReal, 0)
		}
	}
	return nil
}

func prepareComplexArithmetic(c ComplexArithmeticConfig) (generator, error) {
	var difficulty object
	difficulty.int("min_real", c.MinReal)
	difficulty.int("max_real", c.MaxReal)
	difficulty.int("min_imag", c.MinImag)
	difficulty.int("max_imag", c.MaxImag)
	difficulty.numbers("operations_weights", c.OperationsWeights)
	odds := weights(c.OperationsWeights)
	draw := func(r *python.Random) complex128 {
		re := r.RandInt(c.MinReal, c.MaxReal)
		return complex(float64(re), float64(r.RandInt(c.MinImag, c.MaxImag)))
	}
	return func(r *python.Random, m *object) (item, error) {
		operation := python.WeightedChoices(r, c.Operations, odds, 1)[0]
		a, b := draw(r), draw(r)
		var result complex128
		var ask, sign string
		switch operation {
		case "+":
			ask, sign, result = "Add", "+", a+b
		case "-":
			ask, sign, result = "Subtract", "-", a-b
		case "*":
			ask, sign, result = "Multiply", "×", complexProduct(a, b)
		default: // the quotient is drawn, so that it is whole
			for b == 0 {
				b = draw(r)
			}
			ask, sign, result = "Divide", "÷", a
			a = complexProduct(a, b)
		}
		m.complex("num1", a)
		m.complex("num2", b)
		m.string("operation", operation)
		m.name("result")
		m.data = python.IntOf(real(result)).Append(append(m.data, '['))
		m.data = python.IntOf(imag(result)).Append(append(m.data, ','))
		m.data = append(m.data, ']')
		m.object("difficulty", difficulty)
		question := append(append(make([]byte, 0, 128), ask...), " the complex numbers: ("...)
		question = append(append(append(appendComplex(question, a), ") "...), sign...), " ("...)
		question = append(appendComplex(question, b), ')')
		return item{string(question), string(appendComplex(nil, result))}, nil
	}, nil
}

// complexProduct multiplies as C does: each product is rounded.
func complexProduct(a, b complex128) complex128 {
	re := float64(real(a)*real(b)) - float64(imag(a)*imag(b))
	return complex(re, float64(real(a)*imag(b))+float64(imag(a)*real(b)))
}

// complex is a field whose value is a list of both parts, as floats.
func (o *object) complex(name string, z complex128) {
	o.name(name)
	o.data = python.AppendFloat(append(o.data, '['), real(z))
	o.data = append(python.AppendFloat(append(o.data, ','), imag(z)), ']')
}

// appendComplex has two decimal places where a part is 0, and one where none is.
func appendComplex(b []byte, z complex128) []byte {
	switch re, im := real(z), imag(z); {
	case im == 0:
		return strconv.AppendFloat(b, re, 'f', 2, 64)
	case re == 0:
		return append(strconv.AppendFloat(b, im, 'f', 2, 64), 'i')
	case im < 0:
		return append(python.AppendFloat(append(python.AppendFloat(b, re), " - "...), -im), 'i')
	default:
		return append(python.AppendFloat(append(python.AppendFloat(b, re), " + "...), im), 'i')
	}
}

// scoreComplex gives exp(-distance). Upstream takes the minimum of that and 1 in such a way that NaN is 1.
func scoreComplex(task envs.Task, answer string) (float64, error) {
	want, err := complexResult(task)
	if err != nil {
		return 0, err
	}
	got, err := parseComplexAnswer(answer)
	if err != nil {
		return 0, nil
	}
	distance := cmplx.Abs(got - want)
	if math.IsNaN(distance) {
		return 1, nil
	}
	return math.Exp(-distance), nil
}

func scoreComplexCorrected(task envs.Task, answer string) (float64, error) {
	want, err := complexResult(task)
	if err != nil {
		return 0, err
	}
	answer = strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) {
			return -1
		}
		return c
	}, answer)
	if got, err := parseComplexAnswer(answer); err == nil && got == want {
		return 1, nil
	}
	return 0, nil
}

func complexResult(task envs.Task) (complex128, error) {
	for name, value := range metadataFields(task.Metadata) {
		if name != "result" {
			continue
		}
		re, im, _ := strings.Cut(strings.Trim(string(value), "[] \t\n\r"), ",")
		x, err1 := strconv.ParseFloat(strings.TrimSpace(re), 64)
		y, err2 := strconv.ParseFloat(strings.TrimSpace(im), 64)
		if err1 == nil && err2 == nil {
			return complex(x, y), nil
		}
	}
	return 0, fmt.Errorf("reasoninggym: the metadata of task %s have no two numbers as result", task.ID)
}

// parseComplexAnswer is upstream's parse_string_to_complex. Its conditions overlap in odd ways, which are kept.
func parseComplexAnswer(answer string) (complex128, error) {
	s := python.Lower(strings.ReplaceAll(answer, " ", ""))
	for len(s) > 1 && s[0] == '(' && s[len(s)-1] == ')' {
		s = s[1 : len(s)-1]
	}
	s = strings.ReplaceAll(s, "i", "j")
	switch s {
	case "j":
		return 1i, nil
	case "-j":
		return -1i, nil
	}
	if !strings.Contains(s, "j") {
		f, err := python.ParseFloat(s)
		return complex(f, 0), err
	}
	coefficient, pure := strings.CutSuffix(s, "j")
	signs := strings.Count(coefficient, "+") + strings.Count(coefficient, "-")
	if pure && (signs == 0 || signs == 1 && s[0] == '-') {
		f, err := python.ParseFloat(coefficient)
		return complex(0, f), err
	}
	if !pure {
		return 0, python.Error{Type: "TypeError", Message: "the imaginary part must come last"}
	}
	return python.ParseComplex(strings.ReplaceAll(strings.ReplaceAll(s, "+j", "+1j"), "-j", "-1j"))
}
