package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/provenance"
	"github.com/grouper-rl/grouper/rescore"
)

// covered are the folders in which every file must be accounted for.
var covered = []string{"bank", "rollouts", "checkpoints", "evals", "receipts"}

func (v *verifier) path(name string) string { return filepath.Join(v.dir, filepath.FromSlash(name)) }

// bank checks the frozen tasks and indexes them.
func (v *verifier) bank() {
	for _, name := range slices.Sorted(maps.Keys(v.run.Files)) {
		v.digest("bank/"+name, v.run.Files[name])
	}
	bank, err := envs.OpenBank(os.DirFS(v.path("bank")))
	if err != nil {
		v.fails("bank", err)
		return
	}
	v.frozen, v.tasks = bank, map[string]envs.Task{}
	for _, part := range [][]envs.Task{bank.Train, bank.Validation, bank.Confirmation} {
		for _, task := range part {
			v.tasks[task.ID] = task
		}
	}
	v.checked("bank: %d files, %d training, %d validation, %d confirmation tasks, no task in two parts",
		len(v.run.Files), len(bank.Train), len(bank.Validation), len(bank.Confirmation))
	if plan := v.run.Plan.Evaluation; plan != nil {
		v.evaluationTasks(plan.Tasks, bank)
	}
}

// evaluationTasks checks that a run is evaluated on tasks of its bank that it is not trained on.
func (v *verifier) evaluationTasks(ids []string, bank *envs.Bank) {
	held := map[string][]envs.Task{"validation": bank.Validation, "confirmation": bank.Confirmation}
	for _, name := range slices.Sorted(maps.Keys(held)) {
		all := make([]string, len(held[name]))
		for i, task := range held[name] {
			all[i] = task.ID
		}
		if slices.Equal(ids, all) {
			return
		}
		in := slices.DeleteFunc(all, func(id string) bool { return !slices.Contains(ids, id) })
		if len(in) > 0 && slices.Equal(ids, in) {
			v.note("evaluations are on %d of the bank's %d %s tasks", len(in), len(held[name]), name)
			return
		}
	}
	v.find(Finding{File: "run.json", What: "the evaluation tasks are not tasks of one held-out part of the bank, in its order"})
}

// digest checks a file's SHA-256; a damaged or missing file is a finding.
func (v *verifier) digest(name, want string) bool {
	got, err := fileDigest(v.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.find(Finding{File: name, What: "it is missing"})
	case err != nil:
		v.fails(name, err)
	case got != want:
		v.find(Finding{File: name, What: "SHA-256", Expected: want, Found: got})
	default:
		return true
	}
	return false
}

