package reasoninggym

import (
	"context"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// zebraPuzzles is ZebraDataset of reasoning_gym/logic/zebra_puzzles.py, with the puzzles of logic/contrib/logic_puzzle.
var zebraPuzzles = definition[ZebraPuzzlesConfig]{
	name:        "zebra_puzzles",
	category:    "logic",
	description: "Infer from clues about neighbours who lives in the first house.",
	defaults:    ZebraPuzzlesConfig{NumPeople: 4, NumCharacteristics: 4},
	prepareAt:   prepareZebraPuzzles,
	score:       scoreZebraPuzzle,

	scoreCorrected: scoreZebraPuzzleCorrected,
	faults: []Fault{
		{What: "Spaces around the name make it wrong; corrected, they do not count.", Answer: " {answer} "},
		{What: "Line breaks within the name are left out; corrected, they make it wrong.", Answer: "b\nob"},
	},
	curriculum: []Attribute{
		scalar("num_people", "num_people", "People, each in a house", span(2, 8, 1)...),
		scalar("num_characteristics", "num_characteristics", "What is different about the people, with their names", span(2, 8, 1)...),
	},
}

// ZebraPuzzlesConfig has the settings of zebra_puzzles.
type ZebraPuzzlesConfig struct {
	NumPeople          int `json:"num_people"`          // people, each in a house
	NumCharacteristics int `json:"num_characteristics"` // what is different about the people, with their names
}

const maxZebra = 7 // people, and characteristics

func (c ZebraPuzzlesConfig) validate() error {
	return check(
		between("num_people", c.NumPeople, 2, maxZebra),
		between("num_characteristics", c.NumCharacteristics, 2, maxZebra),
	)
}

func prepareZebraPuzzles(c ZebraPuzzlesConfig, _ Common) (indexedGenerator, error) {
	var difficulty object
	difficulty.int("num_people", c.NumPeople)
	difficulty.int("num_characteristics", c.NumCharacteristics)
	ordinals := []string{"first", "second", "third", "fourth", "fifth", "sixth", "seventh"}[:c.NumPeople]
	return func(ctx context.Context, r *python.Random, _ int, m *object) (item, error) {
		kinds := slices.Clone(zebraKinds)
		python.Shuffle(r, kinds[1:]) // after the names
		p := zebraPuzzle{people: c.NumPeople, kinds: kinds[:c.NumCharacteristics]}
		p.drawSolution(r)
		p.skipText(r, 0)
		p.drawClues(r, ordinals)
		clues, err := p.reduce(ctx, r)
		if err != nil {
			return item{}, err
		}
		// Upstream also draws clues to add, the choices of questions, and a first text.
		extra := len(p.clues) - len(clues)
		python.SampleRange(r, extra, min(extra, 30))
		for range p.people * len(p.kinds) {
			skipShuffle(r, p.people)
		}
		p.skipText(r, len(clues))
		question := p.appendText(make([]byte, 0, 2048), r, clues)
		question = append(question, "\nWhat is Name of the person who lives in House 1?? Provide only the name of the person as your final answer."...)
		m.object("difficulty", difficulty)
		return item{string(question), p.kinds[0].literals[slices.Index(p.solution[:p.people], 1)].name}, nil
	}, nil
}

// zebraPuzzle is upstream's Puzzle. A literal is an index: literal i of kind k has k*people + i.
type zebraPuzzle struct {
	people   int
	kinds    []zebraKind
	solution []houses // where each literal is: a single house
	clues    []zebraClue
}

// houses is a set of houses; the first is bit 0.
type houses = uint8

type zebraClue struct {
	kind  zebraClueKind
	a, b  int    // literals
	house houses // of foundAt
	text  string
}

type zebraClueKind byte

const (
	foundAt zebraClueKind = iota
	sameHouse
	directlyLeft
	beside
)

func (p *zebraPuzzle) literal(i int) zebraLiteral {
	return p.kinds[i/p.people].literals[i%p.people]
}

// drawSolution puts the literals of each kind into houses.
func (p *zebraPuzzle) drawSolution(r *python.Random) {
	order := make([]houses, p.people)
	for i := range order {
		order[i] = 1 << i
	}
	for range p.kinds {
		python.Shuffle(r, order)
		p.solution = append(p.solution, order...)
	}
}

// drawClues makes all true clues of the kinds that upstream has, of two about neighbours only one, sorted by text.
func (p *zebraPuzzle) drawClues(r *python.Random, ordinals []string) {
	at := make([][]int, p.people) // what is in each house, sorted
	for i, house := range p.solution {
		number := bits.TrailingZeros8(house)
		at[number] = append(at[number], i)
		p.clues = append(p.clues, zebraClue{foundAt, i, i, house, p.literal(i).text + " is in the " + ordinals[number] + " house."})
	}
	for _, here := range at {
		slices.SortFunc(here, func(i, j int) int { return strings.Compare(p.literal(i).text, p.literal(j).text) })
		for _, a := range here {
			for _, b := range here {
				if a != b {
					p.clues = append(p.clues, zebraClue{sameHouse, a, b, 0, p.literal(a).text + " is " + p.literal(b).text + "."})
				}
			}
		}
	}
	for number, here := range at[:p.people-1] {
		for _, a := range here {
			for _, b := range at[number+1] {
				left, right := p.literal(a).text, p.literal(b).text
				if r.RandInt(0, 1) == 0 {
					p.clues = append(p.clues, zebraClue{directlyLeft, a, b, 0, left + " is directly left of " + right + "."})
				} else {
					p.clues = append(p.clues, zebraClue{beside, a, b, 0, left + " and " + right + " are next to each other."})
				}
			}
		}
	}
	for i := range p.clues {
		p.clues[i].text = strings.ToUpper(p.clues[i].text[:1]) + p.clues[i].text[1:]
	}
	slices.SortFunc(p.clues, func(a, b zebraClue) int { return strings.Compare(a.text, b.text) })
}

// reduce leaves out clues until none can be missed: first some at a time, then one after the other. It returns those that are left,
// sorted.
func (p *zebraPuzzle) reduce(ctx context.Context, r *python.Random) ([]*zebraClue, error) {
	clues := make([]*zebraClue, len(p.clues))
	for i := range clues {
		clues[i] = &p.clues[i]
	}
	python.SampleRange(r, len(clues), len(clues))
	for share := 10; share > 0; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n := 1
		if share <= 20 {
			n = len(clues) / share
		}
		fewer := p.without(clues, chooseClues(r, clues, n))
		switch {
		case len(fewer) < len(clues):
			clues, share = fewer, 10
		case share == 10:
			share = 20
		case share == 20:
			share = 21 // a single one
		default:
			share = 0
		}
	}
	for {
		before := len(clues)
		for _, clue := range python.Sample(r, clues, len(clues)) {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			clues = p.without(clues, []*zebraClue{clue})
		}
		if len(clues) == before {
			return clues, nil
		}
	}
}

