package reasoninggym

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// fractionSimplification is FractionSimplificationDataset of reasoning_gym/arithmetic/fraction_simplification.py.
var fractionSimplification = definition[FractionSimplificationConfig]{
	name:        "fraction_simplification",
	category:    "arithmetic",
	description: "Reduce a fraction to lowest terms.",
	defaults: FractionSimplificationConfig{
		MinValue: 1, MaxValue: 1000, MinFactor: 1, MaxFactor: 100, Styles: []string{"plain", "latex_inline", "latex_frac", "latex_dfrac"},
	},
	prepare: prepareFractionSimplification,
	score:   scoreFraction,

	scoreCorrected: scoreFractionCorrected,
	faults: []Fault{
		{What: "Anything scores 0.01, a fraction 0.05, one with the numerator or the denominator of the question 0.1; corrected, a wrong answer scores 0.", Answer: "?"},
		{What: "Text after a LaTeX fraction is left out; corrected, it makes the answer wrong.", Index: 0, Answer: "{answer} or so"},
	},
	curriculum: []Attribute{
		interval("value", "min_value", "max_value", "Numerator and denominator of the reduced fraction", 1, 100, 1000, 10000),
		interval("factor", "min_factor", "max_factor", "What the fraction is expanded by", 1, 10, 100, 1000),
	},
}

// FractionSimplificationConfig has the settings of fraction_simplification.
type FractionSimplificationConfig struct {
	MinValue  int      `json:"min_value"`  // of numerator and denominator of the reduced fraction
	MaxValue  int      `json:"max_value"`  // of numerator and denominator of the reduced fraction
	MinFactor int      `json:"min_factor"` // what the fraction is expanded by
	MaxFactor int      `json:"max_factor"` // what the fraction is expanded by
	Styles    []string `json:"styles"`     // ways to write it: plain, latex_inline, latex_frac, latex_dfrac
}

func (c FractionSimplificationConfig) validate() error {
	const largest = 1 << 31 // so that products are ints
	return check(
		atLeast("min_value", c.MinValue, 1),
		between("max_value", c.MaxValue, c.MinValue+1, largest),
		atLeast("min_factor", c.MinFactor, 1),
		between("max_factor", c.MaxFactor, c.MinFactor, largest),
		someOf("styles", c.Styles, "plain", "latex_inline", "latex_frac", "latex_dfrac"),
	)
}

func prepareFractionSimplification(c FractionSimplificationConfig) (generator, error) {
	var difficulty object
	difficulty.ints("value", c.MinValue, c.MaxValue)
	difficulty.ints("factor", c.MinFactor, c.MaxFactor)
	return func(r *python.Random, m *object) (item, error) {
		n, d := c.reduced(r)
		factor := r.RandInt(c.MinFactor, c.MaxFactor)
		style := c.Styles[r.RandInt(0, len(c.Styles)-1)]
		m.int("numerator", n*factor)
		m.int("denominator", d*factor)
		m.int("simplified_numerator", n)
		m.int("simplified_denominator", d)
		m.int("reduction_factor", factor)
		m.string("style", style)
		m.int("factor", factor)
		m.object("difficulty", difficulty)
		return item{
			question: "Simplify the fraction " + formatFraction(n*factor, d*factor, style) +
				" to its lowest terms. Give only the simplified fraction as your final answer.",
			answer: formatFraction(n, d, style),
		}, nil
	}, nil
}

// reduced draws a fraction of at most 1. After ten tries to get a reduced one within bounds, upstream takes any.
func (c FractionSimplificationConfig) reduced(r *python.Random) (n, d int) {
	for try := range 11 {
		n, d = r.RandInt(c.MinValue, c.MaxValue), r.RandInt(c.MinValue, c.MaxValue)
		if try < 10 {
			common := commonDivisor(n, d)
			n, d = n/common, d/common
			if min(n, d) < c.MinValue {
				continue
			}
		}
		break
	}
	return min(n, d), max(n, d)
}

