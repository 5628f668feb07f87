package reasoninggym

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// countdown is CountdownDataset of reasoning_gym/games/countdown.py.
var countdown = definition[CountdownConfig]{
	name:        "countdown",
	category:    "games",
	description: "Write an expression with given numbers that equals a target.",
	defaults: CountdownConfig{
		MinNumbers: 4, MaxNumbers: 6, MinValue: 1, MaxValue: 100, MinTarget: 100, MaxTarget: 999,
		Operators: []string{"+", "-", "*", "/"}, Shuffle: true,
	},
	prepare: prepareCountdown,
	score:   scoreCountdown,

	scoreCorrected: scoreCountdownCorrected,
	faults: []Fault{
		{What: "Any expression that has a value gets 0.05, and any other text 0.01; corrected, what is wrong gets 0.", Answer: "1"},
		{What: "A value that is off by up to 0.001 % is right; corrected, the value must be exact.", Answer: "{answer} + 1e-4"},
		{What: "Numbers written as 0x8b or 1e2 do not count as used, so that any can be added; corrected, they are no numbers.", Answer: "{answer} + 0x0"},
		{What: "All of Python's operators and sympy's functions and constants may be used; corrected, only + - * / and parentheses.", Answer: "{answer} + pi - pi"},
	},
	curriculum: []Attribute{
		interval("numbers", "min_numbers", "max_numbers", "How many numbers there are", 3, 6, 9, 12, 15),
		interval("target", "min_target", "max_target", "Number to reach", 100, 500, 1000, 5000, 10000),
		interval("value", "min_value", "max_value", "How large numbers are", 1, 100, 200, 300),
	},
}

// CountdownConfig has the settings of countdown.
type CountdownConfig struct {
	MinNumbers int      `json:"min_numbers"` // how many numbers there are
	MaxNumbers int      `json:"max_numbers"` // how many numbers there are
	MinValue   int      `json:"min_value"`   // of a number
	MaxValue   int      `json:"max_value"`   // of a number
	MinTarget  int      `json:"min_target"`  // of the value to reach
	MaxTarget  int      `json:"max_target"`  // of the value to reach
	Operators  []string `json:"operators"`   // some of + - * /, of the oracle
	Shuffle    bool     `json:"shuffle"`     // whether the question has the numbers in another order than the oracle
}

func (c CountdownConfig) validate() error {
	return check(
		atLeast("min_numbers", c.MinNumbers, 2),
		between("max_numbers", c.MaxNumbers, c.MinNumbers, 500), // upstream's recursion is limited
		atLeast("min_value", c.MinValue, 1),
		atLeast("max_value", c.MaxValue, c.MinValue),
		atLeast("min_target", c.MinTarget, 1),
		atLeast("max_target", c.MaxTarget, c.MinTarget),
		someOf("operators", c.Operators, "+", "-", "*", "/"),
	)
}

var countdownTemplates = []string{
	"Using all the numbers {numbers}, create an expression that equals {target}.\nYou can only use each number once.",
	"Find a way to make {target} using all of these numbers: {numbers}.\nEach number can only be used once.",
	"Calculate {target} using all of these numbers: {numbers}.\nEach number may be used at most once.",
}

const countdownFormat = "\n\nFinal answer format instructions:\n1. Provide your solution as a arithmetic expression (no '=' sign).\n2. Do not include the target number in the expression.\n3. Use '*' for multiplication.\n4. Use '/' for division.\n5. Do not include any other text or formatting.\n"

