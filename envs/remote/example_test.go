package remote_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/remote"
)

// Any dataset of an installed reasoning-gym, through the program that the package's documentation has.
func ExampleStart() {
	ctx := context.Background()
	env, err := remote.Start(ctx, remote.ProcessConfig{
		Name:    "python/word_sorting",
		Command: []string{"python3", "worker.py"},
		Config:  json.RawMessage(`{"name": "word_sorting", "seed": 42}`),
		Limits:  remote.Limits{Concurrency: 4},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer env.Close()
	bank, err := envs.Freeze(ctx, env, envs.Split{Train: 100, Validation: 50})
	if err != nil {
		log.Fatal(err)
	}
	reward := envs.CompletedAnswer{Env: env}
	score, err := reward.Grade(ctx, bank.Train[0], envs.Reply{Text: "<answer>a, b</answer>", Finished: true})
	fmt.Println(score, err)
}

// Two datasets of a reasoning-gym server, drawn one to two.
func ExampleCreate() {
	ctx := context.Background()
	env, err := remote.Create(ctx, remote.ServerConfig{
		URL:        "http://127.0.0.1:8000",
		Key:        "the server's REASONING_GYM_API_KEY",
		Experiment: "grpo",
	}, remote.Experiment{Size: 1000, Seed: 42, Datasets: []remote.Dataset{
		{Name: "word_sorting", Weight: 1},
		{Name: "caesar_cipher", Weight: 2, Config: map[string]any{"max_words": 6}},
	}})
	if err != nil {
		log.Fatal(err)
	}
	defer env.Close()
	task, err := env.Task(ctx, 0)
	fmt.Println(task.Question, err)
}
