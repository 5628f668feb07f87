package checkpoint_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
	"github.com/grouper-rl/grouper/verify"
)

// runOn opens a run directory on a disk and lets a program go on until nothing is left or the disk fails. It returns what the
// run says has been recorded.
func runOn(ctx context.Context, p testrun.Program, dir string, d checkpoint.Disk) (checkpoint.History, error) {
	r, err := checkpoint.OpenOn(dir, d, func() time.Time { return time.Unix(1_000_000_000+int64(p.Host), 0) })
	if err != nil {
		return checkpoint.History{}, err
	}
	err = p.Run(ctx, r)
	return r.History(), errors.Join(err, r.Close())
}

// kept checks that what a run said it had recorded is on the disk and whole.
func kept(t *testing.T, dir string, said checkpoint.History) {
	t.Helper()
	if len(said.Segments) == 0 {
		return
	}
	rec, err := checkpoint.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	h := rec.History
	if len(h.Updates) < len(said.Updates) || len(h.Evaluations) < len(said.Evaluations) || len(h.Checkpoints) < len(said.Checkpoints) {
		t.Fatalf("%d updates, %d evaluations, %d checkpoints are left of %d, %d, %d", len(h.Updates), len(h.Evaluations), len(h.Checkpoints),
			len(said.Updates), len(said.Evaluations), len(said.Checkpoints))
	}
	asNamed(t, dir, rec.Events)
	for i, u := range said.Updates {
		if got := h.Updates[i]; !reflect.DeepEqual(got, u) {
			t.Fatalf("update %d is on the disk as %+v, recorded was %+v", u.Update, got, u)
		}
	}
	for _, c := range h.Checkpoints {
		if c.Pruned {
			continue
		}
		s, _, err := checkpoint.OpenState(filepath.Join(dir, c.Path), c.Manifest)
		if err != nil {
			t.Fatalf("%s does not load: %v", c.Path, err)
		}
		_ = s.Close()
	}
}

// asNamed checks that every file that an event of the ledger names is as the event says.
func asNamed(t *testing.T, dir string, events []checkpoint.Event) {
	t.Helper()
	for i := range events {
		files, _, err := events[i].Names()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			data, err := os.ReadFile(filepath.Join(dir, f.Path))
			if sum := sha256.Sum256(data); err != nil || hex.EncodeToString(sum[:]) != f.SHA256 {
				t.Fatalf("%s, which event %d names, is not there or has changed: %v", f.Path, events[i].Seq, err)
			}
		}
	}
}

// untouched checks that what was on the disk is there still, byte for byte, the ledger with more at its end.
func untouched(t *testing.T, before, after map[string]string) {
	t.Helper()
	for path, was := range before {
		now, ok := after[path]
		if grown := filepath.Base(path) == "ledger.jsonl" && strings.HasPrefix(now, was); !ok || now != was && !grown {
			t.Fatalf("%s is not what it was", path)
		}
	}
}

// verified is the logical digest of a run that must hold.
func verified(t *testing.T, dir string) string {
	t.Helper()
	report, err := verify.Run(t.Context(), dir, verify.Options{Grader: testrun.Grader})
	if err != nil {
		t.Fatal(err)
	}
	if !report.OK() {
		var b strings.Builder
		_ = report.Write(&b)
		t.Fatalf("the record does not hold:\n%s", b.String())
	}
	return report.Digest
}

// program signs: a crash must find receipts and signatures in its way, too.
var program = testrun.Program{Updates: 4, Every: 2, Seed: 7, Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))}

// everything is a program that writes all that there is to write.
var everything = testrun.Program{
	Updates: 4, Every: 2, Seed: 7, Key: program.Key, Lag: 1, Ready: 1, Drop: true, Retention: checkpoint.Retention{Last: 1},
}

// uninterrupted is the digest of a run that nothing happened to, and the number of file operations that it took.
func uninterrupted(t *testing.T) (digest string, ops int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	d := newFaulty(0, false)
	if _, err := runOn(t.Context(), everything, dir, d); err != nil {
		t.Fatal(err)
	}
	return verified(t, dir), d.ops
}

// stride leaves operations out to save time.
func stride(normal int) int {
	if testing.Short() {
		return 7
	}
	return normal
}

// A user whose machine goes down at any moment loses the work since the last checkpoint and nothing else: what is recorded in
// the end is what would have been recorded without the crash.
func TestCrashAtEveryOperation(t *testing.T) {
	t.Parallel()
	want, ops := uninterrupted(t)
	for k := 1; k <= ops; k += stride(1) {
		dir := filepath.Join(t.TempDir(), "run")
		d := newFaulty(k, true)
		said, err := runOn(t.Context(), everything, dir, d)
		if !errors.Is(err, errCrash) {
			t.Fatalf("operation %d: %v", k, err)
		}
		if k%3 > 0 {
			d.lose() // the machine went down; otherwise only the process
		}
		kept(t, dir, said)
		again := everything
		again.Host = float64(k)
		if _, err := runOn(t.Context(), again, dir, newFaulty(0, false)); err != nil {
			t.Fatalf("going on after a crash at operation %d: %v", k, err)
		}
		if got := verified(t, dir); got != want {
			t.Fatalf("after a crash at operation %d the logical digest is %s, want %s", k, got, want)
		}
	}
	t.Logf("%d file operations", ops)
}

