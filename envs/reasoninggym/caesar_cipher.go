package reasoninggym

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/internal/python"
)

// caesarCipher is CaesarCipherDataset of reasoning_gym/algorithmic/caesar_cipher.py.
var caesarCipher = definition[CaesarCipherConfig]{
	name:        "caesar_cipher",
	category:    "algorithmic",
	description: "Decrypt a sentence whose letters were moved along the alphabet.",
	defaults:    CaesarCipherConfig{Delimiter: ".", MinWords: 3, MaxWords: 20, MinRotation: 1, MaxRotation: 25},
	prepare:     prepareCaesarCipher,
	curriculum: []Attribute{
		interval("rotation", "min_rotation", "max_rotation", "Places that letters are moved", 5, 15, 25, 50),
		interval("words", "min_words", "max_words", "Words of a sentence", 5, 15, 25, 50),
	},
}

// CaesarCipherConfig has the settings of caesar_cipher.
type CaesarCipherConfig struct {
	Delimiter   string `json:"delimiter"`    // between two sentences of the text
	MinWords    int    `json:"min_words"`    // of a sentence
	MaxWords    int    `json:"max_words"`    // of a sentence
	MinRotation int    `json:"min_rotation"` // places that letters are moved
	MaxRotation int    `json:"max_rotation"` // places that letters are moved
}

func (c CaesarCipherConfig) validate() error {
	if c.Delimiter == "" {
		return errors.New("delimiter is empty, must be a text that ends a sentence")
	}
	return check(
		atLeast("min_words", c.MinWords, 1),
		atLeast("max_words", c.MaxWords, c.MinWords),
		between("min_rotation", c.MinRotation, 1, 25),
		between("max_rotation", c.MaxRotation, c.MinRotation, 25),
	)
}

func prepareCaesarCipher(c CaesarCipherConfig) (generator, error) {
	sentences, err := caesarSentences(c)
	if err != nil {
		return nil, err
	}
	if len(sentences) == 0 {
		return nil, fmt.Errorf("with the delimiter %q, the text has no sentence of %d to %d words", c.Delimiter, c.MinWords, c.MaxWords)
	}
	var difficulty object
	difficulty.ints("words", c.MinWords, c.MaxWords)
	difficulty.ints("rotation", c.MinRotation, c.MaxRotation)
	return func(r *python.Random, m *object) (item, error) {
		sentence := python.Choice(r, sentences)
		rotation := r.RandInt(c.MinRotation, c.MaxRotation)
		cipher := rotate(sentence, rotation)
		m.int("rotation", rotation)
		m.string("cipher_text", cipher)
		m.string("clear_text", sentence)
		m.int("num_words", strings.Count(sentence, " ")+1)
		m.object("difficulty", difficulty)
		return item{"Decrypt this Caesar cipher text: " + cipher + ". Provide only the decrypted text as your final answer.", sentence}, nil
	}, nil
}

// caesarSentences are the sentences of the text with the wanted number of words, in upper case. Words that are not all letters,
// such as those before a comma, are left out first.
func caesarSentences(c CaesarCipherConfig) ([]string, error) {
	text, err := text(inTheYear2889)
	if err != nil {
		return nil, err
	}
	var sentences []string
	for sentence := range strings.SplitSeq(text, c.Delimiter) {
		var words []string
		for _, word := range python.Fields(sentence) {
			if python.IsAlpha(word) {
				words = append(words, strings.ToUpper(word))
			}
		}
		if len(words) >= c.MinWords && len(words) <= c.MaxWords {
			sentences = append(sentences, strings.Join(words, " "))
		}
	}
	return sentences, nil
}

// rotate moves letters along A to Z, from Z on to A. As upstream does, it also moves letters outside A to Z, by their code
// points: the text has one such word, AËRIAL, which no rotation brings back.
func rotate(text string, places int) string {
	b := make([]byte, 0, len(text))
	for _, c := range text {
		switch {
		case c >= 'A' && c <= 'Z': // by far the most
			if c += rune(places); c > 'Z' {
				c -= 26
			}
		case unicode.IsLetter(c):
			c = 'A' + (c-'A'+rune(places))%26
		}
		b = utf8.AppendRune(b, c)
	}
	return string(b)
}
