package verify_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/verify"
)

// in passes the body of one record to edit: of a kind, of an update.
func in(kind string, update int, edit func(map[string]any)) func(string, map[string]any) {
	return func(k string, body map[string]any) {
		if k == kind && fmt.Sprint(body["update"]) == fmt.Sprint(update) {
			edit(body)
		}
	}
}

func evaluationBody(edit func(map[string]any)) func(forger) {
	return func(f forger) { f.ledger(in(checkpoint.KindEvaluation, 2, edit)) }
}

func updateBody(edit func(map[string]any)) func(forger) {
	return func(f forger) { f.ledger(in(checkpoint.KindUpdate, 2, edit)) }
}

func segmentBody(edit func(map[string]any)) func(forger) {
	return func(f forger) {
		f.ledger(func(kind string, body map[string]any) {
			if kind == checkpoint.KindSegment && fmt.Sprint(body["segment"]) == "2" {
				edit(body)
			}
		})
	}
}

func rollouts(edit func([]map[string]any) []map[string]any) func(forger) {
	return func(f forger) { f.lines("rollouts/000002.jsonl.zst", edit) }
}

func evals(edit func([]map[string]any) []map[string]any) func(forger) {
	return func(f forger) { f.lines("evals/000002.jsonl.zst", edit) }
}

// set gives the second completion another value.
func set(key string, value any) func([]map[string]any) []map[string]any {
	return func(lines []map[string]any) []map[string]any {
		if fmt.Sprint(lines[1][key]) == fmt.Sprint(value) {
			panic(key + " has that value already")
		}
		lines[1][key] = value
		return lines
	}
}

// receipt edits a receipt, and names it with its new digest.
func receipt(name string, edit func(map[string]any)) func(forger) {
	return func(f forger) {
		f.t.Helper()
		f.keep = name
		r := object(f.t, f.read(name))
		edit(r)
		var b bytes.Buffer
		if err := json.Indent(&b, compact(f.t, r), "", "  "); err != nil {
			f.t.Fatal(err)
		}
		rewrite(f.t, f.path(name), append(b.Bytes(), '\n'))
		f.ledger(func(_ string, body map[string]any) {
			if named, ok := body["receipt"].(map[string]any); ok && named["path"] == name {
				named["sha256"] = digest(f.read(name))
			}
		})
	}
}

