package checkpoint_test

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
)

func receipt(t *testing.T, dir, name string) *checkpoint.Receipt {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "receipts", name))
	if err != nil {
		t.Fatal(err)
	}
	r, err := checkpoint.ParseReceipt(data)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// is checks that a receipt's file is what it should be.
func is(t *testing.T, want *checkpoint.Receipt, dir, name string) {
	t.Helper()
	data, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "receipts", name))
	if err != nil {
		t.Fatal(err)
	}
	require.Equal(t, string(data), string(got), name)
}

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Whoever has nothing but a receipt must find in it what was run and what came of it, completion by completion.
func TestReceipts(t *testing.T) {
	dir := finished(t, program)
	rec := read(t, dir)
	before := func(kind string, update int) checkpoint.LedgerHead {
		for i, e := range rec.Events {
			var body struct{ Update int }
			if err := json.Unmarshal(e.Body, &body); err != nil {
				t.Fatal(err)
			}
			if e.Kind == kind && body.Update == update {
				return checkpoint.LedgerHead{Seq: i, Hash: rec.Events[i-1].Hash}
			}
		}
		t.Fatalf("there is no event of kind %q of update %d", kind, update)
		return checkpoint.LedgerHead{}
	}
	fields, err := rec.Run.Fields()
	if err != nil {
		t.Fatal(err)
	}
	run := checkpoint.ReceiptRun{
		Start: rec.Events[0].Prev, Bank: rec.Run.BankDigest(), Fields: map[string]json.RawMessage{},
		Changeable: map[string]json.RawMessage{"twist": json.RawMessage("0"), "updates": json.RawMessage("4")}, Versions: map[string]string{"program": "1"},
	}
	for path, value := range fields {
		run.Fields[path] = json.RawMessage(value)
	}
	if string(run.Fields["settings.objective.clip_low"]) != "0.2" || string(run.Fields["seed"]) != "7" || run.Fields["digests.weights"] == nil {
		t.Errorf("the fields are %s", run.Fields)
	}
	body := func(e checkpoint.Evaluation) *checkpoint.Evaluation {
		e.Host, e.Receipt, e.Segment = nil, checkpoint.File{}, 0
		return &e
	}
	saved := func(s checkpoint.Saved) *checkpoint.Saved {
		s.Receipt, s.Segment = checkpoint.File{}, 0
		return &s
	}

	// The evaluation of update 2, its completions read anew.
	e, _ := rec.History.Evaluation(2)
	file, err := os.Open(filepath.Join(dir, e.Completions.Path))
	if err != nil {
		t.Fatal(err)
	}
	lines, _, err := checkpoint.ReadLines(file)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	want := &checkpoint.Receipt{
		Format: 2, Kind: "evaluation", Update: 2, Segment: 1, Ledger: before("evaluation", 2), Run: run,
		Retained: checkpoint.Work{Updates: 2, Responses: 12}, Evaluation: body(e),
	}
	for _, l := range lines {
		data, err := json.Marshal(l)
		if err != nil || strings.ContainsAny(l.Text, "<>&") && !strings.Contains(string(data), `\u003c`) {
			t.Fatalf("%s, %v", data, err)
		}
		plain := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(data)) // as lines are recorded
		want.Completions = append(want.Completions, checkpoint.CompletionRef{Task: l.Task, Sample: l.Sample, Seed: l.Seed, SHA256: sha(plain), Finish: l.Finish, Reward: l.Reward})
	}
	is(t, want, dir, "evaluation-000002.json")

	// The checkpoint of update 4, after that of update 2.
	i := slices.IndexFunc(rec.History.Checkpoints, func(s checkpoint.Saved) bool { return s.Update == 4 })
	want = &checkpoint.Receipt{
		Format: 2, Kind: "checkpoint", Update: 4, Segment: 1, Ledger: before("checkpoint", 4), Run: run,
		Retained: checkpoint.Work{Updates: 4, Responses: 24}, Checkpoint: saved(rec.History.Checkpoints[i]), Since: 2,
		Rollouts: []checkpoint.File{rec.History.Updates[2].Rollouts, rec.History.Updates[3].Rollouts},
	}
	is(t, want, dir, "checkpoint-000004.json")

	// The end, of which nothing is left but how much there was.
	want = &checkpoint.Receipt{
		Format: 2, Kind: "finished", Update: 4, Segment: 1, Ledger: before("finished", 4), Run: run, Retained: checkpoint.Work{Updates: 4, Responses: 24},
	}
	is(t, want, dir, "finished-000004.json")

	// Every receipt is named by its event with the digest of its file, and signed by the key that the segment names.
	begin, err := checkpoint.NewHistory(dir, &rec.Run)
	if err != nil {
		t.Fatal(err)
	}
	due, err := checkpoint.Receipts(&rec.Run, begin, rec.Events)
	if err != nil || len(due) != 7 {
		t.Fatalf("%d receipts, %v", len(due), err)
	}
	public := program.Key.Public().(ed25519.PublicKey)
	for _, d := range due {
		data, err := os.ReadFile(filepath.Join(dir, d.File.Path))
		if err != nil || sha(string(data)) != d.File.SHA256 || d.Signer != checkpoint.KeyText(public) {
			t.Errorf("%s: %v, signed by %s", d.File.Path, err, d.Signer)
		}
		signature, err := os.ReadFile(filepath.Join(dir, d.File.Path+".sig"))
		if err != nil {
			t.Fatal(err)
		}
		if err := checkpoint.CheckSignature(public, data, signature); err != nil {
			t.Errorf("%s: %v", d.File.Path, err)
		}
	}
}

