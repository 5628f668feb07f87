package checkpoint

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Run is an open run directory. One Run holds it at a time; its methods may be called concurrently.
type Run struct {
	dir    string
	disk   disk
	now    func() time.Time
	saving sync.Mutex // held while a checkpoint is written; taken before mu
	mu     sync.Mutex // guards what follows, and the order of the ledger

	lock      *lock
	ledger    *ledger
	file      *RunFile // nil before Begin
	begun     *Segment // what Begin has begun and not recorded: it is recorded before the first event after it; nil: it is recorded
	history   *History
	named     map[string]string // every path that any event names, with the last digest: of checkpoints the manifest's
	state     *State
	notes     []string
	mine      map[string]bool // files that this opening has written; until an event names one, it may be written again
	signer    crypto.Signer   // nil: receipts are not signed
	retention Retention
	behind    bool // the clock was found to be behind the ledger
}

// Open opens a run directory or creates it, and holds it until Close: a second Open fails with [ErrLocked]. It tidies up
// what a crash has left, an unfinished last line of the ledger and temporary names, and says so in [Run.Notes]. A directory
// with other content that is no run's is refused, and nothing in it is touched.
func Open(dir string) (*Run, error) { return open(dir, osDisk{}, time.Now) }

func open(dir string, d disk, now func() time.Time) (_ *Run, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("opening run directory %s: %w", dir, err)
		}
	}()
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if err := checkOwn(dir); err != nil {
		return nil, err
	}
	if err := makeDir(d, dir); err != nil {
		return nil, err
	}
	r := &Run{dir: dir, disk: d, now: now, named: map[string]string{}, mine: map[string]bool{}}
	if r.lock, err = takeLock(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = r.Close()
		}
	}()
	if err := r.removeTemporary(); err != nil {
		return nil, err
	}
	events, err := r.readLedger()
	if err != nil {
		return nil, err
	}
	if err := r.follow(events); err != nil {
		return nil, err
	}
	for i := range events {
		if err := r.name(&events[i]); err != nil {
			return nil, err
		}
	}
	if err := r.finishPruning(events); err != nil {
		return nil, err
	}
	return r, nil
}

// follow works out the history.
func (r *Run) follow(events []Event) error {
	run, runErr := ReadRunFile(r.dir)
	r.history = &History{}
	if runErr == nil && run.Parent != nil {
		var err error
		if r.history, err = NewHistory(r.dir, run); err != nil {
			return err
		}
		r.named[run.Parent.Checkpoint] = run.Parent.Manifest
	}
	if err := r.history.Follow(events); err != nil {
		if runErr != nil { // it may be the run.json of a fork, without which its ledger makes no sense
			return errors.Join(runErr, err)
		}
		return err
	}
	return nil
}

// folders hold the files that the ledger names.
var folders = []string{"bank", "rollouts", "checkpoints", "evals", receiptsFolder}

func (r *Run) path(name string) string { return filepath.Join(r.dir, filepath.FromSlash(name)) }

func (r *Run) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// Dir is the run directory's absolute path.
func (r *Run) Dir() string { return r.dir }

// Notes says what opening and beginning found that a person should know: what a crash left, checkpoints that were passed
// over, updates that are made again, versions that changed, completions that are lost.
func (r *Run) Notes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.notes)
}

// History is the retained trajectory so far.
func (r *Run) History() History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.history.clone()
}

// Segment is the number of this opening of the run, from 1; 0 before Begin.
func (r *Run) Segment() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.file == nil:
		return 0
	case r.begun != nil:
		return r.begun.Segment
	}
	return len(r.history.Segments)
}

// Close releases the run directory. Everything recorded is already durable. It waits for a checkpoint that is being written.
func (r *Run) Close() error {
	r.saving.Lock()
	defer r.saving.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	if r.state != nil {
		errs = append(errs, r.state.Close())
		r.state = nil
	}
	if r.ledger != nil {
		errs = append(errs, r.ledger.close())
		r.ledger = nil
	}
	if r.lock != nil {
		errs = append(errs, r.lock.release())
		r.lock = nil
	}
	return errors.Join(errs...)
}

// Begin starts a segment. In a fresh directory it writes run.json and the bank and returns nil: begin with the base
// weights. Otherwise it compares the identity ([ErrOtherConfiguration] lists what differs), restores the newest whole
// checkpoint, rolls back what was recorded after it, and returns its state; nil if there is none, which means the base
// weights again. A damaged checkpoint is passed over with a note; one of another format is [ErrFormat]. Receipts that were signed go
// on being signed with the same key, or Begin fails. Beginning a finished run again changes nothing on the disk until something is recorded.
func (r *Run) Begin(ctx context.Context, id Identity) (*State, error) { return r.BeginAt(ctx, id, nil) }

