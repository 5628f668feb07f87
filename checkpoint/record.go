package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// RecordUpdate writes the completions of an update and then its event. Update must be the one after the last; lines must
// be TasksPerUpdate groups of GroupSize completions, in the order of Tasks, samples in order; dropped are the groups of
// DroppedTasks likewise, none of which has two different rewards. Rollouts and Dropped are filled in, and
// Metrics gets the [Update.Figures], which verification computes again; a metric of such a name with another value is an error.
func (r *Run) RecordUpdate(ctx context.Context, u Update, lines, dropped []Line) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.readyToRecord(ctx); err != nil {
		return err
	}
	what := fmt.Sprintf("recording update %d", u.Update)
	if u.Update != r.history.Update()+1 {
		return fmt.Errorf("checkpoint: %s after update %d", what, r.history.Update())
	}
	u.Rollouts, u.Dropped = File{}, nil
	if err := r.file.Plan.CheckUpdate(u, r.file.Seed, lines, dropped); err != nil {
		return fmt.Errorf("checkpoint: %s: %w", what, err)
	}
	if err := r.history.checkSampledIn(u); err != nil {
		return fmt.Errorf("checkpoint: %s: %w", what, err)
	}
	var err error
	if u.Metrics, err = mergeMetrics(u.Metrics, u.Figures(lines, r.file.Plan.GroupSize)); err != nil {
		return fmt.Errorf("checkpoint: %s: %w", what, err)
	}
	data, err := encodeLines(lines)
	if err != nil {
		return fmt.Errorf("checkpoint: %s: %w", what, err)
	}
	var left []byte
	if len(dropped) > 0 {
		if left, err = encodeLines(dropped); err != nil {
			return fmt.Errorf("checkpoint: %s: dropped: %w", what, err)
		}
		u.Dropped = &File{SHA256: hexDigest(left), Lines: len(dropped)}
	}
	u.Rollouts = File{SHA256: hexDigest(data), Lines: len(lines)}
	for stem := range r.stems("rollouts/", u.Update) {
		done, err := r.recordUpdate(&u, stem, data, left)
		if err != nil {
			return r.fail(what, err)
		}
		if done {
			break
		}
	}
	return nil
}

// recordUpdate writes under the names of a stem; false: something else has one of them.
func (r *Run) recordUpdate(u *Update, stem string, lines, dropped []byte) (bool, error) {
	u.Rollouts.Path = stem + ".jsonl.zst"
	if u.Dropped != nil {
		u.Dropped.Path = stem + ".dropped.jsonl.zst"
		if found, err := r.compare(u.Rollouts.Path, lines); err != nil || found == other {
			return false, err
		}
		if done, err := r.place(u.Dropped.Path, dropped); err != nil || !done {
			return false, err
		}
	}
	if done, err := r.place(u.Rollouts.Path, lines); err != nil || !done {
		return false, err
	}
	return true, r.record(KindUpdate, *u)
}

// RecordEvaluation writes the completions, the receipt and the figures of an evaluation, then its event, and returns it as it
// was recorded. There is one evaluation of an update's weights; it must have the plan's tasks and seeds. Completions and
// Receipt are filled in, and Bank with the digest of the run's bank.
func (r *Run) RecordEvaluation(ctx context.Context, e Evaluation, lines []Line) (Evaluation, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.readyToRecord(ctx); err != nil {
		return Evaluation{}, err
	}
	if e.Bank == "" {
		e.Bank = r.file.BankDigest()
	}
	what := fmt.Sprintf("recording the evaluation of update %d", e.Update)
	if err := r.checkEvaluation(e, lines); err != nil {
		return Evaluation{}, fmt.Errorf("checkpoint: %s: %w", what, err)
	}
	data, err := encodeLines(lines)
	if err != nil {
		return Evaluation{}, fmt.Errorf("checkpoint: %s: %w", what, err)
	}
	refs, err := Refer(lines)
	if err != nil {
		return Evaluation{}, fmt.Errorf("checkpoint: %s: %w", what, err)
	}
	for stem := range r.stems("evals/", e.Update) {
		e.Completions = File{Path: stem + ".jsonl.zst", SHA256: hexDigest(data), Lines: len(lines)}
		done, err := r.recordEvaluation(&e, data, refs)
		if err != nil {
			return Evaluation{}, r.fail(what, err)
		}
		if done {
			break
		}
	}
	return e, nil
}

