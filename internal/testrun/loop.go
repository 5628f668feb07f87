package testrun

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
)

// loop is a program at work.
type loop struct {
	p      Program
	run    *checkpoint.Run
	bank   *envs.Bank
	w      weights
	recent map[int]weights // those of the last Lag updates and the present ones, by update

	// Sampled groups of the next update that a checkpoint gave back, and the segments that sampled them.
	ready   []checkpoint.Line
	readyIn []int
}

// position is the part of the state that is not tensors or completions.
type position struct {
	Updates int   `json:"updates"`
	Ready   []int `json:"ready,omitempty"` // the segment that sampled each ready group
}

// Run begins or resumes and goes on until nothing is left.
func (p Program) Run(ctx context.Context, r *checkpoint.Run) error {
	id, err := p.Identity()
	if err != nil {
		return err
	}
	l := &loop{p: p, run: r, w: *base()}
	if l.bank, err = p.bank(); err != nil {
		return err
	}
	if p.Key != nil {
		if err := r.SignWith(p.Key); err != nil {
			return err
		}
	}
	if err := r.Retain(p.Retention); err != nil {
		return err
	}
	state, err := r.BeginAt(ctx, id, p.At)
	if err != nil {
		return err
	}
	done := 0
	l.recent = map[int]weights{0: l.w}
	if state != nil {
		if done, err = l.restore(state); err != nil {
			return err
		}
	} else if err := l.save(ctx, 0); err != nil {
		return err
	}
	if err := l.evaluate(ctx, done); err != nil {
		return err
	}
	for u := done + 1; u <= p.Updates; u++ {
		if err := l.update(ctx, u); err != nil {
			return err
		}
		if u%p.Every == 0 || p.Extra && u == 1 || p.Last && u == p.Updates {
			if err := l.save(ctx, u); err != nil {
				return err
			}
		}
		if err := l.evaluate(ctx, u); err != nil {
			return err
		}
		if u == p.Stop {
			return nil
		}
	}
	return p.try(func() error { return r.Finish(ctx) })
}

// candidate is a group of the batch of an update, counted as sampled: one that is ready, or a new one, and its segment.
func (l *loop) candidate(ctx context.Context, u, i int) (group []checkpoint.Line, segment int, err error) {
	if n := l.p.group(); i < len(l.readyIn) {
		return l.ready[i*n:][:n], l.readyIn[i], nil
	}
	by := max(0, u-1-l.p.Lag)
	w := l.recent[by]
	task := l.bank.Train[(l.p.tasks()*u+i)%len(l.bank.Train)]
	for sample := range l.p.group() {
		line, err := l.p.line(ctx, &w, task, sample, l.p.Seed, by)
		if err != nil {
			return nil, 0, err
		}
		group = append(group, line)
	}
	return group, l.run.Segment(), nil
}

func varies(group []checkpoint.Line) bool {
	for _, l := range group {
		if l.Reward != group[0].Reward {
			return true
		}
	}
	return false
}

func (l *loop) update(ctx context.Context, u int) error {
	event := checkpoint.Update{Update: u, Weights: max(0, u-1-l.p.Lag)}
	var lines, dropped []checkpoint.Line
	var in []int
	for i := 0; len(event.Tasks) < l.p.tasks(); i++ {
		group, segment, err := l.candidate(ctx, u, i)
		if err != nil {
			return err
		}
		if l.p.Drop && !varies(group) && len(event.DroppedTasks) < l.p.tasks() {
			event.DroppedTasks, dropped = append(event.DroppedTasks, group[0].Task), append(dropped, group...)
			continue
		}
		event.Tasks, lines, in = append(event.Tasks, group[0].Task), append(lines, group...), append(in, segment)
	}
	if slices.Min(in) < l.run.Segment() {
		event.SampledIn = in
	}
	l.ready, l.readyIn = nil, nil
	for i := range l.w {
		l.w[i] = l.w[i]*5 + byte(u+len(lines[i%len(lines)].Tokens))
	}
	l.recent[u] = l.w
	delete(l.recent, u-1-l.p.Lag)
	event.Metrics = json.RawMessage(fmt.Sprintf(`{"loss":%v}`, float64(l.w[0])/7))
	event.Timing = json.RawMessage(fmt.Sprintf(`{"seconds":%v}`, l.p.Host))
	return l.p.try(func() error { return l.run.RecordUpdate(ctx, event, lines, dropped) })
}

