package checkpoint_test

import (
	"bytes"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
	"github.com/grouper-rl/grouper/verify"
)

// forked forks a run into a new directory beside it, without real syncs.
func forked(t *testing.T, parent string, at checkpoint.Restore, name string) string {
	t.Helper()
	child := filepath.Join(filepath.Dir(parent), name)
	if at.Reason == "" {
		at.Reason = "elsewhere"
	}
	if err := checkpoint.ForkOn(t.Context(), newFaulty(0, false), parent, at, child); err != nil {
		t.Fatal(err)
	}
	return child
}

// records is the content of a run directory, but for the lock.
func records(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := tree(t, dir)
	delete(all, filepath.Join(dir, ".lock"))
	return all
}

// findings are what verification says of a run, and its logical digest.
func findings(t *testing.T, dir string, parents ...string) (text, digest string) {
	t.Helper()
	report, err := verify.Run(t.Context(), dir, verify.Options{Grader: testrun.Grader, Parents: parents})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := report.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String(), report.Digest
}

// A run that a second directory finishes is one run: whoever publishes it from the second directory must come to the counts and to
// the digest of a run that was never moved.
func TestForkedReferenceScenario(t *testing.T) {
	t.Parallel()
	want := verified(t, finished(t, reference))
	dir := filepath.Join(t.TempDir(), "parent")
	parent := reference
	parent.Stop, parent.Skip = 93, 90
	goOn(t, parent, dir)
	before := records(t, dir)
	child := forked(t, dir, checkpoint.Restore{Update: 90, Reason: "another machine"}, "child")
	if h := read(t, child).History; h.Update() != 90 || h.RolledBack != (checkpoint.Work{Updates: 3, Responses: 192}) || h.Inherited != 1 {
		t.Errorf("the fork has %d updates, %+v rolled back", h.Update(), h.RolledBack)
	}
	branch := reference
	branch.Twist, branch.Stop = 1, 92
	goOn(t, branch, child)
	final := reference
	final.At = &checkpoint.Restore{Segment: 1, Update: 90, Reason: "the try was worse"}
	goOn(t, final, child)

	if got := verified(t, child); got != want {
		t.Errorf("the logical digest is %s, of a run in one place %s", got, want)
	}
	h := read(t, child).History
	if h.Retained() != (checkpoint.Work{Updates: 100, Responses: 6400}) || h.RolledBack != (checkpoint.Work{Updates: 5, Responses: 320}) || !h.Finished {
		t.Errorf("%+v are retained, %+v rolled back", h.Retained(), h.RolledBack)
	}
	if s := h.Segments[1]; s.Segment != 2 || s.Parent != 1 || s.Update != 90 || s.Reason != "another machine" || s.RolledBack != nil {
		t.Errorf("the child's first segment is %+v", s)
	}
	if u := h.Updates[90]; !reflect.DeepEqual(u.SampledIn, []int{1, 1, 1, 1, 1, 3, 3, 3}) || u.Segment != 3 {
		t.Errorf("update 91 is %+v", u)
	}
	if e, _ := h.Evaluation(90); e.Segment != 3 {
		t.Errorf("the evaluation of update 90 is of segment %d", e.Segment)
	}
	if !maps.Equal(before, records(t, dir)) {
		t.Error("the parent's directory has changed")
	}
}

// A run may move on more than once, and the parent may go on, too.
func TestForkOfAFork(t *testing.T) {
	straight := program
	straight.Updates = 8
	want := verified(t, finished(t, straight))
	parent := finished(t, program)
	middle := forked(t, parent, checkpoint.Restore{Segment: 1, Update: 2}, "middle")
	to6 := program
	to6.Updates = 6
	goOn(t, to6, middle)
	verified(t, middle)
	child := forked(t, middle, checkpoint.Restore{Update: 4}, "child")
	goOn(t, straight, child)
	goOn(t, to6, parent)
	if got := verified(t, child); got != want {
		t.Errorf("the digest is %s, expected %s", got, want)
	}
	h := read(t, child).History
	var of []int
	for _, u := range h.Updates {
		of = append(of, u.Segment)
	}
	if !slices.Equal(of, []int{1, 1, 2, 2, 3, 3, 3, 3}) || h.Inherited != 2 || h.RolledBack != (checkpoint.Work{Updates: 4, Responses: 24}) {
		t.Errorf("the updates are of segments %v, %+v rolled back", of, h.RolledBack)
	}
	// The child goes on as any run.
	straight.Updates = 9
	goOn(t, straight, child)
	verified(t, child)
}

