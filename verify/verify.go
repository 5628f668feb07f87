// Package verify checks a run directory offline: that every byte is what the ledger says, that every reward is what the
// grader gives when it grades the raw completion again, and that every figure follows from the completions.
//
// # What is checked
//
// Always: the hash chain from run.json and the bank on; the digest of every file, and that there is no other; that events can
// follow each other as they do, rollbacks with their counts included; tasks, samples, seeds, weights and settings against the plan; rewards,
// values and labels by grading again; metrics and figures from the completions; the weights in checkpoints tensor by tensor, and
// evaluations against them; that no evaluation is left out, none is trained on, and none is another's completions presented again; every
// receipt against what follows from the record; signatures, wherever a segment says that it signs; labels of other graders against
// the completions that they are of. With [Options.Full] also all other tensors, the bank against its source, and everything in a forked run's
// parents. With [Options.Key] also that all of it was signed by that key, up to the end.
//
// Who can write the directory and grade can also make a record that holds of things that did not happen: other facts of the
// host, another learning rate, other completions with their rewards. The tests have a list of such lies. Against those
// there are signatures, which only tell that the owner of the key recorded it, at that place in the ledger; and the logical digest, which
// whoever runs the same program again must get.
//
// # The logical digest
//
// Two runs with the same logical content have the same digest, however often either was interrupted, restored or saved. It is
// the SHA-256, in hex, of this text, each line ended by a newline, all digests SHA-256 in hex:
//
//	grouper logical digest 1
//	field <path> <JSON>                     each of RunFile.Fields, sorted by path: settings without the changeable
//	                                        ones (budgets), seed, plan, grader, digests of what the run started from, bank files
//	update <n> <digest> <content>           each retained update, in order; <content> of the dropped groups follows if there are any
//	evaluation <n> <digest> <content>       each retained evaluation that the plan asks for, by update: the one with which a run
//	                                        ended that was given a larger budget afterwards is none of them
//
// An update's digest is taken of the JSON object {"update", "weights_update", "group_weights", "tasks", "dropped_tasks",
// "metrics"} as the ledger has these members, without those that it has not, without spaces; an evaluation's of its ledger
// body without "host", "receipt" and "completions". The content is the digest of the decompressed lines.
// Versions, times, facts of the host, file names, compression, segments, checkpoints and receipts do not enter.
package verify

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
)

// Options say how to verify.
type Options struct {
	// Grader makes the grader that run.json names. Its error is a finding: rewards that cannot be checked do not hold.
	// nil: rewards are not graded again, which the report says.
	Grader func(checkpoint.Grader) (envs.Grader, error)
	// Key demands that every receipt is signed by it and that the run is finished: what is signed cannot be made again without
	// the key, and only the last receipt says where the ledger ends. nil: signatures must hold, whosever they are.
	Key ed25519.PublicKey
	// Full checks not only the weights in checkpoints tensor by tensor, but all groups, and freezes the bank again from its source.
	Full bool
	// Parents are directories in which the parent of a forked run is looked for, before the one that run.json names.
	Parents []string
	// Source makes the source that a bank's manifest names, for Full. With nil, or where it does not know the source, the report
	// says that the bank was not made again.
	Source func(envs.Origin) (envs.Source, error)
}

// Finding is something that does not hold.
type Finding struct {
	File     string // relative to the run directory
	Line     int    // from 1; 0: the file as a whole
	Task     string // the task's id; "" where none is concerned
	What     string
	Expected string // "" where What says it all
	Found    string
}

func (f Finding) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ", line %d", f.Line)
	}
	if f.Task != "" {
		fmt.Fprintf(&b, ", task %s", f.Task)
	}
	fmt.Fprintf(&b, ": %s", f.What)
	if f.Expected != "" || f.Found != "" {
		fmt.Fprintf(&b, ": expected %s, found %s", f.Expected, f.Found)
	}
	return oneLine(b.String())
}

// oneLine shows control characters, which could forge lines of a report, as Go writes them.
func oneLine(s string) string {
	if !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}

// Report is the outcome of a verification.
type Report struct {
	Checked  []string  // what was checked, with counts
	Notes    []string  // what a person should know and what does hold
	Findings []Finding // what does not hold
	Digest   string    // the logical digest in hex; "" if there are findings, or if the parent of a forked run is not there
}

// OK says that everything holds.
func (r *Report) OK() bool { return len(r.Findings) == 0 }

// maxPrinted findings are printed; a run whose grader is wrong has thousands.
const maxPrinted = 200

