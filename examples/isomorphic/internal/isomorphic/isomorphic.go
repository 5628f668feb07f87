// Package isomorphic is what the example on isomorphic strings and the pre-training of its base model have to agree on: the
// tasks, the tokens and the form of a prompt.
package isomorphic

import (
	"context"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// Lead is upstream's question up to the two words, which stand on a line of their own, with a space between them. It is one
// token of the example's tokenizer.
const Lead = "Two strings are isomorphic if the characters in one string can be replaced to get the second string.\n\n" +
	"All occurrences of a character must be replaced with another character while preserving the order of characters.\n\n" +
	"No two characters may map to the same character, but a character may map to itself.\n\n" +
	"Return True if the following two strings are isomorphic, or False otherwise:\n"

// Special tokens, and sizes.
const (
	Pad       = "<pad>"
	EOS       = "<eos>"
	Open      = "<answer>"
	Close     = "</answer>"
	True      = "True"
	False     = "False"
	Letters   = "abcdefghijklmnopqrstuvwxyz"
	MaxWord   = 10 // characters of the longest word
	MaxTokens = 8  // of a completion: Open, True or False, Close and EOS are 4
)

// Dataset is reasoning-gym's isomorphic_strings as it is configured by default.
func Dataset(seed int64) (*reasoninggym.Dataset, error) {
	return reasoninggym.New("isomorphic_strings", reasoninggym.Config{"seed": seed})
}

// Tasks are the first 450 different tasks of seed 42: 400 to train on and 50 to evaluate on.
func Tasks(ctx context.Context) (*reasoninggym.Dataset, *envs.Bank, error) {
	tasks, err := Dataset(42)
	if err != nil {
		return nil, nil, err
	}
	bank, err := envs.Freeze(ctx, tasks, envs.Split{Train: 400, Validation: 50, DistinctBy: "question"})
	return tasks, bank, err
}

// Tokenizer has a token for each letter and for each piece of text that does not change.
func Tokenizer() (*tokenizer.Char, error) {
	return tokenizer.NewChar(tokenizer.CharConfig{
		Special: []string{Pad, EOS, Open, Close, True, False, Lead}, Alphabet: " \n" + Letters, EOS: EOS, Pad: Pad,
	})
}

// Prompt is the question with each word filled up with Pad to the width of the longest one. So the letters that stand
// against each other always have the same distance, which makes it easy for a small model to find them.
func Prompt(task envs.Task) string {
	first, second := Words(task.Question)
	return Lead + fill(first) + " " + fill(second) + "\n"
}

// Words are the two words of a question.
func Words(question string) (first, second string) {
	first, second, _ = strings.Cut(strings.TrimSuffix(strings.TrimPrefix(question, Lead), "\n"), " ")
	return first, second
}

func fill(word string) string { return word + strings.Repeat(Pad, max(0, MaxWord-len(word))) }
