package checkpoint_test

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
)

// tree is everything below a directory: files with their content, folders with a slash.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			all[path+"/"] = ""
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func folders(t *testing.T, elem ...string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(elem...), 0o755); err != nil {
		t.Fatal(err)
	}
}

func put(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	folders(t, filepath.Dir(path))
	write(t, path, []byte(content))
}

// begun is a directory in which a run has begun and recorded nothing.
func begun(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	id, err := program.Identity()
	if err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, dir)
	if _, err := r.Begin(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Somebody who names the wrong directory must find everything in it as it was.
func TestForeignDirectory(t *testing.T) {
	for name, c := range map[string]struct{ file, content string }{
		"a file":              {"thesis.tex", "x"},
		"a temporary folder":  {".tmp-thesis/chapter.tex", "x"},
		"a folder of a name":  {".tmp-run.json/chapter.tex", "x"},
		"a temporary record":  {"rollouts/.tmp-000001.jsonl.zst", "x"},
		"a ledger":            {"ledger.jsonl", "accounts of 1999"},
		"a ledger with lines": {"ledger.jsonl", "{\"paid\":1}\n{\"paid\":2}\n"},
		"a run.json":          {"run.json", "{\"distance\": 5}\n"},
		"a run.json alike":    {"run.json", "{\"format\": 2}\n"},
		"a bank":              {"bank/train.jsonl", "{}\n"},
		"a lock":              {".lock", "yarn"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			put(t, dir, c.file, c.content)
			before := tree(t, dir)
			_, err := checkpoint.Open(dir)
			if err == nil || !strings.Contains(err.Error(), strings.Split(c.file, "/")[0]) || !strings.Contains(err.Error(), "choose another directory") {
				t.Errorf("the error is %v", err)
			}
			if !maps.Equal(before, tree(t, dir)) {
				t.Errorf("the directory has changed: %q", tree(t, dir))
			}
		})
	}
	t.Run("another format", func(t *testing.T) {
		dir := t.TempDir()
		put(t, dir, "run.json", `{"format": 1}`)
		before := tree(t, dir)
		if _, err := checkpoint.Open(dir); !errors.Is(err, checkpoint.ErrFormat) || !maps.Equal(before, tree(t, dir)) {
			t.Errorf("the error is %v, the directory %q", err, tree(t, dir))
		}
	})
}

// Folders that are prepared on another disk, and still empty, are no reason to refuse.
func TestPreparedFolders(t *testing.T) {
	dir, disk := t.TempDir(), t.TempDir()
	folders(t, dir, "evals")
	for _, name := range []string{"rollouts", "checkpoints"} {
		folders(t, disk, name)
		if err := os.Symlink(filepath.Join(disk, name), filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	goOn(t, program, dir)
	if got, want := verified(t, dir), verified(t, finished(t, program)); got != want {
		t.Errorf("the digest is %s, expected %s", got, want)
	}
}

// In a run directory, too, only what the package itself has left is removed.
func TestForeignTemporaries(t *testing.T) {
	dir := finished(t, program)
	stays := []string{".tmp-thesis/chapter.tex", ".tmp-notes", "rollouts/.tmp-notes", "rollouts/.tmp-000001.txt", "evals/.tmp-000001.json/x",
		"checkpoints/.tmp-000004", "checkpoints/.tmp-old/x", "bank/.tmp-notes"}
	goes := []string{".tmp-run.json", "rollouts/.tmp-000005.jsonl.zst", "rollouts/.tmp-000005.s2.3.jsonl.zst", "evals/.tmp-000004.json", "checkpoints/.tmp-000002/x", "bank/.tmp-train.jsonl"}
	for _, name := range append(stays, goes...) {
		put(t, dir, name, "x")
	}
	r := mustOpen(t, dir)
	for _, name := range stays {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Errorf("%s was removed", name)
		}
	}
	for _, name := range goes {
		if _, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name))); err == nil {
			t.Errorf("%s is left", name)
		}
		mentions(t, r.Notes(), "removed "+strings.TrimSuffix(name, "/x")+", which was never finished")
	}
}

// A ledger is cut to nothing only if a crash during its very first append left what is there.
func TestTornFirstEvent(t *testing.T) {
	want := verified(t, finished(t, program))
	whole, err := os.ReadFile(filepath.Join(begun(t), "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 20, 60, 130, len(whole) - 2} {
		dir := begun(t)
		write(t, filepath.Join(dir, "ledger.jsonl"), whole[:n])
		mentions(t, goOn(t, program, dir), "dropped")
		if got := verified(t, dir); got != want {
			t.Errorf("%d bytes of the first event: the digest is %s, expected %s", n, got, want)
		}
	}
	for name, content := range map[string][]byte{
		"other text": []byte("accounts of 1999"), "another number": bytes.Replace(whole[:60], []byte("1"), []byte("2"), 1),
		"a letter in the time": bytes.Replace(whole[:60], []byte(`"time":"2`), []byte(`"time":"x`), 1),
	} {
		dir := begun(t)
		write(t, filepath.Join(dir, "ledger.jsonl"), content)
		err := tryAgain(t.Context(), dir)
		if !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "ledger.jsonl, line 1") {
			t.Errorf("%s: the error is %v", name, err)
		}
		if now, _ := os.ReadFile(filepath.Join(dir, "ledger.jsonl")); !bytes.Equal(now, content) {
			t.Errorf("%s: the ledger is now %q", name, now)
		}
	}
	dir := begun(t)
	write(t, filepath.Join(dir, "ledger.jsonl"), whole[:60])
	remove(t, filepath.Join(dir, "run.json"))
	if err := tryAgain(t.Context(), dir); err == nil {
		t.Error("the beginning of an event was dropped without a run.json that says whose it is")
	}
}

// Where a start was interrupted, it may write its own files again, and no others.
func TestUnfinishedStart(t *testing.T) {
	unfinished := func() string {
		dir := begun(t)
		write(t, filepath.Join(dir, "ledger.jsonl"), nil)
		return dir
	}
	want := verified(t, finished(t, program))
	dir := unfinished()
	goOn(t, program, dir)
	if got := verified(t, dir); got != want {
		t.Errorf("the digest is %s, expected %s", got, want)
	}
	for name, change := range map[string]func(dir string){
		"a changed bank":        func(dir string) { put(t, dir, "bank/train.jsonl", "mine\n") },
		"a file in the bank":    func(dir string) { put(t, dir, "bank/mine.jsonl", "mine\n") },
		"a record":              func(dir string) { put(t, dir, "rollouts/000001.jsonl.zst", "x") },
		"another run.json":      func(dir string) { put(t, dir, "run.json", "{\"distance\": 5}\n") },
		"run.json edited since": func(dir string) { put(t, dir, "run.json", "\n"+tree(t, dir)[filepath.Join(dir, "run.json")]) },
	} {
		dir := unfinished()
		change(dir)
		before := tree(t, dir)
		err := tryAgain(t.Context(), dir)
		if err == nil || !strings.Contains(err.Error(), "choose another directory") {
			t.Errorf("%s: the error is %v", name, err)
		}
		after := tree(t, dir)
		delete(before, filepath.Join(dir, ".lock"))
		delete(after, filepath.Join(dir, ".lock"))
		if !maps.Equal(before, after) {
			t.Errorf("%s: the directory has changed", name)
		}
	}
}
