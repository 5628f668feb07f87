package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// Retention says which checkpoints of the retained trajectory are kept when a newer one has been written. The zero value keeps all.
// Otherwise the newest one is always kept, as is the one that the running segment began with; those of rolled back work are left
// alone.
type Retention struct {
	Last  int  // the newest ones
	Every int  // those of every update that is divisible by it; 0: none for this reason
	Best  bool // the one with the highest validation accuracy, the earlier of two, and those whose evaluation is still to come
}

// Validate names the first field that cannot be used.
func (p Retention) Validate() error {
	switch {
	case p.Last < 0:
		return fmt.Errorf("checkpoint: Retention.Last is %d, allowed: 0 or more", p.Last)
	case p.Every < 0:
		return fmt.Errorf("checkpoint: Retention.Every is %d, allowed: 0 or more", p.Every)
	}
	return nil
}

// Retain sets which checkpoints are kept, from the next one on; without it all are. What is removed is on record: an event of kind
// "pruned" comes first.
func (r *Run) Retain(p Retention) error {
	if err := p.Validate(); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retention = p
	return nil
}

// Pruned is the body of a ledger event of kind "pruned": checkpoints that are removed to save space.
type Pruned struct {
	Checkpoints []PrunedCheckpoint `json:"checkpoints"`
}

// PrunedCheckpoint names a checkpoint as its own event does.
type PrunedCheckpoint struct {
	Update   int    `json:"update"`
	Path     string `json:"path"`
	Manifest string `json:"manifest"`
}

func (p PrunedCheckpoint) is(s Saved) bool {
	return s.Update == p.Update && s.Path == p.Path && s.Manifest == p.Manifest
}

// spare lists the checkpoints of a history that need not be kept.
func (p Retention) spare(h *History, plan *EvaluationPlan) (spare []PrunedCheckpoint) {
	if p == (Retention{}) {
		return nil
	}
	best, accuracy := -1, -1.0
	var saved []Saved
	for _, s := range h.Checkpoints {
		if s.Pruned || !h.own(&s) {
			continue
		}
		saved = append(saved, s)
		if e, ok := h.Evaluation(s.Update); ok && e.Accuracy > accuracy {
			best, accuracy = s.Update, e.Accuracy
		}
	}
	segment := h.Segments[len(h.Segments)-1]
	for _, s := range saved[:max(0, len(saved)-max(1, p.Last))] {
		_, evaluated := h.Evaluation(s.Update)
		awaited := plan != nil && plan.Scheduled(s.Update, -1) && !evaluated
		switch {
		case s.Path == segment.Checkpoint, h.parent != nil && s.Path == h.parent.Checkpoint:
		case p.Every > 0 && s.Update%p.Every == 0:
		case p.Best && (s.Update == best || awaited):
		default:
			spare = append(spare, PrunedCheckpoint{s.Update, s.Path, s.Manifest})
		}
	}
	return spare
}

// prune removes the checkpoints that need not be kept. The event comes first: what a crash leaves between it and the removal, the next
// [Open] removes.
func (r *Run) prune() error {
	spare, err := r.recordSpare()
	if err != nil || len(spare) == 0 {
		return err
	}
	var errs []error
	for _, s := range spare {
		errs = append(errs, r.disk.RemoveAll(r.path(s.Path)))
	}
	errs = append(errs, r.disk.SyncDir(r.path("checkpoints")))
	return errors.Join(errs...)
}

func (r *Run) recordSpare() ([]PrunedCheckpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	spare := r.retention.spare(r.history, r.file.Plan.Evaluation)
	if len(spare) == 0 {
		return nil, nil
	}
	return spare, r.record(KindPruned, Pruned{spare})
}

// addPruned takes the event in.
func (h *History) addPruned(p Pruned) error {
	if len(p.Checkpoints) == 0 {
		return errors.New("no checkpoint was pruned")
	}
	for _, c := range p.Checkpoints {
		known := func(saved []Saved) bool {
			return slices.ContainsFunc(saved, func(s Saved) bool { return c.is(s) && !s.Pruned })
		}
		if !known(h.Checkpoints) || h.parent != nil && c.Path == h.parent.Checkpoint {
			return fmt.Errorf("%s was pruned and is no checkpoint of update %d that this run can prune", c.Path, c.Update)
		}
		if newest := h.Checkpoints[len(h.Checkpoints)-1]; c.Path == newest.Path {
			return fmt.Errorf("%s was pruned and is the newest", c.Path)
		}
		if c.Path == h.Segments[len(h.Segments)-1].Checkpoint {
			return fmt.Errorf("%s was pruned and is what the segment goes on from", c.Path)
		}
	}
	h.change(func(saved []Saved) []Saved {
		for i, s := range saved {
			saved[i].Pruned = s.Pruned || slices.ContainsFunc(p.Checkpoints, func(c PrunedCheckpoint) bool { return c.is(s) })
		}
		return saved
	})
	return nil
}

// finishPruning removes what a crash has left of checkpoints that the ledger says are pruned.
func (r *Run) finishPruning(events []Event) error {
	left := map[string]bool{}
	for _, e := range events {
		switch e.Kind {
		case KindPruned:
			var p Pruned
			if err := unmarshal(e.Body, &p); err != nil {
				return err
			}
			for _, c := range p.Checkpoints {
				left[c.Path] = true
			}
		case KindCheckpoint:
			var s Saved
			if err := unmarshal(e.Body, &s); err != nil {
				return err
			}
			delete(left, s.Path) // made again
		}
	}
	for path := range left {
		if !recordName.MatchString(path) {
			return &LedgerError{len(events), fmt.Sprintf("%q was pruned, which is no name of a checkpoint", path)}
		}
		if _, err := os.Lstat(r.path(path)); err != nil {
			continue
		}
		if err := r.disk.RemoveAll(r.path(path)); err != nil {
			return err
		}
		if err := r.disk.SyncDir(filepath.Dir(r.path(path))); err != nil {
			return err
		}
		r.note("removed what was left of %s, which was pruned", path)
	}
	return nil
}
