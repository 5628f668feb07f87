package checkpoint_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"math/rand/v2"
	"path/filepath"
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

// uninterrupted is the digest of a run that nothing happened to, and the number of file operations that it took.
func uninterrupted(t *testing.T) (digest string, ops int) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	d := newFaulty(0, false)
	if _, err := runOn(t.Context(), program, dir, d); err != nil {
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
		said, err := runOn(t.Context(), program, dir, d)
		if !errors.Is(err, errCrash) {
			t.Fatalf("operation %d: %v", k, err)
		}
		if k%3 > 0 {
			d.lose() // the machine went down; otherwise only the process
		}
		kept(t, dir, said)
		again := program
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
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		dir := filepath.Join(t.TempDir(), "run")
		crashes := 0
		for {
			p := program
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
	for k := 1; k <= ops; k += stride(3) {
		dir := filepath.Join(t.TempDir(), "run")
		said, err := runOn(t.Context(), program, dir, newFaulty(k, false))
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
		if _, err := runOn(t.Context(), program, dir, newFaulty(0, false)); err != nil {
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
	stubborn := program
	stubborn.Tries = 2
	refused := 0
	for k := 1; k <= ops; k += stride(3) {
		dir := filepath.Join(t.TempDir(), "run")
		d := newFaulty(k, false)
		d.once = true
		if _, err := runOn(t.Context(), stubborn, dir, d); err != nil {
			if !errors.Is(err, errFull) {
				t.Fatalf("operation %d: %v", k, err)
			}
			refused++ // to open, or to go on when nobody knew what was on the disk
			if _, err := runOn(t.Context(), program, dir, newFaulty(0, false)); err != nil {
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