// Crashes during recovery, and again and again, must not add up to a loss.
func TestCrashManyTimes(t *testing.T) {
	t.Parallel()
	want, ops := uninterrupted(t)
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 2))
		dir := filepath.Join(t.TempDir(), "run")
		crashes := 0
		for {
			p := everything
			p.Host = float64(crashes)
			d := newFaulty(1+rng.IntN(ops), true)
			_, err := runOn(t.Context(), p, dir, d)
			if err == nil {
				break
			}
			if !errors.Is(err, errCrash) {
				t.Fatalf("seed %d, after %d crashes: %v", seed, crashes, err)
			}
			crashes++
			d.lose()
		}
		if got := verified(t, dir); got != want {
			t.Fatalf("seed %d: after %d crashes the logical digest is %s, want %s", seed, crashes, got, want)
		}
	}
}

// A full disk at any moment must leave a record that holds, say how to go on, and let the run go on once there is space.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	want, ops := uninterrupted(t)
	for k := 1; k <= ops; k += stride(5) {
		dir := filepath.Join(t.TempDir(), "run")
		said, err := runOn(t.Context(), everything, dir, newFaulty(k, false))
		if err == nil {
			continue // removing and cutting off need no space
		}
		if !errors.Is(err, errFull) {
			t.Fatalf("operation %d: %v", k, err)
		}
		kept(t, dir, said)
		if len(said.Segments) > 0 && !strings.Contains(err.Error(), "open the run again") {
			t.Fatalf("operation %d: the error does not say how to go on: %v", k, err)
		}
		if _, err := runOn(t.Context(), everything, dir, newFaulty(0, false)); err != nil {
			t.Fatalf("going on after a full disk at operation %d: %v", k, err)
		}
		if got := verified(t, dir); got != want {
			t.Fatalf("after a full disk at operation %d the logical digest is %s, want %s", k, got, want)
		}
	}
}

// A program that tries again after a failed write, without opening the run again, must not leave a broken record behind.
func TestGoOnAfterOneFailure(t *testing.T) {
	t.Parallel()
	want, ops := uninterrupted(t)
	stubborn := everything
	stubborn.Tries = 2
	refused := 0
	for k := 1; k <= ops; k += stride(5) {
		dir := filepath.Join(t.TempDir(), "run")
		d := newFaulty(k, false)
		d.once = true
		if _, err := runOn(t.Context(), stubborn, dir, d); err != nil {
			if !errors.Is(err, errFull) {
				t.Fatalf("operation %d: %v", k, err)
			}
			refused++ // to open, or to go on when nobody knew what was on the disk
			if _, err := runOn(t.Context(), everything, dir, newFaulty(0, false)); err != nil {
				t.Fatalf("after a failure at operation %d: %v", k, err)
			}
		}
		if got := verified(t, dir); got != want {
			t.Fatalf("after a failure at operation %d the logical digest is %s, want %s", k, got, want)
		}
	}
	if refused == 0 {
		t.Error("no run refused to go on: a failed sync of the ledger must be final")
	}
	t.Logf("%d final failures", refused)
}

// Going back to a checkpoint is when most is at stake: whatever fails then, what was there before must still be there, byte
// for byte, and the branch must come out as if nothing had failed.
func TestFailureInABranch(t *testing.T) {
	t.Parallel()
	base := finished(t, program)
	p := program
	p.At, p.Twist, p.Drop, p.Updates = &checkpoint.Restore{Update: 2, Reason: "a try"}, 1, true, 6
	dir := filepath.Join(t.TempDir(), "run")
	start := func() {
		remove(t, dir)
		if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
			t.Fatal(err)
		}
	}
	start()
	d := newFaulty(0, false)
	if _, err := runOn(t.Context(), p, dir, d); err != nil {
		t.Fatal(err)
	}
	want, ops := verified(t, dir), d.ops
	for k := 1; k <= ops; k += stride(3) {
		start()
		before := records(t, dir)
		d := newFaulty(k, k%4 == 1)
		said, err := runOn(t.Context(), p, dir, d)
		if err == nil {
			continue // cutting off and removing need no space
		}
		if !errors.Is(err, errCrash) && !errors.Is(err, errFull) {
			t.Fatalf("operation %d: %v", k, err)
		}
		d.lose()
		untouched(t, before, tree(t, dir))
		kept(t, dir, said)
		if _, err := runOn(t.Context(), p, dir, newFaulty(0, false)); err != nil {
			t.Fatalf("again after a failure at operation %d: %v", k, err)
		}
		untouched(t, before, tree(t, dir))
		if got := verified(t, dir); got != want {
			t.Fatalf("after a failure at operation %d the logical digest is %s, want %s", k, got, want)
		}
	}
	t.Logf("%d file operations", ops)
}