// What is rolled back must not pass for what the weights were trained on, nor be hidden: a receipt counts both.
func TestReceiptsAfterRollback(t *testing.T) {
	short := program
	short.Updates = 3
	dir := finished(t, short)
	goOn(t, program, dir) // from the checkpoint of update 2
	r := receipt(t, dir, "finished-000004.json")
	if r.Segment != 2 || r.Retained != (checkpoint.Work{Updates: 4, Responses: 24}) || r.RolledBack != (checkpoint.Work{Updates: 1, Responses: 6}) {
		t.Errorf("the receipt of the end is %+v", r)
	}
	r = receipt(t, dir, "checkpoint-000004.json")
	if r.Since != 2 || len(r.Rollouts) != 2 {
		t.Errorf("the receipt of the checkpoint has the rollouts %v since update %d", r.Rollouts, r.Since)
	}
}

// A run that is undisturbed and one that was interrupted have the same receipts, except for what says so.
func TestReceiptsDependOnContent(t *testing.T) {
	short := program
	short.Updates = 3
	dir := finished(t, short)
	goOn(t, program, dir)
	straight := finished(t, program)
	for _, name := range []string{"evaluation-000004.json", "checkpoint-000004.json", "finished-000004.json"} {
		a, b := receipt(t, straight, name), receipt(t, dir, name)
		for _, r := range []*checkpoint.Receipt{a, b} {
			r.Segment, r.Ledger, r.RolledBack, r.Run.Start = 0, checkpoint.LedgerHead{}, checkpoint.Work{}, "" // run.json has the time of its making
		}
		require.Equal(t, a, b, name)
	}
}

// A write that failed and is tried again in the same process, after other events, must not leave a receipt that nobody names, or
// that says something else than the record.
func TestReceiptAgainAfterFailure(t *testing.T) {
	base := filepath.Join(t.TempDir(), "run")
	d := newFaulty(0, false)
	r, err := checkpoint.OpenOn(base, d, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	id, err := program.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.SignWith(program.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Begin(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	state := checkpoint.NewState(0)
	state.Tensors["slots"] = []checkpoint.Tensor{{Name: "w", DType: "U8", Shape: []int{1}, Data: checkpoint.Bytes([]byte{1})}}
	e, lines := evaluation(t, id)
	if err := r.SaveCheckpoint(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	ops := d.ops
	if _, err := r.RecordEvaluation(t.Context(), e, lines); err != nil { // to count its operations
		t.Fatal(err)
	}
	n := d.ops - ops
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for k := 1; k <= n; k++ {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			d := newFaulty(0, false)
			r, err := checkpoint.OpenOn(dir, d, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if err := r.SignWith(program.Key); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Begin(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			d.failAt, d.once = d.ops+k, true
			if _, err := r.RecordEvaluation(t.Context(), e, lines); err == nil {
				return // what failed needed no space
			}
			if err := r.SaveCheckpoint(t.Context(), state); err != nil {
				if k == n { // the ledger's sync: nobody knows what is on the disk
					return
				}
				t.Fatal(err)
			}
			e.Host = json.RawMessage(`{"seconds":9}`)
			if _, err := r.RecordEvaluation(t.Context(), e, lines); err != nil {
				t.Fatal(err)
			}
			e.Host = nil
			entries, err := os.ReadDir(filepath.Join(dir, "receipts"))
			if err != nil || len(entries) != 4 {
				t.Errorf("the receipts are %v, %v", entries, err)
			}
			verified(t, dir)
		})
	}
}

// evaluation is one of update 0 that fits an identity.
func evaluation(t *testing.T, id checkpoint.Identity) (checkpoint.Evaluation, []checkpoint.Line) {
	t.Helper()
	plan := id.Plan.Evaluation
	var lines []checkpoint.Line
	for _, task := range plan.Tasks {
		for sample, seed := range plan.Seeds {
			lines = append(lines, checkpoint.Line{
				Task: task, Sample: sample, Seed: seed, Prompt: []int32{1}, Tokens: []int32{2}, LogProbs: []float32{-1}, Text: "no idea", Finish: "stop", Labels: []string{"no_answer"},
			})
		}
	}
	e, err := checkpoint.Summarize(lines, plan.Tasks, plan.Seeds)
	if err != nil {
		t.Fatal(err)
	}
	e.Sampling = plan.Sampling
	e.WeightsHash = id.Digests["weights"]
	return e, lines
}

// ParseReceipt reads files that anybody may have written.
func FuzzParseReceipt(f *testing.F) {
	for _, r := range []checkpoint.Receipt{{Format: 2, Kind: "finished"}, {Format: 2, Kind: "evaluation", Completions: []checkpoint.CompletionRef{{Task: "a"}}}} {
		data, err := r.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"format":9}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := checkpoint.ParseReceipt(data)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrDamaged) && !errors.Is(err, checkpoint.ErrFormat) {
				t.Errorf("the error is of no kind: %v", err)
			}
			return
		}
		again, err := r.Encode()
		if err != nil || string(again) != string(data) {
			t.Errorf("what was read is written as %s, %v", again, err)
		}
	})
}

// Signatures belong to their receipts. A later opening must not take them for what a crash has left.
func TestSignaturesAreRecorded(t *testing.T) {
	short := program
	short.Updates = 3
	dir := finished(t, short)
	for _, note := range goOn(t, program, dir) {
		if strings.Contains(note, "receipts/") {
			t.Errorf("a note says: %s", note)
		}
	}
	for _, s := range read(t, dir).History.Segments {
		if len(s.Unrecorded) > 0 {
			t.Errorf("segment %d lists %v", s.Segment, s.Unrecorded)
		}
	}
}