func prepareCountdown(c CountdownConfig) (generator, error) {
	var difficulty object
	difficulty.ints("numbers", c.MinNumbers, c.MaxNumbers)
	difficulty.ints("target", c.MinTarget, c.MaxTarget)
	difficulty.ints("value", c.MinValue, c.MaxValue)
	return func(r *python.Random, m *object) (item, error) {
		numbers := make([]int, r.RandInt(c.MinNumbers, c.MaxNumbers))
		steps := make([]string, len(numbers))
		target, ok := c.find(r, numbers, steps)
		if !ok {
			return item{}, python.Error{Type: "ValueError", Message: "Failed to generate valid expression after 100 attempts"}
		}
		expression := newSymbolic(steps).String(numbers)
		if c.Shuffle {
			python.Shuffle(r, numbers)
		}
		m.ints("numbers", numbers...)
		m.int("target", target)
		m.string("expression", expression)
		m.object("difficulty", difficulty)
		fill := strings.NewReplacer("{numbers}", joinInts(numbers, ", "), "{target}", strconv.Itoa(target))
		return item{fill.Replace(python.Choice(r, countdownTemplates)) + countdownFormat, expression}, nil
	}, nil
}

// find draws numbers and the operators before all but the first, until the value is a target.
func (c CountdownConfig) find(r *python.Random, numbers []int, steps []string) (target int, ok bool) {
	rest := make([]int, len(numbers))
	low, high := python.NewInt(c.MinTarget), python.NewInt(c.MaxTarget)
	for range 100 {
		for i := range numbers {
			numbers[i] = r.RandInt(c.MinValue, c.MaxValue)
		}
		value := python.NewInt(numbers[0])
		for i := 1; i < len(numbers); i++ {
			steps[i] = python.Choice(r, c.Operators)
			if steps[i] == "/" {
				// A later number is taken that divides the value. It is there twice then.
				rest = append(rest[:0], numbers[i:]...)
				python.Shuffle(r, rest)
				at := slices.IndexFunc(rest, func(n int) bool { return value.Mod(python.NewInt(n)).Sign() == 0 })
				if at >= 0 {
					numbers[i] = rest[at]
				} else {
					steps[i] = "-"
				}
			}
			switch n := python.NewInt(numbers[i]); steps[i] {
			case "+":
				value = value.Add(n)
			case "-":
				value = value.Sub(n)
			case "*":
				value = value.Mul(n)
			default:
				value = value.FloorDiv(n)
			}
		}
		if value.Cmp(low) >= 0 && value.Cmp(high) <= 0 {
			reached, _ := value.Int64()
			return int(reached), true
		}
	}
	return 0, false
}

// symbolic is an expression in symbols x_0, x_1, …, each there once, as sympy keeps it: sums of products of sums.
type symbolic struct {
	product    bool
	inner      *symbolic // a product in a sum or a sum in a product; nil in the innermost, which has x_0
	plus, less []int     // symbols that are added and subtracted, or multiplied and divided by
}

// newSymbolic applies the operators before x_1, x_2, … from left to right. That before x_0 does not count.
func newSymbolic(operators []string) *symbolic {
	var e *symbolic
	for i, op := range operators[1:] {
		product := op == "*" || op == "/"
		if e == nil {
			e = &symbolic{product: product, plus: []int{0}}
		} else if e.product != product {
			e = &symbolic{product: product, inner: e}
		}
		if op == "+" || op == "*" {
			e.plus = append(e.plus, i+1)
		} else {
			e.less = append(e.less, i+1)
		}
	}
	for part := e; part != nil; part = part.inner {
		slices.SortFunc(part.plus, byName)
		slices.SortFunc(part.less, byName)
	}
	return e
}

// byName orders symbols as sympy does: x_10 is before x_2.
func byName(a, b int) int { return strings.Compare(strconv.Itoa(a), strconv.Itoa(b)) }

// String is the expression as sympy writes it, with a number for each symbol.
func (e *symbolic) String(numbers []int) string { return string(e.append(nil, numbers)) }

func (e *symbolic) append(b []byte, numbers []int) []byte {
	if e.product {
		return e.appendProduct(b, numbers)
	}
	return e.appendSum(b, numbers)
}

func (e *symbolic) appendProduct(b []byte, numbers []int) []byte {
	b = appendFactors(b, e.plus, numbers)
	if e.inner != nil {
		if len(e.plus) > 0 {
			b = append(b, '*')
		}
		b = append(e.inner.append(append(b, '('), numbers), ')')
	}
	switch len(e.less) {
	case 0:
		return b
	case 1:
		return appendFactors(append(b, '/'), e.less, numbers)
	}
	return append(appendFactors(append(b, "/("...), e.less, numbers), ')')
}