func (r *Run) checkEvaluation(e Evaluation, lines []Line) error {
	if _, twice := r.history.Evaluation(e.Update); twice {
		return errors.New("there is one already")
	}
	if e.Update < 0 || e.Update > r.history.Update() {
		return fmt.Errorf("the last update is %d", r.history.Update())
	}
	if e.Bank != r.file.BankDigest() {
		return fmt.Errorf("it is on bank %s, the run's is %s", e.Bank, r.file.BankDigest())
	}
	return r.file.Plan.CheckEvaluation(e, lines)
}

// recordEvaluation writes under the names of e; false: something else has one of them.
func (r *Run) recordEvaluation(e *Evaluation, lines []byte, refs []CompletionRef) (bool, error) {
	if found, err := r.compare(e.figures(), nil); err != nil || found != absent {
		return false, err
	}
	if done, err := r.place(e.Completions.Path, lines); err != nil || !done {
		return false, err
	}
	receipt, err := r.receipt(KindEvaluation, e.Update)
	if err != nil {
		return false, err
	}
	receipt.ofEvaluation(*e)
	receipt.Completions = refs
	if e.Receipt, err = r.placeReceipt(receipt); err != nil {
		return false, err
	}
	figures, err := marshal(e)
	if err != nil {
		return false, err
	}
	if done, err := r.place(e.figures(), indented(figures)); err != nil || !done {
		return false, err
	}
	return true, r.record(KindEvaluation, e)
}

// figures is the path of the file that repeats an evaluation's event.
func (e Evaluation) figures() string {
	return strings.TrimSuffix(e.Completions.Path, ".jsonl.zst") + ".json"
}

