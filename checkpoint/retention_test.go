package checkpoint_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
)

// there are the updates whose checkpoints are in a run directory.
func there(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "checkpoints"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimLeft(e.Name(), "0"))
	}
	return strings.TrimSpace(strings.Join(names, " "))
}

// A run of days fills any disk with its checkpoints. What the user asked to keep must be kept, and what was removed must be on
// record, so that nobody who verifies takes it for lost.
func TestRetention(t *testing.T) {
	t.Parallel()
	p := testrun.Program{Updates: 12, Every: 2, Seed: 7}
	straight := finished(t, p)
	want := verified(t, straight)
	best, accuracy := 0, -1.0
	h := read(t, straight).History
	for _, e := range h.Evaluations[:len(h.Evaluations)-1] { // the last one's checkpoint is the newest
		if e.Accuracy > accuracy {
			best, accuracy = e.Update, e.Accuracy
		}
	}
	if best == 0 || best == 10 {
		t.Fatalf("the best evaluation is of update %d, which tells nothing", best)
	}
	for _, c := range []struct {
		keep checkpoint.Retention
		want string
	}{
		{checkpoint.Retention{}, "2 4 6 8 10 12"}, // and 0, whose name is all zeros
		{checkpoint.Retention{Last: 1}, "12"},
		{checkpoint.Retention{Last: 3}, "8 10 12"},
		{checkpoint.Retention{Last: 30}, "2 4 6 8 10 12"},
		{checkpoint.Retention{Every: 4}, "4 8 12"},
		{checkpoint.Retention{Last: 2, Every: 4}, "4 8 10 12"},
		// The evaluation of update 10 comes after its checkpoint, so that is kept until the one of update 12 is there.
		{checkpoint.Retention{Best: true}, fmt.Sprintf("%d 12", best)},
	} {
		p := p
		p.Retention = c.keep
		dir := finished(t, p)
		if got := there(t, dir); got != c.want {
			t.Errorf("%+v keeps %s, expected %s", c.keep, got, c.want)
		}
		if got := verified(t, dir); got != want {
			t.Errorf("%+v: the digest is %s, without it %s", c.keep, got, want)
		}
		h := read(t, dir).History
		if len(h.Checkpoints) != 7 || h.Checkpoints[6].Pruned || h.Checkpoints[1].Pruned == strings.HasPrefix(c.want, "2 ") {
			t.Errorf("%+v: the history has %+v", c.keep, h.Checkpoints)
		}
	}
	r := mustOpen(t, straight)
	for field, keep := range map[string]checkpoint.Retention{"Last": {Last: -1}, "Every": {Every: -2}} {
		if err := r.Retain(keep); err == nil || !strings.Contains(err.Error(), "Retention."+field+" is -") {
			t.Errorf("%+v: the error is %v", keep, err)
		}
	}
}

// The state that a running program was restored from is read when it is asked for: it must not go away under it.
func TestRetentionKeepsWhatIsInUse(t *testing.T) {
	p := testrun.Program{Updates: 4, Every: 2, Seed: 7, Retention: checkpoint.Retention{Last: 1}}
	dir := finished(t, p)
	p.Updates = 8
	goOn(t, p, dir)
	if got := there(t, dir); got != "4 8" {
		t.Errorf("%s are there, expected 4, which the segment began with, and 8", got)
	}
	p.Updates = 10
	goOn(t, p, dir)
	if got := there(t, dir); got != "8 10" {
		t.Errorf("%s are there, expected 8 and 10", got)
	}
	verified(t, dir)

	p.At = &checkpoint.Restore{Update: 4, Reason: "x"}
	if err := try(t, p, dir); err == nil || !strings.Contains(err.Error(), "the checkpoint of update 4 was pruned to save space: segment 3, which ended at update 10, has checkpoints of updates 8, 10") {
		t.Errorf("restoring a pruned checkpoint: %v", err)
	}
	if err := checkpoint.Fork(t.Context(), dir, *p.At, dir+"2"); err == nil || !strings.Contains(err.Error(), "was pruned to save space") {
		t.Errorf("forking from a pruned checkpoint: %v", err)
	}

	// What a branch left is not touched, and neither is what a fork began with.
	p.At = &checkpoint.Restore{Update: 8, Reason: "x"}
	p.Twist, p.Updates = 1, 14
	goOn(t, p, dir)
	if got := there(t, dir); got != "8 10 14" {
		t.Errorf("%s are there, expected 8, 14 and the 10 of the trajectory that was left", got)
	}
	verified(t, dir)
	child := forked(t, dir, checkpoint.Restore{Update: 8}, "child")
	p.At = nil
	for p.Updates = 10; p.Updates <= 14; p.Updates += 2 {
		goOn(t, p, child)
	}
	if got := there(t, child); got != "8 12 14" {
		t.Errorf("%s are there, expected 8, 12 and 14", got)
	}
	verified(t, child)
}

// A crash between the event and the removal leaves a checkpoint, whole or in part, that no longer counts: opening removes it.
func TestUnfinishedPruning(t *testing.T) {
	p := testrun.Program{Updates: 4, Every: 2, Seed: 7, Retention: checkpoint.Retention{Last: 1}}
	whole := finished(t, testrun.Program{Updates: 4, Every: 2, Seed: 7})
	dir := finished(t, p)
	for _, name := range []string{"000000", "000002"} {
		if err := os.CopyFS(filepath.Join(dir, "checkpoints", name), os.DirFS(filepath.Join(whole, "checkpoints", name))); err != nil {
			t.Fatal(err)
		}
	}
	remove(t, filepath.Join(dir, "checkpoints/000002/state.json"))
	if text, digest := findings(t, dir); digest == "" || !strings.Contains(text, "note: checkpoints/000002 was pruned and is not gone yet") {
		t.Errorf("before it is opened:\n%s", text)
	}
	notes := goOn(t, p, dir)
	mentions(t, notes, "removed what was left of checkpoints/000000, which was pruned")
	mentions(t, notes, "removed what was left of checkpoints/000002, which was pruned")
	if got := there(t, dir); got != "4" {
		t.Errorf("%s are there", got)
	}
	verified(t, dir)
}

