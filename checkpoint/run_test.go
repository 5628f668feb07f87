package checkpoint_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
)

func mustOpen(t *testing.T, dir string) *checkpoint.Run {
	t.Helper()
	r, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// finished is a directory with a run that is through.
func finished(t *testing.T, p testrun.Program) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	goOn(t, p, dir)
	return dir
}

// goOn spares the real syncs: no machine goes down.
func goOn(t *testing.T, p testrun.Program, dir string) []string {
	t.Helper()
	r, err := checkpoint.OpenOn(dir, newFaulty(0, false), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	notes := r.Notes()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return notes
}

func mentions(t *testing.T, notes []string, what string) {
	t.Helper()
	if !strings.Contains(strings.Join(notes, "\n"), what) {
		t.Errorf("no note says %q: %q", what, notes)
	}
}

// Completions that are lost make a run unverifiable. Whoever goes on with it has to hear that before hours are spent on it, and
// must be able to go on all the same: the checkpoints are whole.
func TestLostCompletions(t *testing.T) {
	dir := finished(t, program)
	remove(t, filepath.Join(dir, "rollouts", "000003.jsonl.zst"))
	write(t, filepath.Join(dir, "evals", "000002.json"), nil)
	p := program
	p.Updates++
	notes := goOn(t, p, dir)
	mentions(t, notes, "2 of the files that the ledger names are missing or empty, evals/000002.json first")
	if notes := goOn(t, p, finished(t, program)); strings.Contains(strings.Join(notes, " "), "missing") {
		t.Errorf("nothing is missing, and the notes are %q", notes)
	}
}

// Two programs that write one run would destroy each other's work.
func TestLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r := mustOpen(t, dir)
	_, err := checkpoint.Open(dir)
	if !errors.Is(err, checkpoint.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("a second opening gave %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := mustOpen(t, dir).Close(); err != nil {
		t.Errorf("after closing: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

// The same between processes; and a process that was killed holds nothing any more.
func TestSecondProcess(t *testing.T) {
	const holds = "GROUPER_TEST_HOLDS"
	if dir := os.Getenv(holds); dir != "" { // this is the other process
		mustOpen(t, dir)
		fmt.Println("open")
		select {}
	}
	dir := finished(t, program)
	before := records(t, dir)
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSecondProcess$")
	other.Env = append(os.Environ(), holds+"="+dir)
	out, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "open\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	_, err = checkpoint.Open(dir)
	if !errors.Is(err, checkpoint.ErrLocked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", other.Process.Pid)) {
		t.Errorf("opening what another process has open gave %v", err)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait() // it was killed
	mustOpen(t, dir)
	if !maps.Equal(before, records(t, dir)) {
		t.Error("the directory has changed")
	}
}

// Training on a bank that changed on disk would make every figure meaningless.
func TestChangedOnDisk(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"bank":   {"bank/train.jsonl", "bank/train.jsonl has changed since the run began"},
		"run":    {"run.json", "run.json"},
		"ledger": {"ledger.jsonl", "ledger.jsonl, line 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := finished(t, program)
			path := filepath.Join(dir, filepath.FromSlash(c.file))
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			i := bytes.IndexByte(data, '7')
			data[i] = '8'
			write(t, path, data)
			err = tryAgain(t.Context(), dir)
			if !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, expected one that says %q", err, c.want)
			}
		})
	}
	for name, want := range map[string]string{
		"ledger.jsonl":     "the ledger is empty, but",
		"run.json":         "run.json",
		"bank/train.jsonl": "bank/train.jsonl",
		"bank":             "bank/manifest.json",
	} {
		t.Run(name+" lost", func(t *testing.T) {
			dir := finished(t, program)
			remove(t, filepath.Join(dir, filepath.FromSlash(name)))
			before := records(t, dir)
			if err := tryAgain(t.Context(), dir); !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), want) {
				t.Errorf("the error is %v, expected one that says %q", err, want)
			}
			after := records(t, dir)
			if name == "ledger.jsonl" { // opening begins an empty one
				delete(after, filepath.Join(dir, name))
			}
			if !maps.Equal(before, after) {
				t.Error("the directory has changed")
			}
		})
	}
}

func tryAgain(ctx context.Context, dir string) error {
	r, err := checkpoint.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(program.Run(ctx, r), r.Close())
}

