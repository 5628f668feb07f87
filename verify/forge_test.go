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
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/verify"
)

// forger rewrites a run and then makes all hashes and receipts right again, as someone with a motive would. He has no key of the
// run's.
type forger struct {
	t    *testing.T
	dir  string
	sign ed25519.PrivateKey // signs the receipts that he makes; nil: signatures stay as they are
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

// ledger passes the body of every event through edit, which may mark it "drop", and hashes the chain anew, from run.json and the bank on.
func (f forger) ledger(edit func(kind string, body map[string]any)) {
	f.t.Helper()
	runJSON, err := os.ReadFile(f.path("run.json"))
	if err != nil {
		f.t.Fatal(err)
	}
	run, err := checkpoint.ReadRunFile(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	data, err := os.ReadFile(f.path("ledger.jsonl"))
	if err != nil {
		f.t.Fatal(err)
	}
	prev := run.Start(runJSON)
	var out bytes.Buffer
	var events []checkpoint.Event
	for _, line := range strings.Split(strings.TrimSuffix(string(data), "\n"), "\n") {
		var e checkpoint.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			f.t.Fatal(err)
		}
		body := object(f.t, e.Body)
		edit(e.Kind, body)
		if body["drop"] != nil {
			continue
		}
		e.Seq, e.Prev, e.Body = len(events)+1, prev, compact(f.t, body)
		if f.receipt(run, append(events, e), body) {
			e.Body = compact(f.t, body)
		}
		if e.Kind == checkpoint.KindEvaluation {
			path := body["completions"].(map[string]any)["path"].(string)
			rewrite(f.t, f.path(strings.TrimSuffix(path, ".jsonl.zst")+".json"), e.Indented())
		}
		text := fmt.Sprintf(`{"seq":%d,"time":%q,"kind":%q,"body":%s,"prev":%q}`, e.Seq, e.Time.Format("2006-01-02T15:04:05.000Z"), e.Kind, e.Body, prev)
		prev = digest([]byte(text))
		e.Hash = prev
		events = append(events, e)
		fmt.Fprintf(&out, `%s,"hash":%q}`+"\n", strings.TrimSuffix(text, "}"), prev)
	}
	rewrite(f.t, f.path("ledger.jsonl"), out.Bytes())
}

// receipt makes the receipt of the last event again and names it in the event's body; false: it has none.
func (f forger) receipt(run *checkpoint.RunFile, events []checkpoint.Event, body map[string]any) bool {
	f.t.Helper()
	begin, err := checkpoint.NewHistory(f.dir, run)
	if err != nil {
		f.t.Fatal(err)
	}
	due, _ := checkpoint.Receipts(run, begin, events) // an event that cannot stand where it stands is for verification
	if len(due) == 0 || due[len(due)-1].Seq != len(events) || due[len(due)-1].File.Path == "" {
		return false
	}
	d := due[len(due)-1]
	if d.Kind == checkpoint.KindEvaluation {
		file, err := os.Open(f.path(d.Receipt.Evaluation.Completions.Path))
		if err != nil {
			f.t.Fatal(err)
		}
		defer file.Close()
		lines, _, err := checkpoint.ReadLines(file)
		if err != nil {
			f.t.Fatal(err)
		}
		if d.Receipt.Completions, err = checkpoint.Refer(lines); err != nil {
			f.t.Fatal(err)
		}
	}
	data, err := d.Receipt.Encode()
	if err != nil {
		f.t.Fatal(err)
	}
	rewrite(f.t, f.path(d.File.Path), data)
	if f.sign != nil {
		signature := base64.StdEncoding.EncodeToString(ed25519.Sign(f.sign, data)) + "\n"
		rewrite(f.t, f.path(d.File.Path+".sig"), []byte(signature))
	}
	body["receipt"].(map[string]any)["sha256"] = digest(data)
	return true
}

// lines edits the completions of a file and its digest in the ledger.
func (f forger) lines(name string, edit func(lines []map[string]any) []map[string]any) {
	f.t.Helper()
	packed, err := os.ReadFile(f.path(name))
	if err != nil {
		f.t.Fatal(err)
	}
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
	data, err := os.ReadFile(f.path("run.json"))
	if err != nil {
		f.t.Fatal(err)
	}
	run := object(f.t, data)
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

// A forger who knows the format makes every hash right again. What follows from something else must still be found.
func TestForgeries(t *testing.T) {
	in := func(kind string, update int, edit func(map[string]any)) func(string, map[string]any) {
		return func(k string, body map[string]any) {
			if k == kind && fmt.Sprint(body["update"]) == fmt.Sprint(update) {
				edit(body)
			}
		}
	}
	evaluation := func(edit func(map[string]any)) func(forger) {
		return func(f forger) { f.ledger(in(checkpoint.KindEvaluation, 2, edit)) }
	}
	rollouts := func(edit func([]map[string]any) []map[string]any) func(forger) {
		return func(f forger) { f.lines("rollouts/000002.jsonl.zst", edit) }
	}
	evals := func(edit func([]map[string]any) []map[string]any) func(forger) {
		return func(f forger) { f.lines("evals/000002.jsonl.zst", edit) }
	}
	set := func(key string, value any) func([]map[string]any) []map[string]any {
		return func(lines []map[string]any) []map[string]any {
			if fmt.Sprint(lines[1][key]) == fmt.Sprint(value) {
				t.Fatalf("%s is %v already", key, value)
			}
			lines[1][key] = value
			return lines
		}
	}
	cases := map[string]struct {
		forge      func(forger)
		file, what string
	}{
		"accuracy":       {evaluation(func(e map[string]any) { e["accuracy"] = 0.99 }), "ledger.jsonl", "accuracy of the evaluation of update 2"},
		"correct":        {evaluation(func(e map[string]any) { e["correct"] = 12 }), "ledger.jsonl", "correct of the evaluation"},
		"truncated":      {evaluation(func(e map[string]any) { e["truncated"] = 77 }), "ledger.jsonl", "truncated of the evaluation"},
		"scored":         {evaluation(func(e map[string]any) { e["scored"] = 11 }), "evals/000002", "11 scored"},
		"interval":       {evaluation(func(e map[string]any) { e["interval"].([]any)[0] = 0.9 }), "ledger.jsonl", "interval, lower end"},
		"pass at k":      {evaluation(func(e map[string]any) { e["pass_at_k"].(map[string]any)["2"] = 1.1 }), "ledger.jsonl", "pass_at_k"},
		"labels":         {evaluation(func(e map[string]any) { e["labels"].(map[string]any)["correct"] = 99 }), "ledger.jsonl", "labels of the evaluation"},
		"mean tokens":    {evaluation(func(e map[string]any) { e["mean_tokens"] = 1 }), "ledger.jsonl", "mean_tokens"},
		"bank":           {evaluation(func(e map[string]any) { e["bank"] = "abc" }), "ledger.jsonl", "bank of the evaluation"},
		"weights":        {evaluation(func(e map[string]any) { e["weights"] = "abc" }), "evals/000002", "weights of the evaluation"},
		"sampling":       {evaluation(func(e map[string]any) { e["sampling"] = map[string]any{"temperature": 0} }), "evals/000002", "sampling settings"},
		"seeds":          {evaluation(func(e map[string]any) { e["seeds"].([]any)[0] = 18 }), "evals/000002", "seeds"},
		"a task's count": {evaluation(func(e map[string]any) { e["tasks"].([]any)[0].(map[string]any)["correct"] = 99 }), "ledger.jsonl", "tasks of the evaluation"},
		"a metric": {func(f forger) {
			f.ledger(in(checkpoint.KindUpdate, 2, func(u map[string]any) { u["metrics"].(map[string]any)["reward_mean"] = 0.987 }))
		}, "ledger.jsonl", "metric reward_mean of update 2"},
		"a metric left out": {func(f forger) {
			f.ledger(in(checkpoint.KindUpdate, 2, func(u map[string]any) { delete(u["metrics"].(map[string]any), "truncated") }))
		}, "ledger.jsonl", "metric truncated of update 2"},
		"an update's task": {func(f forger) {
			f.ledger(in(checkpoint.KindUpdate, 2, func(u map[string]any) { u["tasks"].([]any)[0] = "echo/9" }))
		}, "rollouts/000002", "trains on a task that the run is evaluated on"},
		"an update left out": {func(f forger) {
			f.ledger(in(checkpoint.KindUpdate, 2, func(u map[string]any) { u["update"] = 3 }))
		}, "ledger.jsonl", "update 3 after update 1"},
		"an evaluation left out": {func(f forger) {
			f.ledger(in(checkpoint.KindEvaluation, 2, func(e map[string]any) { e["drop"] = true }))
			f.remove("evals/000002.json", "evals/000002.jsonl.zst", "receipts/evaluation-000002.json")
		}, "ledger.jsonl", "no evaluation of update 2"},

		"a reward":              {rollouts(set("reward", 0.5)), "rollouts/000002", "line 2, task echo/4: reward: expected"},
		"a value":               {rollouts(set("value", 0.5)), "rollouts/000002", "line 2, task echo/4: value: expected"},
		"a completion's labels": {rollouts(set("labels", []any{"correct", "wrong"})), "rollouts/000002", "line 2, task echo/4: labels: expected"},
		"a completion's text":   {rollouts(set("text", "<answer>no</answer>")), "rollouts/000002", "line 2, task echo/4: value: expected"},
		"a sample":              {rollouts(set("sample", 2)), "rollouts/000002", "sample 2 where"},
		"a seed":                {rollouts(set("seed", 8)), "rollouts/000002", "seed is 8"},
		"a log-prob less":       {rollouts(set("logprobs", []any{})), "rollouts/000002", "0 log-probs"},
		"old weights":           {rollouts(set("weights_update", 0)), "rollouts/000002", "weights of update 0"},
		"a completion less":     {rollouts(func(l []map[string]any) []map[string]any { return l[:len(l)-1] }), "rollouts/000002", "5 completions"},
		"an unknown task":       {rollouts(set("task", "echo/77")), "rollouts/000002", "the bank has no such task"},
		"an evaluated reward":   {evals(set("reward", 0.5)), "evals/000002", "line 2, task echo/8: reward: expected"},
		"a failure left out":    {evals(func(l []map[string]any) []map[string]any { return l[1:] }), "evals/000002", "completions"},
		"a success counted twice": {evals(func(l []map[string]any) []map[string]any {
			l[1] = l[0]
			return l
		}), "evals/000002", "has two completions"},

		"the run's seed":   {func(f forger) { f.run(func(r map[string]any) { r["seed"] = 8 }) }, "rollouts/000001", "its seed is 7"},
		"the group size":   {func(f forger) { f.run(func(r map[string]any) { r["plan"].(map[string]any)["group_size"] = 2 }) }, "rollouts/000001", "6 completions"},
		"the base weights": {func(f forger) { f.run(func(r map[string]any) { r["digests"].(map[string]any)["weights"] = "abc" }) }, "evals/000000", "those of run.json"},
		"another format":   {func(f forger) { rewrite(f.t, f.path("run.json"), []byte(`{"format":9}`)) }, "run.json", "format 9"},
		"evaluated on training tasks": {func(f forger) {
			f.run(func(r map[string]any) {
				r["plan"].(map[string]any)["evaluation"].(map[string]any)["tasks"].([]any)[0] = "echo/1"
			})
		}, "run.json", "held-out"},
		"an easier bank": {func(f forger) {
			data, err := os.ReadFile(f.path("bank/validation.jsonl"))
			if err != nil {
				f.t.Fatal(err)
			}
			data = bytes.Replace(data, []byte(`"answer":"w`), []byte(`"answer":"v`), 1)
			rewrite(f.t, f.path("bank/validation.jsonl"), data)
			f.run(func(r map[string]any) { r["bank"].(map[string]any)["validation.jsonl"] = digest(data) })
		}, "bank", "validation.jsonl: line 1 (task echo/8)"},
		"other weights in a checkpoint": {func(f forger) {
			f.checkpoint("checkpoints/000002", func(data []byte) { data[len(data)-1]++ })
		}, "checkpoints/000002", `tensor "b" of weights.safetensors: digest is`},
	}
	base := write(t, program, 5)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
				t.Fatal(err)
			}
			c.forge(forger{t: t, dir: dir})
			report := check(t, dir)
			found(t, report, c.file, c.what)
			if report.OK() != (len(report.Findings) == 0) || report.Digest != "" {
				t.Errorf("a forged run has the digest %q", report.Digest)
			}
		})
	}
	// The forger's tools themselves must not be what is found.
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
		t.Fatal(err)
	}
	forger{t: t, dir: dir}.ledger(func(string, map[string]any) {})
	forger{t: t, dir: dir}.run(func(map[string]any) {})
	if report := check(t, dir); !report.OK() {
		t.Errorf("a run that was only hashed anew does not hold:\n%s", text(t, report))
	}
}

