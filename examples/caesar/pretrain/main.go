// Command pretrain makes the base model of the Caesar example: a small decoder that was shown, supervised, how texts of Isaac
// Newton's Opticks are deciphered, and that is unsure of its letters because in the last stage some of the targets were wrong.
//
//	go run ./examples/caesar/pretrain [-dir DIR] [-backend auto] [-seed 1] [-first STAGE]
//
// Each stage leaves a model folder, DIR/1, DIR/2, …, and begins with the one before it, so an interrupted pre-training goes on
// with -first. The last one is the example's model.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"math"
	"os"
	"path/filepath"
	"strconv"
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

// stage is a part of the pre-training: AdamW on batches of 32, with a linear warm-up and a cosine down to 3 % of the learning rate.
type stage struct {
	steps, warmup int
	lr            float64
	mixture
}

// stages go from sure to unsure. After the first one errors are mostly in the rotation, which the first letter decides; so it
// weighs more.
var stages = []stage{
	{400, 100, 6e-3, mixture{shuffled: .5, first: 1}},
	{800, 20, 5e-3, mixture{shuffled: .5, invented: .1, first: 6}},
	{200, 20, 2e-3, mixture{shuffled: .25, invented: .05, first: 6, wrong: .06}},
}

func main() {
	log.SetFlags(0)
	dir := flag.String("dir", "caesar-base", "folder to write the models to")
	spec := flag.String("backend", "auto", "auto, go, cpu, cuda or the path of a PJRT plug-in")
	seed := flag.Uint64("seed", 1, "seed of initial weights and training text")
	first := flag.Int("first", 1, "stage to begin with, from the model of the one before")
	last := flag.Int("last", len(stages), "stage to end with")
	flag.Parse()
	ctx, stop := console.Interruptible()
	defer stop()
	if err := pretrain(ctx, *dir, *spec, *seed, *first, *last); err != nil {
		console.Fail(err)
	}
}

func config(dtype dtypes.DType) decoder.Config {
	return decoder.Config{
		Vocab: 33, Hidden: 96, Layers: 3, Heads: 4, KVHeads: 2, HeadDim: 32, Intermediate: 192, QKNorm: true,
		MaxPositions: 192, NormEps: 1e-6, Rope: decoder.Rope{Theta: 1000}, InitDeviation: .1, DType: dtype,
	}
}

func pretrain(ctx context.Context, dir, spec string, seed uint64, first, last int) error {
	if first < 1 || last > len(stages) || first > last {
		return fmt.Errorf("stages %d to %d: there are 1 to %d", first, last, len(stages))
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b, err := backend.Open(ctx, spec)
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
	for k := first; k <= last; k++ {
		if k > 1 {
			_, stored, err := hf.Load(ctx, os.DirFS(filepath.Join(dir, strconv.Itoa(k-1))))
			if err != nil {
				return err
			}
			if weights, err = supervised.Convert(b, d.Params(), stored); err != nil {
				return err
			}
		}
		if weights, err = stages[k-1].train(ctx, b, d, weights, k, seed); err != nil {
			return err
		}
		if err := save(ctx, b, filepath.Join(dir, strconv.Itoa(k)), weights, seed); err != nil {
			return err
		}
	}
	return nil
}

func (s stage) train(ctx context.Context, b *backend.Backend, p policy.Policy, w *policy.Weights, k int, seed uint64) (*policy.Weights, error) {
	text, err := newSource(seed, uint64(k))
	if err != nil {
		return nil, err
	}
	start, mean := time.Now(), 0.
	cosine := optim.Cosine(s.lr, .03*s.lr, s.steps-s.warmup, .5)
	return supervised.Train(ctx, supervised.Config{
		Backend: b, Policy: p, Optimizer: optim.AdamW{Beta1: .9, Beta2: .98, WeightDecay: .05}, MaxNorm: 1,
		Schedule: func(step int) float64 {
			if step < s.warmup {
				return s.lr * float64(step+1) / float64(s.warmup)
			}
			return cosine(step - s.warmup)
		},
		Steps: s.steps, Bucket: 28, Batch: text.batches(32, s.mixture),
		Report: func(step int, loss float64) {
			if mean = .95*mean + .05*loss; step == 1 {
				mean = loss
			}
			if step%50 == 0 {
				log.Printf("stage %d, step %4d/%d  loss %.4f  %s", k, step, s.steps, mean, time.Since(start).Round(time.Second))
			}
		},
	}, w)
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
func save(ctx context.Context, b *backend.Backend, dir string, w *policy.Weights, seed uint64) error {
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
	rounded, err := supervised.Convert(b, d.Params(), w)
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
	m.Files["README.md"] = fmt.Appendf(nil, card, seed, b.Kind(), math.Round(float64(rounded.Size())/1000), hash)
	return hf.Save(ctx, dir, m, rounded)
}

const card = `---
license: apache-2.0
---
# Base model of Grouper's Caesar example

A decoder of the Qwen 3 kind with a token for each character, made by

    go run ./examples/caesar/pretrain -seed %d

on backend %q: supervised on enciphered windows of 5 to 12 words of Isaac Newton's Opticks (public domain), in which none of
the plaintexts of the example's tasks occurs. The stages stand in that command's source.

- %.0f thousand weights in bfloat16
- digest of the weights: %s
`
