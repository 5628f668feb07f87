package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
	"github.com/grouper-rl/grouper/eval"
	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy/chat"
)

type options struct {
	console.Options
	model, env, config, export string
	system                     string
	shots                      int
	maxTokens                  int
	temperature, topP          float64
	topK                       int
	tasks, group               int // of an update
	micro, rows                int // completions trained on and decoded at once: what memory depends on
	train, validation          int // tasks
	samples                    int // completions of a task in an evaluation
	keep                       int // checkpoints
}

// flags reads the command line.
func flags() options {
	var o options
	flag.StringVar(&o.model, "model", "", "model folder as on the Hugging Face hub")
	flag.StringVar(&o.env, "env", "", "reasoning-gym dataset; docs/environments lists them")
	flag.StringVar(&o.config, "config", "{}", "the dataset's settings as a JSON object")
	flag.StringVar(&o.export, "export", "", "folder to write the trained model to, at the end")
	flag.StringVar(&o.system, "system", "direct", "system prompt: direct, default, simple, chain_of_draft, DeepSeekZero, or a text of your own")
	flag.IntVar(&o.shots, "shots", 3, "solved tasks that are shown in each prompt, for models that do not follow the system prompt")
	flag.IntVar(&o.maxTokens, "max-tokens", 32, "tokens of a completion; longer ones count as wrong")
	flag.Float64Var(&o.temperature, "temperature", 1, "of sampling")
	flag.Float64Var(&o.topP, "top-p", 1, "sample from the likeliest tokens that together have this probability; 1: all")
	flag.IntVar(&o.topK, "top-k", 0, "sample from this many likeliest tokens; 0: all")
	flag.IntVar(&o.tasks, "tasks", 8, "tasks of an update")
	flag.IntVar(&o.group, "group", 8, "completions of each task")
	flag.IntVar(&o.micro, "micro", 0, "completions trained on at once; fewer need less memory (default 16, or all of an update)")
	flag.IntVar(&o.rows, "rows", 64, "completions decoded at once; fewer need less memory")
	flag.IntVar(&o.train, "train", 100, "tasks to train on")
	flag.IntVar(&o.validation, "validation", 50, "other tasks to evaluate on")
	flag.IntVar(&o.keep, "keep", 2, "newest checkpoints that are kept, besides the best one; 0: all")
	flag.IntVar(&o.samples, "samples", 4, "completions of each validation task in an evaluation")
	o.Options = console.Flags("ENV", "adam")
	return o
}

// prepare checks what no library checks, fills in what was left out, and finds the optimizer.
func (o *options) prepare() (optim.Optimizer, error) {
	optimizer, ok := optimizers[o.Optimizer]
	switch seeds := len(eval.DefaultSeeds()); {
	case o.model == "" || o.env == "":
		return nil, errors.New("-model and -env are needed")
	case !ok:
		return nil, fmt.Errorf("-optimizer is %q, allowed: adam, sgd", o.Optimizer)
	case o.samples < 1 || o.samples > seeds:
		return nil, fmt.Errorf("-samples is %d, allowed: 1 to %d", o.samples, seeds)
	case o.shots < 0 || o.shots > 100:
		return nil, fmt.Errorf("-shots is %d, allowed: 0 to 100", o.shots)
	}
	if o.export != "" { // said now, not after the run
		switch entries, err := os.ReadDir(o.export); {
		case len(entries) > 0:
			return nil, fmt.Errorf("-export %s: the folder is not empty", o.export)
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("-export: %w", err)
		}
	}
	if o.micro == 0 {
		o.micro = min(16, o.tasks*o.group)
	}
	if o.LR == 0 {
		o.LR = optimizer.lr
	}
	if o.Dir == "" {
		o.Dir = filepath.Join("runs", o.env+"-"+o.Optimizer)
	}
	return optimizer.rule, nil
}

// systemPrompt is one of upstream's by its name, or the user's own.
func (o *options) systemPrompt() string {
	if prompt, err := reasoninggym.SystemPrompt(o.system); err == nil {
		return prompt
	}
	return o.system
}

// tasksOf freezes the tasks, and takes the next ones, which are in no part of the bank, as shots.
func (o *options) tasksOf(ctx context.Context) (*reasoninggym.Dataset, *envs.Bank, []chat.Shot, error) {
	var config reasoninggym.Config
	d := json.NewDecoder(bytes.NewReader([]byte(o.config)))
	d.UseNumber()
	if err := d.Decode(&config); err != nil {
		return nil, nil, nil, fmt.Errorf("-config %s: %w", o.config, err)
	}
	if rest := strings.TrimSpace(o.config[d.InputOffset():]); rest != "" {
		return nil, nil, nil, fmt.Errorf("-config %s: %q stands behind the object", o.config, rest)
	}
	tasks, err := reasoninggym.New(o.env, config)
	if err != nil {
		return nil, nil, nil, err
	}
	bank, err := envs.Freeze(ctx, tasks, envs.Split{Train: o.train, Validation: o.validation})
	if err != nil {
		return nil, nil, nil, err
	}
	seen := map[string]bool{}
	for _, task := range slices.Concat(bank.Train, bank.Validation) {
		seen[task.Question] = true
	}
	var shots []chat.Shot
	for i := bank.Manifest.Walked; len(shots) < o.shots; i++ {
		if i == bank.Manifest.Walked+envs.DefaultLimit {
			return nil, nil, nil, fmt.Errorf("-shots %d: %s has only %d more tasks", o.shots, tasks.Name(), len(shots))
		}
		task, err := tasks.Task(ctx, i)
		if err != nil {
			return nil, nil, nil, err
		}
		if !seen[task.Question] && task.Answer != "" {
			seen[task.Question] = true
			shots = append(shots, chat.Shot{Question: task.Question, Reply: "<answer>" + task.Answer + "</answer>"})
		}
	}
	return tasks, bank, shots, nil
}
