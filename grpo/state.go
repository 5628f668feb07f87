package grpo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/eval"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// position is how far a run is. Everything random follows from the seed and from counters.
type position struct {
	Updates int   `json:"updates"` // done; also the number of optimizer steps
	Seed    int64 `json:"seed"`
}

// What a checkpoint holds besides the weights.
const (
	mastersGroup = "masters" // only where a weight is stored in another dtype than float32
	slotsGroup   = "slots"
	olderGroup   = "rollout-%06d" // weights of an earlier update, which pending groups are due for

	positionValue = "position"
	rolloutValue  = "rollout" // rollout.State; the completions of ready groups are State.Ready
)

// restore begins a segment of the run directory and takes over the state that it holds.
func (t *Trainer) restore(ctx context.Context) error {
	var at rollout.State
	if run := t.parts.Run; run != nil {
		id, err := t.identity()
		if err != nil {
			return err
		}
		state, err := run.BeginAt(ctx, id, t.parts.Restore)
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
		if state != nil {
			if at, err = t.take(state); err != nil {
				return fmt.Errorf("restoring update %d: %w", state.Update, err)
			}
			if err := t.checkSchedule(history); err != nil {
				return err
			}
		}
	}
	var err error
	t.rollout, err = rollout.NewPipeline(t.plan(), at)
	return err
}

// take takes over what a checkpoint holds.
func (t *Trainer) take(state *checkpoint.State) (at rollout.State, err error) {
	var done position
	if err := errors.Join(state.Get(positionValue, &done), state.Get(rolloutValue, &at)); err != nil {
		return at, err
	}
	if done.Updates != state.Update || at.Consumed != state.Update || done.Seed != t.cfg.Seed {
		return at, fmt.Errorf("%w: position %+v after %d batches", checkpoint.ErrDamaged, done, at.Consumed)
	}
	if err := t.learner.restore(state); err != nil {
		return at, err
	}
	if at.Ready, err = t.groups(state.Ready); err != nil {
		return at, err
	}
	for _, name := range slices.Sorted(maps.Keys(state.Tensors)) {
		var update int
		if n, _ := fmt.Sscanf(name, olderGroup, &update); n != 1 {
			continue
		}
		w := &policy.Weights{Update: update, Params: t.learner.params}
		for _, p := range w.Params {
			w.Tensors = append(w.Tensors, tensors.FromShape(p.Shape))
		}
		if err := load(state, name, t.learner.names(), w.Tensors); err != nil {
			return at, err
		}
		at.Weights = append(at.Weights, w)
	}
	t.update, t.saved = state.Update, state.Update
	return at, nil
}

// groups puts the completions of ready groups together again.
func (t *Trainer) groups(lines []checkpoint.Line) ([]rollout.Group, error) {
	if len(lines)%t.cfg.GroupSize != 0 {
		return nil, fmt.Errorf("%w: %d completions of ready groups of %d", checkpoint.ErrDamaged, len(lines), t.cfg.GroupSize)
	}
	tasks := map[string]envs.Task{}
	for _, task := range t.parts.Bank.Train {
		tasks[task.ID] = task
	}
	var groups []rollout.Group
	for i, l := range lines {
		if i%t.cfg.GroupSize == 0 {
			task, known := tasks[l.Task]
			if !known {
				return nil, fmt.Errorf("%w: a ready group is of task %q, which is not trained on", checkpoint.ErrDamaged, l.Task)
			}
			groups = append(groups, rollout.Group{Task: task, Prompt: l.Prompt})
		}
		g := &groups[len(groups)-1]
		if l.Task != g.Task.ID || l.Sample != len(g.Completions) {
			return nil, fmt.Errorf("%w: sample %d of task %q among the completions of task %q", checkpoint.ErrDamaged, l.Sample, l.Task, g.Task.ID)
		}
		g.Completions = append(g.Completions, rollout.Completion{
			Tokens: l.Tokens, LogProbs: l.LogProbs, Filtered: l.Filtered, Finish: rollout.FinishReason(l.Finish), Update: l.Weights,
		})
		g.Texts = append(g.Texts, l.Text)
		g.Scores = append(g.Scores, envs.Score{Reward: l.Reward, Value: l.Value, Labels: l.Labels})
	}
	return groups, nil
}

