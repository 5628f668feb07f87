// Package caesar is what the Caesar example and the pre-training of its base model have to agree on: the tasks, the tokens
// and the form of a prompt.
package caesar

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// Upstream's question is Lead, the cipher text, Tail. Each of the two is one token of the example's tokenizer.
const (
	Lead = "Decrypt this Caesar cipher text: "
	Tail = ". Provide only the decrypted text as your final answer."
)

// Special tokens, and the characters of plain and cipher text.
const (
	Pad       = "<pad>"
	EOS       = "<eos>"
	Open      = "<answer>"
	Close     = "</answer>"
	Letters   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	Alphabet  = " " + Letters
	MaxText   = 79          // characters of the longest plaintext
	MaxTokens = MaxText + 3 // of a completion: Open, the plaintext, Close, EOS
	Rotations = 5           // ciphers are rotated by 1 to this
)

// Tasks are reasoning-gym's caesar_cipher with 5 to 12 words, of which there are 164 plaintexts, frozen into a bank in which
// no plaintext is used twice: 114 to train on and 50 to evaluate on. Of upstream's 25 rotations only some are used: a model this
// small cannot tell all of them apart by a short text's first words, and errors in that are not repaired by training on 114 texts.
func Tasks(ctx context.Context) (*reasoninggym.Dataset, *envs.Bank, error) {
	tasks, err := reasoninggym.New("caesar_cipher", reasoninggym.Config{"min_words": 5, "max_words": 12, "max_rotation": Rotations, "seed": 42})
	if err != nil {
		return nil, nil, err
	}
	bank, err := envs.Freeze(ctx, tasks, envs.Split{Train: 114, Validation: 50, DistinctBy: "clear_text"})
	return tasks, bank, err
}

// Tokenizer has a token for each character and for each piece of text that does not change.
func Tokenizer() (*tokenizer.Char, error) {
	return tokenizer.NewChar(tokenizer.CharConfig{
		Special: []string{Pad, EOS, Open, Close, Lead, Tail}, Alphabet: Alphabet, EOS: EOS, Pad: Pad,
	})
}

// Prompt is the question, filled up with Pad to the width of the longest one. So a character of the answer always stands at the
// same distance from its character of the cipher text, which makes it easy for a small model to find.
func Prompt(task envs.Task) string { return Fill(task.Question) }

// Fill fills a question up.
func Fill(question string) string {
	text := utf8.RuneCountInString(question) - utf8.RuneCountInString(Lead+Tail)
	return question + strings.Repeat(Pad, max(0, MaxText-text))
}
