// Command pretrain makes the base model of the Caesar example: a small decoder that was shown, supervised, how texts of Isaac
// Newton's Opticks are deciphered, and that is unsure of its letters because some of the targets were wrong.
//
//	go run ./examples/caesar/pretrain [-dir DIR] [-backend auto] [-seed 1] [-steps N] [-unsure N]
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"time"

	"github.com/gomlx/compute/dtypes"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/eval"
	"github.com/grouper-rl/grouper/examples/caesar/internal/caesar"
	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/examples/internal/supervised"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "caesar-base", "folder to write the model to; must not exist")
	spec := flag.String("backend", "auto", "auto, go, cpu, cuda or the path of a PJRT plug-in")
	seed := flag.Uint64("seed", 1, "seed of initial weights and training text")
	steps := flag.Int("steps", 1400, "steps on right targets")
	unsure := flag.Int("unsure", 400, "further steps with some wrong targets")
	flag.Parse()
	ctx, stop := console.Interruptible()
	defer stop()
	if err := pretrain(ctx, *dir, *spec, *seed, *steps, *unsure); err != nil {
		log.Fatal(err)
	}
}

func config(dtype dtypes.DType) decoder.Config {
	return decoder.Config{
		Vocab: 33, Hidden: 96, Layers: 3, Heads: 4, KVHeads: 2, HeadDim: 32, Intermediate: 192, QKNorm: true,
		MaxPositions: 192, NormEps: 1e-6, Rope: decoder.Rope{Theta: 1000}, InitDeviation: .1, DType: dtype,
	}
}

func pretrain(ctx context.Context, dir, spec string, seed uint64, steps, unsure int) error {
	b, err := backend.Open(ctx, spec)
	if err != nil {
		return err
	}
	text, err := newSource(seed)
	if err != nil {
		return err
	}
	d, err := decoder.New(config(dtypes.Float32))
	if err != nil {
		return err
	}
	weights, err := d.Init(seed)
	if err != nil {
		return err
	}
	start, mean := time.Now(), 0.
	stage := func(n, warmup int, lr float64, mix func(step int) mixture) error {
		schedule := optim.Cosine(lr, .03*lr, n-warmup, .5)
		weights, err = supervised.Train(ctx, supervised.Config{
			Backend: b, Policy: d, Optimizer: optim.AdamW{Beta1: .9, Beta2: .98, WeightDecay: .05}, MaxNorm: 1,
			Schedule: func(k int) float64 {
				if k < warmup {
					return lr * float64(k+1) / float64(warmup)
				}
				return schedule(k - warmup)
			},
			Steps: n, Bucket: 28, Batch: text.batches(32, mix),
			Report: func(step int, loss float64) {
				if mean = .98*mean + .02*loss; step == 1 {
					mean = loss
				}
				if step%50 == 0 {
					log.Printf("step %4d/%d  loss %.4f  %s", step, n, mean, time.Since(start).Round(time.Second))
				}
			},
		}, weights)
		return err
	}
	err = stage(steps, 100, 6e-3, func(step int) mixture {
		if step < 400 {
			return mixture{shuffled: .5, first: 1}
		}
		return mixture{shuffled: .5, invented: .1, first: 6} // by now errors are mostly in the rotation
	})
	if err != nil {
		return err
	}
	if err := measure(ctx, b, d, weights); err != nil {
		return err
	}
	if unsure > 0 {
		if err := stage(unsure, 20, 2e-3, func(int) mixture { return mixture{shuffled: .25, invented: .05, wrong: .05, first: 6} }); err != nil {
			return err
		}
		if err := measure(ctx, b, d, weights); err != nil {
			return err
		}
	}
	return save(ctx, b, dir, weights, fmt.Sprintf("-seed %d -steps %d -unsure %d", seed, steps, unsure))
}

// measure evaluates the model as the example does, at temperature 1 and greedily.
func measure(ctx context.Context, b *backend.Backend, p policy.Policy, w *policy.Weights) error {
	tasks, bank, err := caesar.Tasks(ctx)
	if err != nil {
		return err
	}
	tok, err := caesar.Tokenizer()
	if err != nil {
		return err
	}
	engine, err := local.New(b, p, local.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	for _, temperature := range []float64{1, 0} {
		e := eval.Evaluator{Tasks: bank.Validation, Sampler: rollout.Sampler{
			Engine: engine, Format: rollout.Format{Tokenizer: tok, Prompt: caesar.Prompt}, Grader: envs.CompletedAnswer{Env: tasks},
			Sampling: rollout.Sampling{Temperature: temperature, TopP: .95, TopK: 20, MaxTokens: caesar.MaxTokens, Stop: []int32{tok.EOS()}},
		}}
		figures, _, err := e.Evaluate(ctx, w)
		if err != nil {
			return err
		}
		log.Printf("temperature %g: %s", temperature, console.Evaluation(figures))
	}
	return nil
}

// save rounds the weights to bfloat16 and writes a model folder with a card.
func save(ctx context.Context, b *backend.Backend, dir string, w *policy.Weights, flags string) error {
	d, err := decoder.New(config(dtypes.BFloat16))
	if err != nil {
		return err
	}
	tok, err := caesar.Tokenizer()
	if err != nil {
		return err
	}
	m, err := hf.New(d, tok)
	if err != nil {
		return err
	}
	rounded, err := supervised.Round(b, d.Params(), w)
	if err != nil {
		return err
	}
	defer rounded.Free()
	if err := measure(ctx, b, d, rounded); err != nil {
		return err
	}
	hash, err := rounded.Digest()
	if err != nil {
		return err
	}
	m.Files["README.md"] = fmt.Appendf(nil, card, flags, hash, math.Round(float64(rounded.Size())/1000))
	return hf.Save(ctx, dir, m, rounded)
}

const card = `---
license: apache-2.0
---
# Base model of Grouper's Caesar example

A decoder of the Qwen 3 kind with a token for each character, made by

    go run ./examples/caesar/pretrain %s

on XLA CPU: supervised on windows of 5 to 12 words of Isaac Newton's Opticks (public domain) enciphered with rotations 1 to 5,
at the end with 5 %% of the target letters replaced by random ones. None of the plaintexts of the example's tasks is in that text.

- weights: bfloat16, digest %s
- %.0f thousand weights
- evaluated as in the example: see its README
`
