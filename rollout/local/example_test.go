package local_test

import (
	"context"
	"fmt"
	"log"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

// Two completions of one prompt from a decoder with random weights.
func Example() {
	ctx := context.Background()
	b, err := backend.Open(ctx, backend.Go)
	if err != nil {
		log.Fatal(err)
	}
	model, err := decoder.New(decoder.Config{
		Vocab: 16, Hidden: 8, Layers: 1, Heads: 2, Intermediate: 16, MaxPositions: 32, NormEps: 1e-6,
		Rope: decoder.Rope{Theta: 1e4},
	})
	if err != nil {
		log.Fatal(err)
	}
	weights, err := model.Init(1)
	if err != nil {
		log.Fatal(err)
	}
	engine, err := local.New(b, model, local.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer engine.Close()
	if err := engine.Load(ctx, weights); err != nil {
		log.Fatal(err)
	}
	request := rollout.Request{Prompt: []int32{3, 1, 4}}
	for sample := range 2 {
		request.Seeds = append(request.Seeds, rollout.NewSeed(17, "example", 0, "task", sample))
	}
	groups, err := engine.Generate(ctx, []rollout.Request{request}, rollout.Sampling{Temperature: 1, TopP: .95, MaxTokens: 10})
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range groups[0] {
		fmt.Println(len(c.Tokens), "tokens, finished by", c.Finish, "with the weights of update", c.Update)
	}
	// Output:
	// 10 tokens, finished by length with the weights of update 0
	// 10 tokens, finished by length with the weights of update 0
}
