package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// History is what a run has done: the retained trajectory, which is what counts, in order, and the tree of segments that it
// is a path through. Rolled back work is not in the trajectory.
type History struct {
	Segments    []Segment // all, oldest first
	Updates     []Update  // update u stands at index u-1
	Evaluations []Evaluation
	Checkpoints []Saved // by update, without those that were passed over; what was pruned says so
	RolledBack  Work    // what was recorded and does not count
	Finished    bool    // the last segment ended with nothing left to do
	Inherited   int     // how many of the segments are of the run that this one was forked from

	parent   *Parent
	recorded Work         // everything, whether it counts or not
	ended    []trajectory // of each segment but the last, as it was when the next began
	last     time.Time    // of the last event
}

// Work counts updates and the completions that they trained on.
type Work struct {
	Updates   int `json:"updates"`
	Responses int `json:"responses"`
}

func work(updates []Update) Work {
	w := Work{Updates: len(updates)}
	for _, u := range updates {
		w.Responses += u.Rollouts.Lines
	}
	return w
}

// Retained is the work that counts.
func (h *History) Retained() Work { return work(h.Updates) }

// Update is the number of the last retained update; 0 before the first.
func (h *History) Update() int { return len(h.Updates) }

// Evaluation finds the evaluation of an update's weights.
func (h *History) Evaluation(update int) (Evaluation, bool) {
	for _, e := range h.Evaluations {
		if e.Update == update {
			return e, true
		}
	}
	return Evaluation{}, false
}

func (h *History) clone() History {
	c := *h
	c.Segments, c.ended = slices.Clone(h.Segments), slices.Clone(h.ended)
	c.take(h.trajectory().upTo(h.Update()))
	return c
}

// NewHistory is the history that begins a run's ledger: nothing, or of a forked run what the parent had done up to the fork,
// which parent/ in the run directory says. An error wraps [ErrDamaged] or is that of a reading that failed.
func NewHistory(dir string, run *RunFile) (*History, error) {
	if run.Parent == nil {
		return &History{}, nil
	}
	parent, err := readParent(dir, run)
	if err != nil {
		return nil, err
	}
	return parent.History.fork(run.Parent)
}

// Follow takes in the events of the run's ledger. An error is a *[LedgerError]: an event that cannot stand where it stands.
func (h *History) Follow(events []Event) error {
	for i := range events {
		if err := h.add(&events[i]); err != nil {
			return &LedgerError{events[i].Seq, err.Error()}
		}
	}
	return nil
}

// add takes an event in; after an error the history is as it was.
func (h *History) add(e *Event) error {
	if e.Time.Before(h.last) {
		return fmt.Errorf("its time, %s, is before that of the event before it, %s", e.Time.Format(timeFormat), h.last.Format(timeFormat))
	}
	if len(h.Segments) == h.Inherited && e.Kind != KindSegment {
		return fmt.Errorf("an event of kind %q before the first segment", e.Kind)
	}
	switch e.Kind {
	case KindSegment:
		var s Segment
		if err := unmarshal(e.Body, &s); err != nil {
			return err
		}
		if err := h.addSegment(s); err != nil {
			return err
		}
	case KindUpdate:
		var u Update
		if err := unmarshal(e.Body, &u); err != nil {
			return err
		}
		if u.Update != h.Update()+1 {
			return fmt.Errorf("update %d after update %d", u.Update, h.Update())
		}
		if err := h.checkUpdate(u); err != nil {
			return fmt.Errorf("update %d: %w", u.Update, err)
		}
		u.Segment = len(h.Segments)
		h.Updates = append(h.Updates, u)
		h.recorded.Updates++
		h.recorded.Responses += u.Rollouts.Lines
	case KindCheckpoint:
		var s Saved
		if err := unmarshal(e.Body, &s); err != nil {
			return err
		}
		if err := h.checkSaved(s.Update); err != nil {
			return fmt.Errorf("a checkpoint of update %d: %w", s.Update, err)
		}
		s.Segment = len(h.Segments)
		h.Checkpoints = append(h.Checkpoints, s)
		slices.SortStableFunc(h.Checkpoints, func(a, b Saved) int { return cmp.Compare(a.Update, b.Update) })
	case KindEvaluation:
		var v Evaluation
		if err := unmarshal(e.Body, &v); err != nil {
			return err
		}
		if v.Update < 0 || v.Update > h.Update() {
			return fmt.Errorf("an evaluation of update %d after update %d", v.Update, h.Update())
		}
		if _, twice := h.Evaluation(v.Update); twice {
			return fmt.Errorf("a second evaluation of update %d", v.Update)
		}
		v.Segment = len(h.Segments)
		h.Evaluations = append(h.Evaluations, v)
		slices.SortFunc(h.Evaluations, func(a, b Evaluation) int { return cmp.Compare(a.Update, b.Update) })
	case KindPruned:
		var p Pruned
		if err := unmarshal(e.Body, &p); err != nil {
			return err
		}
		if err := h.addPruned(p); err != nil {
			return err
		}
	case KindFinished:
		var f Finished
		if err := unmarshal(e.Body, &f); err != nil {
			return err
		}
		if f.Update != h.Update() {
			return fmt.Errorf("finished at update %d after update %d", f.Update, h.Update())
		}
	default:
		return fmt.Errorf("an event of the unknown kind %q", e.Kind)
	}
	h.Finished, h.last = e.Kind == KindFinished, e.Time
	h.count()
	return nil
}

// count works out what does not count.
func (h *History) count() {
	retained := h.Retained()
	h.RolledBack = Work{h.recorded.Updates - retained.Updates, h.recorded.Responses - retained.Responses}
}

// checkUpdate says where an update does not fit the segments.
func (h *History) checkUpdate(u Update) error {
	if err := u.check(); err != nil {
		return err
	}
	if (u.Dropped == nil) != (len(u.DroppedTasks) == 0) {
		return fmt.Errorf("%d groups were dropped, and the file of their completions is %v", len(u.DroppedTasks), u.Dropped)
	}
	return h.checkSampledIn(u)
}

// checkSampledIn says where the segments that sampled an update's groups cannot have done that.
func (h *History) checkSampledIn(u Update) error {
	if len(u.SampledIn) == 0 {
		return nil
	}
	current := len(h.Segments)
	if !slices.ContainsFunc(u.SampledIn, func(in int) bool { return in != current }) {
		return fmt.Errorf("it lists the segments of its groups, which are all segment %d", current)
	}
	for i, in := range u.SampledIn {
		// A group came here by one restore after the other: its weights are no later than any checkpoint on the way.
		at := current
		for at > max(in, 0) {
			s := h.Segments[at-1]
			if w := u.groupWeights(i); w > s.Update {
				return fmt.Errorf("group %d is said to be sampled in segment %d by the weights of update %d, and segment %d began at update %d", i+1, in, w, at, s.Update)
			}
			at = s.Parent
		}
		if at != in || in < 1 {
			return fmt.Errorf("group %d is said to be sampled in segment %d, from which segment %d does not go on", i+1, in, current)
		}
	}
	return nil
}

// checkSaved says why there can be no checkpoint of an update now.
func (h *History) checkSaved(update int) error {
	if first := h.Segments[len(h.Segments)-1].Update; update < first || update > h.Update() {
		return fmt.Errorf("this segment began at update %d, and the last update is %d", first, h.Update())
	}
	return nil
}
