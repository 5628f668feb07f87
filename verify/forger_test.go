package verify_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/grouper-rl/grouper/checkpoint"
)

// forger rewrites a run and then makes all hashes and receipts right again, as someone with a motive would. He has no key of the
// run's.
type forger struct {
	t    *testing.T
	dir  string
	sign ed25519.PrivateKey // signs the receipts that he makes; nil: signatures stay as they are
	keep string             // a receipt that he has written himself; the others are made again
}

func (f forger) remove(names ...string) {
	f.t.Helper()
	for _, name := range names {
		if err := os.Remove(f.path(name)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f forger) path(name string) string { return filepath.Join(f.dir, filepath.FromSlash(name)) }

// ledger passes the body of every event through edit, which may mark it "drop", and makes the chain again.
func (f forger) ledger(edit func(kind string, body map[string]any)) {
	f.t.Helper()
	f.events(func(events []checkpoint.Event) []checkpoint.Event {
		var left []checkpoint.Event
		for _, e := range events {
			body := object(f.t, e.Body)
			edit(e.Kind, body)
			if body["drop"] == nil {
				e.Body = compact(f.t, body)
				left = append(left, e)
			}
		}
		return left
	})
}

// events passes the events through edit and makes everything again that hangs on them: numbers, receipts, figures, hashes, from
// run.json and the bank on.
func (f forger) events(edit func([]checkpoint.Event) []checkpoint.Event) {
	f.t.Helper()
	run, err := checkpoint.ReadRunFile(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	var events []checkpoint.Event
	for line := range bytes.Lines(f.read("ledger.jsonl")) {
		var e checkpoint.Event
		if err := json.Unmarshal(line, &e); err != nil {
			f.t.Fatal(err)
		}
		events = append(events, e)
	}
	events = edit(events)
	var out bytes.Buffer
	prev := run.Start(f.read("run.json"))
	for i := range events {
		e := &events[i]
		e.Seq, e.Prev = i+1, prev
		f.receipt(run, events[:i+1])
		if e.Kind == checkpoint.KindEvaluation {
			path := object(f.t, e.Body)["completions"].(map[string]any)["path"].(string)
			rewrite(f.t, f.path(strings.TrimSuffix(path, ".jsonl.zst")+".json"), e.Indented())
		}
		text := fmt.Sprintf(`{"seq":%d,"time":%q,"kind":%q,"body":%s,"prev":%q}`, e.Seq, e.Time.UTC().Format("2006-01-02T15:04:05.000Z"), e.Kind, e.Body, prev)
		prev = digest([]byte(text))
		e.Hash = prev
		fmt.Fprintf(&out, `%s,"hash":%q}`+"\n", strings.TrimSuffix(text, "}"), prev)
	}
	rewrite(f.t, f.path("ledger.jsonl"), out.Bytes())
}

// receipt makes the receipt of the last event again and names it in the event's body, if it names one.
func (f forger) receipt(run *checkpoint.RunFile, events []checkpoint.Event) {
	f.t.Helper()
	begin, err := checkpoint.NewHistory(f.dir, run)
	if err != nil {
		f.t.Fatal(err)
	}
	due, _ := checkpoint.Receipts(run, begin, events) // an event that cannot stand where it stands is for verification
	if len(due) == 0 || due[len(due)-1].Seq != len(events) || due[len(due)-1].File.Path == "" {
		return
	}
	d := due[len(due)-1]
	if d.Kind == checkpoint.KindEvaluation {
		if d.Receipt.Completions, err = checkpoint.Refer(f.completions(d.Receipt.Evaluation.Completions.Path)); err != nil {
			f.t.Fatal(err)
		}
	}
	data, err := d.Receipt.Encode()
	if err != nil {
		f.t.Fatal(err)
	}
	if d.File.Path == f.keep {
		data = f.read(f.keep)
	}
	rewrite(f.t, f.path(d.File.Path), data)
	if f.sign != nil {
		signature := base64.StdEncoding.EncodeToString(ed25519.Sign(f.sign, data)) + "\n"
		rewrite(f.t, f.path(d.File.Path+".sig"), []byte(signature))
	}
	last := &events[len(events)-1]
	body := object(f.t, last.Body)
	body["receipt"].(map[string]any)["sha256"] = digest(data)
	last.Body = compact(f.t, body)
}

func (f forger) completions(name string) []checkpoint.Line {
	f.t.Helper()
	lines, _, err := checkpoint.ReadLines(bytes.NewReader(f.read(name)))
	if err != nil {
		f.t.Fatal(err)
	}
	return lines
}

// move gives the event with a number another place.
func (f forger) move(from, to int) {
	f.t.Helper()
	f.events(func(events []checkpoint.Event) []checkpoint.Event {
		e := events[from-1]
		return slices.Insert(slices.Delete(events, from-1, from), to-1, e)
	})
}

// times gives every event a time of its own, in order.
func (f forger) times(step time.Duration) {
	f.t.Helper()
	f.events(func(events []checkpoint.Event) []checkpoint.Event {
		for i := range events {
			events[i].Time = events[0].Time.Add(time.Duration(i) * step)
		}
		return events
	})
}

// figures makes the figures of the evaluation of an update fit its completions.
func (f forger) figures(update int) {
	f.t.Helper()
	run, err := checkpoint.ReadRunFile(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	f.ledger(in(checkpoint.KindEvaluation, update, func(body map[string]any) {
		lines := f.completions(body["completions"].(map[string]any)["path"].(string))
		e, err := checkpoint.Summarize(lines, run.Plan.Evaluation.Tasks, run.Plan.Evaluation.Seeds)
		if err != nil {
			f.t.Fatal(err)
		}
		for key, value := range object(f.t, compact(f.t, e)) {
			switch key {
			case "accuracy", "correct", "truncated", "interval", "pass_at_k", "tasks", "labels", "mean_tokens":
				body[key] = value
			}
		}
	}))
}

// replay presents the evaluated completions of an update again as those of another.
func (f forger) replay(from, to int) {
	f.t.Helper()
	name := func(update int) string { return fmt.Sprintf("evals/%06d.jsonl.zst", update) }
	before := f.completions(name(from))
	f.lines(name(to), func(lines []map[string]any) []map[string]any {
		for i, l := range before {
			l.Weights = to
			lines[i] = object(f.t, compact(f.t, l))
		}
		return lines
	})
	f.figures(to)
}

// lines edits the completions of a file and its digest in the ledger.
func (f forger) lines(name string, edit func(lines []map[string]any) []map[string]any) {
	f.t.Helper()
	packed := f.read(name)
	z, err := zstd.NewReader(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	defer z.Close()
	data, err := z.DecodeAll(packed, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	var lines []map[string]any
	for line := range bytes.Lines(data) {
		lines = append(lines, object(f.t, line))
	}
	var out []byte
	lines = edit(lines)
	for _, l := range lines {
		out = append(append(out, compact(f.t, l)...), '\n')
	}
	w, err := zstd.NewWriter(nil)
	if err != nil {
		f.t.Fatal(err)
	}
	packed = w.EncodeAll(out, nil)
	rewrite(f.t, f.path(name), packed)
	f.ledger(func(_ string, body map[string]any) {
		for _, key := range []string{"rollouts", "dropped", "completions"} {
			if file, ok := body[key].(map[string]any); ok && file["path"] == name {
				file["sha256"], file["lines"] = digest(packed), len(lines)
			}
		}
	})
}

// run edits run.json.
func (f forger) run(edit func(map[string]any)) {
	f.t.Helper()
	run := object(f.t, f.read("run.json"))
	edit(run)
	rewrite(f.t, f.path("run.json"), compact(f.t, run))
	f.ledger(func(string, map[string]any) {})
}

func object(t *testing.T, data []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func compact(t *testing.T, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// tensors edits the file of a group of tensors and makes manifest and ledger fit, but for the tensors' own digests.
func (f forger) tensors(folder, group string, edit func([]byte)) {
	f.t.Helper()
	name := folder + "/" + group + ".safetensors"
	data := f.read(name)
	was := digest(data)
	edit(data)
	rewrite(f.t, f.path(name), data)
	manifest := f.read(folder + "/manifest.json")
	manifest = bytes.ReplaceAll(manifest, []byte(was), []byte(digest(data)))
	rewrite(f.t, f.path(folder+"/manifest.json"), manifest)
	f.ledger(func(kind string, body map[string]any) {
		if kind == checkpoint.KindCheckpoint && body["path"] == folder {
			body["manifest"] = digest(manifest)
		}
	})
}

// cutLedger takes the last events away.
func cutLedger(t *testing.T, dir string, events int) {
	t.Helper()
	path := filepath.Join(dir, "ledger.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	rewrite(t, path, bytes.Join(lines[:len(lines)-1-events], nil))
}