func appendFactors(b []byte, symbols, numbers []int) []byte {
	for i, s := range symbols {
		if i > 0 {
			b = append(b, '*')
		}
		b = strconv.AppendInt(b, int64(numbers[s]), 10)
	}
	return b
}

// appendSum writes the terms in the order of their first symbols. A product that has a divisor before all of its factors is last.
func (e *symbolic) appendSum(b []byte, numbers []int) []byte {
	start := len(b)
	sign := func(minus bool) {
		switch {
		case len(b) > start && minus:
			b = append(b, " - "...)
		case len(b) > start:
			b = append(b, " + "...)
		case minus:
			b = append(b, '-')
		}
	}
	plus, less, inner := e.plus, e.less, e.inner
	for len(plus)+len(less) > 0 {
		minus := len(plus) == 0 || len(less) > 0 && byName(less[0], plus[0]) < 0
		from := &plus
		if minus {
			from = &less
		}
		next := (*from)[0]
		if inner != nil && len(inner.plus) > 0 && byName(inner.plus[0], next) < 0 && (len(inner.less) == 0 || byName(inner.plus[0], inner.less[0]) < 0) {
			sign(false)
			b, inner = inner.append(b, numbers), nil
		}
		sign(minus)
		b = strconv.AppendInt(b, int64(numbers[next]), 10)
		*from = (*from)[1:]
	}
	if inner != nil {
		sign(false)
		b = inner.append(b, numbers)
	}
	return b
}

// scoreCountdown gives 1 for an expression that has all the numbers and near the target as its value, 0.05 for any other that
// has a value, else 0.01. Upstream lets sympy evaluate the answer; here, evaluateSympy does.
func scoreCountdown(task envs.Task, answer string) (float64, error) {
	numbers, target, err := countdownTask(task)
	if err != nil {
		return 0, err
	}
	value, err := evaluateSympy(answer)
	if err != nil {
		return 0.01, nil
	}
	if !slices.Equal(usedNumbers(answer), numbers) || !(math.Abs(value.Float64()-float64(target)) <= 1e-6+1e-5*math.Abs(float64(target))) {
		return 0.05, nil
	}
	return 1, nil
}

func scoreCountdownCorrected(task envs.Task, answer string) (float64, error) {
	numbers, target, err := countdownTask(task)
	if err != nil {
		return 0, err
	}
	words := python.Fields(answer)
	answer = strings.Join(words, " ")
	if dense := strings.Join(words, ""); strings.Trim(dense, "0123456789+-*/()") != "" || strings.Contains(dense, "**") || strings.Contains(dense, "//") {
		return 0, nil
	}
	value, err := evaluateSympy(answer)
	if err == nil && slices.Equal(usedNumbers(answer), numbers) && value.exact != nil && value.exact.Cmp(new(big.Rat).SetInt64(int64(target))) == 0 {
		return 1, nil
	}
	return 0, nil
}

// countdownTask returns the numbers in ascending order, and the target.
func countdownTask(task envs.Task) (numbers []int, target int, err error) {
	var m struct {
		Numbers []int `json:"numbers"`
		Target  int   `json:"target"`
	}
	err = readMetadata(task, &m)
	slices.Sort(m.Numbers)
	return m.Numbers, m.Target, err
}

// usedNumbers lists the words of a text that are all digits, in ascending order.
func usedNumbers(text string) []int {
	var numbers []int
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return !python.IsWord(c) }) {
		if !python.IsDecimal(word) {
			continue
		}
		n, err := python.ParseInt(word, 10)
		small, ok := n.Int64()
		if err != nil || !ok {
			small = -1 // no task has it
		}
		numbers = append(numbers, int(small))
	}
	slices.Sort(numbers)
	return numbers
}
