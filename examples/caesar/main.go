// Command caesar trains a small base model by GRPO to decipher Caesar ciphers: exact reasoning-gym tasks, an evaluation on held-out
// plaintexts every ten updates, and a run directory that can be resumed and verified.
//
//	go run ./examples/caesar
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/eval"
	"github.com/grouper-rl/grouper/examples/caesar/internal/caesar"
	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/grpo"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/report"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

//go:embed model
var files embed.FS

// optimizers by the name of the flag, with the learning rate that suits this model.
var optimizers = map[string]struct {
	rule optim.Optimizer
	lr   float64
}{
	"adam": {optim.AdamW{Beta1: .9, Beta2: .98, WeightDecay: .1}, 2e-4},
	"sgd":  {optim.SGD{}, .7},
}

type options struct {
	dir, backend, optimizer string
	lr                      float64
	updates, evalEvery      int
	seed                    int64
	quiet                   bool
}

func main() {
	var o options
	flag.StringVar(&o.dir, "dir", "", "run directory; an existing one is resumed (default runs/caesar-OPTIMIZER)")
	flag.StringVar(&o.backend, "backend", "auto", "auto, go, cpu, cuda or the path of a PJRT plug-in")
	flag.StringVar(&o.optimizer, "optimizer", "adam", "adam or sgd")
	flag.Float64Var(&o.lr, "lr", 0, "learning rate (default 2e-4 with adam, 0.7 with sgd)")
	flag.IntVar(&o.updates, "updates", 100, "optimizer updates in all")
	flag.Int64Var(&o.seed, "seed", 1, "names all randomness of the run")
	flag.IntVar(&o.evalEvery, "eval-every", 10, "updates between checkpoints and evaluations")
	flag.BoolVar(&o.quiet, "quiet", false, "print only the table at the end")
	flag.Parse()
	ctx, stop := console.Interruptible()
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		console.Fail(err)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	optimizer, ok := optimizers[o.optimizer]
	if !ok {
		return fmt.Errorf("-optimizer is %q, allowed: adam, sgd", o.optimizer)
	}
	if o.lr == 0 {
		o.lr = optimizer.lr
	}
	if o.dir == "" {
		o.dir = filepath.Join("runs", "caesar-"+o.optimizer)
	}
	progress := out
	if o.quiet {
		progress = io.Discard
	}

	// The tasks, and the model that is to learn them.
	tasks, bank, err := caesar.Tasks(ctx)
	if err != nil {
		return err
	}
	folder, err := fs.Sub(files, "model")
	if err != nil {
		return err
	}
	model, weights, err := hf.Load(ctx, folder)
	if err != nil {
		return err
	}

	// What samples, and what judges.
	b, err := backend.Open(ctx, o.backend)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "backend %s, %d training tasks, %d validation tasks, %d weights\n", b.Kind(), len(bank.Train), len(bank.Validation), weights.Size())
	engine, err := local.New(b, model, local.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	sampler := rollout.Sampler{
		Engine:   engine,
		Format:   rollout.Format{Tokenizer: model.Tokenizer, Prompt: caesar.Prompt},
		Grader:   envs.CompletedAnswer{Env: tasks},
		Sampling: rollout.Sampling{Temperature: 1, TopP: .95, TopK: 20, MaxTokens: caesar.MaxTokens, Stop: model.Generation.EOS},
	}

	// The run: recorded in its directory, from which it goes on if it is already there.
	record, err := checkpoint.Open(o.dir)
	if err != nil {
		return err
	}
	defer record.Close()
	trainer, err := grpo.New(ctx, grpo.Config{
		Seed: o.seed, Updates: o.updates, TasksPerUpdate: 8, GroupSize: 8,
		Objective: grpo.Objective{ClipLow: .2, ClipHigh: .28, Aggregation: grpo.TokenMean},
		Bucket:    28, SaveEvery: o.evalEvery,
	}, grpo.Parts{
		Backend: b, Policy: model, Weights: weights, Optimizer: optimizer.rule, Schedule: optim.Constant(o.lr),
		Bank: bank, Sampler: sampler, Evaluator: &eval.Evaluator{Sampler: sampler, Tasks: bank.Validation},
		Run: record, Log: slog.New(slog.NewTextHandler(progress, nil)),
	})
	if err != nil {
		return err
	}
	defer trainer.Close()

	show := console.Progress{W: progress, Total: o.updates}
	for update, err := range trainer.Updates(ctx) {
		if err != nil {
			return errors.Join(err, report.Write(context.WithoutCancel(ctx), o.dir))
		}
		show.Show(update)
	}
	if err := report.Write(ctx, o.dir); err != nil {
		return err
	}
	fmt.Fprint(out, report.Table(record.History().Evaluations))
	fmt.Fprintf(out, "curves and tables: %s\n", filepath.Join(o.dir, "report"))
	return nil
}
