// Command custompolicy trains a network that is no transformer and no part of Grouper, from random weights, on an environment of
// its own: to say which of two digits is the larger one. It shows all that a policy, a tokenizer and an environment have to be.
//
//	go run ./examples/custompolicy
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/eval"
	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/grpo"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "runs/larger", "run directory; an existing one is resumed")
	flag.StringVar(&o.backend, "backend", "auto", "auto, go, cpu, cuda or the path of a PJRT plug-in")
	flag.IntVar(&o.updates, "updates", 150, "optimizer updates in all")
	flag.Int64Var(&o.seed, "seed", 1, "names all randomness of the run")
	console.Parse()
	ctx, stop := console.Interruptible()
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		console.Fail(err)
	}
}

type options struct {
	dir, backend string
	updates      int
	seed         int64
}

func run(ctx context.Context, o options, out io.Writer) error {
	b, err := backend.Open(ctx, o.backend)
	if err != nil {
		return err
	}
	bank, err := pairs()
	if err != nil {
		return err
	}
	model := window{vocab: len(alphabet), width: 3, embed: 16, hidden: 64}
	weights, err := model.random(uint64(o.seed))
	if err != nil {
		return err
	}
	engine, err := local.New(b, model, local.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	sampler := rollout.Sampler{
		Engine: engine, Format: rollout.Format{Tokenizer: symbols{}}, Grader: exact{},
		Sampling: rollout.Sampling{Temperature: 1, MaxTokens: 2, Stop: []int32{end}},
	}
	record, err := checkpoint.Open(o.dir)
	if err != nil {
		return err
	}
	defer record.Close()
	trainer, err := grpo.New(ctx, grpo.Config{
		Seed: o.seed, Updates: o.updates, TasksPerUpdate: 16, GroupSize: 16, Bucket: 4, SaveEvery: 50,
		Objective: grpo.Objective{ClipLow: .2, ClipHigh: .28},
	}, grpo.Parts{
		Backend: b, Policy: model, Weights: weights, Optimizer: optim.AdamW{Beta1: .9, Beta2: .98}, Schedule: optim.Constant(.005),
		Bank: bank, Sampler: sampler, Evaluator: &eval.Evaluator{Sampler: sampler, Tasks: bank.Validation}, Run: record,
		About: checkpoint.About{Title: "The larger of two digits", Task: "To say which of two digits is the larger one", License: "apache-2.0"},
	})
	if err != nil {
		return err
	}
	defer trainer.Close()
	for update, err := range trainer.Updates(ctx) {
		if err != nil {
			return err
		}
		if e := update.Evaluation; e != nil {
			fmt.Fprintln(out, console.Evaluation(*e))
		}
	}
	return nil
}

// pairs are all pairs of digits: thirty are kept for validation.
func pairs() (*envs.Bank, error) {
	var train, validation []envs.Task
	for a := range 10 {
		for b := range 10 {
			question := fmt.Sprintf("%d %d", a, b)
			task := envs.Task{ID: "larger/" + question, Question: question, Answer: fmt.Sprint(max(a, b)), Key: question}
			if (7*a+3*b)%10 < 3 {
				validation = append(validation, task)
			} else {
				train = append(train, task)
			}
		}
	}
	return envs.FromTasks(envs.Origin{Name: "larger"}, train, validation, nil)
}

// exact rewards a finished completion that is the answer, and nothing else.
type exact struct{}

func (exact) Grade(_ context.Context, task envs.Task, reply envs.Reply) (envs.Score, error) {
	switch {
	case !reply.Finished:
		return envs.Score{Labels: []string{envs.Truncated}}, nil
	case reply.Text != task.Answer:
		return envs.Score{Labels: []string{envs.Wrong}}, nil
	}
	return envs.Score{Reward: 1, Value: 1, Labels: []string{envs.Correct}}, nil
}

// alphabet has a token for each character; the last one ends a completion.
const (
	alphabet       = "0123456789 ."
	end      int32 = int32(len(alphabet) - 1)
)

// symbols is the tokenizer.
type symbols struct{}

func (symbols) Encode(text string) ([]int32, error) {
	var out []int32
	for _, c := range []byte(text) {
		id := -1
		for i := range len(alphabet) {
			if alphabet[i] == c {
				id = i
			}
		}
		if id < 0 {
			return nil, fmt.Errorf("no token for %q", c)
		}
		out = append(out, int32(id))
	}
	return out, nil
}

func (symbols) Decode(tokens []int32) (string, error) {
	var out []byte
	for _, t := range tokens {
		if t < 0 || int(t) >= len(alphabet) {
			return "", fmt.Errorf("no token %d", t)
		}
		out = append(out, alphabet[t])
	}
	return string(out), nil
}
