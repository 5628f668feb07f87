package verify

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/grouper-rl/grouper/checkpoint"
)

// ancestor is a run that a forked run goes back to.
type ancestor struct {
	dir   string // from the run directory that is verified
	after int    // the last segment that it has from its own parent
}

// findParents finds the directories of the runs that a forked run goes back to. What these have done up to the fork counts
// in it, and its own directory has only their ledgers.
func (v *verifier) findParents(ctx context.Context) {
	run := v.run
	for dir := v.dir; run.Parent != nil; {
		parent, err := run.LocateParent(dir, v.opts.Parents...)
		var rec *checkpoint.Record
		if err == nil {
			rec, err = checkpoint.Read(parent)
		}
		switch {
		case errors.Is(err, checkpoint.ErrNoParent):
			v.note("%v: what it did up to update %d stands in the ledger, and its completions were not checked", err, run.Parent.Update)
		case err != nil:
			v.fails("parent", err)
		}
		if err != nil {
			v.lost = err
			return
		}
		v.ancestors = append(v.ancestors, ancestor{v.relative(parent), rec.History.Inherited})
		v.checked("parent: %s is the run that was forked at update %d of segment %d", v.relative(parent), run.Parent.Update, run.Parent.Segment)
		dir, run = parent, &rec.Run
	}
	v.fullParents(ctx)
}

// fullParents verifies all that the nearest of these directories holds, and with it the others.
func (v *verifier) fullParents(ctx context.Context) {
	if !v.opts.Full || len(v.ancestors) == 0 {
		return
	}
	dir := v.ancestors[0].dir
	opts := v.opts
	opts.Key = nil // the child's receipts, which are signed, hang on the parent's ledger up to the fork
	report, err := Run(ctx, v.path(dir), opts)
	if err != nil {
		v.fails("parent", err)
		return
	}
	for _, f := range report.Findings {
		f.File = dir + "/" + f.File
		v.find(f)
	}
	for _, n := range report.Notes {
		v.note("%s: %s", dir, n)
	}
	v.checked("parent: everything in %s", dir)
}

// relative is a directory as seen from the run directory.
func (v *verifier) relative(dir string) string {
	from, err := filepath.Abs(v.dir)
	if err == nil {
		if dir, err = filepath.Abs(dir); err == nil {
			var rel string
			if rel, err = filepath.Rel(from, dir); err == nil {
				dir = rel
			}
		}
	}
	return filepath.ToSlash(dir)
}

// at is the path, from the run directory, of what a segment has recorded; false: it is in a directory that is not there.
func (v *verifier) at(segment int, path string) (string, bool) {
	if segment > v.history.Inherited {
		return path, true
	}
	for _, a := range v.ancestors {
		if segment > a.after {
			return a.dir + "/" + path, true
		}
	}
	return path, false
}

// updateAt is an update with the paths of its files from the run directory.
func (v *verifier) updateAt(u checkpoint.Update) (checkpoint.Update, bool) {
	var ok bool
	u.Rollouts.Path, ok = v.at(u.Segment, u.Rollouts.Path)
	if u.Dropped != nil {
		dropped := *u.Dropped
		dropped.Path, _ = v.at(u.Segment, dropped.Path)
		u.Dropped = &dropped
	}
	return u, ok
}

// parentLedger is where events stand that were copied from a parent's ledger.
var parentLedger = place{file: "parent/ledger.jsonl"}

// inheritedUpdates checks the parents' updates that count, as the run's own are.
func (v *verifier) inheritedUpdates(ctx context.Context, held map[string]bool) {
	updates, completions := 0, 0
	for _, u := range v.history.Updates {
		u, there := v.updateAt(u)
		if u.Segment > v.history.Inherited || !there {
			continue
		}
		updates++
		v.digest(u.Rollouts.Path, u.Rollouts.SHA256)
		if u.Dropped != nil {
			v.digest(u.Dropped.Path, u.Dropped.SHA256)
		}
		n, _ := v.update(ctx, parentLedger, u, held)
		completions += n
	}
	if updates > 0 {
		v.checked("parent: %d updates that count here, %d completions%s", updates, completions, v.graded())
	}
}

// inheritedEvaluations checks the parents' evaluations that count, as the run's own are.
func (v *verifier) inheritedEvaluations(ctx context.Context) {
	evaluations, completions := 0, 0
	for _, e := range v.history.Evaluations {
		var there bool
		e.Completions.Path, there = v.at(e.Segment, e.Completions.Path)
		if e.Segment > v.history.Inherited || !there {
			continue
		}
		evaluations++
		v.digest(e.Completions.Path, e.Completions.SHA256)
		lines, ok := v.lines(ctx, e.Completions)
		if !ok {
			continue
		}
		completions += len(lines)
		v.evaluation(parentLedger, e, lines)
		v.sampled = append(v.sampled, fingerprints(e, lines))
	}
	if evaluations > 0 {
		v.checked("parent: %d evaluations that count here, %d completions%s", evaluations, completions, v.graded())
	}
}

// parentFiles finds what is in a forked run's copies of its parents' records and does not belong there.
func (v *verifier) parentFiles() {
	for folder, run := "parent", v.run; run.Parent != nil; folder += "/parent" {
		entries, err := os.ReadDir(v.path(folder))
		if err != nil {
			v.fails(folder, err)
			return
		}
		above, err := checkpoint.ReadRunFile(v.path(folder))
		if err != nil {
			v.fails(folder+"/run.json", err)
			return
		}
		for _, e := range entries {
			known := e.Name() == "run.json" || e.Name() == "ledger.jsonl" || e.Name() == "parent" && above.Parent != nil
			if !known {
				v.find(Finding{File: folder + "/" + e.Name(), What: "it is no part of what a fork copies of its parent"})
			}
		}
		run = above
	}
}
