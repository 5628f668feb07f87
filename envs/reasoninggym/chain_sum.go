package reasoninggym

import (
	"github.com/grouper-rl/grouper/internal/python"
)

// chainSum is ChainSumDataset of reasoning_gym/arithmetic/chain_sum.py.
var chainSum = definition[ChainSumConfig]{
	name:        "chain_sum",
	category:    "arithmetic",
	description: "Add and subtract a chain of integers.",
	defaults:    ChainSumConfig{MinTerms: 2, MaxTerms: 6, MinDigits: 1, MaxDigits: 4},
	prepare:     prepareChainSum,
	score:       decimalScore,

	scoreCorrected: decimalScoreCorrected,
	faults: []Fault{
		substringFault,
		{What: "Underscores between digits and anywhere else are read as Python's Decimal does; corrected, they are no part of a number.", Answer: "_{answer}_"},
	},
	curriculum: []Attribute{
		ranged("num_terms", "min_terms", "max_terms", "Terms of the sum", span(2, 13, 1)...),
		ranged("num_digits", "min_digits", "max_digits", "Digits of each term", span(1, 11, 1)...),
	},
}

// ChainSumConfig has the settings of chain_sum.
type ChainSumConfig struct {
	MinTerms      int  `json:"min_terms"`      // of the sum
	MaxTerms      int  `json:"max_terms"`      // of the sum
	MinDigits     int  `json:"min_digits"`     // of a term
	MaxDigits     int  `json:"max_digits"`     // of a term
	AllowNegation bool `json:"allow_negation"` // whether terms may be negative, and then also of fewer digits
}

func (c ChainSumConfig) validate() error {
	return check(
		atLeast("min_terms", c.MinTerms, 1),
		between("max_terms", c.MaxTerms, c.MinTerms, maxTerms),
		atLeast("min_digits", c.MinDigits, 1),
		between("max_digits", c.MaxDigits, c.MinDigits, maxDigits),
	)
}

func prepareChainSum(c ChainSumConfig) (generator, error) {
	var difficulty object
	difficulty.ints("num_terms", c.MinTerms, c.MaxTerms)
	difficulty.ints("num_digits", c.MinDigits, c.MaxDigits)
	return func(r *python.Random, m *object) (item, error) {
		numTerms, numDigits := r.RandInt(c.MinTerms, c.MaxTerms), r.RandInt(c.MinDigits, c.MaxDigits)
		low, high := digitRange(numDigits, c.AllowNegation)
		terms := make([]python.Int, numTerms)
		for i := range terms {
			terms[i] = r.RandIntOf(low, high)
		}
		sum := terms[0]
		text := sum.Append(make([]byte, 0, 64))
		for _, term := range terms[1:] {
			if python.Choice(r, plusMinus) == '+' {
				text = term.Append(append(text, " + "...))
				sum = sum.Add(term)
			} else {
				text = term.Append(append(text, " - "...))
				sum = sum.Sub(term)
			}
		}
		expression := string(text)
		m.int("num_terms", numTerms)
		m.int("num_digits", numDigits)
		m.string("expression", expression)
		m.object("difficulty", difficulty)
		return item{"State the final answer to the following arithmetic problem: " + expression + " =", sum.String()}, nil
	}, nil
}

var plusMinus = []byte("+-")

// Bounds of settings that say how long a text is: upstream has none, and no one reads a text beyond them.
const (
	maxTerms  = 10_000
	maxDigits = 4300 // Python's str(int) writes no more
)

// digitRange is the numbers of a number of digits, 0 among those of one digit; if negative, all numbers of up to so many digits.
func digitRange(digits int, negative bool) (low, high python.Int) {
	high = python.PowerOfTen(digits).Sub(python.NewInt(1))
	switch {
	case negative:
		low = high.Neg()
	case digits > 1:
		low = python.PowerOfTen(digits - 1)
	}
	return low, high
}
