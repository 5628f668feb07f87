package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/examples/caesar/internal/caesar"
)

// seed is the one that the committed base model was made with.
const seed = 1

// If the base model had seen the plaintexts that it is evaluated on, the whole experiment would show nothing. Neither the text
// nor what is drawn from it, invented windows too, may hold a task, an answer or a plaintext of the bank.
func TestTextHoldsNothingOfTheBank(t *testing.T) {
	_, bank, err := caesar.Tasks(t.Context())
	require.NoError(t, err)
	all, err := words()
	require.NoError(t, err)
	text := " " + strings.Join(all, " ") + " "
	require.Greater(t, len(all), 90_000)

	forbidden := map[string]string{}
	for _, task := range append(bank.Train, bank.Validation...) {
		cipher := strings.TrimSuffix(strings.TrimPrefix(task.Question, caesar.Lead), caesar.Tail)
		require.NotEqual(t, task.Question, cipher, "the question has the expected form")
		for _, s := range []string{task.Answer, cipher} {
			require.NotContains(t, text, " "+s+" ", task.ID)
			forbidden[s] = task.ID
		}
	}
	require.Len(t, forbidden, 2*164)

	// All that a whole pre-training with the committed model's seed is shown.
	for k, stage := range stages {
		source, err := newSource(seed, k+1)
		require.NoError(t, err)
		steps := stage.Steps
		if testing.Short() {
			steps /= 10
		}
		next := source.batches(batchSize, stage.mixture)
		for step := range steps {
			for _, e := range next(step) {
				completion, err := source.tok.Decode(e.Completion)
				require.NoError(t, err)
				require.NotContains(t, forbidden, strings.TrimSuffix(strings.TrimPrefix(completion, caesar.Open), caesar.Close+caesar.EOS))
			}
		}
	}
}

// Each example must be a cipher of its text, one rotation for all letters, in the form that the example's prompts have.
func TestExamplesAreCiphers(t *testing.T) {
	s, err := newSource(2, 1)
	require.NoError(t, err)
	seen := map[int]bool{}
	for range 200 {
		e := s.example(mixture{first: 6})
		prompt, err := s.tok.Decode(e.Prompt)
		require.NoError(t, err)
		completion, err := s.tok.Decode(e.Completion)
		require.NoError(t, err)
		cipher := strings.TrimPrefix(strings.TrimRight(strings.ReplaceAll(prompt, caesar.Pad, ""), " "), caesar.Lead)
		cipher = strings.TrimSuffix(cipher, caesar.Tail)
		plain := strings.TrimSuffix(strings.TrimPrefix(completion, caesar.Open), caesar.Close+caesar.EOS)
		require.Len(t, e.Prompt, caesar.MaxText+2)
		require.LessOrEqual(t, len(e.Completion), caesar.MaxTokens)
		by := (int(cipher[0]) - int(plain[0]) + 26) % 26
		seen[by] = true
		for i := range plain {
			if plain[i] == ' ' {
				require.Equal(t, byte(' '), cipher[i])
			} else {
				require.Equal(t, by, (int(cipher[i])-int(plain[i])+26)%26)
			}
		}
	}
	require.Len(t, seen, caesar.Rotations)
}