// Write prints the report. The last line is "logical digest: sha256:…".
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	for _, c := range r.Checked {
		fmt.Fprintf(&b, "checked: %s\n", oneLine(c))
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", oneLine(n))
	}
	for i, f := range r.Findings {
		if i == maxPrinted {
			fmt.Fprintf(&b, "… and %d more\n", len(r.Findings)-i)
			break
		}
		fmt.Fprintf(&b, "DOES NOT HOLD: %s\n", f)
	}
	switch {
	case r.OK() && r.Digest == "":
		b.WriteString("everything that is here holds\nlogical digest: none, the completions of the parent run are not here\n")
	case r.OK():
		fmt.Fprintf(&b, "everything holds\nlogical digest: sha256:%s\n", r.Digest)
	default:
		noun := "findings"
		if len(r.Findings) == 1 {
			noun = "finding"
		}
		fmt.Fprintf(&b, "%d %s\nlogical digest: none, the record does not hold\n", len(r.Findings), noun)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// verifier carries a verification through its steps.
type verifier struct {
	dir     string
	opts    Options
	report  *Report
	run     *checkpoint.RunFile
	events  []checkpoint.Event
	history *checkpoint.History
	tasks   map[string]envs.Task // of the bank, by id; nil: it does not hold
	grader  envs.Grader
	saved   map[string]checkpoint.Saved // the checkpoints that must be whole, by path
	content map[string]string           // digests of decompressed lines, by path
	grown   map[string]bool             // see later
	latest  []checkpoint.Event          // see later

	due     []checkpoint.Due                      // the receipts that there must be
	refs    map[string][]checkpoint.CompletionRef // the completions of evaluations as receipts have them, by path
	sampled []sampled                             // of the evaluations, in the order of the ledger
	frozen  *envs.Bank                            // nil: it does not hold

	ancestors []ancestor // of a forked run, the nearest first
	lost      error      // why one of them is not among these
}

// Run verifies a run directory. It needs neither a backend nor the lock, and writes nothing. What does not hold is in the
// report; an error means that nothing could be verified: [checkpoint.ErrNoRun] of a folder that is no run directory,
// [checkpoint.ErrNotBegun] if the directory is only just being made.
func Run(ctx context.Context, dir string, opts Options) (*Report, error) {
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("verify: %w", err)
	} else if !info.IsDir() {
		return nil, fmt.Errorf("verify: %s is not a folder", dir)
	}
	if !begun(dir) {
		return nil, fmt.Errorf("verify: %s: %w: its ledger has no event yet, and nothing is recorded", dir, checkpoint.ErrNotBegun)
	}
	if _, err := checkpoint.ReadRunFile(dir); errors.Is(err, checkpoint.ErrNoRun) {
		return nil, fmt.Errorf("verify: %s: %w", dir, err)
	}
	v := &verifier{dir: dir, opts: opts, report: &Report{}, content: map[string]string{}, refs: map[string][]checkpoint.CompletionRef{}}
	if v.chain() {
		v.findParents(ctx)
		v.bank()
		v.regenerate(ctx)
		v.prepareGrader()
		v.files()
		v.checkpoints(ctx)
		v.updates(ctx)
		v.evaluations(ctx)
		v.replays()
		v.schedule()
		v.receipts()
		v.labels()
		v.provenance(ctx)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if v.report.OK() && v.lost == nil {
		digest, err := v.logicalDigest()
		if err != nil {
			return nil, fmt.Errorf("verify: %w", err)
		}
		v.report.Digest = digest
	}
	return v.report, nil
}

// begun is false for a directory that a program has opened, and its lock says so, or that was forked, in which the ledger
// has no whole line and no record is. Records without a ledger are for the report.
func begun(dir string) bool {
	forked := ""
	if run, err := checkpoint.ReadRunFile(dir); err == nil && run.Parent != nil {
		forked = run.Parent.Checkpoint
	}
	if _, err := os.Stat(filepath.Join(dir, ".lock")); errors.Is(err, fs.ErrNotExist) && forked == "" {
		return true
	}
	ledger, err := os.ReadFile(filepath.Join(dir, "ledger.jsonl"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) || bytes.IndexByte(ledger, '\n') >= 0 {
		return true // an unreadable ledger is a finding
	}
	for _, folder := range covered[1:] {
		entries, err := os.ReadDir(filepath.Join(dir, folder))
		entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return folder+"/"+e.Name() == forked })
		if len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

func (v *verifier) checked(format string, args ...any) {
	v.report.Checked = append(v.report.Checked, fmt.Sprintf(format, args...))
}

func (v *verifier) note(format string, args ...any) {
	v.report.Notes = append(v.report.Notes, fmt.Sprintf(format, args...))
}

func (v *verifier) find(f Finding) { v.report.Findings = append(v.report.Findings, f) }

// fails records an error as a finding about a file.
func (v *verifier) fails(file string, err error) { v.find(Finding{File: file, What: err.Error()}) }

// chain checks run.json and the ledger; false: nothing can be said about the rest.
func (v *verifier) chain() bool {
	data, err := os.ReadFile(v.path("run.json"))
	if err == nil {
		v.run, err = checkpoint.ReadRunFile(v.dir)
	}
	if err != nil {
		v.fails("run.json", err)
		return false
	}
	f, err := os.Open(v.path("ledger.jsonl"))
	if err != nil {
		v.fails("ledger.jsonl", err)
		return false
	}
	defer f.Close()
	events, torn, err := checkpoint.ReadLedger(f, "")
	if err == nil && len(events) > 0 {
		if v.history, err = checkpoint.NewHistory(v.dir, v.run); err != nil {
			v.fails("parent", err)
			return false
		}
		err = v.history.Follow(events)
	}
	var at *checkpoint.LedgerError
	switch {
	case errors.As(err, &at):
		v.find(Finding{File: "ledger.jsonl", Line: at.Line, What: at.Reason})
		return false
	case err != nil:
		v.fails("ledger.jsonl", err)
		return false
	case len(torn) > 0:
		v.find(Finding{File: "ledger.jsonl", Line: len(events) + 1, What: "the last line has no end: a crash left it, or a running program is writing it; opening the run repairs it"})
	}
	if len(events) == 0 {
		v.find(Finding{File: "ledger.jsonl", What: "it has no events"})
		return false
	}
	v.events = events
	if start := v.run.Start(data); events[0].Prev != start {
		v.find(Finding{File: "run.json", What: "the ledger does not begin with this file", Expected: events[0].Prev, Found: start})
	}
	begin, err := checkpoint.NewHistory(v.dir, v.run)
	if err == nil {
		v.due, err = checkpoint.Receipts(v.run, begin, events)
	}
	if err != nil {
		v.fails("ledger.jsonl", err) // what the history takes, Receipts takes
	}
	v.checked("run.json and ledger.jsonl: hash chain of %d events, %d segments", len(events), len(v.history.Segments)-v.history.Inherited)
	return true
}
