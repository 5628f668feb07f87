package reasoninggym

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/internal/python"
)

// simpleEquations is SimpleEquationsDataset of reasoning_gym/algebra/simple_equations.py.
var simpleEquations = definition[SimpleEquationsConfig]{
	name:        "simple_equations",
	category:    "algebra",
	description: "Solve a linear equation in one variable.",
	defaults: SimpleEquationsConfig{
		MinTerms: 2, MaxTerms: 4, MinValue: 1, MaxValue: 100,
		Operators: []string{"+", "-", "*"}, OperatorsWeights: []Number{Real(0.4), Real(0.4), Real(0.2)},
	},
	prepare: func(c SimpleEquationsConfig) (generator, error) { return prepareSimpleEquations(c, false) },

	prepareCorrected: func(c SimpleEquationsConfig) (generator, error) { return prepareSimpleEquations(c, true) },
	faults: []Fault{
		{What: "In 0.04 % of the items, the variable is multiplied with constants that cancel, and any value solves 0 = 0; corrected, such equations are drawn again.", Index: 1931, Answer: "{answer}"},
	},
	curriculum: []Attribute{
		scalar("min_terms", "min_terms", "Least number of terms", 2, 3, 4, 5),
		scalar("max_terms", "max_terms", "Largest number of terms", 5, 10, 15, 20),
		scalar("min_value", "min_value", "Least constant", 1, 10, 100, 1000),
		scalar("max_value", "max_value", "Largest constant", 100, 10000, 1000000, 100000000),
		scalar("operators_weights", "operators_weights", "How often each operator is there",
			[]float64{0.4, 0.4, 0.2}, []float64{0.35, 0.35, 0.3}, []float64{0.3, 0.3, 0.4}, []float64{0.2, 0.2, 0.6}),
	},
}

// SimpleEquationsConfig has the settings of simple_equations.
type SimpleEquationsConfig struct {
	MinTerms         int      `json:"min_terms"`         // of the left side
	MaxTerms         int      `json:"max_terms"`         // of the left side
	MinValue         int      `json:"min_value"`         // of constants and of the solution
	MaxValue         int      `json:"max_value"`         // of constants and of the solution
	Operators        []string `json:"operators"`         // some of + - *
	OperatorsWeights []Number `json:"operators_weights"` // of the operators, 1 together
}

func (c SimpleEquationsConfig) validate() error {
	err := check(
		atLeast("min_terms", c.MinTerms, 1),
		between("max_terms", c.MaxTerms, c.MinTerms, maxTerms),
		atLeast("min_value", c.MinValue, 1),
		atLeast("max_value", c.MaxValue, c.MinValue),
		someOf("operators", c.Operators, "+", "-", "*"),
		finite("operators_weights", c.OperatorsWeights...),
		sumOfOne("operators_weights", c.OperatorsWeights),
	)
	if err != nil || c.MaxTerms == 1 { // then there is no operator, and its weights need not fit
		return err
	}
	return weightsFor("operators_weights", len(c.Operators), c.OperatorsWeights)
}

// sumOfOne is round(sum(weights), 1) == 1.0.
func sumOfOne(field string, numbers []Number) error {
	sum := 0.0
	for _, n := range numbers {
		sum += n.value
	}
	if python.Round(sum, 1) != 1 {
		return fmt.Errorf("%s is %v, must have the sum 1", field, numbers)
	}
	return nil
}

var simpleEquationsTemplates = []string{
	"Find the value of {variable} in the equation: {equation}",
	"Solve for {variable}: {equation}",
	"Determine the value of {variable} that satisfies: {equation}",
}

func prepareSimpleEquations(c SimpleEquationsConfig, corrected bool) (generator, error) {
	var difficulty object
	difficulty.int("min_terms", c.MinTerms)
	difficulty.int("max_terms", c.MaxTerms)
	difficulty.int("min_value", c.MinValue)
	difficulty.int("max_value", c.MaxValue)
	difficulty.numbers("operators_weights", c.OperatorsWeights)
	equations := linearEquations{c, weights(c.OperatorsWeights), slices.Contains(c.Operators, "*")}
	return func(r *python.Random, m *object) (item, error) {
		variable := string(rune('a' + r.Below(26)))
		left := equations.draw(r)
		for corrected && left.factor.Sign() == 0 { // which ends: the variable comes first in some draws
			left = equations.draw(r)
		}
		solution := python.NewInt(r.RandInt(c.MinValue, c.MaxValue))
		equation := left.String(variable) + " = " + left.at(solution).String()
		m.string("equation", equation)
		m.string("variable", variable)
		m.object("difficulty", difficulty)
		fill := strings.NewReplacer("{variable}", variable, "{equation}", equation)
		return item{fill.Replace(python.Choice(r, simpleEquationsTemplates)), solution.String()}, nil
	}, nil
}

type linearEquations struct {
	SimpleEquationsConfig
	odds    []float64
	factors bool // of the variable
}

// draw draws constants, one of which the variable replaces, and combines them from left to right.
func (e linearEquations) draw(r *python.Random) linear {
	terms := make([]linear, r.RandInt(e.MinTerms, e.MaxTerms))
	for i := range terms {
		terms[i].constant = python.NewInt(r.RandInt(e.MinValue, e.MaxValue))
	}
	position := r.Below(len(terms))
	factor := python.NewInt(r.RandInt(e.MinValue, e.MaxValue))
	if !e.factors {
		factor = python.NewInt(1)
	}
	terms[position] = linear{factor: factor}
	left := terms[0]
	for _, term := range terms[1:] {
		switch python.WeightedChoices(r, e.Operators, e.odds, 1)[0] {
		case "+":
			left = linear{left.factor.Add(term.factor), left.constant.Add(term.constant)}
		case "-":
			left = linear{left.factor.Sub(term.factor), left.constant.Sub(term.constant)}
		default: // one of the two has no variable
			left = linear{left.factor.Mul(term.constant).Add(left.constant.Mul(term.factor)), left.constant.Mul(term.constant)}
		}
	}
	return left
}

// linear is factor * x + constant.
type linear struct{ factor, constant python.Int }

func (l linear) at(x python.Int) python.Int { return l.factor.Mul(x).Add(l.constant) }

// String is as sympy writes it: 3*x - 5, but 5 - 3*x.
func (l linear) String(variable string) string {
	if l.factor.Sign() == 0 {
		return l.constant.String()
	}
	product := variable
	if factor := l.factor.Abs(); factor.Cmp(python.NewInt(1)) != 0 {
		product = factor.String() + "*" + variable
	}
	switch negative := l.factor.Sign() < 0; {
	case negative && l.constant.Sign() > 0:
		return l.constant.String() + " - " + product
	case negative:
		product = "-" + product
	}
	switch l.constant.Sign() {
	case 1:
		return product + " + " + l.constant.String()
	case -1:
		return product + " - " + l.constant.Neg().String()
	}
	return product
}
