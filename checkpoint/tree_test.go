package checkpoint_test

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
)

// try runs a program in a directory and says how it ended.
func try(t *testing.T, p testrun.Program, dir string) error {
	t.Helper()
	r, err := checkpoint.OpenOn(dir, newFaulty(0, false), time.Now)
	if err != nil {
		return err
	}
	return errors.Join(p.Run(t.Context(), r), r.Close())
}

func read(t *testing.T, dir string) *checkpoint.Record {
	t.Helper()
	rec, err := checkpoint.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// reference is a run as the published ones were: 100 updates of eight tasks with eight completions each, sampled one update
// ahead, and checkpoints that hold five of the next eight groups.
var reference = testrun.Program{Updates: 100, Every: 10, Seed: 7, Tasks: 8, Group: 8, Lag: 1, Ready: 5}

// A run that was interrupted, continued by a second one and tried out another way in between is published with exact counts:
// 100 updates on 6,400 completions, and what was done besides is there to be seen and in no figure.
func TestReferenceScenario(t *testing.T) {
	t.Parallel()
	want := verified(t, finished(t, reference))
	dir := filepath.Join(t.TempDir(), "run")
	parent := reference
	parent.Stop, parent.Skip = 93, 90 // the evaluation of update 90 was under way
	goOn(t, parent, dir)
	if h := read(t, dir).History; h.Update() != 93 || h.Finished {
		t.Fatalf("the parent has %d updates", h.Update())
	}
	branch := reference
	branch.At = &checkpoint.Restore{Segment: 1, Update: 90, Reason: "another sampling"}
	branch.Twist, branch.Stop = 1, 95
	mentions(t, goOn(t, branch, dir), "going on from update 90 of segment 1: 3 updates, 192 responses are rolled back")
	final := reference
	final.At = &checkpoint.Restore{Segment: 1, Update: 90, Reason: "the parent was interrupted"}
	mentions(t, goOn(t, final, dir), "going on from update 90 of segment 1: 5 updates, 320 responses are rolled back")

	if got := verified(t, dir); got != want {
		t.Errorf("the logical digest is %s, of a run that nothing happened to %s", got, want)
	}
	rec := read(t, dir)
	h := rec.History
	if h.Retained() != (checkpoint.Work{Updates: 100, Responses: 6400}) || h.RolledBack != (checkpoint.Work{Updates: 8, Responses: 512}) || !h.Finished {
		t.Errorf("%+v are retained, %+v rolled back", h.Retained(), h.RolledBack)
	}
	for i, want := range []*checkpoint.Work{nil, {Updates: 3, Responses: 192}, {Updates: 5, Responses: 320}} {
		s := h.Segments[i]
		if !reflect.DeepEqual(s.RolledBack, want) || i > 0 && (s.Parent != 1 || s.Update != 90 || s.Checkpoint != "checkpoints/000090") {
			t.Errorf("segment %d is %+v, expected to roll back %+v", i+1, s, want)
		}
	}
	// The branch's evaluation of update 90 does not count, though it is of the same weights.
	if e, ok := h.Evaluation(90); !ok || e.Segment != 3 {
		t.Errorf("the evaluation of update 90 is of segment %d", e.Segment)
	}
	last := rec.Events[slices.IndexFunc(rec.Events, func(e checkpoint.Event) bool {
		return e.Kind == checkpoint.KindSegment && strings.Contains(string(e.Body), `"segment":3`)
	}):]
	if last[1].Kind != checkpoint.KindEvaluation || last[2].Kind != checkpoint.KindUpdate {
		t.Errorf("segment 3 begins with an event of kind %q, then %q: the missing evaluation comes first", last[1].Kind, last[2].Kind)
	}
	// Five groups keep their identity, three are made again by the weights of update 89.
	u := h.Updates[90]
	if !reflect.DeepEqual(u.SampledIn, []int{1, 1, 1, 1, 1, 3, 3, 3}) || u.Weights != 89 || u.Segment != 3 {
		t.Errorf("update 91 is %+v", u)
	}
	state, _, err := checkpoint.OpenState(filepath.Join(dir, "checkpoints/000090"), "")
	if err != nil {
		t.Fatal(err)
	}
	defer state.Close()
	lines := readLines(t, filepath.Join(dir, u.Rollouts.Path))
	if len(state.Ready) != 40 || !reflect.DeepEqual(lines[:40], state.Ready) {
		t.Errorf("the %d completions that were ready are not those that update 91 trained on", len(state.Ready))
	}
	for _, u := range h.Updates {
		if u.Segment != 1 && u.Update <= 90 || u.Segment != 3 && u.Update > 90 {
			t.Errorf("update %d is of segment %d", u.Update, u.Segment)
		}
	}
}

func readLines(t *testing.T, path string) []checkpoint.Line {
	t.Helper()
	lines, _, err := checkpoint.ReadLines(open(t, path))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// Whoever tried out a branch must be able to come back to the trajectory that was left, all of it.
func TestBackToALeftTrajectory(t *testing.T) {
	want := verified(t, finished(t, program))
	dir := finished(t, program)
	branch := program
	branch.At, branch.Twist, branch.Updates = &checkpoint.Restore{Update: 2, Reason: "a try"}, 1, 6
	goOn(t, branch, dir)
	if h := read(t, dir).History; h.Update() != 6 || h.RolledBack.Updates != 2 || h.Evaluations[2].Segment != 2 {
		t.Errorf("the branch has %d updates, %+v rolled back", h.Update(), h.RolledBack)
	}
	if got := verified(t, dir); got == want {
		t.Error("the branch counts as the run that it left")
	}
	back := program
	back.At = &checkpoint.Restore{Segment: 1, Update: 4, Reason: "it was better"}
	goOn(t, back, dir)
	if got := verified(t, dir); got != want {
		t.Errorf("the digest is %s, before the branch it was %s", got, want)
	}
	h := read(t, dir).History
	if s := h.Segments[2]; s.Parent != 1 || *s.RolledBack != (checkpoint.Work{Updates: 4, Responses: 24}) || h.RolledBack.Updates != 4 {
		t.Errorf("segment 3 is %+v, %+v rolled back", s, h.RolledBack)
	}
	// And a plain resume goes on from where it is.
	program := program
	program.Updates = 5
	goOn(t, program, dir)
	if s := read(t, dir).History.Segments[3]; s.Parent != 3 || s.Update != 4 || s.RolledBack != nil || s.Reason != "resume" {
		t.Errorf("segment 4 is %+v", s)
	}
	verified(t, dir)
}

// A restore that cannot be done must say what can, and change nothing.
func TestImpossibleRestore(t *testing.T) {
	dir := finished(t, program)
	write(t, filepath.Join(dir, "checkpoints/000002/state.json"), []byte("{}"))
	before := tree(t, dir)
	for name, c := range map[string]struct {
		at   checkpoint.Restore
		want string
	}{
		"no reason":       {checkpoint.Restore{Update: 2}, `Restore.Reason is ""`},
		"no segment":      {checkpoint.Restore{Segment: 2, Update: 2, Reason: "x"}, "Restore.Segment is 2, allowed: 1 to 1"},
		"a later update":  {checkpoint.Restore{Update: 5, Reason: "x"}, "Restore.Update is 5: segment 1, which ended at update 4, has checkpoints of updates 0, 2, 4"},
		"not saved":       {checkpoint.Restore{Update: 3, Reason: "x"}, "update 3 has no checkpoint: segment 1, which ended at update 4, has checkpoints of updates 0, 2, 4"},
		"damaged":         {checkpoint.Restore{Update: 2, Reason: "x"}, "checkpoints/000002 cannot be restored: the run directory is damaged: state.json: 2 bytes"},
		"negative update": {checkpoint.Restore{Update: -1, Reason: "x"}, "Restore.Update is -1"},
	} {
		p := program
		p.At = &c.at
		if err := try(t, p, dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, expected one that says %q", name, err, c.want)
		}
	}
	after := tree(t, dir)
	for _, t := range []map[string]string{before, after} {
		delete(t, filepath.Join(dir, ".lock"))
	}
	if !maps.Equal(before, after) {
		t.Error("the directory has changed")
	}
	p := program
	p.At = &checkpoint.Restore{Update: 2, Reason: "x"}
	if err := try(t, p, filepath.Join(t.TempDir(), "new")); err == nil || !strings.Contains(err.Error(), "no run has begun here") {
		t.Errorf("in a new directory: %v", err)
	}
}

// A rollback that is misreported in the ledger is a false count of what was done.
func TestFalseRollback(t *testing.T) {
	for name, s := range map[string]checkpoint.Segment{
		"nothing":     {RolledBack: nil},
		"too little":  {RolledBack: &checkpoint.Work{Updates: 1, Responses: 6}},
		"responses":   {RolledBack: &checkpoint.Work{Updates: 2, Responses: 6}},
		"another one": {Parent: 3, RolledBack: &checkpoint.Work{Updates: 2, Responses: 12}},
		"no such":     {Checkpoint: "checkpoints/000003", RolledBack: &checkpoint.Work{Updates: 2, Responses: 12}},
		"true":        {RolledBack: &checkpoint.Work{Updates: 2, Responses: 12}},
	} {
		events := read(t, finished(t, program)).Events
		s.Segment, s.Update, s.Reason = 2, 2, "x"
		if s.Parent == 0 {
			s.Parent = 1
		}
		if s.Checkpoint == "" {
			s.Checkpoint = "checkpoints/000002"
		}
		e, err := checkpoint.NewEvent(len(events)+1, events[len(events)-1].Time, checkpoint.KindSegment, s, "")
		if err != nil {
			t.Fatal(err)
		}
		if err := new(checkpoint.History).Follow(append(events, e)); (err == nil) != (name == "true") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The tree must come out right whatever is restored from where: the same as from a plain model of segments.
func TestTreeOfSegments(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	type made struct{ update, segment int }
	lines := map[int][]made{} // by segment
	parent, from := 0, 0
	for segment, at := range []struct{ parent, update, updates int }{
		{0, 0, 4}, {1, 2, 3}, {1, 0, 2}, {2, 2, 5}, {4, 4, 4}, {3, 2, 3}, {4, 2, 4}, {1, 4, 6},
	} {
		segment++
		p := testrun.Program{Updates: at.updates, Every: 2, Seed: 7, Twist: int64(segment)}
		if segment > 1 {
			p.At = &checkpoint.Restore{Segment: at.parent, Update: at.update, Reason: "x"}
		}
		goOn(t, p, dir)
		parent, from = at.parent, at.update
		line := slices.Clone(lines[parent][:min(from, len(lines[parent]))])
		for u := from + 1; u <= at.updates; u++ {
			line = append(line, made{u, segment})
		}
		lines[segment] = line
		verified(t, dir)
		var got []made
		for _, u := range read(t, dir).History.Updates {
			got = append(got, made{u.Update, u.Segment})
		}
		if fmt.Sprint(got) != fmt.Sprint(line) {
			t.Fatalf("after segment %d the trajectory is %v, expected %v", segment, got, line)
		}
	}
}
