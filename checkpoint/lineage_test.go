package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
)

func lineage(t *testing.T, dir string, parents ...string) (*checkpoint.Lineage, string) {
	t.Helper()
	l, err := checkpoint.ReadLineage(dir, parents...)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := l.Write(&b); err != nil {
		t.Fatal(err)
	}
	return l, b.String()
}

// Whoever reads a published run must see at a glance which work made the result, and what was done besides.
func TestLineage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "run")
	parent := program
	parent.Updates, parent.Stop, parent.Skip = 8, 5, 4
	goOn(t, parent, dir)
	branch := program
	branch.Updates, branch.Stop, branch.Twist = 8, 6, 1
	branch.At = &checkpoint.Restore{Update: 4, Reason: "hotter sampling"}
	goOn(t, branch, dir)
	last := program
	last.Updates = 8
	last.At = &checkpoint.Restore{Segment: 1, Update: 4, Reason: "interrupted"}
	last.Stop = 8 // before it says that it is finished
	goOn(t, last, dir)
	goOn(t, testrunAt(8), dir)
	l, text := lineage(t, dir)
	const want = `segment 1: start
│   updates 1 to 5: 4 retained, 1 rolled back; 24 responses consumed, 6 excluded
│   evaluated: 0 2
├── segment 2 from update 4: hotter sampling
│       updates 5 to 6: rolled back, 12 responses excluded
│       evaluated excluded: 4 6
└── segment 3 from update 4: interrupted
    │   updates 5 to 8: retained, 24 responses consumed
    │   evaluated: 4 6 8
    └── segment 4 from update 8: resume, finished
            no updates

retained: 8 updates, 48 responses consumed
rolled back: 3 updates, 18 responses preserved and excluded
`
	if text != want {
		t.Errorf("the lineage is\n%s\nexpected\n%s", text, want)
	}
	if s := l.Segments[0]; s.First != 1 || s.Last != 5 || s.Retained != (checkpoint.Work{Updates: 4, Responses: 24}) || len(s.Saved) != 3 {
		t.Errorf("segment 1 is %+v", s)
	}
}

func testrunAt(updates int) (p testrun.Program) {
	p = program
	p.Updates = updates
	return p
}

// The same over several directories; where one is not there, or has changed, that has to be said.
func TestLineageOverDirectories(t *testing.T) {
	t.Parallel()
	parent := finished(t, program)
	child := forked(t, parent, checkpoint.Restore{Update: 2, Reason: "another machine"}, "child")
	_, text := lineage(t, child)
	if !strings.Contains(text, "retained: 2 updates, 12 responses consumed so far; the run is not finished") {
		t.Errorf("of a fork that has not begun:\n%s", text)
	}
	goOn(t, testrunAt(6), child)
	goOn(t, testrunAt(5), parent)
	l, text := lineage(t, child)
	const want = `forked from ../run at update 2 of segment 1: another machine (it has recorded 3 events since, which are no part of this run)

segment 1: start, finished, in ../run
│   updates 1 to 4: 2 retained, 2 rolled back; 12 responses consumed, 12 excluded
│   evaluated: 0 2
│   evaluated excluded: 4
└── segment 2 from update 2: another machine, finished
        updates 3 to 6: retained, 24 responses consumed
        evaluated: 4 6

retained: 6 updates, 36 responses consumed
rolled back: 2 updates, 12 responses preserved and excluded
`
	if text != want || l.Changed() != nil {
		t.Errorf("the lineage is\n%s\nexpected\n%s", text, want)
	}
	grandchild := forked(t, child, checkpoint.Restore{Update: 6}, "grandchild")
	goOn(t, testrunAt(7), grandchild)
	if _, text := lineage(t, grandchild); strings.Count(text, "forked from") != 2 || !strings.Contains(text, "retained: 7 updates") {
		t.Errorf("of three directories:\n%s", text)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(parent, moved); err != nil {
		t.Fatal(err)
	}
	l, text = lineage(t, grandchild)
	if !errors.Is(l.Directories[2].Err, checkpoint.ErrNoParent) || l.Changed() != nil || !strings.Contains(text, "the parent run is not there") || !strings.Contains(text, "retained: 7 updates") {
		t.Errorf("without the first directory:\n%s", text)
	}
	if l, text = lineage(t, grandchild, moved); l.Directories[2].Err != nil || strings.Contains(text, "not there") {
		t.Errorf("with the first directory elsewhere:\n%s", text)
	}
	replace(t, filepath.Join(moved, "ledger.jsonl"), `"update":1`, `"update":7`)
	if l, text = lineage(t, grandchild, moved); !errors.Is(l.Changed(), checkpoint.ErrDamaged) || !strings.Contains(text, "the parent run in ") {
		t.Errorf("with a changed first directory:\n%s", text)
	}
}

// A run that went on with another backend is not bit for bit that of one backend: the tree has to show where.
func TestLineageShowsBackends(t *testing.T) {
	t.Parallel()
	on := func(n int, backend string) checkpoint.LineageSegment {
		return checkpoint.LineageSegment{Segment: checkpoint.Segment{Segment: n, Parent: n - 1, Reason: "x", Versions: map[string]string{"backend": backend}}}
	}
	l := checkpoint.Lineage{Directories: make([]checkpoint.LineageDirectory, 1), Segments: []checkpoint.LineageSegment{on(1, "go"), on(2, "cuda")}}
	var b strings.Builder
	if err := l.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"segment 1: x, on go\n", "segment 2 from update 0: x, on cuda\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the lineage does not say %q:\n%s", want, b.String())
		}
	}
}
