package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Record is a run directory as it was read at one instant, without a lock.
type Record struct {
	Run     RunFile
	Events  []Event // of the directory's own ledger
	History History
	Torn    []byte  // an unfinished line at the ledger's end; a running program may be writing it
	Parent  *Record // the run that this one was forked from, as it was then; nil: none
}

// Read reads run.json and the ledger, and the copies of the parent's if the run was forked, and checks the hash chain. The
// other files are not looked at. A run that has recorded nothing is [ErrNotBegun], but for one that was forked: that has what it was forked from.
func Read(dir string) (*Record, error) {
	rec, err := readRecord(dir)
	if err != nil {
		return nil, err
	}
	if len(rec.Events) == 0 && rec.Run.Parent == nil {
		return nil, fmt.Errorf("%w: its ledger has no event yet", ErrNotBegun)
	}
	h := &History{}
	if rec.Run.Parent != nil {
		if rec.Parent, err = readParent(dir, &rec.Run); err != nil {
			return nil, err
		}
		if h, err = rec.Parent.History.fork(rec.Run.Parent); err != nil {
			return nil, err
		}
	}
	if err := h.Follow(rec.Events); err != nil {
		return nil, err
	}
	rec.History = *h
	return rec, nil
}

// readRecord reads run.json and the ledger.
func readRecord(dir string) (*Record, error) {
	data, err := readRunFile(dir)
	if err != nil {
		return nil, err
	}
	run, err := parseRunFile(data)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(filepath.Join(dir, ledgerName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: it has %s and no %s: %w", ErrDamaged, runName, ledgerName, err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rec := &Record{Run: *run}
	rec.Events, rec.Torn, err = ReadLedger(f, run.Start(data))
	return rec, err
}

// readParent reads what a forked run's directory has of its parent and checks that it is what run.json says.
func readParent(dir string, run *RunFile) (*Record, error) {
	damaged := func(err error) error { return fmt.Errorf("%w: %s: %w", ErrDamaged, parentName, err) }
	dir = filepath.Join(dir, parentName)
	rec, err := Read(dir)
	if err != nil {
		return nil, damaged(err)
	}
	if err := run.Parent.check(rec); err != nil {
		return nil, damaged(err)
	}
	if len(rec.Torn) > 0 || len(rec.Events) > run.Parent.Head.Seq {
		return nil, damaged(fmt.Errorf("%s has more than the %d events that the fork was made after", ledgerName, run.Parent.Head.Seq))
	}
	a, err := marshal(rec.Run.Files)
	if err != nil {
		return nil, err
	}
	b, err := marshal(run.Files)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(a, b) {
		return nil, damaged(fmt.Errorf("%s names another bank than the run's", runName))
	}
	return rec, nil
}
