// Command caesar trains a small base model by GRPO to decipher Caesar ciphers: exact reasoning-gym tasks, an evaluation on held-out
// plaintexts every ten updates, and a run directory that can be resumed and verified.
//
//	go run ./examples/caesar
package main

import (
	"context"
	"embed"
	"errors"
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

func main() {
	o := console.Flags("caesar", "adam")
	ctx, stop := console.Interruptible()
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		console.Fail(err)
	}
}

func run(ctx context.Context, o console.Options, out io.Writer) error {
	optimizer, ok := optimizers[o.Optimizer]
	if !ok {
		return fmt.Errorf("-optimizer is %q, allowed: adam, sgd", o.Optimizer)
	}
	if o.LR == 0 {
		o.LR = optimizer.lr
	}
	if o.Dir == "" {
		o.Dir = filepath.Join("runs", "caesar-"+o.Optimizer)
	}
	progress := out
	if o.Quiet {
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
	b, err := backend.Open(ctx, o.Backend)
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
	judge := sampler
	if o.Lag > 0 { // then both work at the same time
		second, err := local.New(b, model, local.Options{})
		if err != nil {
			return err
		}
		defer second.Close()
		judge.Engine = second
	}

	// The run: recorded in its directory, from which it goes on if it is already there.
	record, err := checkpoint.Open(o.Dir)
	if err != nil {
		return err
	}
	defer record.Close()
	if err := o.Sign(record); err != nil {
		return err
	}
	trainer, err := grpo.New(ctx, grpo.Config{
		Seed: o.Seed, Updates: o.Updates, TasksPerUpdate: 8, GroupSize: 8,
		Objective: grpo.Objective{ClipLow: .2, ClipHigh: .28, Aggregation: grpo.TokenMean},
		Bucket:    28, SaveEvery: o.EvalEvery, Lag: o.Lag,
	}, grpo.Parts{
		Backend: b, Policy: model, Weights: weights, Optimizer: optimizer.rule, Schedule: optim.Constant(o.LR),
		Bank: bank, Sampler: sampler, Evaluator: &eval.Evaluator{Sampler: judge, Tasks: bank.Validation}, EvaluateBehind: o.Lag > 0,
		About: checkpoint.About{Title: "Caesar cipher, small", Task: "To decipher English words under a Caesar cipher (reasoning-gym caesar_cipher)", BaseModel: "the model in examples/caesar/model", License: "apache-2.0"},
		Run:   record, Log: slog.New(slog.NewTextHandler(progress, nil)),
	})
	if err != nil {
		return err
	}
	defer trainer.Close()

	show := console.Progress{W: progress, Total: o.Updates}
	for update, err := range trainer.Updates(ctx) {
		if err != nil {
			return errors.Join(err, report.Write(context.WithoutCancel(ctx), o.Dir))
		}
		show.Show(update)
	}
	if err := report.Write(ctx, o.Dir); err != nil {
		return err
	}
	fmt.Fprint(out, report.Table(record.History().Evaluations))
	fmt.Fprintf(out, "curves and tables: %s\n", filepath.Join(o.Dir, "report"))
	return nil
}
