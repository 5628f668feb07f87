// Command pretrain makes the base model of the Caesar example: a small decoder that was shown, supervised, how texts of Isaac
// Newton's Opticks are deciphered, and that is unsure of its letters because in the last stage some of the targets were wrong.
//
//	go run ./examples/caesar/pretrain [-dir DIR] [-backend auto] [-seed 1] [-first STAGE] [-last STAGE]
//
// Each stage leaves a model folder, DIR/1, DIR/2, …, and begins with the one before it, so an interrupted pre-training goes on
// with -first. The last one is the example's model.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/examples/caesar/internal/caesar"
	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/examples/internal/supervised"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/rollout"
)

// batchSize is how many examples a step is taught with.
const batchSize = 32

// stages go from sure to unsure. After the first one errors are mostly in the rotation, which the first letter decides; so it
// weighs more.
var stages = []struct {
	supervised.Stage
	mixture
}{
	{supervised.Stage{Steps: 400, Warmup: 100, LR: 6e-3}, mixture{shuffled: .5, first: 1}},
	{supervised.Stage{Steps: 800, Warmup: 20, LR: 5e-3}, mixture{shuffled: .5, invented: .1, first: 6}},
	{supervised.Stage{Steps: 200, Warmup: 20, LR: 2e-3}, mixture{shuffled: .25, invented: .05, first: 6, wrong: .06}},
}

func main() {
	log.SetFlags(0)
	p := supervised.Pretraining{
		Model: decoder.Config{
			Vocab: 33, Hidden: 96, Layers: 3, Heads: 4, KVHeads: 2, HeadDim: 32, Intermediate: 192, QKNorm: true,
			MaxPositions: 192, NormEps: 1e-6, Rope: decoder.Rope{Theta: 1000}, InitDeviation: .1,
		},
		Optimizer: optim.AdamW{Beta1: .9, Beta2: .98, WeightDecay: .05},
		Bucket:    28,
		Card:      card,
	}
	p.Flags("caesar-base", len(stages))
	ctx, stop := console.Interruptible()
	defer stop()
	if err := pretrain(ctx, &p); err != nil {
		console.Fail(err)
	}
}

func pretrain(ctx context.Context, p *supervised.Pretraining) error {
	tasks, bank, err := caesar.Tasks(ctx)
	if err != nil {
		return err
	}
	if p.Tokenizer, err = caesar.Tokenizer(); err != nil {
		return err
	}
	for k, stage := range stages {
		text, err := newSource(p.Seed, k+1)
		if err != nil {
			return err
		}
		stage.Batch = text.batches(batchSize, stage.mixture)
		p.Stages = append(p.Stages, stage.Stage)
	}
	p.Tasks = bank.Validation
	p.Sampler = rollout.Sampler{
		Format:   rollout.Format{Tokenizer: p.Tokenizer, Prompt: caesar.Prompt},
		Grader:   envs.CompletedAnswer{Env: tasks},
		Sampling: rollout.Sampling{Temperature: 1, TopP: .95, TopK: 20, MaxTokens: caesar.MaxTokens},
	}
	return p.Run(ctx)
}

func card(f supervised.Facts) string {
	return fmt.Sprintf(`---
license: apache-2.0
---
# Base model of Grouper's Caesar example

A decoder of the Qwen 3 kind with a token for each character, made by

    go run ./examples/caesar/pretrain -seed %d

on backend %q: supervised on enciphered windows of 5 to 12 words of Isaac Newton's Opticks (public domain), in which none of
the plaintexts of the example's tasks occurs. In the last stage some of the letters were wrong. The stages stand in that command's source.

- %d thousand weights in bfloat16
- digest of the weights: %s
`, f.Seed, f.Backend, f.Weights, f.Digest)
}
