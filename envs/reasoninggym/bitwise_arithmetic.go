package reasoninggym

import (
	"strconv"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// bitwiseArithmetic is BitwiseArithmeticDataset of reasoning_gym/arithmetic/bitwise_arithmetic.py.
var bitwiseArithmetic = definition[BitwiseArithmeticConfig]{
	name:        "bitwise_arithmetic",
	category:    "arithmetic",
	description: "Calculate the value of an expression of hexadecimal numbers with +, -, *, << and >>.",
	defaults:    BitwiseArithmeticConfig{Difficulty: 2},
	prepare:     prepareBitwiseArithmetic,
	score:       scoreBitwiseArithmetic,
	curriculum: []Attribute{
		scalar("difficulty", "difficulty", "How deep the expression is nested", span(1, 11, 1)...),
	},
}

// BitwiseArithmeticConfig has the settings of bitwise_arithmetic.
type BitwiseArithmeticConfig struct {
	Difficulty int `json:"difficulty"` // how deep the expression is nested
}

func (c BitwiseArithmeticConfig) validate() error {
	return between("difficulty", c.Difficulty, 1, 10)
}

func prepareBitwiseArithmetic(c BitwiseArithmeticConfig) (generator, error) {
	var difficulty object
	difficulty.int("difficulty", c.Difficulty)
	return func(r *python.Random, m *object) (item, error) {
		text, value := bitwiseExpression(r, c.Difficulty, make([]byte, 0, 64))
		problem := string(text)
		m.string("problem", problem)
		m.object("difficulty", difficulty)
		return item{
			question: "Please solve this problem. Assume there is arbitrary bit depth and that there are signed integers. If the answer is negative, reply as a negative value (ex., -0x3), not the two's-compliment form. Reply only with the final hexidecimal value.\n" + problem,
			answer:   value.Hex(),
		}, nil
	}, nil
}

// bitwiseExpression is upstream's generate_expression: it appends an expression to the text and returns its value, too.
func bitwiseExpression(r *python.Random, depth int, text []byte) ([]byte, python.Int) {
	if depth <= 0 || r.Float64() < 0.01 {
		n := r.RandInt(0x100, 0xffff)
		return strconv.AppendInt(append(text, "0x"...), int64(n), 16), python.NewInt(n)
	}
	operator := python.Choice(r, bitwiseOperators)
	text, left := bitwiseExpression(r, depth-1, append(text, '('))
	text = append(append(append(text, ' '), operator...), ' ')
	start := len(text)
	text, right := bitwiseExpression(r, depth-1, text)
	if operator == "<<" || operator == ">>" { // by a small number in place of the expression
		places := r.RandInt(0, 3)
		text = strconv.AppendInt(append(text[:start], "0x"...), int64(places), 16)
		right = python.NewInt(places)
		if operator == "<<" {
			left = left.Lsh(uint(places))
		} else {
			left = left.Rsh(uint(places))
		}
	}
	switch operator {
	case "+":
		left = left.Add(right)
	case "-":
		left = left.Sub(right)
	case "*":
		left = left.Mul(right)
	}
	return append(text, ')'), left
}

var bitwiseOperators = []string{"+", "-", "*", "<<", ">>"}

// scoreBitwiseArithmetic gives 1 for the value as an integer literal of Python, in base 16, 10, 8 or 2.
func scoreBitwiseArithmetic(task envs.Task, answer string) (float64, error) {
	want, err := python.ParseInt(task.Answer, 0)
	if err != nil {
		return 0, nil // upstream compares with the value of the problem, of which the answer is the text
	}
	if got, err := python.ParseInt(answer, 0); err == nil && got.Cmp(want) == 0 {
		return 1, nil
	}
	return 0, nil
}
