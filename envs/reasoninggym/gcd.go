package reasoninggym

import (
	"strconv"
	"strings"

	"github.com/grouper-rl/grouper/internal/python"
)

// gcd is GCDDataset of reasoning_gym/arithmetic/gcd.py.
var gcd = definition[GCDConfig]{
	name:        "gcd",
	category:    "arithmetic",
	description: "Find the greatest common divisor of integers.",
	defaults:    GCDConfig{MinNumbers: 2, MaxNumbers: 2, MinValue: 1, MaxValue: 1000},
	prepare:     prepareGCD,
	curriculum: []Attribute{
		ranged("num_terms", "min_numbers", "max_numbers", "How many numbers there are", 2, 3, 4, 5),
		interval("value", "min_value", "max_value", "How large numbers are", 100, 1000, 10000, 100000),
	},
}

// GCDConfig has the settings of gcd.
type GCDConfig struct {
	MinNumbers int `json:"min_numbers"` // how many numbers there are
	MaxNumbers int `json:"max_numbers"` // how many numbers there are
	MinValue   int `json:"min_value"`   // of a number
	MaxValue   int `json:"max_value"`   // of a number
}

func (c GCDConfig) validate() error {
	return validateNumbers(c.MinNumbers, c.MaxNumbers, c.MinValue, c.MaxValue)
}

// validateNumbers checks the settings that gcd and lcm share.
func validateNumbers(minNumbers, maxNumbers, minValue, maxValue int) error {
	return check(
		atLeast("min_numbers", minNumbers, 2),
		between("max_numbers", maxNumbers, minNumbers, maxTerms),
		atLeast("min_value", minValue, 1),
		above("max_value", maxValue, minValue),
	)
}

func prepareGCD(c GCDConfig) (generator, error) {
	var difficulty object
	difficulty.ints("num_terms", c.MinNumbers, c.MaxNumbers)
	difficulty.ints("value", c.MinValue, c.MaxValue)
	return func(r *python.Random, m *object) (item, error) {
		var numbers []int
		result := 0
		for range 3 { // upstream prefers numbers that have a common divisor
			numbers = drawNumbers(r, c.MinNumbers, c.MaxNumbers, c.MinValue, c.MaxValue)
			result = 0
			for _, n := range numbers {
				result = commonDivisor(result, n)
			}
			if result > 1 {
				break
			}
		}
		m.ints("numbers", numbers...)
		m.int("result", result)
		m.int("num_terms", len(numbers))
		m.object("difficulty", difficulty)
		return item{
			question: "Find the Greatest Common Divisor (GCD) of these numbers: " + joinInts(numbers, ", ") + ". Give only the GCD as your final answer.",
			answer:   strconv.Itoa(result),
		}, nil
	}, nil
}

func drawNumbers(r *python.Random, minNumbers, maxNumbers, minValue, maxValue int) []int {
	numbers := make([]int, r.RandInt(minNumbers, maxNumbers))
	for i := range numbers {
		numbers[i] = r.RandInt(minValue, maxValue)
	}
	return numbers
}

// commonDivisor is the greatest common divisor of numbers that are not negative.
func commonDivisor(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func joinInts(numbers []int, separator string) string {
	var b strings.Builder
	for i, n := range numbers {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(strconv.Itoa(n))
	}
	return b.String()
}
