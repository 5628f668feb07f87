package checkpoint

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// History is the retained trajectory of a run: what counts, in order. Rolled back work is not in it.
type History struct {
	Segments    []Segment // all, oldest first
	Updates     []Update  // update u stands at index u-1
	Evaluations []Evaluation
	Checkpoints []Saved // in the order of their recording, without those that were passed over
	RolledBack  int     // updates that were recorded and do not count
	Finished    bool    // the last segment ended with nothing left to do
}

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
	c.Segments, c.Updates = slices.Clone(h.Segments), slices.Clone(h.Updates)
	c.Evaluations, c.Checkpoints = slices.Clone(h.Evaluations), slices.Clone(h.Checkpoints)
	return c
}

// NewHistory follows the events of a ledger. An error is a *[LedgerError]: an event that cannot stand where it stands.
func NewHistory(events []Event) (*History, error) {
	h := &History{}
	for i := range events {
		if err := h.add(&events[i]); err != nil {
			return h, &LedgerError{events[i].Seq, err.Error()}
		}
	}
	return h, nil
}

// add takes an event in; after an error the history is as it was.
func (h *History) add(e *Event) error {
	if len(h.Segments) == 0 && e.Kind != KindSegment {
		return fmt.Errorf("an event of kind %q before the first segment", e.Kind)
	}
	switch e.Kind {
	case KindSegment:
		var s Segment
		if err := unmarshal(e.Body, &s); err != nil {
			return err
		}
		return h.addSegment(s)
	case KindUpdate:
		var u Update
		if err := unmarshal(e.Body, &u); err != nil {
			return err
		}
		if u.Update != h.Update()+1 {
			return fmt.Errorf("update %d after update %d", u.Update, h.Update())
		}
		if u.Weights < 0 || u.Weights >= u.Update {
			return fmt.Errorf("update %d on completions of the weights of update %d", u.Update, u.Weights)
		}
		h.Updates = append(h.Updates, u)
	case KindCheckpoint:
		var s Saved
		if err := unmarshal(e.Body, &s); err != nil {
			return err
		}
		if s.Update != h.Update() {
			return fmt.Errorf("a checkpoint of update %d after update %d", s.Update, h.Update())
		}
		h.Checkpoints = append(h.Checkpoints, s)
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
		h.Evaluations = append(h.Evaluations, v)
		slices.SortFunc(h.Evaluations, func(a, b Evaluation) int { return cmp.Compare(a.Update, b.Update) })
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
	h.Finished = e.Kind == KindFinished
	return nil
}

func (h *History) addSegment(s Segment) error {
	n := len(h.Segments)
	switch {
	case s.Segment != n+1:
		return fmt.Errorf("segment %d after segment %d", s.Segment, n)
	case s.Parent != n:
		return fmt.Errorf("segment %d with parent %d: format %d knows no branches", s.Segment, s.Parent, Format)
	case s.Update < 0 || s.Update > h.Update():
		return fmt.Errorf("segment %d goes on from update %d after update %d", s.Segment, s.Update, h.Update())
	}
	restored := slices.ContainsFunc(h.Checkpoints, func(c Saved) bool { return c.Path == s.Checkpoint && c.Update == s.Update })
	if s.Checkpoint == "" && s.Update != 0 || s.Checkpoint != "" && !restored {
		return fmt.Errorf("segment %d goes on from update %d, of which %q is no retained checkpoint", s.Segment, s.Update, s.Checkpoint)
	}
	h.RolledBack += h.Update() - s.Update
	h.Updates = h.Updates[:s.Update:s.Update]
	h.Evaluations = slices.DeleteFunc(h.Evaluations, func(e Evaluation) bool { return e.Update > s.Update })
	h.Checkpoints = slices.DeleteFunc(h.Checkpoints, func(c Saved) bool {
		return c.Update > s.Update || slices.ContainsFunc(s.PassedOver, func(p PassedOver) bool { return p.Checkpoint == c.Path })
	})
	h.Segments = append(h.Segments, s)
	h.Finished = false
	return nil
}

// Record is a run directory as it was read at one instant, without a lock.
type Record struct {
	Run     RunFile
	Events  []Event
	History History
	Torn    []byte // an unfinished line at the ledger's end; a running program may be writing it
}

// Read reads run.json and the ledger and checks the hash chain. The other files are not looked at.
func Read(dir string) (*Record, error) {
	data, err := readRunFile(dir)
	if err != nil {
		return nil, err
	}
	run, err := parseRunFile(data)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, ledgerName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rec := &Record{Run: *run}
	if rec.Events, rec.Torn, err = ReadLedger(f, run.Start(data)); err != nil {
		return nil, err
	}
	h, err := NewHistory(rec.Events)
	if err != nil {
		return nil, err
	}
	rec.History = *h
	return rec, nil
}
