// Package testrun writes small run directories for tests: what a trainer records, without a network. The "policy" is eight
// bytes that every update changes; its completions are right or wrong, finished or cut off, by a random generator seeded from
// those bytes. All of it is deterministic, so that a run that was interrupted must end like one that was not.
package testrun

import (
	"context"
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
	Every   int     // updates between checkpoints and between evaluations
	Seed    int64   // another seed gives another run
	Host    float64 // what the clock shows; differs between openings
	Extra   bool    // one more checkpoint, after update 1
	Last    bool    // the last update is saved and evaluated, whatever its number
	Tries   int     // how often a failed write is tried; 0: once

	// Where the tasks come from, eight or more to train on, and what scores answers; nil: Bank and an echo of the answer.
	Tasks *envs.Bank
	Env   envs.Env
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
	if p.Tasks != nil {
		return p.Tasks, nil
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
	plan := checkpoint.Plan{TasksPerUpdate: 2, GroupSize: 3, Evaluation: &checkpoint.EvaluationPlan{
		Seeds: seeds, Every: p.Every, Last: p.Last, Sampling: json.RawMessage(`{"temperature":1}`),
	}}
	for _, task := range bank.Validation {
		plan.Evaluation.Tasks = append(plan.Evaluation.Tasks, task.ID)
	}
	return checkpoint.Identity{
		Settings:   map[string]any{"updates": p.Updates, "lr": 1e-6, "objective": map[string]any{"clip_low": .2, "clip_high": .28}},
		Changeable: []string{"updates"},
		Seed:       p.Seed,
		Plan:       plan,
		Grader:     checkpoint.Grader{Source: bank.Manifest.Source.Name, Config: bank.Manifest.Source.Config},
		Digests:    map[string]string{"weights": base().digest()},
		Versions:   map[string]string{"program": "1"},
		Host:       map[string]any{"clock": p.Host},
		Bank:       bank.Files(),
	}, nil
}

// Run begins or resumes and goes on until nothing is left.
func (p Program) Run(ctx context.Context, r *checkpoint.Run) error {
	id, err := p.Identity()
	if err != nil {
		return err
	}
	bank, err := p.bank()
	if err != nil {
		return err
	}
	state, err := r.Begin(ctx, id)
	if err != nil {
		return err
	}
	w, done := base(), 0
	if state != nil {
		if done, err = w.restore(state); err != nil {
			return err
		}
	} else if err := p.try(func() error { return r.SaveCheckpoint(ctx, w.state(0)) }); err != nil {
		return err
	}
	if err := p.evaluate(ctx, r, bank.Validation, w, done); err != nil {
		return err
	}
	for u := done + 1; u <= p.Updates; u++ {
		if err := p.update(ctx, r, bank.Train, w, u); err != nil {
			return err
		}
		if u%p.Every == 0 || p.Extra && u == 1 || p.Last && u == p.Updates {
			if err := p.try(func() error { return r.SaveCheckpoint(ctx, w.state(u)) }); err != nil {
				return err
			}
		}
		if err := p.evaluate(ctx, r, bank.Validation, w, u); err != nil {
			return err
		}
	}
	return p.try(func() error { return r.Finish(ctx) })
}

func (p Program) update(ctx context.Context, r *checkpoint.Run, train []envs.Task, w *weights, u int) error {
	event := checkpoint.Update{Update: u, Weights: u - 1}
	var lines []checkpoint.Line
	for i := range 2 {
		task := train[(2*u+i)%len(train)]
		event.Tasks = append(event.Tasks, task.ID)
		for sample := range 3 {
			l, err := p.line(ctx, w, task, sample, p.Seed, u-1)
			if err != nil {
				return err
			}
			lines = append(lines, l)
		}
	}
	for i := range w {
		w[i] = w[i]*5 + byte(u+len(lines[i%len(lines)].Tokens))
	}
	event.Metrics = json.RawMessage(fmt.Sprintf(`{"loss":%v}`, float64(w[0])/7))
	event.Timing = json.RawMessage(fmt.Sprintf(`{"seconds":%v}`, p.Host))
	return p.try(func() error { return r.RecordUpdate(ctx, event, lines, nil) })
}

func (p Program) evaluate(ctx context.Context, r *checkpoint.Run, tasks []envs.Task, w *weights, u int) error {
	history := r.History()
	if _, done := history.Evaluation(u); done || u%p.Every != 0 && !(p.Last && u == p.Updates) {
		return nil
	}
	var lines []checkpoint.Line
	var ids []string
	for _, task := range tasks {
		ids = append(ids, task.ID)
		for sample, seed := range seeds {
			l, err := p.line(ctx, w, task, sample, seed, u)
			if err != nil {
				return err
			}
			lines = append(lines, l)
		}
	}
	e, err := checkpoint.Summarize(lines, ids, seeds)
	if err != nil {
		return err
	}
	e.Update, e.WeightsHash, e.Sampling = u, w.digest(), json.RawMessage(`{"temperature":1}`)
	e.Host = json.RawMessage(fmt.Sprintf(`{"seconds":%v}`, p.Host))
	return p.try(func() error {
		_, err := r.RecordEvaluation(ctx, e, lines)
		return err
	})
}

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

func (w *weights) state(u int) *checkpoint.State {
	s := checkpoint.NewState(u)
	s.Tensors[checkpoint.WeightsGroup] = w.tensors()
	slot := make([]byte, 16)
	copy(slot, w[:])
	s.Tensors["slots"] = []checkpoint.Tensor{{Name: "m", DType: "F32", Shape: []int{4}, Data: checkpoint.Bytes(slot)}}
	s.Values["position"] = json.RawMessage(fmt.Sprintf(`{"updates":%d}`, u))
	return s
}

func (w *weights) restore(s *checkpoint.State) (int, error) {
	ts, err := s.Group(checkpoint.WeightsGroup)
	if err != nil {
		return 0, err
	}
	if len(ts) != 2 || ts[0].Name != "b" || ts[1].Name != "a" {
		return 0, fmt.Errorf("restored %d tensors, beginning with %q", len(ts), ts[0].Name)
	}
	if err := ts[0].ReadInto(w[:2]); err != nil {
		return 0, err
	}
	if err := ts[1].ReadInto(w[2:]); err != nil {
		return 0, err
	}
	var position struct {
		Updates int `json:"updates"`
	}
	if err := s.Get("position", &position); err != nil {
		return 0, err
	}
	if position.Updates != s.Update {
		return 0, fmt.Errorf("restored position %d with the state of update %d", position.Updates, s.Update)
	}
	return position.Updates, nil
}

// line is a completion of a task, graded.
func (p Program) line(ctx context.Context, w *weights, task envs.Task, sample int, seed int64, update int) (checkpoint.Line, error) {
	key := sha256.Sum256(fmt.Appendf(nil, "%x %s %d %d", *w, task.ID, sample, seed))
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