func fileDigest(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// files checks the digest of every file that an event names, and that nothing else is there.
func (v *verifier) files() {
	named := map[string]string{} // digests by path; "": checked elsewhere
	for name := range v.run.Files {
		named["bank/"+name] = ""
	}
	for _, d := range v.due {
		if d.Signer != "" {
			named[d.File.Path+signatureExt] = ""
		}
	}
	v.saved = map[string]checkpoint.Saved{}
	folders := map[string]bool{}
	if p := v.run.Parent; p != nil { // the fork brought this along
		for _, c := range v.history.Checkpoints {
			if c.Path == p.Checkpoint && c.Manifest == p.Manifest {
				v.saved[c.Path], folders[c.Path] = c, true
			}
		}
	}
	figures, pruned, contents := map[string]*checkpoint.Event{}, map[string]bool{}, map[string]string{}
	for i := range v.events {
		e := &v.events[i]
		files, saved, err := e.Names()
		if err != nil {
			v.find(Finding{File: "ledger.jsonl", Line: e.Seq, What: err.Error()})
			continue
		}
		if saved != nil { // again, perhaps, after a segment that passed it over
			maps.DeleteFunc(named, func(name, _ string) bool { return strings.HasPrefix(name, saved.Path+"/") })
			v.saved[saved.Path], folders[saved.Path] = *saved, true
			delete(pruned, saved.Path)
			v.inside(e, saved.Path)
			v.once(e, contents, saved.Path, saved.Manifest)
		}
		if e.Kind == checkpoint.KindSegment {
			v.passedOver(e)
		}
		for _, path := range prunedBy(e) {
			delete(v.saved, path)
			pruned[path] = true
		}
		for _, f := range files {
			named[f.Path] = f.SHA256
			v.inside(e, f.Path)
			v.once(e, contents, f.Path, f.SHA256)
		}
		if e.Kind == checkpoint.KindEvaluation {
			figures[files[1].Path] = e
		}
	}
	for path := range folders {
		if _, whole := v.saved[path]; !whole {
			folders[path] = pruned[path] // otherwise its files are named one by one
		}
	}
	v.prunedLeft(pruned)
	checked := 0
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if named[name] == "" {
			continue
		}
		checked++
		if !v.digest(name, named[name]) && figures[name] != nil {
			v.compareFigures(name, figures[name])
		}
	}
	for _, folder := range covered {
		switch info, err := os.Stat(v.path(folder)); { // it may be a link to another disk
		case err != nil:
			v.fails(folder, err)
		case !info.IsDir():
			v.find(Finding{File: folder, What: "it is not a folder"})
		default:
			v.below(folder, named, folders)
		}
	}
	v.checked("files: SHA-256 of %d files besides checkpoints, no file that the ledger does not name", checked)
	v.uncovered()
}

// inside checks that what an event names is part of the run directory's record.
func (v *verifier) inside(e *checkpoint.Event, name string) {
	folder, _, in := strings.Cut(name, "/")
	if !in || !fs.ValidPath(name) || folder == "bank" || !slices.Contains(covered, folder) {
		v.find(Finding{File: "ledger.jsonl", Line: e.Seq, What: fmt.Sprintf("it names %q, which is no place of a record", name)})
	}
}

// once checks that a name has one content, whatever the events are: work that is done again and comes out otherwise gets another
// name. Damaged checkpoints, and what a crash left in one, are named as they were found.
func (v *verifier) once(e *checkpoint.Event, contents map[string]string, name, digest string) {
	if e.Kind == checkpoint.KindSegment {
		return
	}
	if had, twice := contents[name]; twice && had != digest {
		v.find(Finding{File: "ledger.jsonl", Line: e.Seq, What: fmt.Sprintf("it names %s with another content than an event before it", name), Expected: had, Found: digest})
	}
	contents[name] = digest
}

