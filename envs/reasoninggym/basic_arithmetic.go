package reasoninggym

import (
	"bytes"
	"context"
	"slices"

	"github.com/grouper-rl/grouper/internal/python"
)

// basicArithmetic is BasicArithmeticDataset of reasoning_gym/arithmetic/basic_arithmetic.py.
var basicArithmetic = definition[BasicArithmeticConfig]{
	name:        "basic_arithmetic",
	category:    "arithmetic",
	description: "Calculate the value of an expression with +, -, *, / and parentheses.",
	defaults: BasicArithmeticConfig{
		MinTerms: 2, MaxTerms: 6, MinDigits: 1, MaxDigits: 4, Operators: []string{"+", "-", "*", "/"},
		AllowParentheses: true, AllowNegation: true, FormatStyle: "simple", Whitespace: "single",
	},
	prepareAt: prepareBasicArithmetic,
	faults: []Fault{
		{What: "In 0.8 % of the items, a division leaves something and is rounded down: 601 / 487 counts as 1; corrected, such expressions are drawn again.", Index: 226, Answer: "{answer}"},
		{
			What:   "Without parentheses, operators are applied from left to right, and the divisor that the question shows is not the one that the answer is for; corrected, the answer is the value of the expression.",
			Config: Config{"allow_parentheses": false}, Index: 6, Answer: "{answer}",
		},
	},
	curriculum: []Attribute{
		ranged("num_terms", "min_terms", "max_terms", "Terms of the expression", 2, 3, 4, 5, 6),
		ranged("num_digits", "min_digits", "max_digits", "Digits of a number", 1, 2, 3, 4),
	},
}

// BasicArithmeticConfig has the settings of basic_arithmetic.
type BasicArithmeticConfig struct {
	MinTerms         int      `json:"min_terms"`         // of the expression
	MaxTerms         int      `json:"max_terms"`         // of the expression
	MinDigits        int      `json:"min_digits"`        // at most so many in a number
	MaxDigits        int      `json:"max_digits"`        // at most so many in a number
	Operators        []string `json:"operators"`         // some of + - * /
	AllowParentheses bool     `json:"allow_parentheses"` // without, there are no negative numbers either
	AllowNegation    bool     `json:"allow_negation"`    // of parentheses
	FormatStyle      string   `json:"format_style"`      // of the question: simple or natural
	Whitespace       string   `json:"whitespace"`        // between terms: no_space, single or random
}

func (c BasicArithmeticConfig) validate() error {
	return check(
		atLeast("min_terms", c.MinTerms, 1),
		between("max_terms", c.MaxTerms, c.MinTerms, 500),
		atLeast("min_digits", c.MinDigits, 1),
		between("max_digits", c.MaxDigits, c.MinDigits, maxDigits),
		someOf("operators", c.Operators, "+", "-", "*", "/"),
		oneOf("format_style", c.FormatStyle, "simple", "natural"),
		oneOf("whitespace", c.Whitespace, "no_space", "single", "random"),
	)
}

func prepareBasicArithmetic(c BasicArithmeticConfig, common Common) (indexedGenerator, error) {
	var difficulty object
	difficulty.ints("num_terms", c.MinTerms, c.MaxTerms)
	difficulty.ints("num_digits", c.MinDigits, c.MaxDigits)
	correct := common.Mode == Corrected
	return func(ctx context.Context, r *python.Random, _ int, m *object) (item, error) {
		for {
			if err := ctx.Err(); err != nil { // few divisions come out even if there are many
				return item{}, err
			}
			numTerms, numDigits := r.RandInt(c.MinTerms, c.MaxTerms), r.RandInt(c.MinDigits, c.MaxDigits)
			g := expressionGenerator{BasicArithmeticConfig: c, ctx: ctx, r: r, digits: numDigits}
			var expression string
			var answer python.Int
			exact := true
			if c.AllowParentheses {
				expression, answer, exact = g.nested(numTerms)
			} else {
				expression, answer = g.chain(numTerms, correct)
			}
			if g.err != nil {
				return item{}, g.err
			}
			if exact || !correct {
				m.string("expression", expression)
				m.int("num_terms", numTerms)
				m.int("num_digits", numDigits)
				m.object("difficulty", difficulty)
				return item{c.question(r, expression), answer.String()}, nil
			}
		}
	}, nil
}

func (c BasicArithmeticConfig) question(r *python.Random, expression string) string {
	if c.FormatStyle == "simple" {
		return "Calculate " + expression + "."
	}
	switch r.Below(4) {
	case 0:
		return "What is " + expression + "?"
	case 1:
		return "Solve " + expression + "."
	case 2:
		return "Compute " + expression + "."
	}
	return "Evaluate: " + expression + "."
}

// expressionGenerator makes one expression.
type expressionGenerator struct {
	BasicArithmeticConfig
	ctx    context.Context
	r      *python.Random
	digits int
	err    error // why it could not go on
}

// nested is upstream's _generate_complex_task: an expression with parentheses, its value, and whether no division was rounded.
func (g *expressionGenerator) nested(numTerms int) (expression string, value python.Int, exact bool) {
	tokens := g.terms(nil, numTerms)
	if g.err != nil {
		return "", python.Int{}, false
	}
	var text bytes.Buffer
	for i := range tokens {
		spaced := false
		switch g.Whitespace {
		case "single":
			spaced = i > 0
		case "random":
			spaced = g.r.Float64() < 0.15 && i > 0 // a space before the first is stripped
		}
		if spaced {
			text.WriteByte(' ')
			if t := &tokens[i]; i > 0 && tokens[i-1].kind == '/' && t.kind == number && t.value.Sign() == 0 {
				t.value = python.NewInt(1) // upstream replaces "/ 0"
			}
		}
		text.Write(tokens[i].append(text.AvailableBuffer()))
	}
	value, exact = evaluate(tokens)
	return text.String(), value, exact
}