// Where the parent is not, or is not what it was, has to be said: its updates count in the child.
func TestParentMissingOrChanged(t *testing.T) {
	fresh := func(t *testing.T) (parent, child string) {
		parent = finished(t, program)
		child = forked(t, parent, checkpoint.Restore{Update: 2}, "child")
		goOn(t, program, child)
		return parent, child
	}
	t.Run("moved", func(t *testing.T) {
		parent, child := fresh(t)
		want := verified(t, child)
		moved := filepath.Join(t.TempDir(), "moved")
		if err := os.Rename(parent, moved); err != nil {
			t.Fatal(err)
		}
		text, digest := findings(t, child)
		if digest != "" || !strings.Contains(text, "everything that is here holds") || !strings.Contains(text, "note: the parent run is not there: ") {
			t.Errorf("without the parent:\n%s", text)
		}
		if text, digest := findings(t, child, moved); digest != want {
			t.Errorf("with the parent elsewhere:\n%s", text)
		}
		run := read(t, child).Run
		if _, err := run.LocateParent(child); !errors.Is(err, checkpoint.ErrNoParent) {
			t.Errorf("the error is %v", err)
		}
		p := program
		p.Updates = 5
		goOn(t, p, child) // training needs no parent
	})
	for name, c := range map[string]struct {
		change func(t *testing.T, parent, child string)
		want   string
	}{
		"an edited event": {func(t *testing.T, parent, _ string) {
			replace(t, filepath.Join(parent, "ledger.jsonl"), `"update":1`, `"update":7`)
		}, "parent: the run directory is damaged: the parent run in"},
		"its end cut off": {func(t *testing.T, parent, _ string) {
			path := filepath.Join(parent, "ledger.jsonl")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			write(t, path, data[:bytes.LastIndexByte(data[:len(data)-1], '\n')+1])
		}, "the fork was made after event"},
		"another run": {func(t *testing.T, parent, _ string) {
			remove(t, parent)
			p := program
			p.Seed = 8
			goOn(t, p, parent)
		}, "its run.json or its bank is not that of the run that was forked"},
		"a lost file": {func(t *testing.T, parent, _ string) { remove(t, filepath.Join(parent, "rollouts/000001.jsonl.zst")) }, "../run/rollouts/000001.jsonl.zst: it is missing"},
		"a changed file": {func(t *testing.T, parent, _ string) {
			write(t, filepath.Join(parent, "evals/000002.jsonl.zst"), []byte("x"))
		},
			"../run/evals/000002.jsonl.zst: SHA-256"},
		"the copy of its ledger": {func(t *testing.T, _, child string) {
			replace(t, filepath.Join(child, "parent/ledger.jsonl"), `"update":1`, `"update":7`)
		}, "DOES NOT HOLD: parent: the run directory is damaged"},
		"the copy of its settings": {func(t *testing.T, _, child string) {
			replace(t, filepath.Join(child, "parent/run.json"), `"seed": 7`, `"seed": 8`)
		}, "DOES NOT HOLD: parent: the run directory is damaged"},
		"what run.json says of it": {func(t *testing.T, _, child string) {
			replace(t, filepath.Join(child, "run.json"), `"reason": "elsewhere"`, `"reason": "somewhere"`)
		}, "run.json: the ledger does not begin with this file"},
		"a file more": {func(t *testing.T, _, child string) { write(t, filepath.Join(child, "parent/notes"), nil) },
			"parent/notes: it is no part of what a fork copies"},
		"the checkpoint": {func(t *testing.T, _, child string) { remove(t, filepath.Join(child, "checkpoints/000002/state.json")) },
			"checkpoints/000002: the run directory is damaged: state.json"},
	} {
		t.Run(name, func(t *testing.T) {
			parent, child := fresh(t)
			c.change(t, parent, child)
			if text, digest := findings(t, child); digest != "" || !strings.Contains(text, c.want) {
				t.Errorf("expected %q:\n%s", c.want, text)
			}
		})
	}
}