func (l *loop) evaluate(ctx context.Context, u int) error {
	history := l.run.History()
	p := l.p
	if _, done := history.Evaluation(u); done || u%p.Every != 0 && !(p.Last && u == p.Updates) || u == p.Skip && u > 0 {
		return nil
	}
	var lines []checkpoint.Line
	var ids []string
	for _, task := range l.bank.Validation {
		ids = append(ids, task.ID)
		for sample, seed := range seeds {
			line, err := p.line(ctx, &l.w, task, sample, seed, u)
			if err != nil {
				return err
			}
			lines = append(lines, line)
		}
	}
	e, err := checkpoint.Summarize(lines, ids, seeds)
	if err != nil {
		return err
	}
	e.Update, e.WeightsHash, e.Sampling = u, l.w.digest(), json.RawMessage(`{"temperature":1}`)
	e.Host = json.RawMessage(fmt.Sprintf(`{"seconds":%v}`, p.Host))
	return p.try(func() error {
		_, err := l.run.RecordEvaluation(ctx, e, lines)
		return err
	})
}

func (l *loop) save(ctx context.Context, u int) error {
	s := checkpoint.NewState(u)
	s.Tensors[checkpoint.WeightsGroup] = l.w.tensors()
	slot := make([]byte, 16)
	copy(slot, l.w[:])
	s.Tensors["slots"] = []checkpoint.Tensor{{Name: "m", DType: "F32", Shape: []int{4}, Data: checkpoint.Bytes(slot)}}
	for update, w := range l.recent {
		if update < u { // they sample what is pending
			s.Tensors[older(update)] = w.tensors()
		}
	}
	at := position{Updates: u}
	for i := range l.p.Ready {
		group, segment, err := l.candidate(ctx, u+1, i)
		if err != nil {
			return err
		}
		s.Ready, at.Ready = append(s.Ready, group...), append(at.Ready, segment)
	}
	if err := s.Set("position", at); err != nil {
		return err
	}
	return l.p.try(func() error { return l.run.SaveCheckpoint(ctx, s) })
}

// older names the group of tensors that are the weights of an earlier update.
func older(update int) string { return fmt.Sprintf("weights-%06d", update) }

func (l *loop) restore(s *checkpoint.State) (int, error) {
	var at position
	if err := s.Get("position", &at); err != nil {
		return 0, err
	}
	if at.Updates != s.Update {
		return 0, fmt.Errorf("restored position %d with the state of update %d", at.Updates, s.Update)
	}
	if err := l.w.restore(s, checkpoint.WeightsGroup); err != nil {
		return 0, err
	}
	l.recent = map[int]weights{s.Update: l.w}
	for u := max(0, s.Update-l.p.Lag); u < s.Update; u++ {
		var w weights
		if err := w.restore(s, older(u)); err != nil {
			return 0, err
		}
		l.recent[u] = w
	}
	l.ready, l.readyIn = s.Ready, at.Ready
	return s.Update, nil
}

func (w *weights) restore(s *checkpoint.State, group string) error {
	ts, err := s.Group(group)
	if err != nil {
		return err
	}
	if len(ts) != 2 || ts[0].Name != "b" || ts[1].Name != "a" {
		return fmt.Errorf("restored %d tensors, beginning with %q", len(ts), ts[0].Name)
	}
	if err := ts[0].ReadInto(w[:2]); err != nil {
		return err
	}
	return ts[1].ReadInto(w[2:])
}