// chooseClues draws clues, some perhaps more than once.
func chooseClues(r *python.Random, clues []*zebraClue, n int) []*zebraClue {
	sums := make([]float64, len(clues))
	sum := 0.
	for i, clue := range clues {
		switch clue.kind {
		case foundAt, sameHouse:
			sum += 0.75
		case directlyLeft:
			sum++
		case beside:
			sum += 1.2
		}
		sums[i] = sum
	}
	return python.CumulativeChoices(r, clues, sums, n)
}

// without leaves out clues if the others are enough, and returns all otherwise.
func (p *zebraPuzzle) without(clues, left []*zebraClue) []*zebraClue {
	rest := make([]*zebraClue, 0, len(clues))
	for _, clue := range clues {
		if !slices.Contains(left, clue) {
			rest = append(rest, clue)
		}
	}
	if len(rest) == len(clues) || !p.unique(rest) {
		return clues
	}
	return rest
}

// skipText draws what appendText does.
func (p *zebraPuzzle) skipText(r *python.Random, clues int) {
	for range p.kinds {
		skipShuffle(r, p.people)
	}
	skipShuffle(r, clues)
}

func skipShuffle(r *python.Random, n int) {
	for ; n > 1; n-- {
		r.Below(n)
	}
}

func (p *zebraPuzzle) appendText(b []byte, r *python.Random, clues []*zebraClue) []byte {
	people := strconv.Itoa(p.people)
	b = append(b, "This is a logic puzzle. There are "+people+" houses (numbered 1 on the left, "+people+
		" on the right), from the perspective of someone standing across the street from them. Each has a different person in them. "+
		"They have different characteristics:\n"...)
	for _, kind := range p.kinds {
		b = append(append(append(b, " - "...), kind.description...), ": "...)
		literals := slices.Clone(kind.literals[:p.people])
		python.Shuffle(r, literals)
		for i, l := range literals {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = append(b, l.name...)
		}
		b = append(b, '\n')
	}
	b = append(b, '\n')
	python.Shuffle(r, clues)
	for i, clue := range clues {
		b = append(append(strconv.AppendInt(b, int64(i+1), 10), ". "...), clue.text...)
		b = append(b, '\n')
	}
	return b
}

