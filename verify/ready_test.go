package verify_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
)

// Groups that a run took over from the one it goes on from keep their identity: whoever puts others in their place must be
// found out, though these were sampled and graded as rightly as any.
func TestRestoredGroups(t *testing.T) {
	p := testrun.Program{Updates: 4, Every: 2, Seed: 7, Lag: 1, Ready: 1}
	dir := write(t, p, 2, 4)
	if report := check(t, dir); !report.OK() {
		t.Fatal(text(t, report))
	}
	rec, err := checkpoint.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	u := rec.History.Updates[2]
	if len(u.SampledIn) != 2 || u.SampledIn[0] != 1 || u.SampledIn[1] != 2 {
		t.Fatalf("update 3 has groups of segments %v", u.SampledIn)
	}
	f := forger{t: t, dir: dir}
	f.ledger(func(kind string, body map[string]any) {
		if kind == checkpoint.KindUpdate && body["update"] == json.Number("3") {
			body["sampled_in"] = []int{1, 1}
		}
	})
	found(t, check(t, dir), u.Rollouts.Path, "line 4, task "+u.Tasks[1]+": the group is said to be from segment 1 and was not ready in checkpoints/000002")
	f.ledger(func(kind string, body map[string]any) {
		if kind == checkpoint.KindUpdate && body["update"] == json.Number("3") {
			body["sampled_in"] = []int{1, 2}
		}
	})
	if report := check(t, dir); !report.OK() {
		t.Fatal(text(t, report))
	}
	f.lines(filepath.ToSlash(u.Rollouts.Path), func(lines []map[string]any) []map[string]any {
		lines[0]["prompt"] = []int{3, 2, 1}
		return lines
	})
	found(t, check(t, dir), u.Rollouts.Path, "line 1, task "+u.Tasks[0]+": the group is said to be from segment 1 and was not ready")
}

// Groups that were dropped are part of what was done: they are graded again and enter the digest.
func TestDroppedGroups(t *testing.T) {
	p := program
	p.Drop = true
	dir := write(t, p, 4)
	report := check(t, dir)
	if !report.OK() {
		t.Fatal(text(t, report))
	}
	rec, err := checkpoint.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	var u *checkpoint.Update
	for i := range rec.History.Updates {
		if rec.History.Updates[i].Dropped != nil {
			u = &rec.History.Updates[i]
		}
	}
	if u == nil {
		t.Fatal("no group was dropped")
	}
	f := forger{t: t, dir: dir}
	f.ledger(func(kind string, body map[string]any) {
		if kind == checkpoint.KindUpdate && body["update"] == json.Number(fmt.Sprint(u.Update)) {
			body["metrics"].(map[string]any)["groups_dropped"] = 0
		}
	})
	found(t, check(t, dir), "ledger.jsonl", fmt.Sprintf("metric groups_dropped of update %d: expected %d, found 0", u.Update, len(u.DroppedTasks)))
	dir = write(t, p, 4)
	f = forger{t: t, dir: dir}
	f.lines(u.Dropped.Path, func(lines []map[string]any) []map[string]any {
		lines[1]["prompt"] = []int{3, 2, 1}
		return lines
	})
	if again := check(t, dir); !again.OK() || again.Digest == report.Digest {
		t.Errorf("with another dropped completion the digest is the same, or nothing holds:\n%s", text(t, again))
	}
	f.lines(u.Dropped.Path, func(lines []map[string]any) []map[string]any {
		lines[1]["value"] = 0.5
		return lines
	})
	found(t, check(t, dir), u.Dropped.Path, "line 2, task "+u.DroppedTasks[0]+": value: expected")
	f.lines(u.Dropped.Path, func(lines []map[string]any) []map[string]any { return lines[:2] })
	found(t, check(t, dir), u.Rollouts.Path, "dropped groups: 2 completions, expected ")
}
