// Command update times GRPO updates at the size that Grouper is compared with other programs: a decoder of 812,416 weights, 8 prompts
// of 64 tokens × 8 completions of 64 tokens, every completion to its full length, AdamW, clip 0.2/0.28, no KL. It
// prints one JSON line with the fields of the peers' programs.
//
//	go run ./bench/update [-backend auto] [-updates 7]
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/grpo"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

const vocab, promptLen, newTokens = 96, 64, 64

// ids reads a prompt of one byte a token.
type ids struct{}

func (ids) Encode(text string) ([]int32, error) {
	out := make([]int32, len(text))
	for i := range out {
		out[i] = int32(text[i])
	}
	return out, nil
}

func (ids) Decode(tokens []int32) (string, error) { return fmt.Sprint(tokens), nil }

// coin gives half of the completions a reward, so that there is a gradient.
type coin struct{}

func (coin) Grade(_ context.Context, _ envs.Task, reply envs.Reply) (envs.Score, error) {
	return envs.Score{Reward: float64(len(reply.Text) % 2)}, nil
}

type spread struct {
	Min    float64 `json:"min"`
	Median float64 `json:"median"`
	Max    float64 `json:"max"`
	N      int     `json:"n"`
}

func of(xs []float64) spread {
	xs = slices.Sorted(slices.Values(xs))
	return spread{xs[0], xs[len(xs)/2], xs[len(xs)-1], len(xs)}
}

func main() {
	started := time.Now()
	spec := flag.String("backend", "auto", "auto, go, cpu, cuda or the path of a PJRT plug-in")
	updates := flag.Int("updates", 7, "updates, of which the first is not counted")
	flag.Parse()
	if err := run(started, *spec, *updates); err != nil {
		log.Fatal(err)
	}
}

func run(started time.Time, spec string, updates int) error {
	ctx := context.Background()
	b, err := backend.Open(ctx, spec)
	if err != nil {
		return err
	}
	d, err := decoder.New(decoder.Config{Vocab: vocab, Hidden: 128, Layers: 4, Heads: 4, KVHeads: 2, Intermediate: 384,
		MaxPositions: 256, NormEps: 1e-6, QKNorm: true, Rope: decoder.Rope{Theta: 1e4}})
	if err != nil {
		return err
	}
	w, err := d.Init(1)
	if err != nil {
		return err
	}
	engine, err := local.New(b, d, local.Options{})
	if err != nil {
		return err
	}
	defer engine.Close()
	r := rand.New(rand.NewPCG(1, 1))
	var tasks []envs.Task
	for i := range 64 {
		prompt := make([]byte, promptLen)
		for j := range prompt {
			prompt[j] = byte(r.IntN(vocab))
		}
		tasks = append(tasks, envs.Task{ID: fmt.Sprint(i), Question: string(prompt)})
	}
	bank, err := envs.FromTasks(envs.Origin{Name: "random prompts"}, tasks, nil, nil)
	if err != nil {
		return err
	}
	trainer, err := grpo.New(ctx,
		grpo.Config{Updates: updates, TasksPerUpdate: 8, GroupSize: 8, Objective: grpo.Objective{ClipLow: .2, ClipHigh: .28}},
		grpo.Parts{
			Backend: b, Policy: d, Weights: w, Optimizer: optim.AdamW{Beta1: .9, Beta2: .98, WeightDecay: .1}, Schedule: optim.Constant(1e-6),
			Bank: bank,
			Sampler: rollout.Sampler{Engine: engine, Format: rollout.Format{Tokenizer: ids{}}, Grader: coin{},
				Sampling: rollout.Sampling{Temperature: 1, MaxTokens: newTokens}},
		})
	if err != nil {
		return err
	}
	defer trainer.Close()
	var first float64
	var update, generate, train []float64
	last := time.Now()
	for u, err := range trainer.Updates(ctx) {
		if err != nil {
			return err
		}
		seconds := time.Since(last).Seconds()
		last = time.Now()
		if first == 0 {
			first = time.Since(started).Seconds()
			continue
		}
		update, generate, train = append(update, seconds), append(generate, u.Timing.Rollout), append(train, u.Timing.Train)
	}
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return err
	}
	tokens := make([]float64, len(generate))
	for i, s := range generate {
		tokens[i] = 64 * newTokens / s
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"peer": "grouper", "backend": b.Kind(), "params": w.Size(), "first_update_age_s": first,
		"update_s": of(update), "generate_s": of(generate), "train_s": of(train), "gen_tok_per_s": of(tokens),
		"rss_mib": float64(usage.Maxrss) / 1024,
	})
}
