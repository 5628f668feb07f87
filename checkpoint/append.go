package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

const (
	runName    = "run.json"
	ledgerName = "ledger.jsonl"
)

// ledger is the open end of ledger.jsonl.
type ledger struct {
	disk   disk
	path   string
	file   diskFile
	size   int64  // of what is durable
	seq    int    // of the last event
	prev   string // its hash
	first  string // the first event's prev
	broken error  // an append failed in such a way that only opening again can tell what was written
}

// readLedger reads the ledger, repairs an unfinished last line and opens it for appending.
func (r *Run) readLedger() ([]Event, error) {
	l := &ledger{disk: r.disk, path: r.path(ledgerName)}
	events, torn, err := readLedgerFile(l.path)
	if err != nil {
		return nil, err
	}
	for _, e := range events {
		l.size += int64(len(e.line()))
	}
	newline := false
	if len(torn) > 0 {
		if e, err := parseEvent(torn); err == nil && follows(e, events) {
			events = append(events, e) // only the newline is missing
			newline = true
			r.note("completed line %d of %s, which had no newline", e.Seq, ledgerName)
		} else {
			if len(events) == 0 {
				if err := r.checkTorn(torn); err != nil {
					return nil, err
				}
			}
			if err := r.disk.Truncate(l.path, l.size); err != nil {
				return nil, err
			}
			r.note("dropped %d bytes at the end of %s, an event that was never finished", len(torn), ledgerName)
		}
	}
	if n := len(events); n > 0 {
		l.seq, l.prev, l.first = n, events[n-1].Hash, events[0].Prev
	}
	if l.file, err = r.disk.Append(l.path); err != nil {
		return nil, err
	}
	r.ledger = l
	if newline {
		l.size += int64(len(torn))
		if err := l.write([]byte{'\n'}); err != nil {
			return nil, err
		}
	}
	return events, nil // the name of a new ledger becomes durable with run.json, before the first event
}

// checkTorn refuses to cut a ledger to nothing unless a crash during the very first append left what is there.
func (r *Run) checkTorn(torn []byte) error {
	file, err := startFile(r.dir)
	begins := firstEvent
	if file != nil && file.Parent != nil {
		begins = firstSegment
	}
	if err == nil && (file == nil || !beginsLedger(torn, begins)) {
		err = errors.New("it is no event, and no unfinished first one")
	}
	if err != nil {
		return &LedgerError{1, err.Error()}
	}
	return nil
}

func follows(e Event, events []Event) bool {
	n := len(events)
	return e.Seq == n+1 && (n == 0 || e.Prev == events[n-1].Hash)
}

func readLedgerFile(path string) ([]Event, []byte, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	return ReadLedger(f, "")
}

// append makes an event durable.
func (l *ledger) append(e Event) error {
	if l.broken != nil {
		return l.broken
	}
	if err := l.write(e.line()); err != nil {
		return err
	}
	if l.seq == 0 {
		l.first = e.Prev
	}
	l.seq, l.prev = e.Seq, e.Hash
	return nil
}

// write appends and syncs. What a failed write has left is cut off again; if that fails too, or if a sync fails, nobody
// knows what is on the disk, and nothing more is appended.
func (l *ledger) write(data []byte) error {
	if _, err := l.file.Write(data); err != nil {
		if cut := l.disk.Truncate(l.path, l.size); cut != nil {
			l.broken = fmt.Errorf("%s could not be written before: %w", ledgerName, err)
		}
		return fmt.Errorf("%s: %w", ledgerName, err)
	}
	if err := l.file.Sync(); err != nil {
		l.broken = fmt.Errorf("%s could not be synced before: %w", ledgerName, err)
		return fmt.Errorf("%s: %w", ledgerName, err)
	}
	l.size += int64(len(data))
	return nil
}

func (l *ledger) close() error { return l.file.Close() }