func replace(t *testing.T, path, old, new string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(data, []byte(old)) {
		t.Fatalf("%s has no %s", path, old)
	}
	write(t, path, bytes.Replace(data, []byte(old), []byte(new), 1))
}

// A fork that cannot be made must say why and leave nothing behind.
func TestImpossibleFork(t *testing.T) {
	parent := finished(t, program)
	above := filepath.Dir(parent)
	before := tree(t, above)
	at := checkpoint.Restore{Update: 2, Reason: "x"}
	for name, c := range map[string]struct {
		from string
		at   checkpoint.Restore
		to   string
		want string
	}{
		"existing":      {parent, at, parent, "the new directory exists already"},
		"no reason":     {parent, checkpoint.Restore{Update: 2}, "new", `Restore.Reason is ""`},
		"no checkpoint": {parent, checkpoint.Restore{Update: 3, Reason: "x"}, "new", "update 3 has no checkpoint: segment 1"},
		"no segment":    {parent, checkpoint.Restore{Segment: 4, Update: 2, Reason: "x"}, "new", "Restore.Segment is 4"},
		"no run":        {above, at, "new", "it is no run directory"},
		"no folder":     {filepath.Join(above, "none"), at, "new", "it is no run directory"},
	} {
		to := c.to
		if to == "new" {
			to = filepath.Join(above, to)
		}
		if err := checkpoint.Fork(t.Context(), c.from, c.at, to); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, expected one that says %q", name, err, c.want)
		}
	}
	if !maps.Equal(before, tree(t, above)) {
		t.Error("something has changed")
	}
	write(t, filepath.Join(parent, "checkpoints/000002/slots.safetensors"), []byte("x"))
	if err := checkpoint.Fork(t.Context(), parent, at, filepath.Join(above, "new")); !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "checkpoints/000002/slots.safetensors") {
		t.Errorf("of a damaged checkpoint: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(above, ".tmp-new")); err == nil {
		t.Error("something is left behind")
	}
}

// In a fork, what is only in the parent's directory cannot be restored, and nothing must be trained from the base weights again
// because of that.
func TestRestoreInAFork(t *testing.T) {
	parent := finished(t, program)
	child := forked(t, parent, checkpoint.Restore{Update: 4}, "child")
	p := program
	p.At = &checkpoint.Restore{Update: 4, Reason: "x"}
	if err := try(t, p, child); err == nil || !strings.Contains(err.Error(), "the first segment of a forked run goes on from where it was forked, update 4 of segment 1") {
		t.Errorf("the first segment elsewhere: %v", err)
	}
	program := program
	program.Updates = 6
	goOn(t, program, child)
	p.At = &checkpoint.Restore{Update: 2, Reason: "x"}
	if err := try(t, p, child); err == nil || !strings.Contains(err.Error(), "checkpoints/000002 is in the directory of the run that this one was forked from") {
		t.Errorf("a checkpoint of the parent: %v", err)
	}
	if err := checkpoint.Fork(t.Context(), child, *p.At, child+"2"); err == nil || !strings.Contains(err.Error(), "fork from there") {
		t.Errorf("a fork from a checkpoint of the parent: %v", err)
	}
	program.Updates = 7
	program.At = &checkpoint.Restore{Segment: 2, Update: 4, Reason: "x"}
	goOn(t, program, child)
	verified(t, child)
	program.At = nil
	remove(t, filepath.Join(child, "checkpoints"))
	if err := try(t, program, child); !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "fork the parent run again") {
		t.Errorf("without its checkpoints: %v", err)
	}
}

