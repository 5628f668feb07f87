package verify_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/verify"
)

// Records on another disk are records: whoever moved them there must get the same answer, and no crash.
func TestLinkedFolders(t *testing.T) {
	want := check(t, write(t, program, 3)).Digest
	dir, disk := write(t, program, 3), t.TempDir()
	for _, name := range []string{"checkpoints/000002", "bank", "rollouts", "checkpoints", "evals"} {
		path, moved := filepath.Join(dir, filepath.FromSlash(name)), filepath.Join(disk, filepath.Base(name))
		if err := os.Rename(path, moved); err != nil {
			t.Skip(err) // the temporary directories are on two disks
		}
		if err := os.Symlink(moved, path); err != nil {
			t.Skip(err)
		}
		if report := check(t, dir); report.Digest != want {
			t.Errorf("with %s on another disk:\n%s", name, text(t, report))
		}
	}
	rewrite(t, filepath.Join(disk, "rollouts", "more"), nil)
	found(t, check(t, dir), "rollouts/more", "no event of the ledger names it")
}

// A folder that has become something else is a finding about that folder.
func TestFileInsteadOfFolder(t *testing.T) {
	for _, name := range []string{"bank", "rollouts", "checkpoints", "evals"} {
		dir := write(t, program, 1)
		path := filepath.Join(dir, name)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		rewrite(t, path, []byte("x"))
		found(t, check(t, dir), name, "it is not a folder")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("nowhere", path); err != nil {
			t.Skip(err)
		}
		found(t, check(t, dir), name, "no such file")
	}
}

// "No file that the ledger does not name" is said of folders too.
func TestUnknownFolders(t *testing.T) {
	dir := write(t, program, 3)
	cutLedger(t, dir, 1) // "finished"
	for name, ok := range map[string]bool{
		"rollouts/x": false, "checkpoints/000009": false, "evals/x/y": false, "bank/x": false, "rollouts/.tmp-notes": false, "checkpoints/000002/x": false,
		"checkpoints/.tmp-000003": true, "checkpoints/000003": true,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		report := check(t, dir)
		if report.OK() != ok {
			t.Errorf("%s: holds is %v:\n%s", name, report.OK(), text(t, report))
		}
		if !ok {
			found(t, report, filepath.ToSlash(filepath.Dir(name)), "")
		}
		top := strings.SplitN(name, "/", 3)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if top[1] == "x" {
			_ = os.RemoveAll(filepath.Join(dir, top[0], top[1]))
		}
	}
}

// Whoever verifies a run that is just starting must not hear that its record is broken.
func TestNotBegun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	notBegun := func() {
		t.Helper()
		_, err := verify.Run(t.Context(), dir, verify.Options{})
		if !errors.Is(err, checkpoint.ErrNotBegun) || !strings.Contains(err.Error(), dir) {
			t.Errorf("the error is %v", err)
		}
	}
	notBegun()
	id, err := program.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Begin(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if report := check(t, dir); len(report.Checked) == 0 {
		t.Errorf("a run that has begun was not verified:\n%s", text(t, report))
	}
	rewrite(t, filepath.Join(dir, "ledger.jsonl"), []byte(`{"seq":1,`)) // its first event is being written
	notBegun()
	rewrite(t, filepath.Join(dir, "rollouts", "000001.jsonl.zst"), []byte("x"))
	found(t, check(t, dir), "ledger.jsonl", "")
}
