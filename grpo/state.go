package grpo

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// position is the part of the state that is not tensors. Everything random follows from the seed and these counters.
type position struct {
	Updates int   `json:"updates"` // done; also the number of optimizer steps
	Drawn   int   `json:"drawn"`   // tasks drawn from the training order
	Seed    int64 `json:"seed"`
}

// Groups of tensors in a checkpoint.
const (
	mastersGroup = "masters" // only where a weight is stored in another dtype than float32
	slotsGroup   = "slots"
)

// restore begins a segment of the run directory and takes over the state that it holds.
func (t *Trainer) restore(ctx context.Context) error {
	run := t.parts.Run
	if run == nil {
		return nil
	}
	id, err := t.identity()
	if err != nil {
		return err
	}
	state, err := run.Begin(ctx, id)
	if err != nil {
		return err
	}
	for _, note := range run.Notes() {
		t.parts.Log.Warn(note)
	}
	history := run.History()
	for _, e := range history.Evaluations {
		t.scored = max(t.scored, e.Update)
	}
	if state == nil {
		return nil
	}
	var at position
	if err := state.Get("position", &at); err != nil {
		return err
	}
	if at.Updates != state.Update || at.Drawn != at.Updates*t.cfg.TasksPerUpdate || at.Seed != t.cfg.Seed {
		return fmt.Errorf("%w: update %d has position %+v", checkpoint.ErrDamaged, state.Update, at)
	}
	if err := t.learner.restore(state); err != nil {
		return fmt.Errorf("restoring update %d: %w", state.Update, err)
	}
	t.update, t.drawn, t.saved = at.Updates, at.Drawn, at.Updates
	return t.checkSchedule(history)
}

// checkSchedule refuses to go on with a schedule that would not have given the learning rates of the updates done.
func (t *Trainer) checkSchedule(history checkpoint.History) error {
	for _, u := range history.Updates {
		var m Metrics
		if err := json.Unmarshal(u.Metrics, &m); err != nil {
			return fmt.Errorf("metrics of update %d: %w", u.Update, err)
		}
		if lr := t.parts.Schedule(u.Update - 1); lr != m.LearningRate {
			return fmt.Errorf("%w: Schedule: update %d had learning rate %g, now %g", checkpoint.ErrOtherConfiguration, u.Update, m.LearningRate, lr)
		}
	}
	return nil
}

// Save writes a full-state checkpoint of the present update, from which a run goes on exactly. It does nothing
// without a run directory, or if there is one already.
func (t *Trainer) Save(ctx context.Context) error {
	if t.broken != nil {
		return t.broken
	}
	if t.parts.Run != nil && t.saved != t.update {
		state := checkpoint.NewState(t.update)
		at := position{Updates: t.update, Drawn: t.drawn, Seed: t.cfg.Seed}
		if err := state.Set("position", at); err != nil {
			return err
		}
		if err := t.learner.save(state); err != nil {
			return err
		}
		if err := t.parts.Run.SaveCheckpoint(ctx, state); err != nil {
			return err
		}
	}
	t.saved = t.update
	return nil
}

// identity is what must be the same whenever the run is opened again.
func (t *Trainer) identity() (checkpoint.Identity, error) {
	cfg, parts := t.cfg, t.parts
	weights, err := parts.Weights.Digest()
	if err != nil {
		return checkpoint.Identity{}, err
	}
	manifest := parts.Bank.Manifest
	prompts, err := t.promptsDigest()
	if err != nil {
		return checkpoint.Identity{}, err
	}
	id := checkpoint.Identity{
		Settings: map[string]any{
			"config":        cfg,
			"updates":       cfg.Updates,
			"optimizer":     map[string]any{typeName(parts.Optimizer): parts.Optimizer},
			"learning_rate": parts.Schedule(0),
			"sampling":      parts.Sampler.Sampling,
			"policy":        typeName(parts.Policy),
		},
		Changeable: []string{"updates"},
		Seed:       cfg.Seed,
		Plan:       checkpoint.Plan{TasksPerUpdate: cfg.TasksPerUpdate, GroupSize: cfg.GroupSize},
		Grader:     checkpoint.Grader{Source: manifest.Source.Name, Config: manifest.Source.Config},
		Digests:    map[string]string{"weights": weights, "prompts": prompts},
		Versions:   versions(parts.Backend.Kind()),
		Host: map[string]any{
			"backend": parts.Backend.Kind(), "os": runtime.GOOS, "arch": runtime.GOARCH, "cpus": runtime.NumCPU(),
		},
		Bank: parts.Bank.Files(),
	}
	if parts.Reference != nil {
		if id.Digests["reference"], err = parts.Reference.Digest(); err != nil {
			return id, err
		}
	}
	if e := parts.Evaluator; e != nil {
		plan := &checkpoint.EvaluationPlan{Seeds: e.SeedList(), Every: cfg.EvaluateEvery, Last: true}
		for _, task := range e.Tasks {
			plan.Tasks = append(plan.Tasks, task.ID)
		}
		if plan.Sampling, err = json.Marshal(e.Sampler.Sampling); err != nil {
			return id, err
		}
		id.Plan.Evaluation = plan
	}
	return id, nil
}

