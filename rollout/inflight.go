package rollout

import (
	"errors"
	"fmt"

	"github.com/grouper-rl/grouper/policy"
)

// State is what a checkpoint keeps of a [Pipeline]: how far it is, and what has been begun and not consumed. A pipeline that goes
// on from it makes the same batches: ready groups are kept as they are, pending ones are sampled again, by the same weights.
type State struct {
	Consumed int        `json:"consumed"` // batches
	Drawn    int        `json:"drawn"`    // tasks drawn for them
	InFlight []InFlight `json:"in_flight"`

	Ready   []Group           `json:"-"` // the groups that are ready, in the order of InFlight
	Weights []*policy.Weights `json:"-"` // older ones than those of update Consumed that pending groups are due for, oldest first
}

// InFlight is a batch that has been begun and not consumed.
type InFlight struct {
	Batch  int         `json:"batch"` // the update that it is for
	Groups []Described `json:"groups"`
}

// Described names a group of a batch in the making.
type Described struct {
	Task    string `json:"task"`
	Ready   bool   `json:"ready"`             // sampled and graded; otherwise it is pending
	Weights int    `json:"weights_update"`    // ready: whose weights sampled it; pending: those that it is due for, at least
	Segment int    `json:"segment,omitempty"` // ready: the segment of the run that sampled it
}

// ErrState says that a restored state is not one of the run that it is given to.
var ErrState = errors.New("the state of the pipeline does not fit")

// State describes the pipeline at this instant.
func (p *Pipeline) State() State {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := State{Consumed: p.consumed, Drawn: p.drawn}
	for _, b := range p.batches {
		f := InFlight{Batch: b.number}
		for i, g := range b.groups {
			d := Described{Task: p.plan.Task(b.first + i).ID, Weights: p.plan.due(b.number)}
			if g != nil {
				d.Ready, d.Weights, d.Segment = true, g.Weights(), g.Segment
				s.Ready = append(s.Ready, *g)
			}
			f.Groups = append(f.Groups, d)
		}
		if len(f.Groups) > 0 {
			s.InFlight = append(s.InFlight, f)
		}
	}
	for v := range p.consumed {
		if w := p.weights[v]; w != nil {
			s.Weights = append(s.Weights, w)
		}
	}
	return s
}

// restore takes over a state.
func (p *Pipeline) restore(s State) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrState, fmt.Sprintf(format, args...))
	}
	if s.Consumed < 0 || s.Drawn < s.Consumed*p.plan.Groups {
		return bad("%d batches of %d groups from %d tasks", s.Consumed, p.plan.Groups, s.Drawn)
	}
	p.consumed, p.drawn = s.Consumed, s.Drawn
	ready, first := s.Ready, s.Drawn
	for n, f := range s.InFlight {
		b := &batch{number: s.Consumed + 1 + n, first: first, groups: make([]*Group, len(f.Groups))}
		if n > 0 && !p.batches[n-1].complete(p.plan) {
			return bad("batch %d was begun before batch %d was complete", f.Batch, f.Batch-1)
		}
		if f.Batch != b.number || f.Batch > s.Consumed+p.plan.Lag+1 {
			return bad("batch %d after %d consumed and %d begun ones, with lag %d", f.Batch, s.Consumed, n, p.plan.Lag)
		}
		for i, d := range f.Groups {
			if task := p.plan.Task(first + i).ID; d.Task != task {
				return bad("group %d of batch %d is of task %q, expected %q", i+1, f.Batch, d.Task, task)
			}
			if !d.Ready {
				continue
			}
			if len(ready) == 0 {
				return bad("group %d of batch %d is ready, but its completions are not there", i+1, f.Batch)
			}
			g := ready[0]
			ready = ready[1:]
			if g.Task.ID != d.Task || len(g.Completions) != p.plan.GroupSize || g.Weights() != d.Weights {
				return bad("group %d of batch %d: %d completions of task %q by the weights of update %d, expected %d of %q by %d",
					i+1, f.Batch, len(g.Completions), g.Task.ID, g.Weights(), p.plan.GroupSize, d.Task, d.Weights)
			}
			if err := p.plan.check(g, f.Batch); err != nil {
				return bad("%v", err)
			}
			g.Segment = d.Segment
			b.groups[i] = &g
		}
		if want := b.wave(p.plan); len(b.groups) > want {
			return bad("batch %d has drawn %d tasks, expected %d", f.Batch, len(b.groups), want)
		}
		p.batches = append(p.batches, b)
		first += len(b.groups)
	}
	if len(ready) > 0 {
		return bad("%d ready groups are not in any batch", len(ready))
	}
	for _, w := range s.Weights {
		p.weights[w.Update] = w
		p.newest = max(p.newest, w.Update)
	}
	next := p.consumed + 1 // the first batch that something is to be sampled for
	for _, b := range p.batches {
		if b.complete(p.plan) {
			next++
		}
	}
	for ; p.plan.Staleness == Fixed && next <= min(p.consumed+p.plan.Lag, p.plan.Batches); next++ {
		if v := p.plan.due(next); v < p.consumed && p.weights[v] == nil {
			return bad("the weights of update %d, which batch %d is due for, are not there", v, next)
		}
	}
	return nil
}
