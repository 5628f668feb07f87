package reasoninggym

import (
	"github.com/grouper-rl/grouper/internal/python"
)

// lcm is LCMDataset of reasoning_gym/arithmetic/lcm.py.
var lcm = definition[LCMConfig]{
	name:        "lcm",
	category:    "arithmetic",
	description: "Find the least common multiple of integers.",
	defaults:    LCMConfig{MinNumbers: 2, MaxNumbers: 2, MinValue: 1, MaxValue: 100},
	prepare:     prepareLCM,
	curriculum: []Attribute{
		ranged("numbers", "min_numbers", "max_numbers", "How many numbers there are", 2, 3, 4, 5),
		interval("value", "min_value", "max_value", "How large numbers are", 100, 1000, 10000, 100000),
	},
}

// LCMConfig has the settings of lcm.
type LCMConfig struct {
	MinNumbers int `json:"min_numbers"` // how many numbers there are
	MaxNumbers int `json:"max_numbers"` // how many numbers there are
	MinValue   int `json:"min_value"`   // of a number
	MaxValue   int `json:"max_value"`   // of a number
}

func (c LCMConfig) validate() error {
	return validateNumbers(c.MinNumbers, c.MaxNumbers, c.MinValue, c.MaxValue)
}

func prepareLCM(c LCMConfig) (generator, error) {
	var difficulty object
	difficulty.ints("numbers", c.MinNumbers, c.MaxNumbers)
	difficulty.ints("value", c.MinValue, c.MaxValue)
	return func(r *python.Random, m *object) (item, error) {
		var numbers []int
		var result python.Int
		for range 3 { // upstream prefers numbers that have a common divisor
			numbers = drawNumbers(r, c.MinNumbers, c.MaxNumbers, c.MinValue, c.MaxValue)
			product := python.NewInt(1)
			result = product
			for _, n := range numbers {
				product = product.Mul(python.NewInt(n))
				result = result.LCM(python.NewInt(n))
			}
			if result.Cmp(product) < 0 {
				break
			}
		}
		m.ints("numbers", numbers...)
		m.bigInt("result", result)
		m.object("difficulty", difficulty)
		return item{"Find the Least Common Multiple (LCM) of these numbers: " + joinInts(numbers, ", "), result.String()}, nil
	}, nil
}
