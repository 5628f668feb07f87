package reasoninggym

import (
	"math/bits"
	"slices"

	"github.com/grouper-rl/grouper/internal/python"
)

// isomorphicStrings is IsomorphicStringsDataset of reasoning_gym/algorithmic/isomorphic_strings.py.
var isomorphicStrings = definition[IsomorphicStringsConfig]{
	name:        "isomorphic_strings",
	category:    "algorithmic",
	description: "Say whether replacing characters one for one turns a string into another.",
	defaults:    IsomorphicStringsConfig{MinStringLength: 2, MaxStringLength: 10, PSolvable: 0.5},
	prepare:     prepareIsomorphicStrings,
	curriculum: []Attribute{
		ranged("string_length", "min_string_length", "max_string_length", "Characters of a string", 10, 50, 100, 1000),
	},
}

// IsomorphicStringsConfig has the settings of isomorphic_strings.
type IsomorphicStringsConfig struct {
	MinStringLength int     `json:"min_string_length"` // characters of a string
	MaxStringLength int     `json:"max_string_length"` // characters of a string
	PSolvable       float64 `json:"p_solvable"`        // probability that the strings are isomorphic by construction
}

func (c IsomorphicStringsConfig) validate() error {
	return check(
		atLeast("min_string_length", c.MinStringLength, 2),
		between("max_string_length", c.MaxStringLength, c.MinStringLength, 100*maxTerms),
		between("p_solvable", c.PSolvable, 0, 1),
	)
}

func prepareIsomorphicStrings(c IsomorphicStringsConfig) (generator, error) {
	var difficulty object
	difficulty.ints("string_length", c.MinStringLength, c.MaxStringLength)
	letters := newLetters()
	return func(r *python.Random, m *object) (item, error) {
		length := r.RandInt(c.MinStringLength, c.MaxStringLength)
		solvable := r.Float64() < c.PSolvable
		first, second := letters.pair(r, length, solvable)
		solution := isomorphic(first, second)
		m.strings("words", []string{first, second})
		m.bool("solution", solution)
		m.bool("solvable", solvable)
		m.int("string_length", length)
		m.object("difficulty", difficulty)
		answer := "False"
		if solution {
			answer = "True"
		}
		return item{
			question: "Two strings are isomorphic if the characters in one string can be replaced to get the second string.\n\n" +
				"All occurrences of a character must be replaced with another character while preserving the order of characters.\n\n" +
				"No two characters may map to the same character, but a character may map to itself.\n\n" +
				"Return True if the following two strings are isomorphic, or False otherwise:\n" +
				first + " " + second + "\n",
			answer: answer,
		}, nil
	}, nil
}

// letters are a to z in the order of Python's set of them, by which upstream draws.
type letters struct {
	set    []python.Char // list(set)
	copied []python.Char // list(set(set)), which is another order
}

func newLetters() letters {
	set := python.NewSet[python.Char]()
	for c := python.Char('a'); c <= 'z'; c++ {
		set.Add(c)
	}
	return letters{set.List(), set.Clone().List()}
}

// unused is list(set - used) for the letters whose bits are used. Python takes a few letters away from a copy of the set; for more,
// it makes a new set of those that are left.
func (l letters) unused(buffer []python.Char, used uint32) []python.Char {
	copied := bits.OnesCount32(used) < len(l.set)>>2
	order := l.set
	if copied {
		order = l.copied
	}
	left := buffer[:0]
	for _, c := range order {
		if used>>(c-'a')&1 == 0 {
			left = append(left, c)
		}
	}
	if copied {
		return left
	}
	return python.NewSet(left...).List()
}

// pair is upstream's _generate_inputs: an isomorphic pair of strings one character short of the length; if it is to be
// unsolvable, a letter of the first is put in once more, against another letter than it stands against elsewhere.
func (l letters) pair(r *python.Random, length int, solvable bool) (string, string) {
	s, t := make([]byte, 0, length), make([]byte, 0, length)
	var buffer [26]python.Char
	var mapping ['z' + 1]byte
	var mapped []byte // the letters that have a mapping, in the order of their first use
	used := uint32(0)
	for range length - 1 {
		from := byte(python.Choice(r, l.set))
		if mapping[from] == 0 {
			to := byte(python.Choice(r, l.unused(buffer[:], used)))
			mapping[from] = to
			mapped = append(mapped, from)
			used |= 1 << (to - 'a')
		}
		s, t = append(s, from), append(t, mapping[from])
	}
	if !solvable {
		from := python.Choice(r, mapped)
		conflict := byte(python.Choice(r, l.unused(buffer[:], 1<<(mapping[from]-'a'))))
		at := r.RandInt(0, len(s))
		s, t = slices.Insert(s, at, from), slices.Insert(t, at, conflict)
	}
	return string(s), string(t)
}

// isomorphic is upstream's _check_isomorphic for strings of lower-case letters of one length.
func isomorphic(s, t string) bool {
	var to, from ['z' + 1]byte
	for i := range len(s) {
		a, b := s[i], t[i]
		if to[a] != 0 && to[a] != b || from[b] != 0 && from[b] != a {
			return false
		}
		to[a], from[b] = b, a
	}
	return true
}