// A forger who knows the format makes every hash and every receipt right again. What follows from something else must still
// be found.
func TestForgeries(t *testing.T) {
	base := write(t, program, 3, 5)
	tried(t, base, map[string]map[string]tampering{
		"figures follow from the completions": {
			"accuracy":          {evaluationBody(func(e map[string]any) { e["accuracy"] = 0.99 }), "ledger.jsonl", "accuracy of the evaluation of update 2"},
			"correct":           {evaluationBody(func(e map[string]any) { e["correct"] = 12 }), "ledger.jsonl", "correct of the evaluation"},
			"truncated":         {evaluationBody(func(e map[string]any) { e["truncated"] = 77 }), "ledger.jsonl", "truncated of the evaluation"},
			"scored":            {evaluationBody(func(e map[string]any) { e["scored"] = 11 }), "evals/000002", "11 scored"},
			"interval":          {evaluationBody(func(e map[string]any) { e["interval"].([]any)[0] = 0.9 }), "ledger.jsonl", "interval, lower end"},
			"pass at k":         {evaluationBody(func(e map[string]any) { e["pass_at_k"].(map[string]any)["2"] = 1.1 }), "ledger.jsonl", "pass_at_k"},
			"labels":            {evaluationBody(func(e map[string]any) { e["labels"].(map[string]any)["correct"] = 99 }), "ledger.jsonl", "labels of the evaluation"},
			"mean tokens":       {evaluationBody(func(e map[string]any) { e["mean_tokens"] = 1 }), "ledger.jsonl", "mean_tokens"},
			"a task's count":    {evaluationBody(func(e map[string]any) { e["tasks"].([]any)[0].(map[string]any)["correct"] = 99 }), "ledger.jsonl", "tasks of the evaluation"},
			"a metric":          {updateBody(func(u map[string]any) { u["metrics"].(map[string]any)["reward_mean"] = 0.987 }), "ledger.jsonl", "metric reward_mean of update 2"},
			"a metric left out": {updateBody(func(u map[string]any) { delete(u["metrics"].(map[string]any), "truncated") }), "ledger.jsonl", "metric truncated of update 2"},
		},
		"run.json fixes the plan, the bank and the weights of the beginning": {
			"the bank of an evaluation": {evaluationBody(func(e map[string]any) { e["bank"] = "abc" }), "ledger.jsonl", "bank of the evaluation"},
			"sampling":                  {evaluationBody(func(e map[string]any) { e["sampling"] = map[string]any{"temperature": 0} }), "evals/000002", "sampling settings"},
			"seeds":                     {evaluationBody(func(e map[string]any) { e["seeds"].([]any)[0] = 18 }), "evals/000002", "seeds"},
			"the run's seed":            {func(f forger) { f.run(func(r map[string]any) { r["seed"] = 8 }) }, "rollouts/000001", "its seed is 7"},
			"the group size":            {func(f forger) { f.run(func(r map[string]any) { r["plan"].(map[string]any)["group_size"] = 2 }) }, "rollouts/000001", "6 completions"},
			"the base weights":          {func(f forger) { f.run(func(r map[string]any) { r["digests"].(map[string]any)["weights"] = "abc" }) }, "evals/000000", "those of run.json"},
			"another format":            {func(f forger) { rewrite(f.t, f.path("run.json"), []byte(`{"format":9}`)) }, "run.json", "format 9"},
			"a sample":                  {rollouts(set("sample", 2)), "rollouts/000002", "sample 2 where"},
			"a seed":                    {rollouts(set("seed", 8)), "rollouts/000002", "seed is 8"},
			"old weights":               {rollouts(set("weights_update", 0)), "rollouts/000002", "weights of update 0"},
			"a log-prob less":           {rollouts(set("logprobs", []any{})), "rollouts/000002", "0 log-probs"},
			"a completion less":         {rollouts(func(l []map[string]any) []map[string]any { return l[:len(l)-1] }), "rollouts/000002", "5 completions"},
			"a failure left out":        {evals(func(l []map[string]any) []map[string]any { return l[1:] }), "evals/000002", "completions"},
			"a success counted twice":   {evals(func(l []map[string]any) []map[string]any { l[1] = l[0]; return l }), "evals/000002", "has two completions"},
			"evaluated on training tasks": {func(f forger) {
				f.run(func(r map[string]any) {
					r["plan"].(map[string]any)["evaluation"].(map[string]any)["tasks"].([]any)[0] = "echo/1"
				})
			}, "run.json", "held-out"},
			"an evaluation left out": {func(f forger) {
				f.ledger(in(checkpoint.KindEvaluation, 2, drop))
				f.remove("evals/000002.json", "evals/000002.jsonl.zst", "receipts/evaluation-000002.json")
			}, "ledger.jsonl", "no evaluation of update 2"},
		},
		"the bank has its own digests, and every task is in it": {
			"an unknown task":  {rollouts(set("task", "echo/77")), "rollouts/000002", "the bank has no such task"},
			"an update's task": {updateBody(func(u map[string]any) { u["tasks"].([]any)[0] = "echo/9" }), "rollouts/000002", "trains on a task that the run is evaluated on"},
			"an easier bank": {func(f forger) {
				data := bytes.Replace(f.read("bank/validation.jsonl"), []byte(`"answer":"w`), []byte(`"answer":"v`), 1)
				rewrite(f.t, f.path("bank/validation.jsonl"), data)
				f.run(func(r map[string]any) { r["bank"].(map[string]any)["validation.jsonl"] = digest(data) })
			}, "bank", "validation.jsonl: line 1 (task echo/8)"},
		},
		"grading the completion again": {
			"a reward":              {rollouts(set("reward", 0.5)), "rollouts/000002", "line 2, task echo/4: reward: expected"},
			"a value":               {rollouts(set("value", 0.5)), "rollouts/000002", "line 2, task echo/4: value: expected"},
			"a completion's labels": {rollouts(set("labels", []any{"correct", "wrong"})), "rollouts/000002", "line 2, task echo/4: labels: expected"},
			"a completion's text":   {rollouts(set("text", "<answer>no</answer>")), "rollouts/000002", "line 2, task echo/4: value: expected"},
			"an evaluated reward":   {evals(set("reward", 0.5)), "evals/000002", "line 2, task echo/8: reward: expected"},
		},
		"the order in which things can happen": {
			"an update left out": {updateBody(func(u map[string]any) { u["update"] = 3 }), "ledger.jsonl", "update 3 after update 1"},
			"an update's event is gone": {func(f forger) {
				f.ledger(in(checkpoint.KindUpdate, 2, drop))
			}, "ledger.jsonl", "line 5: a checkpoint of update 2"},
			"an evaluation after an update":  {func(f forger) { f.times(time.Hour); f.move(3, 4) }, "ledger.jsonl", "line 4: its time"},
			"a checkpoint before its update": {func(f forger) { f.move(6, 5); f.times(time.Hour) }, "ledger.jsonl", "the last update is 1"},
			"an evaluation a second time": {func(f forger) {
				f.ledger(func(kind string, body map[string]any) {
					if kind == checkpoint.KindEvaluation && fmt.Sprint(body["update"]) == "4" {
						body["update"] = 2
					}
				})
			}, "ledger.jsonl", "a second evaluation of update 2"},
			"a rolled back update hidden":    {segmentBody(func(s map[string]any) { delete(s, "rolled_back") }), "ledger.jsonl", "line 10: segment 2 rolls back 1 updates"},
			"a rolled back response hidden":  {segmentBody(func(s map[string]any) { s["rolled_back"].(map[string]any)["responses"] = 5 }), "ledger.jsonl", "is said to roll back 1 of 5"},
			"going on from another update":   {segmentBody(func(s map[string]any) { s["update"] = 3 }), "ledger.jsonl", "segment 2 goes on from update 3"},
			"going on from nothing restored": {segmentBody(func(s map[string]any) { s["checkpoint"] = "checkpoints/000007" }), "ledger.jsonl", "is no checkpoint"},
			"an end before the end": {func(f forger) {
				f.ledger(in(checkpoint.KindFinished, 5, func(e map[string]any) { e["update"] = 4 }))
			}, "ledger.jsonl", "finished at update 4"},
		},
		"names are given once, in the run directory": {
			"completions elsewhere": {func(f forger) {
				data := f.read("rollouts/000002.jsonl.zst")
				rewrite(f.t, f.path("../000002.jsonl.zst"), data)
				f.remove("rollouts/000002.jsonl.zst")
				updateBody(func(u map[string]any) { u["rollouts"].(map[string]any)["path"] = "../000002.jsonl.zst" })(f)
			}, "ledger.jsonl", `line 5: it names "../000002.jsonl.zst", which is no place of a record`},
			"two updates with one file": {func(f forger) {
				f.remove("rollouts/000001.jsonl.zst")
				f.ledger(in(checkpoint.KindUpdate, 1, func(u map[string]any) {
					u["rollouts"].(map[string]any)["path"] = "rollouts/000002.jsonl.zst"
				}))
			}, "ledger.jsonl", "line 5: it names rollouts/000002.jsonl.zst with another content"},
		},
		"other weights give other log-probs": {
			"an evaluation presented again for another update": {func(f forger) { f.replay(2, 4) }, "evals/000004", "the same tokens and log-probs, bit for bit, as that of update 2"},
		},
		"checkpoints have the weights, and every tensor its digest": {
			"the weights of an evaluation": {evaluationBody(func(e map[string]any) { e["weights"] = "abc" }), "evals/000002", "weights of the evaluation"},
			"other weights in a checkpoint": {func(f forger) {
				f.tensors("checkpoints/000002", "weights", func(data []byte) { data[len(data)-1]++ })
			}, "checkpoints/000002", `tensor "b" of weights.safetensors: digest is`},
		},
		"receipts follow from the record": {
			"a receipt's accuracy": {receipt("receipts/evaluation-000002.json", func(r map[string]any) {
				r["evaluation"].(map[string]any)["accuracy"] = 0.99
			}), "receipts/evaluation-000002.json", "evaluation.accuracy against the record"},
			"a receipt's reward": {receipt("receipts/evaluation-000002.json", func(r map[string]any) {
				r["completions"].([]any)[0].(map[string]any)["reward"] = 7
			}), "receipts/evaluation-000002.json", "task echo/8: completions[0].reward against the record: expected"},
			"a receipt's completion": {receipt("receipts/evaluation-000002.json", func(r map[string]any) {
				r["completions"].([]any)[3].(map[string]any)["sha256"] = "abc"
			}), "receipts/evaluation-000002.json", "task echo/9: completions[3].sha256"},
			"a receipt's setting": {receipt("receipts/checkpoint-000002.json", func(r map[string]any) {
				r["run"].(map[string]any)["fields"].(map[string]any)["settings.lr"] = 1
			}), "receipts/checkpoint-000002.json", "run.fields.settings.lr against the record: expected 0.000001, found 1"},
			"a receipt's rollouts": {receipt("receipts/checkpoint-000002.json", func(r map[string]any) {
				r["rollouts"] = r["rollouts"].([]any)[:1]
			}), "receipts/checkpoint-000002.json", "rollouts against the record"},
			"a receipt's count": {receipt("receipts/finished-000005.json", func(r map[string]any) {
				r["rolled_back"] = map[string]any{"updates": 0, "responses": 0}
			}), "receipts/finished-000005.json", "rolled_back.responses against the record: expected 6, found 0"},
			"a receipt's place": {receipt("receipts/finished-000005.json", func(r map[string]any) {
				r["ledger"].(map[string]any)["seq"] = 3
			}), "receipts/finished-000005.json", "ledger.seq against the record"},
			"a receipt that nobody names": {func(f forger) {
				f.ledger(in(checkpoint.KindEvaluation, 2, func(e map[string]any) { delete(e, "receipt") }))
				f.remove("receipts/evaluation-000002.json")
			}, "ledger.jsonl", `the event of kind "evaluation" names no receipt`},
		},
	}, options(), nil)

	// The forger's tools themselves must not be what is found.
	dir := copied(t, base)
	f := forger{t: t, dir: dir}
	f.ledger(func(string, map[string]any) {})
	f.run(func(map[string]any) {})
	f.times(time.Hour)
	if report := check(t, dir); !report.OK() {
		t.Errorf("a run that was only hashed anew does not hold:\n%s", text(t, report))
	}
}

func drop(body map[string]any) { body["drop"] = true }

func copied(t *testing.T, base string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
		t.Fatal(err)
	}
	return dir
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