// BeginAt is [Run.Begin] for a run that is to go on from another checkpoint than the newest, and so possibly from another
// segment: at says which and why. What is not on the way to that checkpoint is rolled back. The checkpoint must be whole:
// none is passed over. With nil it does what Begin does.
func (r *Run) BeginAt(ctx context.Context, id Identity, at *Restore) (*State, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.file != nil || r.ledger == nil {
		return nil, errors.New("checkpoint: Begin on a run that has begun or is closed")
	}
	file, err := newRunFile(id, r.now())
	if err != nil {
		return nil, err
	}
	fields, err := file.fields()
	if err != nil {
		return nil, err
	}
	segment := Segment{
		Segment: len(r.history.Segments) + 1, Parent: len(r.history.Segments),
		Settings: file.changeable(fields), Versions: file.Versions, Host: file.Host,
	}
	if r.signer != nil {
		segment.Signer = KeyText(r.signer.Public().(ed25519.PublicKey)) // SignWith takes no other
	}
	var state *State
	switch {
	case segment.Parent > 0:
		state, err = r.resume(file, &segment, at)
	case at != nil:
		err = errors.New("there is nothing to restore: no run has begun here")
	default:
		segment.Reason = "start"
		err = r.start(file, id.Bank)
	}
	if err != nil {
		return nil, fmt.Errorf("beginning in %s: %w", r.dir, err)
	}
	r.begun = &segment
	if !r.history.Finished || !segment.resumesAll(r.history) {
		if err := r.recordBegun(); err != nil {
			if state != nil {
				_ = state.Close()
			}
			return nil, err
		}
	}
	r.file, r.state = file, state
	return state, nil
}

// recordBegun records the segment that Begin has begun, if that is still to be done.
func (r *Run) recordBegun() error {
	if r.begun == nil {
		return nil
	}
	if err := r.record(KindSegment, *r.begun); err != nil {
		return r.fail("beginning", err)
	}
	r.begun = nil
	return nil
}

// resumesAll says that a segment goes on from the end of a history and has found nothing that is to be recorded.
func (s *Segment) resumesAll(h *History) bool {
	return s.Reason == reasonResume && s.Update == h.Update() && s.RolledBack == nil && len(s.PassedOver)+len(s.Unrecorded) == 0
}

// start writes what does not change. Until the first event is in the ledger, all of it can be written again. run.json comes
// first: it says whose directory this is.
func (r *Run) start(file *RunFile, bank map[string][]byte) error {
	if err := r.checkStart(bank); err != nil {
		return err
	}
	data, err := file.encode()
	if err != nil {
		return err
	}
	if err := writeBytes(r.disk, r.path(runName), data); err != nil {
		return err
	}
	for _, folder := range folders {
		if err := makeDir(r.disk, r.path(folder)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(bank)) {
		if err := writeBytes(r.disk, r.path("bank/"+name), bank[name]); err != nil {
			return err
		}
	}
	r.ledger.prev = file.Start(data)
	return nil
}

// record appends an event and takes it into the history.
func (r *Run) record(kind string, body any) error {
	at := r.now()
	if back := r.history.last.Sub(at); back > 0 {
		at = r.history.last
		if !r.behind {
			r.note("the clock is %s behind the last event: events get that one's time, %s, until it has caught up", back, at.Format(timeFormat))
		}
		r.behind = true
	}
	e, err := newEvent(r.ledger.seq+1, at, kind, body, r.ledger.prev)
	if err != nil {
		return err
	}
	next := r.history.clone()
	if err := next.add(&e); err != nil {
		return err
	}
	if err := r.ledger.append(e); err != nil {
		return err
	}
	r.history = &next
	return r.name(&e)
}

func (r *Run) name(e *Event) error {
	files, saved, err := e.Names()
	if err != nil {
		return err
	}
	for _, f := range files {
		r.named[f.Path] = f.SHA256
	}
	if saved != nil {
		r.named[saved.Path] = saved.Manifest
	}
	return nil
}

// Finish records that nothing is left to do. It does nothing if that is already the last event.
func (r *Run) Finish(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.ready(ctx); err != nil {
		return err
	}
	if r.history.Finished {
		return nil
	}
	return r.fail("recording the end", r.finish(Finished{Update: r.history.Update()}))
}

func (r *Run) finish(f Finished) error {
	receipt, err := r.receipt(KindFinished, f.Update)
	if err != nil {
		return err
	}
	if f.Receipt, err = r.placeReceipt(receipt); err != nil {
		return err
	}
	return r.record(KindFinished, f)
}

func (r *Run) ready(ctx context.Context) error {
	if r.file == nil || r.ledger == nil {
		return errors.New("checkpoint: the run has not begun or is closed")
	}
	return ctx.Err()
}

// readyToRecord is ready before something is recorded, in the segment that was begun.
func (r *Run) readyToRecord(ctx context.Context) error {
	if err := r.ready(ctx); err != nil {
		return err
	}
	return r.recordBegun()
}

// fail says how to go on after a failed write.
func (r *Run) fail(what string, err error) error {
	if err == nil {
		return nil
	}
	from := "the base weights"
	if n := len(r.history.Checkpoints); n > 0 {
		from = r.history.Checkpoints[n-1].Path
	}
	return fmt.Errorf("%s in %s: %w (nothing recorded before is lost: remove the cause and open the run again, it goes on from %s)", what, r.dir, err, from)
}