// SaveCheckpoint writes the state after an update that this segment began with or has recorded, and then its event.
// Saving the same state again does nothing. Then the checkpoints are removed that need not be kept any more, see [Run.Retain]. Updates and evaluations can be recorded while the files are written; a second
// checkpoint waits for the first. The data of the state's tensors must not change before it returns.
func (r *Run) SaveCheckpoint(ctx context.Context, s *State) error {
	r.saving.Lock()
	defer r.saving.Unlock()
	what := fmt.Sprintf("saving a checkpoint of update %d", s.Update)
	if err := r.checkState(ctx, s); err != nil {
		return fmt.Errorf("checkpoint: %s: %w", what, err)
	}
	tmp := r.path(fmt.Sprintf("checkpoints/%s%06d", temporary, s.Update))
	saved, err := r.writeCheckpoint(ctx, tmp, s)
	if err == nil {
		err = r.recordCheckpoint(tmp, saved)
	}
	if err == nil {
		if err = r.prune(); err != nil {
			err = fmt.Errorf("it is saved, but older ones could not be pruned: %w", err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.fail(what, err)
}

// checkState says why a state is none of the run's.
func (r *Run) checkState(ctx context.Context, s *State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.readyToRecord(ctx); err != nil {
		return err
	}
	if err := r.history.checkSaved(s.Update); err != nil {
		return err
	}
	if err := r.file.Plan.CheckReady(s.Update, r.file.Seed, s.Ready); err != nil {
		return fmt.Errorf("ready groups: %w", err)
	}
	return nil
}

// writeCheckpoint writes a state under a temporary name.
func (r *Run) writeCheckpoint(ctx context.Context, tmp string, s *State) (Saved, error) {
	if err := clearTemporary(r.disk, tmp, fs.ModeDir); err != nil {
		return Saved{}, err
	}
	m, data, err := writeState(ctx, r.disk, tmp, s)
	if err != nil {
		return Saved{}, errors.Join(err, r.disk.RemoveAll(tmp))
	}
	saved := Saved{Update: s.Update, Manifest: hexDigest(data)}
	if ts, ok := m.Groups[WeightsGroup]; ok {
		saved.Weights = WeightsDigest(ts)
	}
	return saved, nil
}

// recordCheckpoint gives a written checkpoint its name and records it.
func (r *Run) recordCheckpoint(tmp string, saved Saved) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for stem := range r.stems("checkpoints/", saved.Update) {
		saved.Path = stem
		done, err := r.placeCheckpoint(tmp, saved)
		if err != nil {
			return errors.Join(err, r.disk.RemoveAll(tmp))
		}
		if done {
			break
		}
	}
	same := func(c Saved) bool { return c.Path == saved.Path && c.Manifest == saved.Manifest && !c.Pruned }
	if slices.ContainsFunc(r.history.Checkpoints, same) {
		return nil
	}
	if err := r.disk.SyncDir(r.path("checkpoints")); err != nil {
		return err
	}
	receipt, err := r.receipt(KindCheckpoint, saved.Update)
	if err != nil {
		return err
	}
	receipt.ofCheckpoint(saved, r.history)
	if saved.Receipt, err = r.placeReceipt(receipt); err != nil {
		return err
	}
	return r.record(KindCheckpoint, saved)
}

// placeCheckpoint gives a written checkpoint its name; false: something else has it.
func (r *Run) placeCheckpoint(tmp string, saved Saved) (bool, error) {
	_, err := os.Lstat(r.path(saved.Path))
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.free(saved.Path, saved.Manifest):
		return true, r.disk.Rename(tmp, r.path(saved.Path))
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	there, _, err := OpenState(r.path(saved.Path), saved.Manifest)
	if err != nil {
		return false, nil // not this checkpoint, or a damaged one
	}
	return true, errors.Join(there.Close(), r.disk.RemoveAll(tmp))
}

// stems are the names that a record of an update can have: without the segment first, then with it.
func (r *Run) stems(prefix string, update int) iter.Seq[string] {
	return func(yield func(string) bool) {
		name := fmt.Sprintf("%s%06d", prefix, update)
		segment := fmt.Sprintf("%s.s%d", name, len(r.history.Segments))
		if !yield(name) || !yield(segment) {
			return
		}
		for n := 2; yield(fmt.Sprintf("%s.%d", segment, n)); n++ {
		}
	}
}

type comparison int

const (
	absent comparison = iota
	same
	other
)

// free says that a name which nothing has can be given to content with a digest: a name that the ledger gave to other
// content stays that content's, even if it is lost.
func (r *Run) free(name, digest string) bool { return r.named[name] == "" || r.named[name] == digest }

// compare says what is under a name. What this opening has written there and not recorded may be replaced, as long as it is
// known not to be recorded: it counts as absent.
func (r *Run) compare(name string, data []byte) (comparison, error) {
	there, err := os.ReadFile(r.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.free(name, hexDigest(data)):
		return absent, nil
	case errors.Is(err, fs.ErrNotExist):
		return other, nil
	case err != nil:
		return other, err
	case bytes.Equal(there, data):
		return same, nil
	case r.mine[name] && r.named[name] == "" && r.ledger.broken == nil:
		return absent, nil
	}
	return other, nil
}

// place makes data durable under a name; false: something else has the name.
func (r *Run) place(name string, data []byte) (bool, error) {
	found, err := r.compare(name, data)
	switch {
	case err != nil || found == other:
		return false, err
	case found == same:
		return true, r.disk.SyncDir(filepath.Dir(r.path(name)))
	}
	r.mine[name] = true
	return true, writeBytes(r.disk, r.path(name), data)
}
