package verify_test

import (
	"bytes"
	"crypto/ed25519"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/testrun"
	"github.com/grouper-rl/grouper/verify"
)

// write runs a program in a new directory, once for each number of updates, so that there are segments and rolled back work.
func write(t testing.TB, p testrun.Program, updates ...int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	for i, n := range updates {
		p.Updates, p.Host = n, float64(i)
		r, err := checkpoint.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Run(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func options() verify.Options { return verify.Options{Grader: testrun.Grader} }

func check(t testing.TB, dir string) *verify.Report {
	t.Helper()
	return checkWith(t, dir, options())
}

func checkWith(t testing.TB, dir string, opts verify.Options) *verify.Report {
	t.Helper()
	report, err := verify.Run(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func text(t testing.TB, r *verify.Report) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// found checks that the report names a file and says something about it.
func found(t *testing.T, r *verify.Report, file, what string) {
	t.Helper()
	for _, f := range r.Findings {
		if strings.HasPrefix(f.File, file) && strings.Contains(f.String(), what) {
			return
		}
	}
	t.Errorf("no finding about %s says %q:\n%s", file, what, text(t, r))
}

// recorded lists the files that verification answers for.
func recorded(t testing.TB, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == ".lock" {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		files = append(files, filepath.ToSlash(rel))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

var program = testrun.Program{Every: 2, Seed: 7}

// testKey signs runs.
var testKey = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))

// Someone who reads "everything holds" relies on it: a run that nobody touched holds, with two rolled back updates in it.
func TestUntouched(t *testing.T) {
	dir := write(t, program, 3, 5) // update 3 is after the last checkpoint, so it is rolled back
	report := check(t, dir)
	out := text(t, report)
	if !report.OK() {
		t.Fatal(out)
	}
	for _, want := range []string{"rollouts: 6 updates, 1 rolled back", "evals: 3 evaluations", "checkpoints: manifests and files of 3", "2 segments"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report does not say %q:\n%s", want, out)
		}
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if last := lines[len(lines)-1]; last != "logical digest: sha256:"+report.Digest || len(report.Digest) != 64 {
		t.Errorf("the last line is %q", last)
	}
}

// A changed bit anywhere is a broken disk or a forgery: whoever verifies must hear of it, and in which file it is.
func TestOneChangedByte(t *testing.T) {
	dir := write(t, program, 1, 3)
	places := 12
	if testing.Short() {
		places = 3
	}
	rng := rand.New(rand.NewPCG(1, 1))
	flips := 0
	for _, name := range recorded(t, dir) {
		path := filepath.Join(dir, filepath.FromSlash(name))
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := map[int]bool{0: true, len(was) - 1: true}
		for range places {
			at[rng.IntN(len(was))] = true
		}
		for i := range at {
			now := bytes.Clone(was)
			now[i] ^= 1 << rng.IntN(8)
			rewrite(t, path, now)
			if report := check(t, dir); report.OK() {
				t.Errorf("%s: changing byte %d of %d from %q to %q was not found", name, i, len(was), was[i], now[i])
			} else if folder := strings.Split(name, "/")[0]; !strings.Contains(text(t, report), "DOES NOT HOLD: "+folder) {
				t.Errorf("%s: byte %d: no finding names the file:\n%s", name, i, text(t, report))
			}
			flips++
		}
		rewrite(t, path, was)
	}
	if !check(t, dir).OK() {
		t.Error("the restored run does not hold")
	}
	t.Logf("%d changed bytes", flips)
}

// Files that are cut off, lost, swapped or slipped in must be found as surely as changed ones.
func TestFilesCutLostSwappedAdded(t *testing.T) {
	dir := write(t, program, 1, 3)
	names := recorded(t, dir)
	for i, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		was, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for what, now := range map[string][]byte{"cut off": was[:len(was)/2], "empty": {}, "longer": append(bytes.Clone(was), 0)} {
			rewrite(t, path, now)
			if check(t, dir).OK() {
				t.Errorf("%s: %s, and not found", name, what)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if check(t, dir).OK() {
			t.Errorf("%s: lost, and not found", name)
		}
		other := names[(i+1)%len(names)]
		swapped, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(other)))
		if err != nil {
			t.Fatal(err)
		}
		rewrite(t, path, swapped)
		if check(t, dir).OK() {
			t.Errorf("%s: replaced by %s, and not found", name, other)
		}
		rewrite(t, path, was)
	}
	for _, name := range []string{"rollouts/000099.jsonl.zst", "rollouts/notes.txt", "evals/000001.json", "bank/more.jsonl", "checkpoints/000002/extra", "checkpoints/000001/w.safetensors", "evals/x/y"} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		rewrite(t, path, []byte("{}\n"))
		if report := check(t, dir); report.OK() {
			t.Errorf("%s: slipped in, and not found", name)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Dir(path)) // if it is empty now
	}
}

// What a crash leaves is no forgery: verification of an interrupted run says so and holds.
func TestUnfinishedWork(t *testing.T) {
	dir := write(t, program, 3)
	cutLedger(t, dir, 1) // "finished": after it nothing is unfinished
	for name, ok := range map[string]bool{
		"rollouts/000004.jsonl.zst": true, "rollouts/000004.s2.jsonl.zst": true, "rollouts/.tmp-000004.jsonl.zst": true, "checkpoints/.tmp-000003/weights.safetensors": true,
		"checkpoints/000003/weights.safetensors": true, "evals/000003.jsonl.zst": true,
		"rollouts/000005.jsonl.zst": false, "checkpoints/000004/weights.safetensors": false, "evals/000004.json": false, "rollouts/0000040.jsonl.zst": false,
	} {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		rewrite(t, path, []byte("x"))
		report := check(t, dir)
		if report.OK() != ok {
			t.Errorf("%s: holds is %v:\n%s", name, report.OK(), text(t, report))
		}
		if ok && !strings.Contains(text(t, report), "note: "+name+" is unfinished work") {
			t.Errorf("%s: no note says so:\n%s", name, text(t, report))
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Dir(path)) // if it is empty now
	}
}

// A run may be verified while it goes on: what it records in the meantime is no finding.
func TestRunningRun(t *testing.T) {
	dir := write(t, program, 2)
	report, err := verify.Run(t.Context(), dir, verify.Options{Grader: func(g checkpoint.Grader) (envs.Grader, error) {
		resume(t, dir, 5) // after the ledger was read
		return testrun.Grader(g)
	}})
	if err != nil || !report.OK() {
		t.Fatalf("%v\n%s", err, text(t, report))
	}
	if want := check(t, write(t, program, 2)).Digest; report.Digest != want {
		t.Errorf("the digest is %s, expected that of the ledger's state when it was read, %s", report.Digest, want)
	}
}

// The digest is what two people compare: it must be the same for the same content and for nothing else.
func TestLogicalDigest(t *testing.T) {
	straight := check(t, write(t, program, 4)).Digest
	same := map[string]string{
		"the same program again":             check(t, write(t, program, 4)).Digest,
		"interrupted and rolled back":        check(t, write(t, program, 3, 4)).Digest,
		"opened again when all was finished": check(t, write(t, program, 4, 4, 4)).Digest,
	}
	extra := program
	extra.Extra = true
	same["with a checkpoint more"] = check(t, write(t, extra, 1, 2, 3, 4)).Digest
	for what, digest := range same {
		if digest != straight || digest == "" {
			t.Errorf("%s: the digest is %q, expected %q", what, digest, straight)
		}
	}
	last := program
	last.Last = true
	if got, want := check(t, write(t, last, 3, 6)).Digest, check(t, write(t, last, 6)).Digest; got != want || got == "" {
		t.Errorf("a run that ended at update 3 and got a larger budget has the digest %q, expected %q", got, want)
	}
	seed, longer := program, program
	seed.Seed++
	other := map[string]string{
		"another seed":    check(t, write(t, seed, 4)).Digest,
		"one update more": check(t, write(t, longer, 5)).Digest,
	}
	for what, digest := range other {
		if digest == straight || digest == "" {
			t.Errorf("%s: the digest is %q", what, digest)
		}
	}
}

// A checkpoint that broke and was passed over must not spoil the run, and must not change unnoticed after that.
func TestPassedOverCheckpoint(t *testing.T) {
	straight := check(t, write(t, program, 6)).Digest
	dir := write(t, program, 4)
	weights := filepath.Join(dir, "checkpoints", "000004", "weights.safetensors")
	data, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1]++
	rewrite(t, weights, data)
	found(t, check(t, dir), "checkpoints/000004", "weights.safetensors")
	resume(t, dir, 6)
	report := check(t, dir)
	if report.Digest != straight {
		t.Fatalf("digest %q, expected %q:\n%s", report.Digest, straight, text(t, report))
	}
	if !strings.Contains(text(t, report), "checkpoints/000004 is damaged, and segment 2 passed it over") {
		t.Errorf("the report does not say what was passed over:\n%s", text(t, report))
	}
	if _, err := os.Stat(filepath.Join(dir, "checkpoints", "000004.s2")); err != nil {
		t.Errorf("the checkpoint was not written again: %v", err)
	}
	data[0]++
	rewrite(t, weights, data)
	found(t, check(t, dir), "checkpoints/000004/weights.safetensors", "SHA-256")
}

// A checkpoint folder that someone deleted is made again under its own name.
func TestLostCheckpoint(t *testing.T) {
	straight := check(t, write(t, program, 4)).Digest
	dir := write(t, program, 4)
	if err := os.RemoveAll(filepath.Join(dir, "checkpoints", "000004")); err != nil {
		t.Fatal(err)
	}
	found(t, check(t, dir), "checkpoints/000004", "manifest.json")
	resume(t, dir, 4)
	if report := check(t, dir); report.Digest != straight {
		t.Errorf("digest %q, expected %q:\n%s", report.Digest, straight, text(t, report))
	}
}

func resume(t *testing.T, dir string, updates int) {
	t.Helper()
	r, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := program
	p.Updates = updates
	if err := p.Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

func rewrite(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}
