package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"unicode"
)

// Restore names a checkpoint to go on from: that of an update, as a segment had it.
type Restore struct {
	Segment int // whose trajectory the update is on; 0: the retained one
	Update  int
	Reason  string // why, for the record: a line of text. A program that is started again with the same Restore goes on with the branch
}

// reasonResume is the [Segment.Reason] of a run that goes on from its newest checkpoint.
const reasonResume = "resume"

// maxDiff is how many differences of a configuration are named.
const maxDiff = 10

// resume checks that the directory is the run it should be and finds the state to go on from.
func (r *Run) resume(now *RunFile, segment *Segment, at *Restore) (*State, error) {
	data, err := os.ReadFile(r.path(runName))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	had, err := parseRunFile(data)
	if err != nil {
		return nil, err
	}
	if r.ledger.seq == 0 { // forked and not begun
		if err := r.checkForked(had); err != nil {
			return nil, err
		}
		r.ledger.prev = had.Start(data)
	} else if had.Start(data) != r.ledger.first {
		return nil, fmt.Errorf("%w: run.json is not the one that the ledger begins with", ErrDamaged)
	}
	diff, err := had.compare(now)
	if err != nil {
		return nil, err
	}
	if len(diff) > maxDiff { // another model, or a record from before its settings were told
		diff = append(diff[:maxDiff], fmt.Sprintf("and %d more", len(diff)-maxDiff))
	}
	if len(diff) > 0 {
		return nil, fmt.Errorf("%w: %s", ErrOtherConfiguration, strings.Join(diff, "; "))
	}
	last := r.history.Segments[len(r.history.Segments)-1]
	if last.Signer != "" && last.Signer != segment.Signer && r.ledger.seq > 0 { // a fork signs with what it likes
		with := "nothing"
		if segment.Signer != "" {
			with = segment.Signer
		}
		return nil, fmt.Errorf("%w: its receipts are signed with %s, and this program signs with %s, so that no key would verify all of them: give the run that key (Run.SignWith), or go on without it in a fork (checkpoint.Fork) or anew in another directory",
			ErrOtherConfiguration, last.Signer, with)
	}
	for _, name := range slices.Sorted(maps.Keys(had.Files)) {
		data, err := os.ReadFile(r.path("bank/" + name))
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if got := hexDigest(data); got != had.Files[name] {
			return nil, fmt.Errorf("%w: bank/%s has changed since the run began: SHA-256 is %s, expected %s", ErrDamaged, name, got, had.Files[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.Versions)) {
		if was := last.Versions[name]; was != now.Versions[name] {
			r.note("the version of %s was %q and is %q", name, was, now.Versions[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(segment.Settings)) {
		if was := last.Settings[name]; !bytes.Equal(was, segment.Settings[name]) {
			r.note("%s was %s and is %s", name, was, segment.Settings[name])
		}
	}
	for _, folder := range folders {
		if err := makeDir(r.disk, r.path(folder)); err != nil {
			return nil, err
		}
	}
	if segment.Unrecorded, err = r.unrecorded(); err != nil {
		return nil, err
	}
	r.noteLost()
	var state *State
	switch p := had.Parent; {
	case r.ledger.seq == 0 && at != nil:
		return nil, fmt.Errorf("the first segment of a forked run goes on from where it was forked, update %d of segment %d", p.Update, p.Segment)
	case r.ledger.seq == 0:
		state, err = r.restore(segment, Restore{Segment: p.Segment, Update: p.Update, Reason: p.Reason})
	case at != nil && !r.history.restored(*at):
		state, err = r.restore(segment, *at)
	default:
		segment.Reason = reasonResume
		state, err = r.restoreNewest(segment)
	}
	if err != nil {
		return nil, err
	}
	if back := r.history.leaves(segment.Parent, segment.Update); back.Updates > 0 {
		segment.RolledBack = &back
		from := segment.Checkpoint
		if state == nil {
			from = "the base weights, as there is no whole checkpoint"
		}
		if n := r.history.Update(); at == nil {
			r.note("going on from %s: updates %d to %d were recorded after it, are rolled back and made again", from, segment.Update+1, n)
		} else {
			r.note("going on from update %d of segment %d: %d updates, %d responses are rolled back", segment.Update, segment.Parent, back.Updates, back.Responses)
		}
	}
	return state, nil
}

// restored says that the present trajectory is the branch that a restore began, which a program that was started again goes on with.
func (h *History) restored(at Restore) bool {
	s := h.Segments[len(h.Segments)-1]
	for s.Reason == reasonResume && s.Parent > 0 {
		s = h.Segments[s.Parent-1]
	}
	return s.Update == at.Update && s.Reason == at.Reason && (at.Segment == 0 || at.Segment == s.Parent)
}

// restore opens the checkpoint that was asked for.
func (r *Run) restore(segment *Segment, at Restore) (*State, error) {
	saved, parent, err := r.history.find(at)
	if err != nil {
		return nil, err
	}
	segment.Parent, segment.Update, segment.Reason = parent, at.Update, at.Reason
	if saved == nil {
		return nil, nil
	}
	if !r.history.own(saved) {
		return nil, fmt.Errorf("%s is in the directory of the run that this one was forked from: fork from there", saved.Path)
	}
	state, err := r.openSaved(*saved)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be restored: %w; segment %d has checkpoints of %s", saved.Path, err, parent, restorable(r.history.of(parent).checkpoints))
	}
	segment.Checkpoint = saved.Path
	return state, nil
}

// find is the checkpoint that a restore names, nil for the base weights, and the segment whose trajectory it is on.
func (h *History) find(at Restore) (*Saved, int, error) {
	n := len(h.Segments)
	segment := at.Segment
	if segment == 0 {
		segment = n
	}
	switch {
	case strings.ContainsFunc(at.Reason, unicode.IsControl):
		return nil, 0, fmt.Errorf("Restore.Reason is %q, allowed: a line of text without control characters", at.Reason)
	case at.Reason == "":
		return nil, 0, errors.New(`Restore.Reason is "", allowed: why the run goes on from there`)
	case segment < 1 || segment > n:
		return nil, 0, fmt.Errorf("Restore.Segment is %d, allowed: 1 to %d, or 0 for the retained trajectory", at.Segment, n)
	}
	from := h.of(segment)
	has := fmt.Sprintf("segment %d, which ended at update %d, has checkpoints of %s", segment, len(from.updates), restorable(from.checkpoints))
	if at.Update < 0 || at.Update > len(from.updates) {
		return nil, 0, fmt.Errorf("Restore.Update is %d: %s", at.Update, has)
	}
	pruned := false
	for _, c := range slices.Backward(from.checkpoints) {
		if c.Update == at.Update && !c.Pruned {
			return &c, segment, nil
		}
		pruned = pruned || c.Update == at.Update
	}
	switch {
	case pruned:
		return nil, 0, fmt.Errorf("the checkpoint of update %d was pruned to save space: %s", at.Update, has)
	case at.Update > 0:
		return nil, 0, fmt.Errorf("update %d has no checkpoint: %s", at.Update, has)
	}
	return nil, segment, nil
}

// restorable lists the updates of checkpoints: "updates 0, 30, 60".
func restorable(saved []Saved) string {
	var updates []string
	for _, c := range saved {
		if update := fmt.Sprint(c.Update); !c.Pruned && !slices.Contains(updates, update) {
			updates = append(updates, update)
		}
	}
	if len(updates) == 0 {
		return "no update"
	}
	return "updates " + strings.Join(updates, ", ")
}

// openSaved opens a checkpoint that the ledger names.
func (r *Run) openSaved(c Saved) (*State, error) {
	state, m, err := OpenState(r.path(c.Path), c.Manifest)
	if err == nil && m.Update != c.Update {
		err = errors.Join(fmt.Errorf("%w: it is of update %d, the ledger says %d", ErrDamaged, m.Update, c.Update), state.Close())
	}
	if err != nil {
		return nil, err
	}
	return state, nil
}

// restoreNewest opens the newest whole checkpoint and notes in the segment which it is and which were passed over.
func (r *Run) restoreNewest(segment *Segment) (*State, error) {
	for _, c := range slices.Backward(r.history.Checkpoints) {
		if c.Pruned || !r.history.own(&c) {
			continue
		}
		state, err := r.openSaved(c)
		if err == nil {
			segment.Update, segment.Checkpoint = c.Update, c.Path
			return state, nil
		}
		if !errors.Is(err, ErrDamaged) {
			return nil, fmt.Errorf("%s: %w", c.Path, err)
		}
		files, listErr := listFiles(r.dir, c.Path)
		if listErr != nil {
			return nil, listErr
		}
		segment.PassedOver = append(segment.PassedOver, PassedOver{Checkpoint: c.Path, Reason: err.Error(), Files: files})
		r.note("%s cannot be restored and is passed over: %v", c.Path, err)
	}
	if r.history.Inherited > 0 {
		return nil, fmt.Errorf("%w: none of its checkpoints can be restored: fork the parent run again", ErrDamaged)
	}
	return nil, nil
}