// checkSchedule refuses to go on with a schedule that would not have given the learning rates of the updates done.
func (t *Trainer) checkSchedule(history checkpoint.History) error {
	for _, u := range history.Updates {
		var m Metrics
		if err := json.Unmarshal(u.Metrics, &m); err != nil {
			return fmt.Errorf("metrics of update %d: %w", u.Update, err)
		}
		lr, err := t.parts.learningRate(u.Update)
		if err != nil {
			return err
		}
		if lr != m.LearningRate {
			return fmt.Errorf("%w: Schedule: update %d had learning rate %g, now %g", checkpoint.ErrOtherConfiguration, u.Update, m.LearningRate, lr)
		}
	}
	return nil
}

// saving is a checkpoint that is being written.
type saving struct {
	before int        // t.saved before it
	done   chan error // gets one value
}

// Save writes a full-state checkpoint of the present update, from which a run goes on exactly, and returns when it is durable. It
// does nothing without a run directory, or if there is one already.
func (t *Trainer) Save(ctx context.Context) error {
	if err := t.saveBehind(ctx); err != nil {
		return err
	}
	return t.written()
}

// saveBehind takes a snapshot of the state, which is written while the run goes on. An error of the checkpoint before comes first.
func (t *Trainer) saveBehind(ctx context.Context) error {
	if err := t.written(); err != nil {
		return err
	}
	if t.broken != nil {
		return t.broken
	}
	if t.parts.Run != nil && t.saved != t.update {
		state, err := t.snapshot()
		if err != nil {
			return err
		}
		s := &saving{before: t.saved, done: make(chan error, 1)}
		go func() { s.done <- t.parts.Run.SaveCheckpoint(context.WithoutCancel(ctx), state) }()
		t.saving = s
	}
	t.saved = t.update
	return nil
}

// written waits for the checkpoint that is being written.
func (t *Trainer) written() error {
	s := t.saving
	if s == nil {
		return nil
	}
	t.saving = nil
	err := <-s.done
	if err != nil {
		t.saved = s.before
	}
	return err
}

// snapshot copies the state, so that the run can go on.
func (t *Trainer) snapshot() (*checkpoint.State, error) {
	state := checkpoint.NewState(t.update)
	at := t.rollout.State()
	state.Ready = eval.Lines(at.Ready, func(int) int64 { return t.cfg.Seed })
	if err := errors.Join(
		state.Set(positionValue, position{Updates: t.update, Seed: t.cfg.Seed}),
		state.Set(rolloutValue, at),
		t.learner.save(state),
	); err != nil {
		return nil, err
	}
	for _, w := range at.Weights { // in host memory already
		ts, err := stored(t.learner.names(), w.Tensors)
		if err != nil {
			return nil, err
		}
		state.Tensors[fmt.Sprintf(olderGroup, w.Update)] = ts
	}
	return state, nil
}

// save adds copies of the learner's tensors to a state.
func (l *learner) save(state *checkpoint.State) error {
	weights, err := l.weights(state.Update)
	if err != nil {
		return err
	}
	if state.Tensors[checkpoint.WeightsGroup], err = copied(l.names(), weights.Tensors); err != nil {
		return err
	}
	if l.rounded {
		if state.Tensors[mastersGroup], err = copied(l.names(), l.masters); err != nil {
			return err
		}
	}
	state.Tensors[slotsGroup], err = copied(l.slotNames(), l.slots)
	return err
}

// restore replaces the learner's tensors with those of a state.
func (l *learner) restore(state *checkpoint.State) error {
	group := checkpoint.WeightsGroup
	if l.rounded {
		group = mastersGroup
	}
	if err := load(state, group, l.names(), l.masters); err != nil {
		return err
	}
	return load(state, slotsGroup, l.slotNames(), l.slots)
}

func (l *learner) names() []string {
	names := make([]string, len(l.params))
	for i, p := range l.params {
		names[i] = p.Name
	}
	return names
}

func (l *learner) slotNames() []string {
	var names []string
	for _, p := range l.params {
		for _, slot := range l.kinds {
			names = append(names, p.Name+"."+slot)
		}
	}
	return names
}

// copied is stored for tensors that will change: their bytes are copied now.
func copied(names []string, ts []*tensors.Tensor) ([]checkpoint.Tensor, error) {
	out, err := stored(names, ts)
	if err != nil {
		return nil, err
	}
	for i, t := range ts {
		var data []byte
		if err := t.ConstBytes(func(now []byte) { data = bytes.Clone(now) }); err != nil {
			return nil, fmt.Errorf("tensor %q: %w", names[i], err)
		}
		out[i].Data = checkpoint.Bytes(data)
	}
	return out, nil
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
