package checkpoint

import (
	"errors"
	"fmt"
	"slices"
)

// trajectory is what counts as seen from a segment: the work of its ancestors up to where each was left, and its own.
type trajectory struct {
	updates     []Update
	evaluations []Evaluation
	checkpoints []Saved
}

func (h *History) trajectory() trajectory {
	return trajectory{h.Updates, h.Evaluations, h.Checkpoints}
}

func (h *History) take(t trajectory) {
	h.Updates, h.Evaluations, h.Checkpoints = t.updates, t.evaluations, t.checkpoints
}

// upTo is a copy of what belongs to an update or to those before it.
func (t trajectory) upTo(update int) trajectory {
	return trajectory{
		slices.Clone(t.updates[:update]),
		slices.DeleteFunc(slices.Clone(t.evaluations), func(e Evaluation) bool { return e.Update > update }),
		slices.DeleteFunc(slices.Clone(t.checkpoints), func(c Saved) bool { return c.Update > update }),
	}
}

// of is the trajectory that a segment ended with. Of a run that was forked and has not begun, all segments have ended.
func (h *History) of(segment int) trajectory {
	if segment <= len(h.ended) {
		return h.ended[segment-1]
	}
	return h.trajectory()
}

// leaves counts the work that a segment takes off the trajectory by going on from an update of its parent: what does not
// belong to both.
func (h *History) leaves(parent, update int) Work {
	common, after := 0, h.of(parent).updates[:update]
	for common < min(len(after), len(h.Updates)) && after[common].Segment == h.Updates[common].Segment {
		common++
	}
	return work(h.Updates[common:])
}

func (h *History) addSegment(s Segment) error {
	n := len(h.Segments)
	switch {
	case s.Segment != n+1:
		return fmt.Errorf("segment %d after segment %d", s.Segment, n)
	case n == 0 && (s.Parent != 0 || s.Update != 0 || s.Checkpoint != "" || s.RolledBack != nil):
		return errors.New("the first segment goes on from something")
	case n == 0:
		h.Segments = append(h.Segments, s)
		return nil
	case n == h.Inherited && (s.Parent != h.parent.Segment || s.Update != h.parent.Update || s.Checkpoint != h.parent.Checkpoint):
		return fmt.Errorf("the first segment goes on from update %d of segment %d, the run was forked from update %d of segment %d", s.Update, s.Parent, h.parent.Update, h.parent.Segment)
	case s.Parent < 1 || s.Parent > n:
		return fmt.Errorf("segment %d goes on from segment %d", s.Segment, s.Parent)
	}
	from := h.of(s.Parent)
	if s.Update < 0 || s.Update > len(from.updates) {
		return fmt.Errorf("segment %d goes on from update %d of segment %d, which ended at update %d", s.Segment, s.Update, s.Parent, len(from.updates))
	}
	restored := slices.ContainsFunc(from.checkpoints, func(c Saved) bool { return c.Path == s.Checkpoint && c.Update == s.Update && !c.Pruned })
	if s.Checkpoint == "" && s.Update != 0 || s.Checkpoint != "" && !restored {
		return fmt.Errorf("segment %d goes on from update %d of segment %d, of which %q is no checkpoint", s.Segment, s.Update, s.Parent, s.Checkpoint)
	}
	var said Work
	if s.RolledBack != nil {
		said = *s.RolledBack
	}
	if back := h.leaves(s.Parent, s.Update); said != back || s.RolledBack != nil && back == (Work{}) {
		return fmt.Errorf("segment %d rolls back %d updates of %d responses, and is said to roll back %d of %d", s.Segment, back.Updates, back.Responses, said.Updates, said.Responses)
	}
	if n > h.Inherited || n == 0 { // a fork has put the parent's last one there
		h.ended = append(h.ended, h.trajectory())
	}
	h.take(from.upTo(s.Update))
	h.Segments = append(h.Segments, s)
	h.change(func(saved []Saved) []Saved {
		return slices.DeleteFunc(saved, func(c Saved) bool {
			return slices.ContainsFunc(s.PassedOver, func(p PassedOver) bool { return p.Checkpoint == c.Path })
		})
	})
	return nil
}

// change makes a change to a copy of the checkpoints of every segment.
func (h *History) change(edit func([]Saved) []Saved) {
	h.Checkpoints = edit(slices.Clone(h.Checkpoints))
	for i := range h.ended {
		h.ended[i].checkpoints = edit(slices.Clone(h.ended[i].checkpoints))
	}
}