// below finds what is in a folder and named by no event. What is in a whole checkpoint is checked with it (folders: true).
func (v *verifier) below(folder string, named map[string]string, folders map[string]bool) {
	entries, err := os.ReadDir(v.path(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return // a running program has finished it
	}
	if err != nil {
		v.fails(folder, err)
		return
	}
	if len(entries) == 0 && strings.Contains(folder, "/") {
		parts := strings.SplitN(folder, "/", 3)
		if _, passedOver := folders[parts[0]+"/"+parts[1]]; !passedOver { // those are left as they were found
			v.unknown(folder)
		}
	}
	for _, e := range entries {
		name := folder + "/" + e.Name()
		isDir := e.IsDir()
		if info, err := os.Stat(v.path(name)); err == nil && !strings.Contains(folder, "/") {
			isDir = info.IsDir() // a checkpoint may be a link to another disk; nothing deeper is, so there are no cycles
		}
		switch _, known := named[name]; {
		case folders[name] || known && !isDir:
		case isDir:
			v.below(name, named, folders)
		default:
			v.unknown(name)
		}
	}
}

// unfinishedName are the temporary names of records.
var unfinishedName = regexp.MustCompile(`^(rollouts|checkpoints|evals)/\.tmp-\d{6,}(\.|/|$)|^receipts/\.tmp-(evaluation|checkpoint|finished)-\d{6,}\.`)

// unknown judges a file that no event names: what the next event would have named is unfinished work.
func (v *verifier) unknown(name string) {
	parts := strings.Split(name, "/")
	if unfinishedName.MatchString(name) || v.next(parts[0], parts[1]) || parts[0] == "receipts" && v.unfinishedReceipt(name) {
		v.note("%s is unfinished work: nothing counts it, and the run makes it again", name)
		return
	}
	if v.later()[name] || v.later()[strings.Join(parts[:len(parts)-1], "/")] {
		return // a running program has recorded it in the meantime
	}
	what := "no event of the ledger names it"
	if parts[0] == "receipts" {
		what = v.unnamedReceipt(name)
	}
	v.find(Finding{File: name, What: what})
}

// recordNumber is the update that a record's name begins with.
var recordNumber = regexp.MustCompile(`^(\d{6,})(\.|$)`)

// next says whether a name is one that the next events could give. Checkpoints are written while updates go on.
func (v *verifier) next(folder, name string) bool {
	number := recordNumber.FindStringSubmatch(name)
	if number == nil || v.history.Finished {
		return false
	}
	update, err := strconv.Atoi(number[1])
	if err != nil || fmt.Sprintf("%06d", update) != number[1] {
		return false
	}
	last := v.history.Update()
	switch folder {
	case "rollouts":
		return update == last+1
	case "checkpoints":
		segment := v.history.Segments[len(v.history.Segments)-1]
		saved := slices.ContainsFunc(v.history.Checkpoints, func(c checkpoint.Saved) bool { return c.Update == update })
		return !saved && update >= segment.Update && update <= last
	case "evals":
		_, evaluated := v.history.Evaluation(update)
		return !evaluated && update <= last
	}
	return false
}

// later names what the ledger has come to name since it was read first. It is asked only once there is something unknown.
func (v *verifier) later() map[string]bool {
	if v.grown != nil {
		return v.grown
	}
	v.grown, v.latest = map[string]bool{}, v.events
	rec, err := checkpoint.Read(v.dir)
	if err != nil || len(rec.Events) <= len(v.events) || rec.Events[len(v.events)-1].Hash != v.events[len(v.events)-1].Hash {
		return v.grown
	}
	v.latest = rec.Events
	for _, e := range rec.Events[len(v.events):] {
		files, saved, err := e.Names()
		if err != nil {
			continue
		}
		for _, f := range files {
			v.grown[f.Path], v.grown[f.Path+signatureExt] = true, true
		}
		if saved != nil {
			v.grown[saved.Path] = true
		}
	}
	return v.grown
}

// uncovered names what else lies in the run directory.
func (v *verifier) uncovered() {
	entries, err := os.ReadDir(v.dir)
	if err != nil {
		v.fails(".", err)
		return
	}
	v.parentFiles()
	var others []string
	for _, e := range entries {
		if e.Name() == "parent" && v.run.Parent != nil {
			continue
		}
		if !slices.Contains(covered, e.Name()) && !slices.Contains([]string{"run.json", "ledger.jsonl", ".lock", rescore.Folder, provenance.Name}, e.Name()) {
			others = append(others, e.Name())
		}
	}
	if len(others) > 0 {
		v.note("not part of the record and not checked: %s", strings.Join(others, ", "))
	}
}

// compareFigures says which figures of evals/NNNNNN.json are not those of the ledger.
func (v *verifier) compareFigures(name string, e *checkpoint.Event) {
	data, err := os.ReadFile(v.path(name))
	if err != nil {
		return // its digest is a finding already
	}
	var want, got map[string]any
	if json.Unmarshal(e.Body, &want) != nil || json.Unmarshal(data, &got) != nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if !reflect.DeepEqual(want[key], got[key]) {
			v.find(Finding{File: name, What: key, Expected: short(want[key]), Found: short(got[key])})
		}
	}
}

func short(v any) string {
	data, err := json.Marshal(v)
	if err != nil || len(data) < 200 {
		return string(data)
	}
	return string(data[:200]) + "…"
}
