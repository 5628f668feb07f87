package reasoninggym

import (
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// decimalChainSum is DecimalChainSumDataset of reasoning_gym/arithmetic/decimal_chain_sum.py.
var decimalChainSum = definition[DecimalChainSumConfig]{
	name:        "decimal_chain_sum",
	category:    "arithmetic",
	description: "Add and subtract a chain of decimal numbers.",
	defaults:    DecimalChainSumConfig{MinTerms: 2, MaxTerms: 6, MinDigits: 1, MaxDigits: 4, MinDecimalPlaces: 1, MaxDecimalPlaces: 4},
	prepare:     prepareDecimalChainSum,
	score:       scoreDecimal,
	curriculum: []Attribute{
		ranged("num_terms", "min_terms", "max_terms", "Terms of the sum", 2, 5, 8, 10),
		interval("num_digits", "min_digits", "max_digits", "Digits of a term before the point", 1, 2, 4, 8, 10),
		interval("decimal_places", "min_decimal_places", "max_decimal_places", "Digits of a term after the point", 1, 2, 4, 6, 8),
	},
}

// DecimalChainSumConfig has the settings of decimal_chain_sum.
type DecimalChainSumConfig struct {
	MinTerms         int  `json:"min_terms"`          // of the sum
	MaxTerms         int  `json:"max_terms"`          // of the sum
	MinDigits        int  `json:"min_digits"`         // of a term before the point
	MaxDigits        int  `json:"max_digits"`         // of a term before the point
	MinDecimalPlaces int  `json:"min_decimal_places"` // of a term after the point
	MaxDecimalPlaces int  `json:"max_decimal_places"` // of a term after the point
	AllowNegation    bool `json:"allow_negation"`     // whether terms may be negative, and then also of fewer digits
}

func (c DecimalChainSumConfig) validate() error {
	return check(
		atLeast("min_terms", c.MinTerms, 1),
		between("max_terms", c.MaxTerms, c.MinTerms, maxTerms),
		atLeast("min_digits", c.MinDigits, 1),
		between("max_digits", c.MaxDigits, c.MinDigits, maxDigits),
		atLeast("min_decimal_places", c.MinDecimalPlaces, 0),
		between("max_decimal_places", c.MaxDecimalPlaces, c.MinDecimalPlaces, maxDigits),
	)
}

func prepareDecimalChainSum(c DecimalChainSumConfig) (generator, error) {
	var difficulty object
	difficulty.ints("num_terms", c.MinTerms, c.MaxTerms)
	difficulty.ints("num_digits", c.MinDigits, c.MaxDigits)
	difficulty.ints("decimal_places", c.MinDecimalPlaces, c.MaxDecimalPlaces)
	return func(r *python.Random, m *object) (item, error) {
		numTerms, numDigits := r.RandInt(c.MinTerms, c.MaxTerms), r.RandInt(c.MinDigits, c.MaxDigits)
		terms, places := c.terms(r, numTerms, numDigits)
		sum, most := terms[0], places[0]
		text := sum.AppendFixed(make([]byte, 0, 128), places[0])
		for i, term := range terms[1:] {
			if python.Choice(r, plusMinus) == '+' {
				text = append(text, " + "...)
				sum = python.DefaultContext.Add(sum, term)
			} else {
				text = append(text, " - "...)
				sum = python.DefaultContext.Sub(sum, term)
			}
			text = term.AppendFixed(text, places[i+1])
			most = max(most, places[i+1])
		}
		expression := string(text)
		m.int("num_terms", numTerms)
		m.int("num_digits", numDigits)
		m.string("expression", expression)
		m.object("difficulty", difficulty)
		return item{"State the final answer to the following arithmetic problem: " + expression + " =", withPlaces(sum, most).String()}, nil
	}, nil
}

// terms draws numbers, then for each how many decimal places it has, and then what stands there. That is added also to negative
// numbers.
func (c DecimalChainSumConfig) terms(r *python.Random, count, digits int) (terms []python.Decimal, places []int) {
	terms, places = make([]python.Decimal, count), make([]int, count)
	low, high := digitRange(digits, c.AllowNegation)
	for i := range terms {
		terms[i] = python.NewDecimal(r.RandIntOf(low, high), 0)
	}
	for i := range places {
		places[i] = r.RandInt(c.MinDecimalPlaces, c.MaxDecimalPlaces)
	}
	one := python.NewInt(1)
	for i := range terms {
		var least python.Int
		if places[i] > 0 {
			least = python.PowerOfTen(places[i] - 1)
		}
		unit := python.PowerOfTen(places[i])
		part := python.NewDecimal(r.RandIntOf(least, unit.Sub(one)), 0)
		part = python.DefaultContext.Div(part, python.NewDecimal(unit, 0))
		terms[i] = python.DefaultContext.Add(terms[i], part)
	}
	return terms, places
}

// withPlaces rounds to decimal places, unless that needs more digits than the context has.
func withPlaces(d python.Decimal, places int) python.Decimal {
	if d.Adjusted()+places+1 > python.DefaultContext.Precision && !d.IsZero() {
		return d
	}
	return python.DefaultContext.Quantize(d, -places)
}

// scoreDecimal gives 1 if both texts are one number for Python's Decimal.
func scoreDecimal(task envs.Task, answer string) (float64, error) {
	got, err1 := python.ParseDecimal(answer)
	want, err2 := python.ParseDecimal(task.Answer)
	if err1 == nil && err2 == nil && got.Equal(want) {
		return 1, nil
	}
	return 0, nil
}