// promptsDigest names prompt form and tokenizer together: the SHA-256 of the prompt tokens of all training tasks.
func (t *Trainer) promptsDigest() (string, error) {
	h := sha256.New()
	if t.parts.Evaluator != nil {
		for _, task := range t.parts.Evaluator.Tasks { // not in the digest; that they fit is to be known now
			if _, err := t.encode(t.parts.Evaluator.Sampler.Format, task); err != nil {
				return "", err
			}
		}
	}
	for _, task := range t.parts.Bank.Train {
		prompt, err := t.encode(t.parts.Sampler.Format, task)
		if err != nil {
			return "", err
		}
		if err := binary.Write(h, binary.LittleEndian, append([]int32{int32(len(prompt))}, prompt...)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// encode gives a prompt that fits the policy.
func (t *Trainer) encode(f rollout.Format, task envs.Task) ([]int32, error) {
	prompt, err := f.Encode(task)
	if err != nil {
		return nil, err
	}
	if limit := t.parts.Policy.MaxPositions(); len(prompt) >= limit {
		return nil, fmt.Errorf("task %q: its prompt has %d tokens, the context has %d", task.ID, len(prompt), limit)
	}
	return prompt, nil
}

// typeName is a type's name as it is written in Go, without a pointer's star: "optim.AdamW".
func typeName(v any) string { return strings.TrimPrefix(fmt.Sprintf("%T", v), "*") }

// versions lists what a run can go on with another of, but not bit for bit: the backend, Go, and the modules that compute.
func versions(backend string) map[string]string {
	out := map[string]string{"go": runtime.Version(), "backend": backend}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if strings.HasPrefix(m.Path, "github.com/gomlx/") {
				out[m.Path] = m.Version
			}
		}
	}
	return out
}

// save adds the learner's tensors to a state.
func (l *learner) save(state *checkpoint.State) error {
	weights, err := l.weights(state.Update)
	if err != nil {
		return err
	}
	names := make([]string, len(l.params))
	for i, p := range l.params {
		names[i] = p.Name
	}
	if state.Tensors[checkpoint.WeightsGroup], err = stored(names, weights.Tensors); err != nil {
		return err
	}
	if l.rounded {
		if state.Tensors[mastersGroup], err = stored(names, l.masters); err != nil {
			return err
		}
	}
	state.Tensors[slotsGroup], err = stored(l.slotNames(), l.slots)
	return err
}

// restore replaces the learner's tensors with those of a state.
func (l *learner) restore(state *checkpoint.State) error {
	group := checkpoint.WeightsGroup
	if l.rounded {
		group = mastersGroup
	}
	names := make([]string, len(l.params))
	for i, p := range l.params {
		names[i] = p.Name
	}
	if err := load(state, group, names, l.masters); err != nil {
		return err
	}
	return load(state, slotsGroup, l.slotNames(), l.slots)
}

func (l *learner) slotNames() []string {
	var names []string
	for _, p := range l.params {
		for _, slot := range l.opt.Slots() {
			names = append(names, p.Name+"."+slot)
		}
	}
	return names
}

// stored describes tensors for a checkpoint; their bytes are read when it is written.
func stored(names []string, ts []*tensors.Tensor) ([]checkpoint.Tensor, error) {
	out := make([]checkpoint.Tensor, len(ts))
	for i, t := range ts {
		dtype, err := policy.StoredDType(t.DType())
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", names[i], err)
		}
		out[i] = checkpoint.Tensor{Name: names[i], DType: checkpoint.DType(dtype), Shape: t.Shape().Dimensions,
			Data: func(emit func([]byte) error) (err error) {
				if lockErr := t.ConstBytes(func(data []byte) { err = emit(data) }); lockErr != nil {
					return lockErr
				}
				return err
			}}
	}
	return out, nil
}

// load reads a group of tensors into tensors of the same names, dtypes and shapes.
func load(state *checkpoint.State, group string, names []string, into []*tensors.Tensor) error {
	from, err := state.Group(group)
	if err != nil {
		return err
	}
	if len(from) != len(names) {
		return fmt.Errorf("%w: %s: %d tensors, want %d", checkpoint.ErrIncomplete, group, len(from), len(names))
	}
	for i, t := range into {
		dtype, err := policy.StoredDType(t.DType())
		if err != nil {
			return err
		}
		if f := from[i]; f.Name != names[i] || string(f.DType) != dtype || fmt.Sprint(f.Shape) != fmt.Sprint(t.Shape().Dimensions) {
			return fmt.Errorf("%w: %s: tensor %d is %q %s %v, want %q %s %v", checkpoint.ErrIncomplete, group, i, f.Name, f.DType, f.Shape, names[i], dtype, t.Shape().Dimensions)
		}
		var data bytes.Buffer
		if err := from[i].Data(func(p []byte) error { _, err := data.Write(p); return err }); err != nil {
			return err
		}
		if err := fill(t, data.Bytes()); err != nil {
			return fmt.Errorf("%s: tensor %q: %w", group, names[i], err)
		}
	}
	return nil
}

// fill overwrites a tensor's bytes.
func fill(t *tensors.Tensor, data []byte) (err error) {
	lockErr := t.MutableBytes(func(into []byte) {
		if len(into) != len(data) {
			err = fmt.Errorf("%d bytes, want %d", len(data), len(into))
			return
		}
		copy(into, data)
	})
	if lockErr != nil {
		return lockErr
	}
	return err
}
