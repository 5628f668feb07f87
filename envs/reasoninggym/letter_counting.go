package reasoninggym

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/internal/python"
)

// letterCounting is LetterCountingDataset of reasoning_gym/algorithmic/letter_counting.py.
var letterCounting = definition[LetterCountingConfig]{
	name:        "letter_counting",
	category:    "algorithmic",
	description: "Count how often a letter is in a text.",
	defaults:    LetterCountingConfig{MinWords: 5, MaxWords: 15},
	prepare:     prepareLetterCounting,
	curriculum: []Attribute{
		interval("words", "min_words", "max_words", "Words of the text", span(5, 20, 2)...),
	},
}

// LetterCountingConfig has the settings of letter_counting.
type LetterCountingConfig struct {
	MinWords int `json:"min_words"` // of the text
	MaxWords int `json:"max_words"` // of the text
}

func (c LetterCountingConfig) validate() error {
	return check(
		atLeast("min_words", c.MinWords, 1),
		atLeast("max_words", c.MaxWords, c.MinWords),
	)
}

func prepareLetterCounting(c LetterCountingConfig) (generator, error) {
	text, err := text(inTheYear2889)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return !python.IsWord(c) }) {
		if python.IsAlnum(word) {
			all = append(all, word)
		}
	}
	words := newWordList(all)
	var difficulty object
	difficulty.ints("words", c.MinWords, c.MaxWords)
	return func(r *python.Random, m *object) (item, error) {
		length := min(r.RandInt(c.MinWords, c.MaxWords), words.len())
		text := words.words(r.RandInt(0, words.len()-length), length)
		lower := python.Lower(text)
		letter := string(python.Choice(r, lettersOf(lower)))
		m.int("span_length", length)
		m.string("target_letter", letter)
		m.strings("span", strings.Split(text, " "))
		m.object("difficulty", difficulty)
		return item{
			question: `How many times does the letter "` + letter + `" appear in the text: "` + text + `"?`,
			answer:   strconv.Itoa(strings.Count(lower, letter)),
		}, nil
	}, nil
}

// lettersOf lists the different characters of a text but its spaces, in order.
func lettersOf(text string) []rune {
	var ascii [utf8.RuneSelf]bool
	var others []rune
	for _, c := range text {
		if c < utf8.RuneSelf {
			ascii[c] = true
		} else {
			others = append(others, c)
		}
	}
	ascii[' '] = false
	letters := make([]rune, 0, 32)
	for c, found := range ascii {
		if found {
			letters = append(letters, rune(c))
		}
	}
	slices.Sort(others)
	return append(letters, slices.Compact(others)...)
}
