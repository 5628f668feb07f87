package reasoninggym

import (
	"context"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// propositionalLogic is PropositionalLogicDataset of reasoning_gym/logic/propositional_logic.py.
var propositionalLogic = definition[PropositionalLogicConfig]{
	name:        "propositional_logic",
	category:    "logic",
	description: "Infer a formula from premises.",
	defaults:    PropositionalLogicConfig{MinVars: 2, MaxVars: 4, MinStatements: 2, MaxStatements: 4, MinComplexity: 1, MaxComplexity: 3},
	prepareAt:   preparePropositionalLogic,
	score:       scoreConclusion,

	scoreCorrected: scoreConclusionCorrected,
	faults: []Fault{
		{What: "Any text that can be read as a formula scores 0.05; corrected, what does not follow from the premises scores 0.", Answer: "?"},
		{What: "A tautology scores 0.25; corrected, it scores 0, as it follows from anything.", Answer: "P ∨ ¬P"},
		{What: "A variable that follows from the premises scores 0.25 as if it were a tautology; corrected, it scores 1.", Answer: "R"},
		{What: "Any text is read as a variable; corrected, only the task's own variables are, so that parentheses must match.", Answer: "R ∨ whatever"},
		{What: "Where 100 tries do not find a conclusion, the example answer is a variable that need not follow; corrected, it is the first premise " +
			"that is no tautology, and if there is none, the premises are drawn again.", Index: 117, Answer: "P"},
	},
	curriculum: []Attribute{
		ranged("vars", "min_vars", "max_vars", "Variables", span(2, 11, 2)...),
		ranged("statements", "min_statements", "max_statements", "Premises", span(2, 11, 2)...),
		ranged("complexity", "min_complexity", "max_complexity", "Depth of a premise", span(1, 6, 1)...),
	},
}

// PropositionalLogicConfig has the settings of propositional_logic.
type PropositionalLogicConfig struct {
	MinVars       int `json:"min_vars"`       // variables, from P on
	MaxVars       int `json:"max_vars"`       // variables, from P on
	MinStatements int `json:"min_statements"` // premises
	MaxStatements int `json:"max_statements"` // premises
	MinComplexity int `json:"min_complexity"` // depth of a premise; a variable has 1
	MaxComplexity int `json:"max_complexity"` // depth of a premise; a variable has 1
}

func (c PropositionalLogicConfig) validate() error {
	// Upstream lists all assignments to the variables, and premises may double with each level of depth.
	const maxVars, maxDepth, maxPremises = 20, 12, 1000
	return check(
		atLeast("min_vars", c.MinVars, 1),
		between("max_vars", c.MaxVars, c.MinVars, maxVars),
		atLeast("min_statements", c.MinStatements, 1),
		between("max_statements", c.MaxStatements, c.MinStatements, maxPremises),
		atLeast("min_complexity", c.MinComplexity, 1),
		between("max_complexity", c.MaxComplexity, c.MinComplexity, maxDepth),
	)
}

// propositionalLogicMetadata are what the scorer needs.
type propositionalLogicMetadata struct{ Premises, Variables []string }

const propositionalLogicQuestion = "The following question is a propositional logic reasoning question.\n\n" +
	"In the question we provide a list of premises. The task is to infer a correct conclusion from the premise.\n\n" +
	"FORMAT INSTRUCTIONS:\n- Return the conclusion logic statement, as your final answer.\n- Use the following notation to denote symbols\n" +
	"    - OR = ∨\n    - AND = ∧\n    - IMPLIES = →\n    - IFF = ↔\n    - NOT = ¬\n\nHere is the question:\nGiven:\n"

func preparePropositionalLogic(c PropositionalLogicConfig, common Common) (indexedGenerator, error) {
	var difficulty object
	difficulty.ints("vars", c.MinVars, c.MaxVars)
	difficulty.ints("statements", c.MinStatements, c.MaxStatements)
	difficulty.ints("complexity", c.MinComplexity, c.MaxComplexity)
	names := make([]string, c.MaxVars)
	for i := range names {
		names[i] = string(rune('P' + i))
	}
	return func(ctx context.Context, r *python.Random, _ int, m *object) (item, error) {
		vars := r.RandInt(c.MinVars, c.MaxVars)
		premises := make([]*formula, r.RandInt(c.MinStatements, c.MaxStatements))
		var conclusion *formula
		for conclusion == nil {
			for i := range premises {
				premises[i] = drawFormula(r, vars, r.RandInt(c.MinComplexity, c.MaxComplexity))
			}
			var err error
			if conclusion, err = findConclusion(ctx, r, premises, vars, common.Mode); err != nil {
				return item{}, err
			}
		}
		texts := make([]string, len(premises))
		question := append(make([]byte, 0, 1024), propositionalLogicQuestion...)
		for i, p := range premises {
			question = append(appendInt(question, i+1), '.', ' ')
			start := len(question)
			question = p.append(question, names)
			texts[i] = string(question[start:])
			question = append(question, "\n."...)
		}
		question = append(question, "What can we conclude from the above statements?"...)
		m.strings("premises", texts)
		m.strings("variables", names[:vars])
		m.int("complexity", conclusion.size())
		m.string("example_answer", string(conclusion.append(nil, names)))
		m.object("difficulty", difficulty)
		return item{question: string(question)}, nil
	}, nil
}

var allOperators = []operator{opAnd, opOr, opNot, opImplies, opIff}

func drawFormula(r *python.Random, vars, depth int) *formula {
	if depth <= 1 {
		return &formula{variable: r.Below(vars)}
	}
	f := &formula{operator: python.Choice(r, allOperators)}
	f.left = drawFormula(r, vars, depth-1)
	if f.operator != opNot {
		f.right = drawFormula(r, vars, depth-1)
	}
	return f
}

// findConclusion draws formulas of an operator until one follows from the premises and is no tautology. After 100 it is
// the first variable, or what is right instead, which is nil if the premises are tautologies.
func findConclusion(ctx context.Context, r *python.Random, premises []*formula, vars int, mode Mode) (*formula, error) {
	table := newTruthTable(vars)
	for _, p := range premises {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		table.restrict(p)
	}
	for range 100 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f := drawFormula(r, vars, 2)
		if f.operator == opImplies {
			f = &formula{operator: opOr, left: &formula{operator: opNot, left: f.left}, right: f.right}
		}
		if table.implies(f) && !tautology(f, vars) {
			return f, nil
		}
	}
	first := &formula{}
	if mode == Upstream || table.implies(first) {
		return first, nil
	}
	for _, p := range premises {
		if !tautology(p, vars) {
			return p, nil
		}
	}
	return nil, nil
}