// The newest checkpoint may be the one that the crash hit. The run must go on from the one before and say so.
func TestDamagedCheckpoint(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, folder string){
		"a byte": func(t *testing.T, folder string) {
			path := filepath.Join(folder, "slots.safetensors")
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data[len(data)-1]++
			write(t, path, data)
		},
		"cut off":     func(t *testing.T, folder string) { write(t, filepath.Join(folder, "state.json"), []byte("{")) },
		"a file less": func(t *testing.T, folder string) { remove(t, filepath.Join(folder, "weights.safetensors")) },
		"a file more": func(t *testing.T, folder string) { write(t, filepath.Join(folder, "x"), nil) },
		"no manifest": func(t *testing.T, folder string) { remove(t, filepath.Join(folder, "manifest.json")) },
		"a file": func(t *testing.T, folder string) {
			remove(t, folder)
			write(t, folder, []byte("x"))
		},
		"a folder as manifest": func(t *testing.T, folder string) {
			remove(t, filepath.Join(folder, "manifest.json"))
			folders(t, folder, "manifest.json")
		},
		"gone": func(t *testing.T, folder string) { remove(t, folder) },
		"other format": func(t *testing.T, folder string) {
			write(t, filepath.Join(folder, "manifest.json"), []byte(`{"format":9}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := verified(t, finished(t, program))
			dir := finished(t, program)
			damage(t, filepath.Join(dir, "checkpoints", "000004"))
			notes := goOn(t, program, dir)
			mentions(t, notes, "checkpoints/000004 cannot be restored and is passed over")
			mentions(t, notes, "going on from checkpoints/000002: updates 3 to 4 were recorded after it")
			if got := verified(t, dir); got != want {
				t.Errorf("the digest is %s, expected %s", got, want)
			}
		})
	}
	t.Run("all gone", func(t *testing.T) {
		want := verified(t, finished(t, program))
		dir := finished(t, program)
		remove(t, filepath.Join(dir, "checkpoints"))
		mentions(t, goOn(t, program, dir), "going on from the base weights")
		mentions(t, goOn(t, program, dir), "") // the checkpoints are where they were
		if got := verified(t, dir); got != want {
			t.Errorf("the digest is %s, expected %s", got, want)
		}
	})
	t.Run("all", func(t *testing.T) {
		dir := finished(t, program)
		for _, u := range []string{"000000", "000002", "000004"} {
			remove(t, filepath.Join(dir, "checkpoints", u, "state.json"))
		}
		mentions(t, goOn(t, program, dir), "going on from the base weights, as there is no whole checkpoint: updates 1 to 4")
		verified(t, dir)
	})
}

// A checkpoint of a later version is not broken: going back behind it would throw work away.
func TestOtherFormat(t *testing.T) {
	dir := finished(t, program)
	rec, err := checkpoint.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	last := rec.History.Checkpoints[len(rec.History.Checkpoints)-1]
	folder := filepath.Join(dir, filepath.FromSlash(last.Path))
	manifest, err := os.ReadFile(filepath.Join(folder, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "manifest.json"), bytes.Replace(manifest, []byte(`"format": 2`), []byte(`"format": 1`), 1))
	_, _, err = checkpoint.OpenState(folder, "")
	if !errors.Is(err, checkpoint.ErrFormat) || !strings.Contains(err.Error(), "format 1, this program reads format 2: go on with the version of Grouper that wrote it") {
		t.Errorf("the error is %v", err)
	}
	write(t, filepath.Join(dir, "run.json"), []byte(`{"format": 3, "unknown": true}`))
	if err := tryAgain(t.Context(), dir); !errors.Is(err, checkpoint.ErrFormat) {
		t.Errorf("run.json of another format: %v", err)
	}
}

// Going on without an optimizer's state, as if it were new, is a silent repair.
func TestIncompleteState(t *testing.T) {
	r := mustOpen(t, finished(t, program))
	id, err := program.Identity()
	if err := errors.Join(err, r.SignWith(program.Key)); err != nil {
		t.Fatal(err)
	}
	s, err := r.Begin(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Group("masters"); !errors.Is(err, checkpoint.ErrIncomplete) {
		t.Errorf("a missing group: %v", err)
	}
	var v struct{ Other int }
	if err := s.Get("cursor", &v); !errors.Is(err, checkpoint.ErrIncomplete) {
		t.Errorf("a missing value: %v", err)
	}
	if err := s.Get("position", &v); err == nil {
		t.Error("a value with a field that the program does not know was read")
	}
	ts, err := s.Group("slots")
	if err != nil || len(ts) != 1 || ts[0].Name != "m" || ts[0].DType != "F32" {
		t.Fatalf("slots: %v %v", ts, err)
	}
	// A tensor that changes after the checkpoint was checked is caught when it is read.
	path := filepath.Join(r.Dir(), "checkpoints", "000004", "slots.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1]++
	write(t, path, data)
	if err := ts[0].ReadInto(make([]byte, ts[0].Size())); !errors.Is(err, checkpoint.ErrDamaged) {
		t.Errorf("a changed tensor was read: %v", err)
	}
}

// Whoever starts the program of a finished run again, to see its table or by mistake, must find the record as it was: a signed end, too,
// is there once. With a larger budget the run goes on, and its segment is recorded with what it does.
func TestFinishedRunAgain(t *testing.T) {
	unsigned, retaining := program, everything
	unsigned.Key = nil
	for name, p := range map[string]testrun.Program{"signed": program, "unsigned": unsigned, "all that there is": retaining} {
		dir := finished(t, p)
		before := tree(t, dir)
		for range 2 {
			goOn(t, p, dir)
			if after := tree(t, dir); !maps.Equal(before, after) {
				t.Errorf("%s: it has changed:\n%v\n%v", name, slices.Sorted(maps.Keys(before)), slices.Sorted(maps.Keys(after)))
			}
		}
		p.Updates += 2
		goOn(t, p, dir)
		if h := read(t, dir).History; len(h.Segments) != 2 || h.Update() != p.Updates || !h.Finished {
			t.Errorf("%s: %d segments, %d updates", name, len(h.Segments), h.Update())
		}
		verified(t, dir)
	}
	// What is damaged is not passed over in silence.
	dir := finished(t, program)
	remove(t, filepath.Join(dir, "checkpoints", "000004", "state.json"))
	goOn(t, program, dir)
	if s := read(t, dir).History.Segments; len(s) != 2 || len(s[1].PassedOver) != 1 {
		t.Errorf("the segments are %+v", s)
	}
}

// What a torn append leaves is dropped and reported; a whole event is never dropped.
func TestTornLedger(t *testing.T) {
	whole := finished(t, program)
	data, err := os.ReadFile(filepath.Join(whole, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want := verified(t, whole)
	last := len(data) - 1 - bytes.LastIndexByte(data[:len(data)-1], '\n')
	for cut := 1; cut <= last; cut += max(1, min(9, last-cut)) {
		dir := filepath.Join(t.TempDir(), "run")
		if err := os.CopyFS(dir, os.DirFS(whole)); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "ledger.jsonl"), data[:len(data)-cut])
		notes := goOn(t, program, dir)
		switch {
		case cut == 1:
			mentions(t, notes, "completed line")
		case cut < last:
			mentions(t, notes, fmt.Sprintf("dropped %d bytes at the end of ledger.jsonl", last-cut))
		}
		if got := verified(t, dir); got != want {
			t.Fatalf("cut by %d bytes: the digest is %s, expected %s", cut, got, want)
		}
	}
}

// Work that comes out differently when it is done again must not overwrite what was recorded.
func TestNothingIsOverwritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	id, err := program.Identity()
	if err != nil {
		t.Fatal(err)
	}
	begin := func() *checkpoint.Run {
		r := mustOpen(t, dir)
		if _, err := r.Begin(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		return r
	}
	record := func(r *checkpoint.Run, token int32) {
		u, lines := update(1, token)
		if err := r.RecordUpdate(t.Context(), u, lines, nil); err != nil {
			t.Fatal(err)
		}
		s := checkpoint.NewState(1)
		s.Values["token"] = json.RawMessage(fmt.Sprint(token))
		if err := r.SaveCheckpoint(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if err := r.SaveCheckpoint(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		remove(t, filepath.Join(dir, r.History().Checkpoints[0].Path)) // so that the update is rolled back
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var paths []string
	for _, token := range []int32{5, 5, 6, 5, 7} {
		record(begin(), token)
		rec, err := checkpoint.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(rec.History.Checkpoints); n != 1 {
			t.Errorf("%d checkpoints of the same state", n)
		}
		paths = append(paths, rec.History.Updates[0].Rollouts.Path+" "+rec.History.Checkpoints[0].Path)
	}
	want := []string{
		"rollouts/000001.jsonl.zst checkpoints/000001", "rollouts/000001.jsonl.zst checkpoints/000001", "rollouts/000001.s3.jsonl.zst checkpoints/000001.s3",
		"rollouts/000001.jsonl.zst checkpoints/000001", "rollouts/000001.s5.jsonl.zst checkpoints/000001.s5",
	}
	if strings.Join(paths, "\n") != strings.Join(want, "\n") {
		t.Errorf("the paths are\n%s\nexpected\n%s", strings.Join(paths, "\n"), strings.Join(want, "\n"))
	}
}

// update is a valid update of program with one token.
func update(n int, token int32) (checkpoint.Update, []checkpoint.Line) {
	u := checkpoint.Update{Update: n, Weights: n - 1, Tasks: []string{"echo/0", "echo/1"}}
	var lines []checkpoint.Line
	for i := range 6 {
		lines = append(lines, checkpoint.Line{Task: u.Tasks[i/3], Sample: i % 3, Seed: 7, Weights: n - 1, Tokens: []int32{token},
			LogProbs: []float32{-1}, Filtered: []float32{-1}, Finish: "stop", Reward: float64(i % 2)})
	}
	return u, lines
}

// A record that cannot be verified later must be refused when it is made, not when it is verified.
func TestRefusedRecords(t *testing.T) {
	r := mustOpen(t, filepath.Join(t.TempDir(), "run"))
	u, lines := update(1, 5)
	if err := r.RecordUpdate(t.Context(), u, lines, nil); err == nil {
		t.Error("an update was recorded before the run began")
	}
	id, err := program.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Begin(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Begin(t.Context(), id); err == nil {
		t.Error("a run began twice")
	}
	nan := float32(0)
	nan /= nan
	for name, c := range map[string]struct {
		change func(u *checkpoint.Update, l []checkpoint.Line)
		want   string
	}{
		"number":     {func(u *checkpoint.Update, _ []checkpoint.Line) { u.Update = 2 }, "update 2 after update 0"},
		"tasks":      {func(u *checkpoint.Update, _ []checkpoint.Line) { u.Tasks = u.Tasks[:1] }, "1 tasks, the plan 2"},
		"weights":    {func(u *checkpoint.Update, _ []checkpoint.Line) { u.Weights = 1 }, "weights of update 1"},
		"sample":     {func(_ *checkpoint.Update, l []checkpoint.Line) { l[4].Sample = 0 }, "completion 5"},
		"task":       {func(_ *checkpoint.Update, l []checkpoint.Line) { l[0].Task = "echo/1" }, "completion 1"},
		"seed":       {func(_ *checkpoint.Update, l []checkpoint.Line) { l[0].Seed = 1 }, "its seed is 1, the run's is 7"},
		"tokens":     {func(_ *checkpoint.Update, l []checkpoint.Line) { l[0].Tokens = nil }, "no tokens"},
		"log-probs":  {func(_ *checkpoint.Update, l []checkpoint.Line) { l[0].LogProbs = nil }, "1 tokens, 0 log-probs"},
		"finish":     {func(_ *checkpoint.Update, l []checkpoint.Line) { l[0].Finish = "eos" }, `finish is "eos"`},
		"not finite": {func(_ *checkpoint.Update, l []checkpoint.Line) { l[2].LogProbs[0] = nan }, `completion 3 (task "echo/0", sample 2)`},
		"metrics":    {func(u *checkpoint.Update, _ []checkpoint.Line) { u.Metrics = json.RawMessage(`{"a":{}}`) }, "flat object of numbers"},
		"metric":     {func(u *checkpoint.Update, _ []checkpoint.Line) { u.Metrics = json.RawMessage(`{"reward_mean":0.6}`) }, `metric "reward_mean" is 0.6, the completions give 0.5`},
	} {
		u, lines := update(1, 5)
		c.change(&u, lines)
		if err := r.RecordUpdate(t.Context(), u, lines, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, expected one that says %q", name, err, c.want)
		}
	}
	if err := r.SaveCheckpoint(t.Context(), checkpoint.NewState(1)); err == nil {
		t.Error("a checkpoint of an update that is not recorded was saved")
	}
	if _, err := r.RecordEvaluation(t.Context(), checkpoint.Evaluation{}, nil); err == nil {
		t.Error("an evaluation of nothing was recorded")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.RecordUpdate(cancelled, u, lines, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled recording gave %v", err)
	}
	if err := r.RecordUpdate(t.Context(), u, lines, nil); err != nil {
		t.Errorf("after all refusals: %v", err)
	}
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}
