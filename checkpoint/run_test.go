package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// job is a small deterministic program that writes a run: what a trainer does, without the training.
type job struct {
	updates int
	every   int
	host    float64 // differs between openings
}

func testIdentity(updates int) Identity {
	return Identity{
		Settings:   map[string]any{"updates": updates, "lr": 1e-6, "objective": map[string]any{"clip_low": .2, "clip_high": .28}},
		Changeable: []string{"updates"},
		Seed:       7,
		Plan: Plan{TasksPerUpdate: 2, GroupSize: 2, Evaluation: &EvaluationPlan{
			Tasks: []string{"v/0", "v/1", "v/2"}, Seeds: []int64{17, 43}, Every: 2, Sampling: json.RawMessage(`{"Temperature":1}`),
		}},
		Grader:   Grader{Source: "echo", Config: json.RawMessage(`{"strict":true}`)},
		Digests:  map[string]string{"weights": "ab12"},
		Versions: map[string]string{"grouper": "test"},
		Bank:     map[string][]byte{"train.jsonl": []byte("{}\n"), "manifest.json": []byte("{\"tasks\":1}\n")},
	}
}

// run opens the directory and goes on until nothing is left.
func (j job) run(ctx context.Context, dir string, d disk) (err error) {
	r, err := open(dir, d, func() time.Time { return time.Unix(int64(1e9+j.host), 0) })
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	state, err := r.Begin(ctx, testIdentity(j.updates))
	if err != nil {
		return err
	}
	weights, from := []byte{1, 2, 3, 4, 5, 6, 7, 8}, 0
	if state != nil {
		ts, err := state.Group(WeightsGroup)
		if err != nil {
			return err
		}
		if err := ts[0].ReadInto(weights); err != nil {
			return err
		}
		if err := state.Get("update", &from); err != nil {
			return err
		}
		if from != state.Update || from != r.history.Update() {
			return fmt.Errorf("restored update %d with state of %d", state.Update, from)
		}
	}
	evaluate := func(update int) error {
		h := r.History()
		if _, done := h.Evaluation(update); done || update%j.every != 0 {
			return nil
		}
		e := Evaluation{Update: update, Seeds: []int64{17, 43}, Scored: 6, Sampling: json.RawMessage(`{"Temperature":1}`),
			Host: json.RawMessage(fmt.Sprintf(`{"seconds":%v}`, j.host+1)), WeightsHash: fmt.Sprint(weights)}
		var lines []Line
		for _, task := range testIdentity(1).Plan.Evaluation.Tasks {
			e.Tasks = append(e.Tasks, TaskResult{Task: task, Scored: 2})
			for k, seed := range e.Seeds {
				lines = append(lines, testLine(task, k, seed, update, weights))
			}
		}
		_, err := r.RecordEvaluation(ctx, e, lines)
		return err
	}
	if err := evaluate(from); err != nil {
		return err
	}
	for u := from + 1; u <= j.updates; u++ {
		var lines []Line
		tasks := []string{fmt.Sprintf("t/%d", 2*u), fmt.Sprintf("t/%d", 2*u+1)}
		for _, task := range tasks {
			for k := range 2 {
				lines = append(lines, testLine(task, k, 7, u-1, weights))
			}
		}
		for i := range weights {
			weights[i] = weights[i]*5 + byte(u)
		}
		err := r.RecordUpdate(ctx, Update{Update: u, Weights: u - 1, Tasks: tasks, Metrics: json.RawMessage(fmt.Sprintf(`{"loss":%d}`, weights[0])),
			Timing: json.RawMessage(fmt.Sprintf(`{"seconds":%v}`, j.host))}, lines)
		if err != nil {
			return err
		}
		if u%j.every == 0 {
			s := NewState(u)
			s.Tensors[WeightsGroup] = []Tensor{{Name: "w", DType: "F32", Shape: []int{2}, Data: Bytes(weights)}}
			s.Tensors["slots"] = []Tensor{{Name: "w/m", DType: "F32", Shape: []int{1, 1}, Data: Bytes(weights[:4])}, {Name: "a/m", DType: "U8", Shape: []int{3}, Data: Bytes(weights[:3])}}
			if err := s.Set("update", u); err != nil {
				return err
			}
			if err := r.SaveCheckpoint(ctx, s); err != nil {
				return err
			}
			if err := evaluate(u); err != nil {
				return err
			}
		}
	}
	return r.Finish(ctx)
}

func testLine(task string, sample int, seed int64, weights int, w []byte) Line {
	rng := rand.New(rand.NewPCG(uint64(seed), uint64(w[0])))
	n := 1 + rng.IntN(4)
	l := Line{Task: task, Sample: sample, Seed: seed, Weights: weights, Prompt: []int32{1, 2}, Text: "<" + strings.Repeat("x", n), Finish: "stop", Labels: []string{"wrong"}}
	for range n {
		l.Tokens = append(l.Tokens, rng.Int32N(96))
		l.LogProbs = append(l.LogProbs, -rng.Float32())
		l.Filtered = append(l.Filtered, -rng.Float32())
	}
	return l
}

func TestRunAgain(t *testing.T) {
	dir := t.TempDir() + "/a/run"
	for range 2 {
		if err := (job{updates: 4, every: 2}).run(t.Context(), dir, osDisk{}); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(rec.History.Updates); n != 4 || len(rec.History.Evaluations) != 3 {
		t.Fatalf("%d updates, %d evaluations", n, len(rec.History.Evaluations))
	}
}