// zebraState has the houses where each literal may be.
type zebraState [maxZebra * maxZebra]houses

// unique says whether true clues have no other solution.
func (p *zebraPuzzle) unique(clues []*zebraClue) bool {
	var s zebraState
	for i := range p.solution {
		s[i] = 1<<p.people - 1
	}
	return !p.hasOther(&s, clues)
}

// hasOther says whether a solution other than the puzzle's own is left.
func (p *zebraPuzzle) hasOther(s *zebraState, clues []*zebraClue) bool {
	if !p.narrow(s, clues) {
		return false
	}
	branch, fewest := -1, maxZebra+1
	other := false
	for i, own := range p.solution {
		n := bits.OnesCount8(s[i])
		if n > 1 && n < fewest {
			branch, fewest = i, n
		}
		other = other || s[i]&own == 0
	}
	if branch < 0 {
		return other
	}
	// Its own house last: the others are more likely to lead to another solution.
	own := p.solution[branch]
	for rest := s[branch]; rest != 0; {
		house := rest & -rest
		if rest != own && house == own {
			house = rest &^ own
			house &= -house
		}
		rest &^= house
		next := *s
		next[branch] = house
		if p.hasOther(&next, clues) {
			return true
		}
	}
	return false
}

// narrow takes houses away that the clues exclude, until no more are found. It is false if a literal has none left.
func (p *zebraPuzzle) narrow(s *zebraState, clues []*zebraClue) bool {
	for before := (zebraState{}); before != *s; {
		before = *s
		for _, clue := range clues {
			a, b := s[clue.a], s[clue.b]
			switch clue.kind {
			case foundAt:
				a &= clue.house
				b = a
			case sameHouse:
				a &= b
				b = a
			case directlyLeft:
				b &= a << 1
				a &= b >> 1
			case beside:
				b &= a<<1 | a>>1
				a &= b<<1 | b>>1
			}
			if a == 0 || b == 0 {
				return false
			}
			s[clue.a], s[clue.b] = a, b
		}
		for start := 0; start < len(p.solution); start += p.people {
			if !oneInEachHouse(s[start : start+p.people]) {
				return false
			}
		}
	}
	return true
}

// oneInEachHouse takes houses away from the literals of a kind where another one must be.
func oneInEachHouse(kind []houses) bool {
	var once, twice, single houses
	for _, h := range kind {
		twice |= once & h
		once |= h
		if h&(h-1) == 0 {
			if single&h != 0 {
				return false
			}
			single |= h
		}
	}
	if once != 1<<len(kind)-1 {
		return false
	}
	once &^= twice
	for i, h := range kind {
		if only := h & once; only != 0 {
			h = only
		}
		if h&(h-1) != 0 {
			h &^= single
		}
		if h == 0 {
			return false
		}
		kind[i] = h
	}
	return true
}

// scoreZebraPuzzle is 1 for the name, in upper or lower case and with line breaks anywhere.
func scoreZebraPuzzle(task envs.Task, answer string) (float64, error) {
	plain := func(s string) string { return strings.ReplaceAll(python.Lower(s), "\n", "") }
	if plain(answer) == plain(task.Answer) {
		return 1, nil
	}
	return 0, nil
}

func scoreZebraPuzzleCorrected(task envs.Task, answer string) (float64, error) {
	if python.Lower(python.Strip(answer)) == python.Lower(task.Answer) {
		return 1, nil
	}
	return 0, nil
}

// zebraKind is something that is different about people, with the first seven literals of it, sorted by text.
type zebraKind struct {
	description string
	literals    []zebraLiteral
}

type zebraLiteral struct{ name, text string }

