// Command hf trains a model from the Hugging Face hub by GRPO on any reasoning-gym environment: the folder's own tokenizer and chat
// template, an evaluation on held-out tasks, a run directory that can be resumed and verified, and at the end a model folder that
// transformers, vLLM and SGLang open.
//
//	go run ./examples/hf -model DIR -env NAME [-config JSON] [-export DIR]
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/eval"
	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/grpo"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy/chat"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/report"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

// optimizers by the name of the flag, with a learning rate for a model of some hundred million weights.
var optimizers = map[string]struct {
	rule optim.Optimizer
	lr   float64
}{
	"adam": {optim.AdamW{Beta1: .9, Beta2: .98}, 1e-5},
	"sgd":  {optim.SGD{}, .1},
}

func main() {
	o := flags()
	ctx, stop := console.Interruptible()
	defer stop()
	if err := run(ctx, o, os.Stdout); err != nil {
		console.Fail(err)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	optimizer, err := o.prepare()
	if err != nil {
		return err
	}
	progress := out
	if o.Quiet {
		progress = io.Discard
	}

	// The model, the tasks, and how the model is asked.
	started := time.Now()
	model, weights, err := hf.Load(ctx, os.DirFS(o.model))
	if err != nil {
		return fmt.Errorf("-model %s: %w", o.model, err)
	}
	if err := errors.Join(model.TokenizerErr, model.ChatErr); err != nil {
		return fmt.Errorf("-model %s: %w", o.model, err)
	}
	if len(model.Generation.EOS) == 0 {
		return fmt.Errorf("-model %s: neither generation_config.json nor config.json has eos_token_id: no completion would end", o.model)
	}
	loaded := time.Since(started)
	tasks, bank, shots, err := o.tasksOf(ctx)
	if err != nil {
		return err
	}
	format, err := chat.NewFormat(chat.FormatConfig{Template: model.Chat, System: o.systemPrompt(), Shots: shots})
	if err != nil {
		return fmt.Errorf("-model %s: %w", o.model, err)
	}

	// What samples, and what judges.
	b, err := backend.Open(ctx, o.Backend)
	if err != nil {
		return err
	}
	fmt.Fprintf(progress, "backend %s, %s with %d weights loaded in %.1f s, %s: %d training tasks, %d validation tasks\n",
		b.Kind(), filepath.Base(o.model), weights.Size(), loaded.Seconds(), tasks.Name(), len(bank.Train), len(bank.Validation))
	engine, err := local.New(b, model, local.Options{MaxRows: o.rows})
	if err != nil {
		return err
	}
	defer engine.Close()
	sampler := rollout.Sampler{
		Engine:   engine,
		Format:   rollout.Format{Tokenizer: model.Tokenizer, Chat: format},
		Grader:   envs.CompletedAnswer{Env: tasks},
		Sampling: rollout.Sampling{Temperature: o.temperature, TopP: o.topP, TopK: o.topK, MaxTokens: o.maxTokens, Stop: model.Generation.EOS},
	}
	judge := sampler
	if o.Lag > 0 { // then both work at the same time
		second, err := local.New(b, model, local.Options{MaxRows: o.rows})
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
	if o.keep > 0 {
		if err := record.Retain(checkpoint.Retention{Last: o.keep, Best: true}); err != nil {
			return err
		}
	}
	trainer, err := grpo.New(ctx, grpo.Config{
		Seed: o.Seed, Updates: o.Updates, TasksPerUpdate: o.tasks, GroupSize: o.group,
		Objective:   grpo.Objective{ClipLow: .2, ClipHigh: .28, Aggregation: grpo.TokenMean},
		MaxGradNorm: 1, MicroBatch: o.micro, SaveEvery: o.EvalEvery, Lag: o.Lag,
	}, grpo.Parts{
		Backend: b, Policy: model, Weights: weights, Optimizer: optimizer, Schedule: optim.Constant(o.LR),
		Bank: bank, Sampler: sampler, EvaluateBehind: o.Lag > 0,
		Evaluator: &eval.Evaluator{Sampler: judge, Tasks: bank.Validation, Seeds: eval.DefaultSeeds()[:o.samples]},
		About: checkpoint.About{Title: fmt.Sprintf("%s, %s", filepath.Base(o.model), o.env), BaseModel: filepath.Base(o.model),
			Task: "To solve tasks of reasoning-gym's " + o.env},
		Run: record, Log: slog.New(slog.NewTextHandler(progress, nil)),
	})
	if err != nil {
		return err
	}
	defer trainer.Close()
	weights.Free() // the trainer has a copy

	show := table{w: progress}
	for update, err := range trainer.Updates(ctx) {
		if err != nil {
			return errors.Join(err, report.Write(context.WithoutCancel(ctx), o.Dir))
		}
		show.row(update)
	}
	if err := report.Write(ctx, o.Dir); err != nil {
		return err
	}
	fmt.Fprint(out, report.Table(record.History().Evaluations))
	fmt.Fprintf(out, "curves and tables: %s\n", filepath.Join(o.Dir, report.Folder))
	if o.export == "" {
		return nil
	}
	return export(ctx, o, model, trainer, out)
}

// export writes the trained model with its card.
func export(ctx context.Context, o options, model *hf.Model, trainer *grpo.Trainer, out io.Writer) error {
	weights, err := trainer.Weights()
	if err != nil {
		return err
	}
	files := map[string][]byte{}
	for name, from := range map[string]string{"README.md": "model-card.md", "curves.png": "curves.png"} {
		if files[name], err = os.ReadFile(filepath.Join(o.Dir, report.Folder, from)); err != nil {
			return err
		}
	}
	manifest, err := hf.Export(ctx, o.export, model, weights, hf.ExportOptions{Files: files})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "model folder: %s (%d tensors, each read back and compared)\n", o.export, len(manifest.Tensors))
	return nil
}