// terms appends an expression of a number of terms: a left part of one or more, and the rest.
func (g *expressionGenerator) terms(tokens []token, remaining int) []token {
	start := len(tokens)
	numLeft := g.r.RandInt(1, remaining)
	numRight := remaining - numLeft
	limit := python.PowerOfTen(g.digits).Sub(python.NewInt(1))
	if numLeft > 1 && g.r.Float64() > 0.5 {
		open := token{kind: '('}
		if g.r.Float64() > 0.5 && g.AllowNegation {
			open.kind = negated
		}
		tokens = append(g.terms(append(tokens, open), numLeft), token{kind: ')'})
	} else {
		for i := range numLeft {
			tokens = append(tokens, token{kind: number, value: g.r.RandIntOf(limit.Neg(), limit)})
			if i+1 < numLeft {
				tokens = append(tokens, token{kind: python.Choice(g.r, g.withoutDivision())[0]})
			}
		}
	}
	if numRight == 0 || g.err != nil {
		return tokens
	}
	operator := token{kind: python.Choice(g.r, g.Operators)[0]}
	if operator.kind != '/' {
		return g.terms(append(tokens, operator), numRight)
	}
	last := tokens[len(tokens)-1]
	dividend := last.value
	if last.kind == ')' {
		dividend, _ = evaluate(tokens[start:])
	}
	tokens = append(tokens, operator)
	if numRight == 1 {
		return append(tokens, g.divisor(dividend, limit))
	}
	right := len(tokens)
	tokens = g.terms(tokens, numRight-1)
	if g.err != nil {
		return tokens
	}
	if tokens[len(tokens)-1].kind != ')' {
		return slices.Insert(tokens, right, g.divisor(dividend, limit), token{kind: '+'})
	}
	// The parentheses at the end get the value of a divisor.
	correction := python.NewInt(1)
	if value, _ := evaluate(tokens[right:]); value.Sign() != 0 {
		correction = g.choose(dividend.GCD(value)).Sub(value)
	}
	tokens[len(tokens)-1] = token{kind: '+'}
	return append(tokens, token{kind: number, value: correction}, token{kind: ')'})
}

func (g *expressionGenerator) withoutDivision() []string {
	return slices.DeleteFunc(slices.Clone(g.Operators), func(o string) bool { return o == "/" })
}

func (g *expressionGenerator) divisor(dividend, limit python.Int) token {
	if dividend.Sign() == 0 {
		return token{kind: number, value: g.r.RandIntOf(python.NewInt(1), limit)}
	}
	return token{kind: number, value: g.choose(dividend.Abs())}
}

// choose draws one of the divisors of n > 0 in upstream's order: 1, n, 2, n/2, ….
func (g *expressionGenerator) choose(n python.Int) python.Int {
	list, err := divisors(g.ctx, n)
	if err != nil {
		g.err = err
		return python.NewInt(1)
	}
	k := g.r.Below(len(list))
	if k%2 == 0 {
		return list[k/2]
	}
	return list[len(list)-1-k/2]
}

// chain is upstream's _generate_simple_task: numbers and operators, applied from left to right. What it shows for a division is
// not what it calculates. If it is to be correct, the value is that of the expression.
func (g *expressionGenerator) chain(numTerms int, correct bool) (string, python.Int) {
	ten := python.PowerOfTen(g.digits)
	numbers := make([]python.Int, numTerms)
	for i := range numbers {
		numbers[i] = g.r.RandIntOf(python.Int{}, ten)
	}
	operators := make([]byte, numTerms-1)
	for i := range operators {
		operators[i] = python.Choice(g.r, g.Operators)[0]
	}
	// The value is sum + product; if it is not to be correct, all of it is the product.
	sum, product := python.Int{}, numbers[0]
	text := numbers[0].Append(nil)
	for i, operator := range operators {
		n := numbers[i+1]
		shown, shownNumber := operator, n
		if operator == '/' {
			operator, n = g.division(product, ten)
			if correct {
				shown, shownNumber = operator, n
			}
		}
		text = shownNumber.Append(append(text, ' ', shown, ' '))
		switch operator {
		case '+', '-':
			if operator == '-' {
				n = n.Neg()
			}
			if correct {
				sum, product = sum.Add(product), n
			} else {
				product = product.Add(n)
			}
		case '*':
			product = product.Mul(n)
		case '/':
			product = product.FloorDiv(n)
		}
	}
	return string(text), sum.Add(product)
}

// division draws a divisor of n below n and 10^digits, or if there is none, a factor.
func (g *expressionGenerator) division(n, ten python.Int) (operator byte, operand python.Int) {
	var proper []python.Int
	if size := n.Abs(); size.Cmp(python.NewInt(2)) > 0 {
		list, err := divisors(g.ctx, size)
		if err != nil {
			g.err = err
			return '*', python.NewInt(1)
		}
		for _, d := range list[1 : len(list)-1] {
			if d.Cmp(ten) < 0 {
				proper = append(proper, d)
			}
		}
	}
	if len(proper) > 0 {
		return '/', python.Choice(g.r, proper)
	}
	return '*', g.r.RandIntOf(python.NewInt(1), ten.Sub(python.NewInt(1)))
}