// A checkpoint that was made again after it was pruned is a checkpoint.
func TestPrunedAndMadeAgain(t *testing.T) {
	p := testrun.Program{Updates: 6, Every: 2, Seed: 7}
	dir := finished(t, p)
	p.At, p.Twist, p.Updates = &checkpoint.Restore{Update: 2, Reason: "x"}, 1, 4
	goOn(t, p, dir)
	p.At, p.Twist, p.Updates = &checkpoint.Restore{Segment: 1, Update: 2, Reason: "y"}, 0, 6
	p.Retention = checkpoint.Retention{Last: 1}
	goOn(t, p, dir) // makes 4 again, with the same bytes, and prunes it after 6
	if got := there(t, dir); got != "2 4.s2 6" {
		t.Errorf("%s are there", got)
	}
	p.Retention, p.At = checkpoint.Retention{}, &checkpoint.Restore{Segment: 1, Update: 2, Reason: "z"}
	goOn(t, p, dir) // from 2 once more, and keeps all
	verified(t, dir)
	if got := there(t, dir); got != "2 4 4.s2 6" {
		t.Errorf("%s are there", got)
	}
}

// A program that goes back to a checkpoint and is killed must go on with its branch when it is started again, not begin another one.
func TestRestoreAgain(t *testing.T) {
	p := testrun.Program{Updates: 6, Every: 2, Seed: 7}
	dir := finished(t, p)
	p.At, p.Twist, p.Stop = &checkpoint.Restore{Update: 2, Reason: "x"}, 1, 5
	goOn(t, p, dir)
	p.Stop = 0
	goOn(t, p, dir)
	goOn(t, p, dir) // it is finished
	rec := read(t, dir)
	parents := []int{}
	for _, s := range rec.History.Segments {
		parents = append(parents, s.Parent)
	}
	if got := fmt.Sprint(parents); got != "[0 1 2]" {
		t.Errorf("the segments go on from %s", got)
	}
	if got := rec.History.RolledBack; got.Updates != 4+1 { // of the first segment, and what was made after the branch's last checkpoint
		t.Errorf("%d updates are rolled back", got.Updates)
	}
	verified(t, dir)
}

// An event that prunes what must stay is none that this package writes.
func TestFalsePruning(t *testing.T) {
	rec := read(t, finished(t, program))
	saved := rec.History.Checkpoints
	of := func(s checkpoint.Saved) checkpoint.PrunedCheckpoint {
		return checkpoint.PrunedCheckpoint{Update: s.Update, Path: s.Path, Manifest: s.Manifest}
	}
	other := of(saved[0])
	other.Manifest = saved[1].Manifest
	for name, c := range map[string]struct {
		pruned []checkpoint.PrunedCheckpoint
		want   string
	}{
		"nothing":    {nil, "no checkpoint was pruned"},
		"the newest": {[]checkpoint.PrunedCheckpoint{of(saved[2])}, "checkpoints/000004 was pruned and is the newest"},
		"unknown":    {[]checkpoint.PrunedCheckpoint{other}, "checkpoints/000000 was pruned and is no checkpoint of update 0"},
		"true":       {[]checkpoint.PrunedCheckpoint{of(saved[0]), of(saved[1])}, ""},
	} {
		e, err := checkpoint.NewEvent(len(rec.Events)+1, rec.Events[len(rec.Events)-1].Time, checkpoint.KindPruned, checkpoint.Pruned{Checkpoints: c.pruned}, "")
		if err != nil {
			t.Fatal(err)
		}
		err = new(checkpoint.History).Follow(append(rec.Events, e))
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: the error is %v, expected one that says %q", name, err, c.want)
		}
	}
}

// goesOn is a disk on which a parent goes on, and prunes, while it is being forked.
type goesOn struct {
	*faulty
	parent func()
}

func (d *goesOn) Mkdir(path string) error {
	if d.parent != nil {
		d.parent()
		d.parent = nil
	}
	return d.faulty.Mkdir(path)
}

// Whoever forks a running program from a checkpoint that it is just removing must read that, and which there are, not of files that are
// not there; nothing is left behind.
func TestForkOfWhatIsPruned(t *testing.T) {
	p := testrun.Program{Updates: 4, Every: 2, Seed: 7}
	dir := finished(t, p)
	p.Updates, p.Retention = 8, checkpoint.Retention{Last: 1}
	above := t.TempDir()
	d := &goesOn{newFaulty(0, false), func() { goOn(t, p, dir) }}
	err := checkpoint.ForkOn(t.Context(), d, dir, checkpoint.Restore{Update: 2, Reason: "x"}, filepath.Join(above, "child"))
	const want = "checkpoints/000002 was pruned by the running parent before it could be copied: fork from another, segment 1 has checkpoints of updates 4;"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the error is %v", err)
	}
	if entries, err := os.ReadDir(above); err != nil || len(entries) > 0 {
		t.Errorf("%v was left behind, %v", entries, err)
	}
	// What is lost without having been pruned is damage.
	remove(t, filepath.Join(dir, "checkpoints", "000008", "state.json"))
	err = checkpoint.ForkOn(t.Context(), newFaulty(0, false), dir, checkpoint.Restore{Update: 8, Reason: "x"}, filepath.Join(above, "child"))
	if err == nil || strings.Contains(err.Error(), "pruned") {
		t.Errorf("the error is %v", err)
	}
}
