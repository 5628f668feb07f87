// Package testrun writes small run directories for tests: what a trainer records, without a network. The "policy" is eight
// bytes that every update changes; its completions are right or wrong, finished or cut off, by a random generator seeded from
// those bytes. All of it is deterministic, so that a run that was interrupted must end like one that was not.
package testrun

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
)

// Program is a training program.
type Program struct {
	Updates int
	Every   int                // updates between checkpoints and between evaluations
	Seed    int64              // another seed gives another run
	Host    float64            // what the clock shows; differs between openings
	Extra   bool               // one more checkpoint, after update 1
	Last    bool               // the last update is saved and evaluated, whatever its number
	Tries   int                // how often a failed write is tried; 0: once
	Key     ed25519.PrivateKey // signs the receipts; nil: nothing is signed
	Stop    int                // the program ends without a word after this update; 0: it does not
	Skip    int                // the evaluation of this update is not made, as if the program were stopped before it; 0: none
	Twist   int64              // another value gives other completions from here on: an alternative

	Tasks int  // an update; 0: 2
	Group int  // completions of a task; 0: 3
	Lag   int  // see checkpoint.Plan
	Ready int  // groups of the next update that a checkpoint holds, sampled and graded
	Drop  bool // groups without variance are dropped while there are other tasks

	About checkpoint.About // what the card says of it

	At        *checkpoint.Restore // what the program goes on from
	Retention checkpoint.Retention

	// Where the tasks come from, eight or more to train on, and what scores answers; nil: Bank and an echo of the answer.
	Bank *envs.Bank
	Env  envs.Env
}

var seeds = []int64{17, 43, 101}

// Bank is the frozen bank of every test run: eight training and four validation tasks.
func Bank() (*envs.Bank, error) {
	tasks := make([]envs.Task, 12)
	for i := range tasks {
		word := fmt.Sprintf("w%c%c", 'a'+i, 'z'-i)
		tasks[i] = envs.Task{ID: fmt.Sprintf("echo/%d", i), Question: "say " + word, Answer: word, Key: word, Metadata: json.RawMessage(fmt.Sprintf(`{"index":%d}`, i))}
	}
	return envs.FromTasks(envs.Origin{Name: "echo"}, tasks[:8], tasks[8:], nil)
}

type echo struct{}

func (echo) Score(_ context.Context, task envs.Task, answer string) (float64, error) {
	if answer == task.Answer {
		return 1, nil
	}
	return 0.25, nil
}

// Grader makes the grader that the runs name.
func Grader(g checkpoint.Grader) (envs.Grader, error) {
	if g.Source != "echo" {
		return nil, fmt.Errorf("unknown source %q", g.Source)
	}
	return envs.CompletedAnswer{Env: echo{}}, nil
}

func (p Program) bank() (*envs.Bank, error) {
	if p.Bank != nil {
		return p.Bank, nil
	}
	return Bank()
}

func (p Program) grader() envs.Grader {
	if p.Env != nil {
		return envs.CompletedAnswer{Env: p.Env}
	}
	return envs.CompletedAnswer{Env: echo{}}
}

// Identity is the run's identity.
func (p Program) Identity() (checkpoint.Identity, error) {
	bank, err := p.bank()
	if err != nil {
		return checkpoint.Identity{}, err
	}
	plan := checkpoint.Plan{TasksPerUpdate: p.tasks(), GroupSize: p.group(), Lag: p.Lag, Evaluation: &checkpoint.EvaluationPlan{
		Seeds: seeds, Every: p.Every, Last: p.Last, Sampling: json.RawMessage(`{"temperature":1}`),
	}}
	for _, task := range bank.Validation {
		plan.Evaluation.Tasks = append(plan.Evaluation.Tasks, task.ID)
	}
	return checkpoint.Identity{
		Settings:   map[string]any{"updates": p.Updates, "twist": p.Twist, "lr": 1e-6, "policy": "hf.Model", "objective": map[string]any{"clip_low": .2, "clip_high": .28}},
		Changeable: []string{"updates", "twist"},
		Seed:       p.Seed,
		Plan:       plan,
		Grader:     checkpoint.Grader{Source: bank.Manifest.Source.Name, Config: bank.Manifest.Source.Config},
		Digests:    map[string]string{"weights": base().digest()},
		Versions:   map[string]string{"program": "1"},
		Host:       map[string]any{"clock": p.Host},
		About:      p.About,
		Bank:       bank.Files(),
	}, nil
}

func (p Program) tasks() int { return cmp.Or(p.Tasks, 2) }

func (p Program) group() int { return cmp.Or(p.Group, 3) }

func (p Program) try(write func() error) error {
	err := write()
	for n := 1; err != nil && n < p.Tries; n++ {
		err = write()
	}
	return err
}

// weights are a tensor "b" of two bytes and a tensor "a" of six.
type weights [8]byte

func base() *weights { return &weights{1, 2, 3, 4, 5, 6, 7, 8} }

func (w *weights) tensors() []checkpoint.Tensor {
	return []checkpoint.Tensor{
		{Name: "b", DType: "U8", Shape: []int{2}, Data: checkpoint.Bytes(w[:2])},
		{Name: "a", DType: "U8", Shape: []int{2, 3}, Data: checkpoint.Bytes(w[2:])},
	}
}

// digest is policy.Weights.Digest.
func (w *weights) digest() string {
	h := sha256.New()
	b := sha256.Sum256(append([]byte("Uint8 [2]\x00"), w[:2]...))
	a := sha256.Sum256(append([]byte("Uint8 [2 3]\x00"), w[2:]...))
	fmt.Fprintf(h, "b\x00%x\x00a\x00%x\x00", b, a)
	return hex.EncodeToString(h.Sum(nil))
}

// line is a completion of a task, graded.
func (p Program) line(ctx context.Context, w *weights, task envs.Task, sample int, seed int64, update int) (checkpoint.Line, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%x %s %d %d", *w, task.ID, sample, seed+1000*p.Twist))
	rng := rand.New(rand.NewChaCha8(key))
	answer, finish := task.Answer, "stop"
	if rng.IntN(3) == 0 {
		answer += "?"
	}
	if rng.IntN(5) == 0 {
		finish = "length"
	}
	text := "<answer>" + answer + "</answer>"
	if rng.IntN(7) == 0 {
		text = "no idea & <nothing>"
	}
	score, err := p.grader().Grade(ctx, task, envs.Reply{Text: text, Finished: finish == "stop"})
	if err != nil {
		return checkpoint.Line{}, err
	}
	l := checkpoint.Line{Task: task.ID, Sample: sample, Seed: seed, Weights: update, Prompt: []int32{1, 2, 3}, Text: text, Finish: finish,
		Reward: score.Reward, Value: score.Value, Labels: score.Labels}
	for range 1 + rng.IntN(6) {
		l.Tokens = append(l.Tokens, rng.Int32N(96))
		l.LogProbs = append(l.LogProbs, -rng.Float32())
		l.Filtered = append(l.Filtered, -rng.Float32())
	}
	return l, nil
}
