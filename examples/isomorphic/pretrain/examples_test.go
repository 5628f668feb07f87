package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/examples/internal/supervised"
	"github.com/grouper-rl/grouper/examples/isomorphic/internal/isomorphic"
)

// seed is the one that the committed base model was made with.
const seed = 1

// If the base model had seen the questions that it is trained or evaluated on, the whole experiment would show nothing.
func TestTextbookHoldsNothingOfTheBank(t *testing.T) {
	_, bank, err := isomorphic.Tasks(t.Context())
	require.NoError(t, err)
	n := textbookSize
	if testing.Short() {
		n /= 20
	}
	tasks, err := textbook(t.Context(), seed, n, bank)
	require.NoError(t, err)
	require.Len(t, tasks, n)
	taught := map[string]bool{}
	for _, task := range tasks {
		taught[task.Question] = true
	}
	for _, task := range slices.Concat(bank.Train, bank.Validation) {
		require.False(t, taught[task.Question], task.ID)
	}
}

// The model must be taught what the example then asks it: prompts of the same form, the right answer, and after each letter
// the verdict that leads to it.
func TestExamplesAreTasks(t *testing.T) {
	teacher, tasks := newTeacher(t)
	answers := map[string]int{}
	for _, task := range tasks {
		e := teacher.example(task)
		text, err := teacher.tok.Decode(slices.Concat(e.Prompt, e.Completion))
		require.NoError(t, err)
		question, rest, found := strings.Cut(text, isomorphic.Open)
		require.True(t, found)
		require.Equal(t, isomorphic.Prompt(task), question)
		require.Equal(t, task.Question, strings.ReplaceAll(question, isomorphic.Pad, ""), "the question is upstream's")
		require.Equal(t, task.Answer+isomorphic.Close+isomorphic.EOS, rest)
		answers[task.Answer]++

		first, second := isomorphic.Words(task.Question)
		require.Len(t, second, len(first))
		running := verdicts(first, second)
		require.Equal(t, task.Answer == isomorphic.True, running[len(running)-1])
		for i, ok := range running {
			want := isomorphic.False
			if ok {
				want = isomorphic.True
			}
			got, err := teacher.tok.Decode(e.Targets[isomorphic.MaxWord+2+i : isomorphic.MaxWord+3+i])
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	}
	require.InDelta(t, .5, float64(answers[isomorphic.True])/float64(len(tasks)), .1)
}

// A model that is never shown a wrong answer leaves nothing to reinforce; one that is shown wrong ones for half of the tasks
// forgets the right ones.
func TestShareOfWrongTargets(t *testing.T) {
	teacher, tasks := newTeacher(t)
	answer := func(e supervised.Example) int { return len(e.Completion) - 3 }
	for _, wrong := range []float64{0, .45} {
		teacher.wrong = wrong
		turned := 0
		for _, task := range tasks {
			e := teacher.example(task)
			if e.Targets[answer(e)] != e.Completion[answer(e)] {
				turned++
			}
		}
		require.InDelta(t, wrong, float64(turned)/float64(len(tasks)), .05)
	}
}

func newTeacher(t *testing.T) (teacher, []envs.Task) {
	t.Helper()
	_, bank, err := isomorphic.Tasks(t.Context())
	require.NoError(t, err)
	tasks, err := textbook(t.Context(), seed+1, 1000, bank)
	require.NoError(t, err)
	tok, err := isomorphic.Tokenizer()
	require.NoError(t, err)
	return teacher{tasks: tasks, tok: tok, rand: rand.New(rand.NewPCG(seed, 0)), running: .5}, tasks
}
