// Command pretrain makes the base model of the example on isomorphic strings: a small decoder that was shown, supervised,
// the answers of other tasks of the same dataset, and that is unsure of its answers because in the last stage many of the
// targets were wrong.
//
//	go run ./examples/isomorphic/pretrain [-dir DIR] [-backend auto] [-seed 1] [-first STAGE] [-last STAGE]
//
// Each stage leaves a model folder, DIR/1 and DIR/2, and begins with the one before it, so an interrupted pre-training goes
// on with -first. The last one is the example's model.
package main

import (
	"context"
	"fmt"
	"log"
	"math/rand/v2"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/examples/internal/supervised"
	"github.com/grouper-rl/grouper/examples/isomorphic/internal/isomorphic"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/rollout"
)

// textbookSize is how many tasks the model is taught with.
const textbookSize = 150_000

func main() {
	log.SetFlags(0)
	p := supervised.Pretraining{
		Model: decoder.Config{
			Vocab: 35, Hidden: 64, Layers: 3, Heads: 4, HeadDim: 16, Intermediate: 128, QKNorm: true,
			MaxPositions: 64, NormEps: 1e-6, Rope: decoder.Rope{Theta: 1000}, InitDeviation: .2,
		},
		Optimizer: optim.AdamW{Beta1: .9, Beta2: .95, WeightDecay: .05},
		Bucket:    1, // all examples have the same length
		Card:      card,
	}
	p.Flags("isomorphic-base", 2)
	ctx, stop := console.Interruptible()
	defer stop()
	if err := pretrain(ctx, &p); err != nil {
		console.Fail(err)
	}
}

func pretrain(ctx context.Context, p *supervised.Pretraining) error {
	tasks, bank, err := isomorphic.Tasks(ctx)
	if err != nil {
		return err
	}
	taught, err := textbook(ctx, p.Seed, textbookSize, bank)
	if err != nil {
		return err
	}
	if p.Tokenizer, err = isomorphic.Tokenizer(); err != nil {
		return err
	}
	sure := teacher{tasks: taught, tok: p.Tokenizer, rand: rand.New(rand.NewPCG(p.Seed, 1)), running: .5}
	unsure := teacher{tasks: taught, tok: p.Tokenizer, rand: rand.New(rand.NewPCG(p.Seed, 2)), running: 3, wrong: .44}
	p.Stages = []supervised.Stage{
		{Steps: 5000, Warmup: 100, LR: 3e-3, Batch: sure.batch},
		{Steps: 800, Warmup: 20, LR: 3e-4, Batch: unsure.batch},
	}
	p.Tasks = bank.Validation
	p.Sampler = rollout.Sampler{
		Format:   rollout.Format{Tokenizer: p.Tokenizer, Prompt: isomorphic.Prompt},
		Grader:   envs.CompletedAnswer{Env: tasks},
		Sampling: rollout.Sampling{Temperature: 1, TopP: .95, TopK: 20, MaxTokens: isomorphic.MaxTokens},
	}
	return p.Run(ctx)
}

func card(f supervised.Facts) string {
	return fmt.Sprintf(`---
license: apache-2.0
---
# Base model of Grouper's example on isomorphic strings

A decoder of the Qwen 3 kind with a token for each letter, made by

    go run ./examples/isomorphic/pretrain -seed %d

on backend %q: supervised on %d tasks of reasoning-gym's isomorphic_strings under another seed than the example's, with none of the
example's questions among them. In the second stage many of the answers were wrong. The stages stand in that command's source.

- %d thousand weights in bfloat16
- digest of the weights: %s
`, f.Seed, f.Backend, textbookSize, f.Weights, f.Digest)
}