// The parent may be running: a fork takes no lock. Two programs in the child are refused as anywhere.
func TestForkOfARunningRun(t *testing.T) {
	parent := filepath.Join(t.TempDir(), "run")
	r := mustOpen(t, parent)
	p := program
	p.Stop = 3
	if err := p.Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	child := forked(t, parent, checkpoint.Restore{Update: 2}, "child")
	open := mustOpen(t, child)
	if _, err := checkpoint.Open(child); !errors.Is(err, checkpoint.ErrLocked) {
		t.Errorf("a second opening gave %v", err)
	}
	if err := errors.Join(program.Run(t.Context(), open), open.Close()); err != nil {
		t.Fatal(err)
	}
	if got, want := verified(t, child), verified(t, finished(t, program)); got != want {
		t.Errorf("the digest is %s, expected %s", got, want)
	}
}

// A machine that goes down, or a full disk, during a fork leaves the parent as it was, and either a whole child or none.
func TestFailureDuringFork(t *testing.T) {
	t.Parallel()
	parent := finished(t, program)
	before := records(t, parent)
	at := checkpoint.Restore{Update: 2, Reason: "x"}
	child := filepath.Join(filepath.Dir(parent), "child")
	d := newFaulty(0, false)
	if err := checkpoint.ForkOn(t.Context(), d, parent, at, child); err != nil {
		t.Fatal(err)
	}
	whole, ops := tree(t, child), d.ops
	for k := 1; k <= ops; k++ {
		for _, crash := range []bool{true, false} {
			remove(t, child)
			d := newFaulty(k, crash)
			err := checkpoint.ForkOn(t.Context(), d, parent, at, child)
			if crash && !errors.Is(err, errCrash) || !crash && err != nil && !errors.Is(err, errFull) {
				t.Fatalf("operation %d: %v", k, err)
			}
			if crash {
				d.lose()
			}
			if _, err := os.Lstat(child); err != nil {
				if err := checkpoint.ForkOn(t.Context(), newFaulty(0, false), parent, at, child); err != nil {
					t.Fatalf("again after operation %d: %v", k, err)
				}
			}
			if !maps.Equal(whole, tree(t, child)) {
				t.Fatalf("after operation %d the child is not whole", k)
			}
		}
	}
	if !maps.Equal(before, records(t, parent)) {
		t.Error("the parent's directory has changed")
	}
	t.Logf("%d file operations", ops)
}

// A fork that a crash hit while its first segment began goes on as any run.
func TestCrashInAFork(t *testing.T) {
	t.Parallel()
	parent := finished(t, program)
	want := verified(t, parent)
	pristine := forked(t, parent, checkpoint.Restore{Update: 2}, "pristine")
	child := filepath.Join(filepath.Dir(parent), "child")
	start := func() *faulty {
		remove(t, child)
		if err := os.CopyFS(child, os.DirFS(pristine)); err != nil {
			t.Fatal(err)
		}
		return newFaulty(0, true)
	}
	d := start()
	if _, err := runOn(t.Context(), program, child, d); err != nil {
		t.Fatal(err)
	}
	ops := d.ops
	for k := 1; k <= ops; k += stride(2) {
		d := start()
		d.failAt = k
		if _, err := runOn(t.Context(), program, child, d); !errors.Is(err, errCrash) {
			t.Fatalf("operation %d: %v", k, err)
		}
		d.lose()
		if _, err := runOn(t.Context(), program, child, newFaulty(0, false)); err != nil {
			t.Fatalf("going on after a crash at operation %d: %v", k, err)
		}
		if got := verified(t, child); got != want {
			t.Fatalf("after a crash at operation %d the digest is %s, expected %s", k, got, want)
		}
	}
}
