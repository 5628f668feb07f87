package verify_test

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
)

var forgersKey = ed25519.NewKeyFromSeed([]byte("somebody else's 32 bytes of seed"))

// lies are records in which everything fits everything else: without signatures nothing could tell.
var lies = map[string]func(forger){
	"nothing but new hashes": func(f forger) { f.run(func(r map[string]any) { r["created"] = "2020-01-02T03:04:05Z" }) },
	"a metric that nothing follows from": updateBody(func(u map[string]any) {
		u["metrics"].(map[string]any)["loss"] = 0.5
	}),
	"facts of the host":     evaluationBody(func(e map[string]any) { e["host"] = map[string]any{"seconds": 0.5} }),
	"an hour less":          func(f forger) { f.times(time.Second) },
	"another learning rate": func(f forger) { f.run(func(r map[string]any) { r["settings"].(map[string]any)["lr"] = 3e-6 }) },
	"other versions": func(f forger) {
		f.ledger(func(kind string, body map[string]any) {
			if kind == checkpoint.KindSegment {
				body["versions"] = map[string]any{"program": "9"}
			}
		})
	},
	"an evaluation after an update that it was before": func(f forger) { f.move(3, 4); f.times(time.Second) },
	"a better answer, graded and counted":              betterAnswer,
	"other log-probs": rollouts(func(lines []map[string]any) []map[string]any {
		lines[0]["logprobs"].([]any)[0] = json.Number("-0.5")
		return lines
	}),
	"an interruption hidden": hideOpening,
}

// betterAnswer puts a right answer in the place of a wrong one of the last evaluation, and grades and counts it rightly.
func betterAnswer(f forger) {
	f.t.Helper()
	const name = "evals/000004.jsonl.zst"
	changed := false
	f.lines(name, func(lines []map[string]any) []map[string]any {
		for _, l := range lines {
			if fmt.Sprint(l["reward"]) == "0" && !changed {
				var index int
				if _, err := fmt.Sscanf(l["task"].(string), "echo/%d", &index); err != nil {
					f.t.Fatal(err)
				}
				l["text"] = fmt.Sprintf("<answer>w%c%c</answer>", 'a'+index, 'z'-index)
				l["finish"], l["reward"], l["value"], l["labels"] = "stop", 1, 1, []string{"correct"}
				changed = true
			}
		}
		return lines
	})
	if !changed {
		f.t.Fatal("everything is right already")
	}
	f.figures(4)
}

