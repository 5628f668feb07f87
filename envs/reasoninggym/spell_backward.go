package reasoninggym

import (
	"unicode/utf8"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// spellBackward is SpellBackwardDataset of reasoning_gym/algorithmic/spell_backward.py.
var spellBackward = definition[SpellBackwardConfig]{
	name:        "spell_backward",
	category:    "algorithmic",
	description: "Spell a word backward.",
	defaults:    SpellBackwardConfig{MinWordLen: 3, MaxWordLen: 10, DataFile: "words3to10.txt"},
	prepare:     prepareSpellBackward,
	score:       scoreSpellBackward,

	scoreCorrected: scoreSpellBackwardCorrected,
	faults: []Fault{
		{What: "Each letter in its place gets a part of the credit, and letters after the right ones cost little or nothing; corrected, the word must be the right one.", Answer: "{answer}x"},
	},
	curriculum: []Attribute{
		ranged("word_len", "min_word_len", "max_word_len", "Letters of the word", span(3, 13, 2)...),
	},
}

// SpellBackwardConfig has the settings of spell_backward.
type SpellBackwardConfig struct {
	MinWordLen int    `json:"min_word_len"` // letters of the word
	MaxWordLen int    `json:"max_word_len"` // letters of the word
	DataFile   string `json:"data_file"`    // words3to10.txt
}

func (c SpellBackwardConfig) validate() error {
	return check(
		between("min_word_len", c.MinWordLen, 1, 10),
		atLeast("max_word_len", c.MaxWordLen, max(c.MinWordLen, 3)), // there are no shorter words
		oneOf("data_file", c.DataFile, "words3to10.txt"),
	)
}

func prepareSpellBackward(c SpellBackwardConfig) (generator, error) {
	text, err := text(words3to10)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, line := range python.SplitLines(text) {
		word := python.Strip(line)
		if n := utf8.RuneCountInString(word); n >= c.MinWordLen && n <= c.MaxWordLen && python.IsAlnum(word) {
			all = append(all, word)
		}
	}
	words := newWordList(all)
	var difficulty object
	difficulty.ints("word_len", c.MinWordLen, c.MaxWordLen)
	return func(r *python.Random, m *object) (item, error) {
		word := words.words(r.Below(words.len()), 1)
		m.string("word", word)
		m.int("word_len", utf8.RuneCountInString(word))
		m.object("difficulty", difficulty)
		return item{"Spell this word backward (example: sun -> nus): " + word, reversed(word)}, nil
	}, nil
}

func reversed(word string) string {
	backward := make([]byte, 0, 32)
	for end := len(word); end > 0; {
		letter, size := utf8.DecodeLastRuneInString(word[:end])
		backward = utf8.AppendRune(backward, letter)
		end -= size
	}
	return string(backward)
}

// scoreSpellBackward gives 1 for the word in any case, else a share for each letter in its place, added up as upstream does: if
// that makes exactly 1, 0.2 less, and if it makes more, 1.
func scoreSpellBackward(task envs.Task, answer string) (float64, error) {
	want, got := python.Lower(task.Answer), python.Lower(answer)
	if want == got {
		return 1, nil
	}
	letters := []rune(want)
	share := 1 / float64(len(letters))
	score, i := 0.0, 0
	for _, c := range got {
		if i == len(letters) {
			break
		}
		if c == letters[i] {
			score += share
		}
		i++
	}
	if score == 1 {
		score -= 0.2
	}
	return min(score, 1), nil
}

func scoreSpellBackwardCorrected(task envs.Task, answer string) (float64, error) {
	if python.Lower(python.Strip(answer)) == python.Lower(task.Answer) {
		return 1, nil
	}
	return 0, nil
}