// scoreConclusion is 1 for a formula that follows from the premises, 0.25 for a tautology or a variable that does, and 0.05 for
// another formula.
func scoreConclusion(task envs.Task, answer string) (float64, error) {
	var m propositionalLogicMetadata
	if err := readMetadata(task, &m); err != nil {
		return 0, err
	}
	for i := range len(answer) {
		if c := answer[i]; c >= 'A' && c <= 'Z' && !slices.Contains(m.Variables, answer[i:i+1]) {
			return 0, nil
		}
	}
	p := formulaParser{free: true}
	conclusion, follows, trivial := p.judge(m, answer)
	switch {
	case conclusion == nil:
		return 0, nil
	case !follows:
		return 0.05, nil
	case trivial || conclusion.operator == opVariable:
		return 0.25, nil
	}
	return 1, nil
}

func scoreConclusionCorrected(task envs.Task, answer string) (float64, error) {
	var m propositionalLogicMetadata
	if err := readMetadata(task, &m); err != nil {
		return 0, err
	}
	p := formulaParser{names: m.Variables}
	if _, follows, trivial := p.judge(m, answer); follows && !trivial {
		return 1, nil
	}
	return 0, nil
}

// judge reads an answer, and says whether it follows from the premises and whether it is a tautology. It returns nil for what is no
// formula.
func (p *formulaParser) judge(m propositionalLogicMetadata, answer string) (conclusion *formula, follows, trivial bool) {
	premises := make([]*formula, len(m.Premises))
	for i, text := range m.Premises {
		premises[i] = p.parse(text, 0)
	}
	conclusion = p.parse(answer, 0)
	// What would take Python hours: it goes through all assignments one by one.
	if vars := len(p.names); vars > 20 || p.nodes<<vars > 1<<32 {
		p.failed = true
	}
	if p.failed {
		return nil, false, false
	}
	table := newTruthTable(len(p.names))
	for _, f := range premises {
		table.restrict(f)
	}
	return conclusion, table.implies(conclusion), tautology(conclusion, len(p.names))
}

// formulaParser reads formulas as upstream's parse_expr does: binary operators group to the left, ∧ before ∨ before → before ↔, and
// what has no operator is a variable, whatever it is.
type formulaParser struct {
	names  []string // of the variables
	free   bool     // whether names may be added
	nodes  int      // of the formulas
	read   int      // bytes, those of a part again with each part of it
	failed bool     // where Python raises, or takes too long
}

func (p *formulaParser) parse(text string, depth int) *formula {
	text = python.Strip(text)
	p.read += len(text)
	if text == "" || depth >= maxRecursion || p.read > 1<<26 {
		p.failed = true
	}
	if p.failed {
		return nil
	}
	if enclosed(text) {
		return p.parse(text[1:len(text)-1], depth+1)
	}
	p.nodes++
	if op, at := splitFormula(text); op != opVariable {
		return &formula{operator: op, left: p.parse(text[:at], depth+1), right: p.parse(text[at+len(op.sign()):], depth+1)}
	}
	if rest, ok := strings.CutPrefix(text, opNot.sign()); ok {
		return &formula{operator: opNot, left: p.parse(rest, depth+1)}
	}
	i := slices.Index(p.names, text)
	if i < 0 {
		if !p.free || len(p.names) > 20 {
			p.failed = true
			return nil
		}
		i = len(p.names)
		p.names = append(p.names, text)
	}
	return &formula{variable: i}
}

// enclosed says whether the text is one pair of parentheses with something in it.
func enclosed(text string) bool {
	if text[0] != '(' || text[len(text)-1] != ')' {
		return false
	}
	level := 0
	for i := 1; i < len(text)-1 && level >= 0; i++ {
		switch text[i] {
		case '(':
			level++
		case ')':
			level--
		}
	}
	return level == 0
}

// splitFormula finds the last one of the operators that bind least, outside of parentheses as counted from the end. It is opVariable
// where there is none.
func splitFormula(text string) (found operator, at int) {
	level := 0
	for i := len(text) - 1; i >= 0; i-- {
		switch text[i] {
		case ')':
			level++
		case '(':
			level--
		case opAnd.sign()[0]: // and of the others
			if level != 0 || i+3 > len(text) {
				continue
			}
			op := opVariable
			switch text[i : i+3] {
			case opAnd.sign():
				op = opAnd
			case opOr.sign():
				op = opOr
			case opImplies.sign():
				op = opImplies
			case opIff.sign():
				op = opIff
			}
			if op > found {
				found, at = op, i
			}
		}
	}
	return found, at
}