// checkpoint edits the weights file and makes manifest and ledger fit, but for the tensors' own digests.
func (f forger) checkpoint(folder string, edit func([]byte)) {
	f.t.Helper()
	path := f.path(folder + "/weights.safetensors")
	data, err := os.ReadFile(path)
	if err != nil {
		f.t.Fatal(err)
	}
	was := digest(data)
	edit(data)
	rewrite(f.t, path, data)
	manifest, err := os.ReadFile(f.path(folder + "/manifest.json"))
	if err != nil {
		f.t.Fatal(err)
	}
	manifest = bytes.ReplaceAll(manifest, []byte(was), []byte(digest(data)))
	rewrite(f.t, f.path(folder+"/manifest.json"), manifest)
	f.ledger(func(kind string, body map[string]any) {
		if kind == checkpoint.KindCheckpoint && body["path"] == folder {
			body["manifest"] = digest(manifest)
		}
	})
}

// The last accuracy is the one that is quoted. Whoever takes it away because a better one stands before it must be found out, and
// so must a plan that never asks for one.
func TestLastEvaluationIsRequired(t *testing.T) {
	p := program
	p.Last = true
	dir := write(t, p, 3)
	report := check(t, dir)
	if out := text(t, report); !report.OK() || !strings.Contains(out, "evals: 3 evaluations") {
		t.Fatalf("updates 0, 2 and 3 were to be evaluated:\n%s", out)
	}
	f := forger{t: t, dir: dir}
	f.ledger(func(kind string, body map[string]any) {
		if kind == checkpoint.KindEvaluation && body["update"] == json.Number("3") {
			body["drop"] = true
		}
	})
	f.remove("evals/000003.json", "evals/000003.jsonl.zst", "receipts/evaluation-000003.json")
	found(t, check(t, dir), "ledger.jsonl", "the run is finished, and there is no evaluation of update 3")

	f = forger{t: t, dir: write(t, program, 2)}
	f.run(func(run map[string]any) { run["plan"].(map[string]any)["evaluation"].(map[string]any)["every"] = 0 })
	found(t, check(t, f.dir), "run.json", "plan.evaluation.every is 0")
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

// A ledger whose chain is broken is reported by line; a line that a crash has cut is reported, too.
func TestLedgerFindings(t *testing.T) {
	dir := write(t, program, 2)
	path := filepath.Join(dir, "ledger.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	join := func(l ...[]byte) []byte { return bytes.Join(l, nil) }
	for name, c := range map[string]struct {
		data []byte
		what string
	}{
		"a line left out":  {join(append(append([][]byte{}, lines[:2]...), lines[3:]...)...), "line 3: it has number 4"},
		"a line twice":     {join(append(append([][]byte{}, lines[:3]...), lines[2:]...)...), "line 4: it has number 3"},
		"lines swapped":    {join(append([][]byte{lines[1], lines[0]}, lines[2:]...)...), "line 1: it has number 2"},
		"an empty line":    {join(append([][]byte{lines[0], []byte("\n")}, lines[1:]...)...), "line 2"},
		"a space":          {bytes.Replace(data, []byte(`"seq":2`), []byte(`"seq": 2`), 1), "line 2: it is not in the canonical form"},
		"a cut-off line":   {data[:len(data)-3], "the last line has no end"},
		"nothing":          {nil, "it has no events"},
		"no segment first": {join(lines[1:]...), "line 1: it has number 2"},
	} {
		rewrite(t, path, c.data)
		found(t, check(t, dir), "ledger.jsonl", c.what)
		_ = name
	}
}

// Whoever verifies without a grader must be told what was not checked.
func TestWithoutGrader(t *testing.T) {
	report, err := verify.Run(t.Context(), write(t, program, 1), verify.Options{})
	if err != nil || !report.OK() {
		t.Fatal(report, err)
	}
	if !strings.Contains(text(t, report), "REWARDS WERE NOT GRADED AGAIN") || strings.Contains(text(t, report), "completions graded again") {
		t.Error(text(t, report))
	}
	if _, err := verify.Run(t.Context(), filepath.Join(t.TempDir(), "none"), verify.Options{}); err == nil {
		t.Error("a missing directory was verified")
	}
}
