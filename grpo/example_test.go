package grpo_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
	"github.com/grouper-rl/grouper/eval"
	"github.com/grouper-rl/grouper/grpo"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

// must keeps the example short; a program returns its errors.
func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

// padded is the form of prompt that this model was made for: filled up to one width.
func padded(task envs.Task) string {
	return task.Question + strings.Repeat("<pad>", max(0, 167-len(task.Question)))
}

// A whole training program: tasks, a model folder, an engine, a run directory, a loop.
func Example() {
	ctx := context.Background()
	tasks := must(reasoninggym.New("caesar_cipher", reasoninggym.Config{"min_words": 5, "max_words": 12, "max_rotation": 5}))
	bank := must(envs.Freeze(ctx, tasks, envs.Split{Train: 114, Validation: 50, DistinctBy: "clear_text"}))
	model, weights, err := hf.Load(ctx, os.DirFS("examples/caesar/model"))
	if err != nil {
		log.Fatal(err)
	}

	device := must(backend.Open(ctx, "auto"))
	sampler := rollout.Sampler{
		Engine:   must(local.New(device, model, local.Options{})),
		Format:   rollout.Format{Tokenizer: model.Tokenizer, Prompt: padded},
		Grader:   envs.CompletedAnswer{Env: tasks},
		Sampling: rollout.Sampling{Temperature: 1, TopP: .95, TopK: 20, MaxTokens: 100, Stop: model.Generation.EOS},
	}
	run := must(checkpoint.Open("runs/caesar"))
	defer run.Close()
	trainer := must(grpo.New(ctx,
		grpo.Config{Updates: 100, TasksPerUpdate: 8, GroupSize: 8, Objective: grpo.Objective{ClipLow: .2, ClipHigh: .28}},
		grpo.Parts{
			Backend: device, Policy: model, Weights: weights, Bank: bank, Sampler: sampler, Run: run,
			Optimizer: optim.AdamW{Beta1: .9, Beta2: .98, WeightDecay: .1}, Schedule: optim.Constant(2e-4),
			Evaluator: &eval.Evaluator{Sampler: sampler, Tasks: bank.Validation},
		}))
	defer trainer.Close()

	for update, err := range trainer.Updates(ctx) { // goes on where an earlier run of this program stopped
		if err != nil {
			log.Fatal(err)
		}
		if e := update.Evaluation; e != nil {
			fmt.Printf("after %d updates: %.2f %%\n", e.Update, 100*e.Accuracy)
		}
	}
}
