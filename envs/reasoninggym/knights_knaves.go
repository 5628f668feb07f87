package reasoninggym

import (
	"bytes"
	"context"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// knightsKnaves is KnightsKnavesDataset of reasoning_gym/logic/knights_knaves.py.
var knightsKnaves = definition[KnightsKnavesConfig]{
	name:        "knights_knaves",
	category:    "logic",
	description: "Tell who always lies from what people say about each other.",
	defaults:    KnightsKnavesConfig{NPeople: 2, DepthConstraint: 2, WidthConstraint: 2},
	prepareAt:   prepareKnightsKnaves,
	score:       scoreKnightsKnaves,

	scoreCorrected: scoreKnightsKnavesCorrected,
	faults: []Fault{
		{What: "An answer that is right about some of the people scores 0.3 and more; corrected, it scores 0.", Answer: "Zoey is a fool, and Riley is a fool."},
	},
	curriculum: []Attribute{
		scalar("n_people", "n_people", "People", span(2, 6, 1)...),
		scalar("depth_constraint", "depth_constraint", "Depth of a statement", 2, 3),
		scalar("width_constraint", "width_constraint", "Statements that one joins", 2, 3),
	},
}

// KnightsKnavesConfig has the settings of knights_knaves.
type KnightsKnavesConfig struct {
	NPeople         int `json:"n_people"`         // people
	DepthConstraint int `json:"depth_constraint"` // depth of a statement at most
	WidthConstraint int `json:"width_constraint"` // statements that one joins by "and" or "or" at most
}

func (c KnightsKnavesConfig) validate() error {
	// A statement about oneself and statements of depth 1 never have just one solution. Upper bounds are on how long statements get,
	// and on the assignments to go through.
	const maxPeople, maxDepth, maxWidth = 20, 10, 10
	err := check(
		between("n_people", c.NPeople, 2, maxPeople),
		between("depth_constraint", c.DepthConstraint, 2, maxDepth),
		between("width_constraint", c.WidthConstraint, 1, maxWidth),
	)
	// A person may call everyone a knight and everyone else a knave. Upstream draws for ever where it needs more different statements.
	if simple := 2*c.NPeople - 1; err == nil && c.WidthConstraint > simple {
		return fmt.Errorf("width_constraint is %d, must be at most %d for %d people", c.WidthConstraint, simple, c.NPeople)
	}
	return err
}

// knightsPuzzle is what a question is about.
type knightsPuzzle struct {
	statements knightStatements
	solution   []bool // who is a knight
	names      []string
	terms      *knightTerms
}

// knightTerms are words for those who tell the truth and those who lie.
type knightTerms struct{ knight, knave, aKnight, aKnave, capitalKnight, capitalKnave string }

func (t *knightTerms) object() (o object) {
	o.string("knight", t.knight)
	o.string("knave", t.knave)
	o.string("a_knight", t.aKnight)
	o.string("a_knave", t.aKnave)
	o.string("Knight", t.capitalKnight)
	o.string("Knave", t.capitalKnave)
	return o
}

var knightPairs = []knightTerms{
	{"knight", "knave", "a knight", "a knave", "Knight", "Knave"},
	{"pioneer", "laggard", "a pioneer", "a laggard", "Pioneer", "Laggard"},
	{"saint", "sinner", "a saint", "a sinner", "Saint", "Sinner"},
	{"hero", "villain", "a hero", "a villain", "Hero", "Villain"},
	{"angel", "devil", "an angel", "a devil", "Angel", "Devil"},
	{"altruist", "egoist", "an altruist", "an egoist", "Altruist", "Egoist"},
	{"sage", "fool", "a sage", "a fool", "Sage", "Fool"},
}

var knightNames = strings.Fields(`Emma Liam Olivia Noah Ava Ethan Sophia Mason Isabella William Mia James Charlotte Benjamin Amelia Lucas Harper Henry
	Evelyn Alexander Abigail Michael Emily Daniel Elizabeth Jacob Sofia Logan Avery Jackson Ella Sebastian Scarlett Jack Grace Aiden Chloe Owen
	Victoria Samuel Riley Matthew Aria Joseph Lily Luke Aurora David Zoey Oliver Penelope`)

// sayings are the ways to say that # says @.
var sayings = []string{
	`# said that @.`,
	`# told you that @.`,
	`# said, "@."`,
	`# stated, "@".`,
	`According to #, "@".`,
	`In #'s words: "@".`,
	`# remarked, "@".`,
	`"@," # declared.`,
	`# was heard saying, "@".`,
	`# expressed that @.`,
	`"@" - #.`,
	`As # put it, "@".`,
	`# asserted: "@".`,
	`"@," # mentioned.`,
	`# commented, "@".`,
	`In a statement by #: "@".`,
	`# noted, "@".`,
	`"@," # claimed.`,
}

func prepareKnightsKnaves(c KnightsKnavesConfig, _ Common) (indexedGenerator, error) {
	var difficulty object
	difficulty.int("n_people", c.NPeople)
	difficulty.int("depth_constraint", c.DepthConstraint)
	difficulty.int("width_constraint", c.WidthConstraint)
	return func(ctx context.Context, r *python.Random, _ int, m *object) (item, error) {
		p := knightsPuzzle{statements: knightStatements{people: c.NPeople}}
		sampler := knightSampler{python.NewGenerator(python.NewInt(r.RandInt(0, 1<<32))), c, nil}
		for try := 0; p.solution == nil; try++ {
			if err := ctx.Err(); err != nil {
				return item{}, err
			}
			if try == 1000 {
				return item{}, python.Error{Type: "IndexError", Message: "list index out of range"}
			}
			sampler.code = sampler.code[:0]
			for person := range c.NPeople {
				sampler.draw(person, c.DepthConstraint)
			}
			p.statements.code = sampler.code
			p.solution = p.statements.solve(ctx)
		}
		g := python.NewGenerator(python.NewInt(r.RandInt(0, 1<<32)))
		for _, i := range g.ChoiceNoReplace(len(knightNames), c.NPeople) {
			p.names = append(p.names, knightNames[i])
		}
		p.terms = &knightPairs[g.Choice(len(knightPairs))]
		m.name("statements")
		m.data = p.statements.appendJSON(m.data)
		m.name("solution")
		m.data = appendJSONList(m.data, p.solution, strconv.AppendBool)
		m.strings("names", p.names)
		m.object("knight_knave_terms", p.terms.object())
		m.object("difficulty", difficulty)
		return item{p.question(g), p.answer()}, nil
	}, nil
}

// question draws how the statements are introduced.
func (p *knightsPuzzle) question(g *python.Generator) string {
	t := p.terms
	people := len(p.names)
	b := make([]byte, 0, 1024)
	b = fmt.Appendf(b, "A very special island is inhabited only by %ss and %ss. %ss always tell the truth, and %ss always lie. You meet %d inhabitants: ",
		t.knight, t.knave, t.capitalKnight, t.knave, people)
	b = appendNames(b, p.names, func(b []byte, _ int) []byte { return b })
	b = append(b, '.')
	text := knightText{knightStatements: p.statements, names: p.names, terms: t}
	for _, name := range p.names {
		b = append(b, ' ')
		for _, c := range []byte(sayings[g.Choice(len(sayings))]) {
			switch c {
			case '#':
				b = append(b, name...)
			case '@':
				b = text.append(b)
			default:
				b = append(b, c)
			}
		}
	}
	b = append(b, " So who is "+t.aKnight+" and who is "+t.aKnave+`? (Format your answer like: "`...)
	b = appendNames(b, p.names, func(b []byte, _ int) []byte {
		return append(b, " is a "+t.knight+"/"+t.knave...)
	})
	return string(append(b, `")`...))
}

func (p *knightsPuzzle) answer() string {
	return string(append(appendNames(nil, p.names, func(b []byte, i int) []byte {
		if p.solution[i] {
			return append(b, " is "+p.terms.aKnight...)
		}
		return append(b, " is "+p.terms.aKnave...)
	}), '.'))
}

// appendNames writes a list of names, each with something behind it.
func appendNames(b []byte, names []string, behind func(b []byte, i int) []byte) []byte {
	for i, name := range names {
		switch i {
		case 0:
		case len(names) - 1:
			b = append(b, ", and "...)
		default:
			b = append(b, ", "...)
		}
		b = behind(append(b, name...), i)
	}
	return b
}

// knightStatements are what each person says, one statement after the other, in a code: a statement is a letter, and then what it is about,
// which is a person for knight and knave, a number of statements and these for all and some, a statement for no, and two for the others.
// Different statements have different codes.
type knightStatements struct {
	code   []byte
	people int
}

const (
	sayKnight = 'k'
	sayKnave  = 'n'
	sayNot    = '!'
	sayAll    = '&'
	sayAny    = '|'
	sayIf     = '>'
	sayEquals = '='
)

var knightWords = map[byte]string{sayKnight: "telling-truth", sayKnave: "lying", sayNot: "not", sayAll: "and", sayAny: "or", sayIf: "->", sayEquals: "<=>"}

// next takes the letter and the number behind it: of a person, or of statements.
func (s *knightStatements) next() (kind byte, number int) {
	kind, s.code = s.code[0], s.code[1:]
	switch kind {
	case sayNot:
		return kind, 1
	case sayIf, sayEquals:
		return kind, 2
	}
	number, s.code = int(s.code[0]), s.code[1:]
	return kind, number
}

type knightSampler struct {
	g    *python.Generator
	c    KnightsKnavesConfig
	code []byte
}

// draw appends a statement that a person makes.
func (s *knightSampler) draw(person, depth int) {
	dice := s.g.Integers(0, 6)
	if depth == 1 || dice == 0 {
		for {
			kind := []byte{sayKnight, sayKnave}[s.g.Choice(2)]
			about := s.g.Integers(0, s.c.NPeople)
			if kind == sayKnight || about != person {
				s.code = append(s.code, kind, byte(about))
				return
			}
		}
	}
	switch dice {
	case 1:
		s.code = append(s.code, sayNot)
		s.draw(person, depth-1)
	case 2, 3:
		n := s.g.Integers(2, s.c.WidthConstraint+1)
		s.code = append(s.code, []byte{sayAll, sayAny}[dice-2], byte(n))
		s.drawDifferent(person, depth-1, n)
	default:
		s.code = append(s.code, []byte{sayIf, sayEquals}[dice-4])
		s.drawDifferent(person, depth-1, 2)
	}
}

func (s *knightSampler) drawDifferent(person, depth, n int) {
	ends := make([]int, 1, 16)
	ends[0] = len(s.code)
draw:
	for len(ends) <= n {
		start := ends[len(ends)-1]
		s.draw(person, depth)
		for i, end := range ends[1:] {
			if bytes.Equal(s.code[ends[i]:end], s.code[start:]) {
				s.code = s.code[:start]
				continue draw
			}
		}
		ends = append(ends, len(s.code))
	}
}

// solve says who is a knight if there is one solution, and returns nil otherwise and where the context ends.
func (s knightStatements) solve(ctx context.Context) []bool {
	assignments := 1 << s.people
	solution, found := 0, 0
	for block := range (assignments + 63) / 64 {
		if ctx.Err() != nil {
			return nil
		}
		right := ^uint64(0)
		if assignments < 64 {
			right = 1<<assignments - 1
		}
		rest := s
		for person := range s.people {
			if right &= ^(variableValues(person, block) ^ rest.values(block)); right == 0 {
				break
			}
		}
		if found += bits.OnesCount64(right); found > 1 {
			return nil
		}
		if right != 0 {
			solution = 64*block + bits.TrailingZeros64(right)
		}
	}
	if found == 0 {
		return nil
	}
	knights := make([]bool, s.people)
	for i := range knights {
		knights[i] = solution>>i&1 == 1
	}
	return knights
}

// values takes a statement. Its truth values are those of 64 assignments, in which a variable says whether a person is a knight, as
// those of a formula.
func (s *knightStatements) values(block int) uint64 {
	kind, n := s.next()
	switch kind {
	case sayKnight:
		return variableValues(n, block)
	case sayKnave:
		return ^variableValues(n, block)
	}
	first := s.values(block)
	switch kind {
	case sayNot:
		return ^first
	case sayIf:
		return ^first | s.values(block)
	case sayEquals:
		return ^(first ^ s.values(block))
	}
	for range n - 1 {
		if other := s.values(block); kind == sayAll {
			first &= other
		} else {
			first |= other
		}
	}
	return first
}

// appendJSON appends upstream's nested tuples: [["or",["lying",1],["telling-truth",0]]].
func (s knightStatements) appendJSON(b []byte) []byte {
	b = append(b, '[')
	for i := range s.people {
		if i > 0 {
			b = append(b, ',')
		}
		b = s.appendNext(b)
	}
	return append(b, ']')
}

// appendNext takes a statement.
func (s *knightStatements) appendNext(b []byte) []byte {
	kind, n := s.next()
	b = append(append(append(b, `["`...), knightWords[kind]...), '"')
	if kind == sayKnight || kind == sayKnave {
		return append(appendInt(append(b, ','), n), ']')
	}
	for range n {
		b = s.appendNext(append(b, ','))
	}
	return append(b, ']')
}

// knightText writes statements in words.
type knightText struct {
	knightStatements
	names []string
	terms *knightTerms
}

// append takes a statement.
func (t *knightText) append(b []byte) []byte {
	kind, n := t.next()
	switch kind {
	case sayKnight:
		return append(b, t.names[n]+" is "+t.terms.aKnight...)
	case sayKnave:
		return append(b, t.names[n]+" is "+t.terms.aKnave...)
	case sayNot:
		switch t.code[0] {
		case sayKnight, sayKnave: // is the other one
			kind, n = t.next()
			if kind == sayKnight {
				return append(b, t.names[n]+" is "+t.terms.aKnave...)
			}
			return append(b, t.names[n]+" is "+t.terms.aKnight...)
		}
		return t.appendPart(append(b, "it is not the case that "...))
	}
	joint := " and "
	switch kind {
	case sayAny:
		joint = " or "
	case sayIf:
		b, joint = append(b, "if "...), " then "
	case sayEquals:
		joint = " if and only if "
	}
	b = t.appendPart(b)
	for range n - 1 {
		b = t.appendPart(append(b, joint...))
	}
	return b
}

// appendPart takes a statement and puts it into parentheses unless it is a simple one.
func (t *knightText) appendPart(b []byte) []byte {
	if kind := t.code[0]; kind == sayKnight || kind == sayKnave {
		return t.append(b)
	}
	return append(t.append(append(b, '(')), ')')
}

// knightRole is who is said to be what.
type knightRole struct{ name, role string }

var isRole = func() map[string]bool {
	roles := map[string]bool{}
	for _, pair := range knightPairs {
		roles[pair.knight], roles[pair.knave] = true, true
	}
	return roles
}()

// readRoles appends the different roles of a text until there are more than so many. The word before a role is taken for a name. "is",
// "a" and "an" are left out, and so is "and" where it has spaces of its own on both sides.
func readRoles(roles []knightRole, text string, most int) []knightRole {
	const spaces = " .,)(" // as good as spaces
	text = python.Strip(python.Lower(text))
	name, start, spent := "", 0, 0 // start of a word, end of the space behind the last "and"
	for end, c := range text + " " {
		if !python.IsSpace(c) && !strings.ContainsRune(spaces, c) {
			continue
		}
		word := text[start:end]
		before := start - 1
		start = end + utf8.RuneLen(c)
		switch {
		case word == "" || word == "is" || word == "a" || word == "an":
		case word == "and" && before >= spent && strings.IndexByte(spaces, text[before]) >= 0 && strings.ContainsRune(spaces, c) && end < len(text):
			spent = end + 1
		case !isRole[word]:
			name = word
		case name != "":
			if role := (knightRole{name, word}); !slices.Contains(roles, role) {
				roles = append(roles, role)
			}
			if len(roles) > most {
				return roles
			}
			name = ""
		}
	}
	return roles
}

// matchRoles says how many of the right roles an answer has, and whether it has as many roles as there are right ones.
func matchRoles(task envs.Task, answer string) (matching, all int, asMany bool) {
	const most = 100 // more than there are people
	var buffer [2][8]knightRole
	want := readRoles(buffer[0][:0], task.Answer, most)
	got := readRoles(buffer[1][:0], answer, len(want))
	for _, role := range got {
		if slices.Contains(want, role) {
			matching++
		}
	}
	return matching, len(want), len(got) == len(want)
}

// scoreKnightsKnaves is 1 for the right roles, and 0.3 to 1 for as many roles of which some are right.
func scoreKnightsKnaves(task envs.Task, answer string) (float64, error) {
	matching, all, asMany := matchRoles(task, answer)
	switch {
	case answer == "" || !asMany:
		return 0, nil
	case matching == all:
		return 1, nil
	case matching > 0:
		return 0.3 + float64(0.7*float64(matching)/float64(all)), nil
	}
	return 0, nil
}

func scoreKnightsKnavesCorrected(task envs.Task, answer string) (float64, error) {
	if matching, all, asMany := matchRoles(task, answer); asMany && matching == all {
		return 1, nil
	}
	return 0, nil
}