func formatFraction(n, d int, style string) string {
	above, below := strconv.Itoa(n), strconv.Itoa(d)
	switch style {
	case "latex_inline":
		return "$" + above + "/" + below + "$"
	case "latex_frac":
		return `$\frac{` + above + "}{" + below + "}$"
	case "latex_dfrac":
		return `$\dfrac{` + above + "}{" + below + "}$"
	}
	return above + "/" + below
}

// fractionParts are the numerators and denominators of a task: of the question and reduced.
type fractionParts struct{ numerator, denominator, reducedNumerator, reducedDenominator python.Int }

func readFraction(task envs.Task) (p fractionParts, err error) {
	found := 0
	for name, value := range metadataFields(task.Metadata) {
		var part *python.Int
		switch name {
		case "numerator":
			part = &p.numerator
		case "denominator":
			part = &p.denominator
		case "simplified_numerator":
			part = &p.reducedNumerator
		case "simplified_denominator":
			part = &p.reducedDenominator
		default:
			continue
		}
		if *part, err = python.ParseInt(string(value), 10); err != nil {
			return p, fmt.Errorf("reasoninggym: the metadata of task %s: %s: %w", task.ID, name, err)
		}
		if found++; found == 4 {
			return p, nil
		}
	}
	return p, fmt.Errorf("reasoninggym: the metadata of task %s do not have the parts of a fraction", task.ID)
}

func scoreFraction(task envs.Task, answer string) (float64, error) {
	want, err := readFraction(task)
	if err != nil {
		return 0, err
	}
	n, d, _, ok := parseFraction(answer)
	switch {
	case !ok:
		return 0.01, nil
	case n.Cmp(want.reducedNumerator) == 0 && d.Cmp(want.reducedDenominator) == 0:
		return 1, nil
	case n.Cmp(want.numerator) == 0 || d.Cmp(want.denominator) == 0:
		return 0.1, nil
	}
	return 0.05, nil
}

func scoreFractionCorrected(task envs.Task, answer string) (float64, error) {
	want, err := readFraction(task)
	if err != nil {
		return 0, err
	}
	n, d, rest, ok := parseFraction(answer)
	if ok && rest == "" && n.Cmp(want.reducedNumerator) == 0 && d.Cmp(want.reducedDenominator) == 0 {
		return 1, nil
	}
	return 0, nil
}

// parseFraction is upstream's _extract_fraction: \frac{n}{d} or \dfrac{n}{d}, behind which there may be more text, or n/d. Dollar
// signs around it are left out.
func parseFraction(answer string) (n, d python.Int, rest string, ok bool) {
	s := python.Strip(strings.Trim(python.Strip(answer), "$"))
	if above, below, rest, isLatex := cutLatexFraction(s); isLatex {
		n, err1 := python.ParseInt(above, 10)
		d, err2 := python.ParseInt(below, 10)
		return n, d, rest, err1 == nil && err2 == nil
	}
	above, below, found := strings.Cut(s, "/")
	if !found {
		return n, d, "", false
	}
	n, err1 := python.ParseInt(python.Strip(above), 10)
	d, err2 := python.ParseInt(python.Strip(below), 10)
	return n, d, "", err1 == nil && err2 == nil
}

func cutLatexFraction(s string) (above, below, rest string, ok bool) {
	for _, command := range []string{`\frac`, `\dfrac`} {
		if len(s) < len(command) || !strings.EqualFold(s[:len(command)], command) {
			continue
		}
		above, s, ok = cutBraces(s[len(command):])
		if ok {
			below, rest, ok = cutBraces(s)
		}
		return above, below, rest, ok
	}
	return "", "", s, false
}

// cutBraces cuts off a number in braces, with white space before and within them.
func cutBraces(s string) (digits, rest string, ok bool) {
	s, ok = strings.CutPrefix(strings.TrimLeftFunc(s, python.IsSpace), "{")
	if !ok {
		return "", s, false
	}
	digits, rest, ok = strings.Cut(s, "}")
	digits = python.Strip(digits)
	return digits, rest, ok && python.IsDecimal(digits)
}
