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

type letterCountingMetadata struct {
	SpanLength   int      `json:"span_length"`
	TargetLetter string   `json:"target_letter"`
	Span         []string `json:"span"`
	Difficulty   struct {
		Words [2]int `json:"words"`
	} `json:"difficulty"`
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
	return func(r *python.Random) (item, error) {
		var m letterCountingMetadata
		m.Difficulty.Words = [2]int{c.MinWords, c.MaxWords}
		m.SpanLength = min(r.RandInt(c.MinWords, c.MaxWords), len(words))
		start := r.RandInt(0, len(words)-m.SpanLength)
		m.Span = words[start : start+m.SpanLength]
		text := strings.Join(m.Span, " ")
		lower := python.Lower(text)
		m.TargetLetter = string(python.Choice(r, lettersOf(lower)))
		return item{
			question: `How many times does the letter "` + m.TargetLetter + `" appear in the text: "` + text + `"?`,
			answer:   strconv.Itoa(strings.Count(lower, m.TargetLetter)),
			metadata: &m,
		}, nil
	}, nil
}

// lettersOf lists the different characters of a text but its spaces, in order.
func lettersOf(text string) []rune {
	letters := []rune(strings.ReplaceAll(text, " ", ""))
	slices.Sort(letters)
	return slices.Compact(letters)
}