var zebraKinds = []zebraKind{
	{"Each person has a unique name", []zebraLiteral{
		{"alice", "Alice"},
		{"arnold", "Arnold"},
		{"bob", "Bob"},
		{"carol", "Carol"},
		{"david", "David"},
		{"emily", "Emily"},
		{"eric", "Eric"},
	}},
	{"Each person has a favorite color", []zebraLiteral{
		{"blue", "the person who loves blue"},
		{"brown", "the person who loves brown"},
		{"purple", "the person who loves purple"},
		{"white", "the person who loves white"},
		{"yellow", "the person who loves yellow"},
		{"green", "the person whose favorite color is green"},
		{"red", "the person whose favorite color is red"},
	}},
	{"The people are of nationalities", []zebraLiteral{
		{"brit", "the British person"},
		{"chinese", "the Chinese"},
		{"dane", "the Dane"},
		{"german", "the German"},
		{"mexican", "the Mexican"},
		{"norwegian", "the Norwegian"},
		{"swede", "the Swedish person"},
	}},
	{"The people keep different animals", []zebraLiteral{
		{"bird", "the bird keeper"},
		{"cat", "the cat lover"},
		{"dog", "the dog owner"},
		{"fish", "the fish enthusiast"},
		{"horse", "the person who keeps horses"},
		{"pig", "the pig owner"},
		{"rabbit", "the rabbit owner"},
	}},
	{"Each person has a favorite drink", []zebraLiteral{
		{"boba tea", "the boba tea drinker"},
		{"coffee", "the coffee drinker"},
		{"water", "the one who only drinks water"},
		{"milk", "the person who likes milk"},
		{"root beer", "the root beer lover"},
		{"tea", "the tea drinker"},
		{"wine", "the wine drinker"},
	}},
	{"Everyone has a different favorite cigar", []zebraLiteral{
		{"dunhill", "the Dunhill smoker"},
		{"prince", "the Prince smoker"},
		{"pall mall", "the person partial to Pall Mall"},
		{"blue master", "the person who smokes Blue Master"},
		{"red eye", "the person who smokes Red Eye"},
		{"yellow monster", "the person who smokes Yellow Monster"},
		{"blends", "the person who smokes many different blends"},
	}},
	{"Everyone has something different for lunch", []zebraLiteral{
		{"pizza", "the person who is a pizza lover"},
		{"grilled cheese", "the person who loves eating grilled cheese"},
		{"stir fry", "the person who loves stir fry"},
		{"soup", "the person who loves the soup"},
		{"spaghetti", "the person who loves the spaghetti eater"},
		{"stew", "the person who loves the stew"},
		{"sushi", "the person who loves the sushi"},
	}},
	{"They all have a different favorite flower", []zebraLiteral{
		{"daffodils", "the person who loves a bouquet of daffodils"},
		{"carnations", "the person who loves a carnations arrangement"},
		{"iris", "the person who loves the boquet of iris"},
		{"lilies", "the person who loves the boquet of lilies"},
		{"orchid", "the person who loves the boquet of orchid"},
		{"roses", "the person who loves the rose bouquet"},
		{"tulips", "the person who loves the vase of tulips"},
	}},
	{"People use different phone models", []zebraLiteral{
		{"google pixel 6", "the person who uses a Google Pixel 6"},
		{"huawei p50", "the person who uses a Huawei P50"},
		{"oneplus 9", "the person who uses a OnePlus 9"},
		{"samsung galaxy s21", "the person who uses a Samsung Galaxy S21"},
		{"sony xperia 5", "the person who uses a Sony Xperia 5"},
		{"xiaomi mi 11", "the person who uses a Xiaomi Mi 11"},
		{"iphone 13", "the person who uses an iPhone 13"},
	}},
	{"Each mother is accompanied by their child", []zebraLiteral{
		{"billy", "the person who is the mother of Billy"},
		{"timothy", "the person who is the mother of Timothy"},
		{"alice", "the person's child is named Alice"},
		{"bella", "the person's child is named Bella"},
		{"fred", "the person's child is named Fred"},
		{"meredith", "the person's child is named Meredith"},
		{"samantha", "the person's child is named Samantha"},
	}},
	{"Everyone has a favorite smoothie", []zebraLiteral{
		{"butterscotch", "the Butterscotch smoothie drinker"},
		{"darkness", "the Darkness smoothie drinker"},
		{"desert", "the Desert smoothie lover"},
		{"dragonfruit", "the Dragonfruit smoothie lover"},
		{"lemon", "the Lemon smoothie lover"},
		{"life", "the Life smoothie drinker"},
		{"lilac", "the Lilac smoothie drinker"},
	}},
}
