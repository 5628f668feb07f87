package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// checkOwn refuses a directory that has something in it and is no run directory, before anything in it is touched. A run
// directory has a run.json of this package or a ledger that begins with an event. Before run.json, which is the first file
// to get its name, there are only the lock, an empty ledger, run.json's temporary name, and folders with nothing in them.
func checkOwn(dir string) error {
	entries, err := os.ReadDir(dir) // before run.json is looked for: another process may be starting the run
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	file, reason := startFile(dir)
	if file != nil {
		return nil
	}
	if events, _, _ := readLedgerFile(filepath.Join(dir, ledgerName)); len(events) > 0 {
		return nil // a run that lost its run.json: beginning says so
	}
	if errors.Is(reason, ErrFormat) {
		return reason
	}
	for _, e := range entries {
		if foreign := foreignBeforeStart(dir, e); foreign != "" {
			err := fmt.Errorf("it is no run directory, and %s is in it, which no run has written: choose another directory (nothing has been changed)", foreign)
			if foreign == runName && reason != nil {
				err = fmt.Errorf("%w: %w", err, reason)
			}
			return err
		}
	}
	return nil
}

// lockContent is what the lock holds: the process, or nothing.
var lockContent = regexp.MustCompile(`^\d*\n?$`)

// foreignBeforeStart names what an entry has that does not come from the beginning of a run; "": nothing.
func foreignBeforeStart(dir string, e fs.DirEntry) string {
	path := filepath.Join(dir, e.Name())
	regular := e.Type().IsRegular()
	switch name := e.Name(); {
	case name == lockName && regular:
		if data, err := os.ReadFile(path); err == nil && lockContent.Match(data) {
			return ""
		}
	case name == ledgerName && regular:
		if info, err := e.Info(); err == nil && info.Size() == 0 {
			return ""
		}
	case name == temporary+runName && regular:
		return ""
	case slices.Contains(folders, name):
		inside, err := os.ReadDir(path)
		if err == nil && len(inside) == 0 {
			return ""
		}
		if err == nil {
			return name + "/" + inside[0].Name()
		}
	}
	return e.Name()
}

// startFile reads run.json if it is byte for byte as this package writes it. Without one both results are nil.
func startFile(dir string) (*RunFile, error) {
	data, err := os.ReadFile(filepath.Join(dir, runName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := parseRunFile(data)
	if err != nil {
		return nil, err
	}
	again, err := f.encode()
	if err == nil && (!bytes.Equal(again, data) || f.Grader.Source == "" || len(f.Files) == 0) {
		err = fmt.Errorf("%w: %s is not in the form in which it is written", ErrDamaged, runName)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// The names of unfinished records: files, and folders of checkpoints.
var (
	temporaryFile   = regexp.MustCompile(`^(rollouts/\.tmp-\d{6,}(\.s\d+(\.\d+)?)?(\.dropped)?\.jsonl\.zst|receipts/\.tmp-(evaluation|checkpoint|finished)-\d{6,}(\.s\d+(\.\d+)?)?\.json(\.sig)?|evals/\.tmp-\d{6,}(\.s\d+(\.\d+)?)?\.(jsonl\.zst|json))$`)
	temporaryFolder = regexp.MustCompile(`^checkpoints/\.tmp-\d{6,}$`)
)

// removeTemporary removes what unfinished writes left. Only what has exactly a name and a type that this package gives is
// removed; the rest is somebody else's.
func (r *Run) removeTemporary() error {
	file, err := startFile(r.dir)
	if err != nil {
		file = nil // beginning says what is wrong with it
	}
	ours := func(name string, e fs.DirEntry) bool {
		if e.IsDir() {
			return temporaryFolder.MatchString(name)
		}
		inBank := false
		if of, ok := strings.CutPrefix(name, "bank/"+temporary); ok && file != nil {
			_, inBank = file.Files[of]
		}
		return e.Type().IsRegular() && (name == temporary+runName || inBank || temporaryFile.MatchString(name))
	}
	for _, folder := range append([]string{"."}, folders...) {
		entries, err := os.ReadDir(r.path(folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			name := filepath.ToSlash(filepath.Join(folder, e.Name()))
			if !ours(name, e) {
				continue
			}
			if err := r.disk.RemoveAll(r.path(name)); err != nil {
				return err
			}
			r.note("removed %s, which was never finished", name)
		}
	}
	return nil
}

// checkStart finds what start would have to overwrite. What an unfinished start of this package has left may be replaced:
// run.json, which nothing hangs on as long as the ledger is empty, and the files of the bank that it names. A file of the
// bank that is as it will be written may stay. Anything else is an error.
func (r *Run) checkStart(bank map[string][]byte) error {
	left, err := startFile(r.dir)
	if err != nil {
		return fmt.Errorf("the ledger is empty, but %s exists and is no run's that was starting: choose another directory: %w", runName, err)
	}
	for _, folder := range folders {
		entries, err := os.ReadDir(r.path(folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			name := folder + "/" + e.Name()
			data, ours := bank[e.Name()]
			if !ours || folder != "bank" {
				return fmt.Errorf("%w: the ledger is empty, but %s exists: choose another directory", ErrDamaged, name)
			}
			got, err := fileDigest(r.path(name))
			if err != nil {
				return err
			}
			if got != hexDigest(data) && (left == nil || got != left.Files[e.Name()]) {
				return fmt.Errorf("%w: the ledger is empty, but %s exists with other content: choose another directory", ErrDamaged, name)
			}
		}
	}
	return nil
}

// checkForked finds what the first segment of a forked run would have to overwrite: with an empty ledger there is only what
// the fork has made.
func (r *Run) checkForked(file *RunFile) error {
	for _, folder := range folders[1:] {
		entries, err := os.ReadDir(r.path(folder))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if name := folder + "/" + e.Name(); name != file.Parent.Checkpoint {
				return fmt.Errorf("%w: the ledger is empty, but %s exists", ErrDamaged, name)
			}
		}
	}
	return nil
}

// How the ledger of every run begins, with zeros for the digits of the time, and how that of every run does that was not forked.
const (
	firstSegment = `{"seq":1,"time":"0000-00-00T00:00:00.000Z","kind":"segment","body":{"segment":`
	firstEvent   = firstSegment + `1,"parent":0,"update":0,"reason":"start"`
)

// beginsLedger says that an unfinished line is the beginning of a run's first event.
func beginsLedger(line []byte, firstEvent string) bool {
	at := strings.Index(firstEvent, "0000")
	for i := range min(len(line), len(firstEvent)) {
		digit := firstEvent[i] == '0' && i >= at && i < at+len(timeFormat)
		if digit && (line[i] < '0' || line[i] > '9') || !digit && line[i] != firstEvent[i] {
			return false
		}
	}
	return true
}
