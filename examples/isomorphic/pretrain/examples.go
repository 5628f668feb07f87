package main

import (
	"context"
	"math/rand/v2"
	"slices"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/examples/internal/supervised"
	"github.com/grouper-rl/grouper/examples/isomorphic/internal/isomorphic"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// textbook gives n tasks of the same dataset under another seed, none of which is in the bank. There are not many short
// words, so some tasks have to be left out.
func textbook(ctx context.Context, seed uint64, n int, bank *envs.Bank) ([]envs.Task, error) {
	held := map[string]bool{}
	for _, task := range slices.Concat(bank.Train, bank.Validation) {
		held[task.Question] = true
	}
	source, err := isomorphic.Dataset(int64(seed+1) * 1_000_000) // item i of seed s is item 0 of seed s+i
	if err != nil {
		return nil, err
	}
	tasks := make([]envs.Task, 0, n)
	for i := 0; len(tasks) < n; i++ {
		task, err := source.Task(ctx, i)
		if err != nil {
			return nil, err
		}
		if !held[task.Question] {
			tasks = append(tasks, task)
		}
	}
	return tasks, nil
}

// teacher makes training examples of tasks.
type teacher struct {
	tasks   []envs.Task
	tok     *tokenizer.Char
	rand    *rand.Rand
	wrong   float64 // share of answers that are turned round: the model learns to be unsure
	running float32 // weight of the verdicts before the answer
}

// batch draws examples of random tasks.
func (t *teacher) batch(int) []supervised.Example {
	batch := make([]supervised.Example, 64)
	for i := range batch {
		batch[i] = t.example(t.tasks[t.rand.IntN(len(t.tasks))])
	}
	return batch
}

// example is a task with its answer. What the answer hangs on is taught, too: after each letter of the second word the model
// is asked whether the words are isomorphic as far as there. That is why the words count as part of the completion.
func (t *teacher) example(task envs.Task) supervised.Example {
	text, err := t.tok.Encode(isomorphic.Prompt(task) + isomorphic.Open + task.Answer + isomorphic.Close + isomorphic.EOS)
	if err != nil {
		panic(err) // made of the tokenizer's own characters
	}
	yes, _ := t.tok.ID(isomorphic.True)
	no, _ := t.tok.ID(isomorphic.False)
	e := supervised.Example{Prompt: text[:1], Completion: text[1:], Targets: slices.Clone(text[1:]), Weights: make([]float32, len(text)-1)}

	answer := len(e.Completion) - 3
	for i := answer - 1; i < len(e.Completion); i++ {
		e.Weights[i] = 1
	}
	if t.rand.Float64() < t.wrong {
		e.Targets[answer] = yes + no - e.Targets[answer]
	}
	first, second := isomorphic.Words(task.Question)
	for i, ok := range verdicts(first, second) {
		next := isomorphic.MaxWord + 1 + i + 1 // what is predicted after letter i of the second word
		e.Weights[next], e.Targets[next] = t.running, no
		if ok {
			e.Targets[next] = yes
		}
	}
	return e
}

// verdicts says for each length whether the words are isomorphic as far as there: equal letters stand against equal ones, and
// different ones against different ones.
func verdicts(first, second string) []bool {
	out := make([]bool, len(first))
	ok := true
	for i := range out {
		for j := range i {
			ok = ok && (first[i] == first[j]) == (second[i] == second[j])
		}
		out[i] = ok
	}
	return out
}
