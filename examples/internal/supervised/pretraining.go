package supervised

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
	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/policy/tokenizer"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

// Stage is a part of a pre-training, with a linear warm-up and a cosine down to 3 % of the learning rate.
type Stage struct {
	Steps, Warmup int
	LR            float64
	Batch         func(step int) []Example
}

func (s Stage) schedule(step int) float64 {
	if step < s.Warmup {
		return s.LR * float64(step+1) / float64(s.Warmup)
	}
	return optim.Cosine(s.LR, .03*s.LR, s.Steps-s.Warmup, .5)(step - s.Warmup)
}

// Pretraining makes a base model in stages. Each leaves a model folder, Dir/1, Dir/2, …, in bfloat16 and begins with the one
// before it, so that an interrupted pre-training goes on at any of them.
type Pretraining struct {
	Dir, Backend string
	Seed         uint64 // of the initial weights
	First, Last  int    // stages to begin and to end with

	Model     decoder.Config // the dtype aside
	Tokenizer *tokenizer.Char
	Optimizer optim.Optimizer
	Bucket    int
	Stages    []Stage
	Sampler   rollout.Sampler    // how the model is sampled when it is measured, its engine and stop tokens aside
	Tasks     []envs.Task        // that it is measured on
	Card      func(Facts) string // the model folder's README.md
}

// Facts are what a model's card says of how it was made.
type Facts struct {
	Seed    uint64
	Backend string // kind
	Weights int    // thousands
	Digest  string // of the weights
}

// Flags reads the fields that say where, on what and how much from the command line.
func (p *Pretraining) Flags(dir string, stages int) {
	flag.StringVar(&p.Dir, "dir", dir, "folder to write the models to")
	flag.StringVar(&p.Backend, "backend", "auto", "auto, go, cpu, cuda or the path of a PJRT plug-in")
	flag.Uint64Var(&p.Seed, "seed", 1, "seed of initial weights and training examples")
	flag.IntVar(&p.First, "first", 1, "stage to begin with, from the model of the one before")
	flag.IntVar(&p.Last, "last", stages, "stage to end with")
	console.Parse()
}

// Run makes the models and logs how training goes and what each of them can do.
func (p *Pretraining) Run(ctx context.Context) error {
	if p.First < 1 || p.Last > len(p.Stages) || p.First > p.Last {
		return fmt.Errorf("stages %d to %d: there are 1 to %d", p.First, p.Last, len(p.Stages))
	}
	if err := os.MkdirAll(p.Dir, 0o755); err != nil {
		return err
	}
	b, err := backend.Open(ctx, p.Backend)
	if err != nil {
		return err
	}
	for k := p.First; k <= p.Last; k++ {
		if err := p.stage(ctx, b, k); err != nil {
			return err
		}
	}
	return nil
}

func (p *Pretraining) folder(stage int) string { return filepath.Join(p.Dir, strconv.Itoa(stage)) }

func (p *Pretraining) decoder(dtype dtypes.DType) (*decoder.Decoder, error) {
	cfg := p.Model
	cfg.DType = dtype
	return decoder.New(cfg)
}

func (p *Pretraining) stage(ctx context.Context, b *backend.Backend, k int) error {
	d, err := p.decoder(dtypes.Float32)
	if err != nil {
		return err
	}
	base, err := p.start(ctx, b, d, k)
	if err != nil {
		return err
	}
	defer base.Free()
	s := p.Stages[k-1]
	begun, mean := time.Now(), 0.
	weights, err := Train(ctx, Config{
		Backend: b, Policy: d, Optimizer: p.Optimizer, MaxNorm: 1, Schedule: s.schedule, Steps: s.Steps, Bucket: p.Bucket, Batch: s.Batch,
		Report: func(step int, loss float64) {
			if mean = .95*mean + .05*loss; step == 1 {
				mean = loss
			}
			if step%50 == 0 {
				log.Printf("stage %d, step %4d/%d  loss %.4f  %s", k, step, s.Steps, mean, time.Since(begun).Round(time.Second))
			}
		},
	}, base)
	if err != nil {
		return err
	}
	defer weights.Free()
	return p.save(ctx, b, p.folder(k), weights)
}

// start gives the weights that a stage begins with.
func (p *Pretraining) start(ctx context.Context, b *backend.Backend, d *decoder.Decoder, k int) (*policy.Weights, error) {
	if k == 1 {
		return d.Init(p.Seed)
	}
	_, stored, err := hf.Load(ctx, os.DirFS(p.folder(k-1)))
	if err != nil {
		return nil, err
	}
	return Convert(b, d.Params(), stored)
}

// save rounds the weights to bfloat16, measures them and writes a model folder with a card.
func (p *Pretraining) save(ctx context.Context, b *backend.Backend, dir string, w *policy.Weights) error {
	d, err := p.decoder(dtypes.BFloat16)
	if err != nil {
		return err
	}
	m, err := hf.New(d, p.Tokenizer)
	if err != nil {
		return err
	}
	rounded, err := Convert(b, d.Params(), w)
	if err != nil {
		return err
	}
	defer rounded.Free()
	if err := p.measure(ctx, b, m, rounded); err != nil {
		return err
	}
	digest, err := rounded.Digest()
	if err != nil {
		return err
	}
	facts := Facts{Seed: p.Seed, Backend: b.Kind(), Weights: int(math.Round(float64(rounded.Size()) / 1000)), Digest: digest}
	m.Files["README.md"] = []byte(p.Card(facts))
	return hf.Save(ctx, dir, m, rounded)
}

// measure evaluates the model as the example does, and greedily.
func (p *Pretraining) measure(ctx context.Context, b *backend.Backend, m *hf.Model, w *policy.Weights) error {
	engine, err := local.New(b, m, local.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	for _, temperature := range []float64{p.Sampler.Sampling.Temperature, 0} {
		e := eval.Evaluator{Sampler: p.Sampler, Tasks: p.Tasks}
		e.Sampler.Engine, e.Sampler.Sampling.Temperature, e.Sampler.Sampling.Stop = engine, temperature, m.Generation.EOS
		figures, _, err := e.Evaluate(ctx, w)
		if err != nil {
			return err
		}
		log.Printf("temperature %g: %s", temperature, console.Evaluation(figures))
	}
	return nil
}