// hideOpening makes one opening of two: what was rolled back, and that anything was, is gone.
func hideOpening(f forger) {
	f.t.Helper()
	f.events(func(events []checkpoint.Event) []checkpoint.Event {
		var left []checkpoint.Event
		for _, e := range events {
			if e.Seq < 8 || e.Seq > 10 { // update 3, the end, and the second beginning
				left = append(left, e)
			}
		}
		first := object(f.t, left[0].Body)
		first["settings"] = map[string]any{"twist": 0, "updates": 5} // as the second has them
		left[0].Body = compact(f.t, first)
		return left
	})
	for _, name := range []string{"receipts/finished-000003.json", "receipts/finished-000003.json.sig"} {
		if err := os.RemoveAll(f.path(name)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// signature marks the segments as signed by a key, or by none, in which case no signature stays.
func (f forger) signature(key string) {
	f.t.Helper()
	f.ledger(func(kind string, body map[string]any) {
		if kind != checkpoint.KindSegment {
			return
		}
		if body["signer"] = key; key == "" {
			delete(body, "signer")
		}
	})
	if key != "" {
		return
	}
	entries, err := os.ReadDir(f.path("receipts"))
	if err != nil {
		f.t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".sig") {
			f.remove("receipts/" + e.Name())
		}
	}
}

// A signed run cannot be told otherwise than it was: a forger can leave the signatures, which are then of other receipts, take them
// away, or put his own there. Whoever knows the key sees all three, and the first even those who do not.
func TestSignedForgeries(t *testing.T) {
	p := program
	p.Key = testKey
	base := write(t, p, 3, 5)
	public := testKey.Public().(ed25519.PublicKey)
	own := checkpoint.KeyText(forgersKey.Public().(ed25519.PublicKey))
	withKey := options()
	withKey.Key = public

	// Of the record without signatures the same lies must hold: otherwise something else would be what is found.
	unsigned := write(t, program, 3, 5)
	for name, lie := range lies {
		dir := copied(t, unsigned)
		lie(forger{t: t, dir: dir})
		if report := check(t, dir); !report.OK() {
			t.Errorf("%s: it was to be told from nothing but signatures:\n%s", name, text(t, report))
		}
	}

	stale, stripped, resigned := map[string]tampering{}, map[string]tampering{}, map[string]tampering{}
	for name, lie := range lies {
		stale[name] = tampering{lie, "receipts/", "the signature does not hold: it is not one by " + checkpoint.KeyText(public)}
		stripped[name+", signatures taken away"] = tampering{func(f forger) { lie(f); f.signature("") },
			"receipts/", "signed by: expected " + checkpoint.KeyText(public) + ", found no signature"}
		resigned[name+", signed anew"] = tampering{func(f forger) { f.sign = forgersKey; lie(f); f.signature(own) },
			"receipts/", "signed by: expected " + checkpoint.KeyText(public) + ", found " + own}
	}
	tried(t, base, map[string]map[string]tampering{"signatures are of the receipts, which pin all events before them": stale}, options(), nil)
	tried(t, base, map[string]map[string]tampering{
		"whoever checks has the key":            stripped,
		"whoever checks has the key that it is": resigned,
		"the end is signed, too": {
			"the last event cut off": {func(f forger) {
				cutLedger(f.t, f.dir, 1)
				f.remove("receipts/finished-000005.json", "receipts/finished-000005.json.sig")
			}, "ledger.jsonl", "the run is not finished: no signed statement says where its ledger ends"},
			"the last opening cut off, back to an end that was one": {func(f forger) {
				cutLedger(f.t, f.dir, 7)
				f.remove("receipts/finished-000005.json")
			}, "receipts/finished-000005.json.sig", "no event of the ledger names it"},
			"a segment that signs with another key": {func(f forger) {
				f.ledger(func(kind string, body map[string]any) {
					if kind == checkpoint.KindSegment && fmt.Sprint(body["segment"]) == "2" {
						body["signer"] = own
					}
				})
			}, "receipts/finished-000005.json.sig", "the signature does not hold: it is not one by " + own},
			"a key that is none": {func(f forger) {
				f.ledger(func(kind string, body map[string]any) {
					if kind == checkpoint.KindSegment {
						body["signer"] = "ed25519:abc"
					}
				})
			}, "ledger.jsonl", "the key that its segment signs with"},
		},
	}, withKey, nil)

	// What the key is for: without it, a record that somebody else signed holds, and the report says whose signatures they are.
	dir := copied(t, base)
	f := forger{t: t, dir: dir, sign: forgersKey}
	betterAnswer(f)
	f.signature(own)
	report := check(t, dir)
	if out := text(t, report); !report.OK() || !strings.Contains(out, "signatures: 8 of 8 receipts by "+own) || !strings.Contains(out, "compare the key with the one that you trust") {
		t.Errorf("a record that another key signed:\n%s", out)
	}
	f = forger{t: t, dir: write(t, p, 3)}
	cutLedger(t, f.dir, 1)
	f.remove("receipts/finished-000003.json", "receipts/finished-000003.json.sig")
	if report := check(t, f.dir); !report.OK() || !strings.Contains(text(t, report), "the run is not finished: no signed statement says where its ledger ends") {
		t.Errorf("a signed run that goes on:\n%s", text(t, report))
	}
}

// A run may be signed from some opening on. It holds, and whoever demands the key hears what is not signed.
func TestSignedInPart(t *testing.T) {
	dir := write(t, program, 3)
	r, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	p := testrun.Program{Every: program.Every, Seed: program.Seed, Updates: 5, Key: testKey}
	if err := p.Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if report := check(t, dir); !report.OK() || !strings.Contains(text(t, report), "signatures: 3 of 8 receipts") {
		t.Errorf("it does not hold:\n%s", text(t, report))
	}
	opts := options()
	opts.Key = testKey.Public().(ed25519.PublicKey)
	report := checkWith(t, dir, opts)
	found(t, report, "receipts/evaluation-000002.json", "found no signature")
	if len(report.Findings) != 5 {
		t.Errorf("five receipts are not signed:\n%s", text(t, report))
	}
}
