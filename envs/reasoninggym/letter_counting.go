package reasoninggym

import (
	"slices"
	"strconv"
	"strings"

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
	var words []string
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return !python.IsWord(c) }) {
		if python.IsAlnum(word) {
			words = append(words, word)
		}
	}
	var difficulty object
	difficulty.ints("words", c.MinWords, c.MaxWords)
	return func(r *python.Random, m *object) (item, error) {
		length := min(r.RandInt(c.MinWords, c.MaxWords), len(words))
		start := r.RandInt(0, len(words)-length)
		span := words[start : start+length]
		text := strings.Join(span, " ")
		lower := python.Lower(text)
		letter := string(python.Choice(r, lettersOf(lower)))
		m.int("span_length", length)
		m.string("target_letter", letter)
		m.strings("span", span)
		m.object("difficulty", difficulty)
		return item{
			question: `How many times does the letter "` + letter + `" appear in the text: "` + text + `"?`,
			answer:   strconv.Itoa(strings.Count(lower, letter)),
		}, nil
	}, nil
}

// lettersOf lists the different characters of a text but its spaces, in order.
func lettersOf(text string) []rune {
	letters := []rune(strings.ReplaceAll(text, " ", ""))
	slices.Sort(letters)
	return slices.Compact(letters)
}
