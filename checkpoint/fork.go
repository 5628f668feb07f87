package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// parentName is the folder of a forked run that holds the parent's run.json and ledger.jsonl as they were.
const parentName = "parent"

// ErrNoParent says that the directory of the run that a run was forked from is not where it was.
var ErrNoParent = errors.New("the parent run is not there")

// Parent says, in run.json, which run a run was forked from and where in it. The hashes tie every byte of the parent's
// record up to the fork to the child's.
type Parent struct {
	Dir        string     `json:"dir"`        // the parent's directory, relative to the child's; only a hint
	Start      string     `json:"start"`      // see [RunFile.Start]; names the parent's run.json and bank
	Head       LedgerHead `json:"head"`       // the last event of the parent's ledger at that time, where parent/ledger.jsonl ends
	Segment    int        `json:"segment"`    // whose trajectory goes on in the child
	Update     int        `json:"update"`     // after which it does
	Checkpoint string     `json:"checkpoint"` // the folder with the state of that update; the child has a copy
	Manifest   string     `json:"manifest"`   // SHA-256 of its manifest.json
	Saved      LedgerHead `json:"saved"`      // the event that recorded it
	Reason     string     `json:"reason"`
	RolledBack *Work      `json:"rolled_back,omitempty"` // what of the parent's retained trajectory the child leaves
}

// check says where a record is not that of the parent.
func (p *Parent) check(rec *Record) error {
	if len(rec.Events) == 0 || rec.Events[0].Prev != p.Start {
		return errors.New("its run.json or its bank is not that of the run that was forked")
	}
	for _, at := range []LedgerHead{p.Saved, p.Head} {
		if at.Seq < 1 || at.Seq > len(rec.Events) {
			return fmt.Errorf("its ledger has %d events, the fork was made after event %d", len(rec.Events), at.Seq)
		}
		if got := rec.Events[at.Seq-1].Hash; got != at.Hash {
			return fmt.Errorf("event %d of its ledger has hash %s, at the fork it had %s", at.Seq, got, at.Hash)
		}
	}
	var saved Saved
	e := rec.Events[p.Saved.Seq-1]
	if e.Kind != KindCheckpoint || unmarshal(e.Body, &saved) != nil || saved.Update != p.Update || saved.Path != p.Checkpoint || saved.Manifest != p.Manifest {
		return fmt.Errorf("event %d of its ledger does not record %s", e.Seq, p.Checkpoint)
	}
	return nil
}

// pruned says that the parent, which is running, has removed the checkpoint since it was chosen.
func (p *Parent) pruned(dir string) error {
	rec, err := Read(dir)
	if err != nil {
		return nil // what is wrong with it is not this
	}
	of := rec.History.of(p.Segment).checkpoints
	if !slices.ContainsFunc(of, func(s Saved) bool { return s.Path == p.Checkpoint && s.Manifest == p.Manifest && s.Pruned }) {
		return nil
	}
	return fmt.Errorf("%s was pruned by the running parent before it could be copied: fork from another, segment %d has checkpoints of %s; what the parent keeps is for its program to say (Run.Retain)",
		p.Checkpoint, p.Segment, restorable(of))
}

// fork is the history that a forked run begins with.
func (h *History) fork(p *Parent) (*History, error) {
	bad := func(format string, args ...any) (*History, error) {
		return nil, fmt.Errorf("%w: %s: %w", ErrDamaged, runName, fmt.Errorf(format, args...))
	}
	c := h.clone()
	if p.Segment < 1 || p.Segment > len(h.Segments) {
		return bad("it was forked from segment %d of a run with %d segments", p.Segment, len(h.Segments))
	}
	from := h.of(p.Segment)
	at := slices.IndexFunc(from.checkpoints, func(s Saved) bool {
		return s.Update == p.Update && s.Path == p.Checkpoint && s.Manifest == p.Manifest && !s.Pruned
	})
	if at < 0 {
		return bad("it was forked from %s, which is no checkpoint of segment %d", p.Checkpoint, p.Segment)
	}
	var said Work
	if p.RolledBack != nil {
		said = *p.RolledBack
	}
	if back := h.leaves(p.Segment, p.Update); back != said {
		return bad("the fork leaves %d updates of %d responses, and is said to leave %d of %d", back.Updates, back.Responses, said.Updates, said.Responses)
	}
	c.ended = append(c.ended, h.trajectory())
	c.take(from.upTo(p.Update))
	c.Inherited, c.parent, c.Finished = len(h.Segments), p, false
	c.count()
	return &c, nil
}

// LocateParent finds the directory of the run that a run in dir was forked from: where run.json says, or among the others that
// are given. It checks that its record still holds what the child goes on from. [ErrNoParent] says that it is at
// none of these places, [ErrDamaged] that it has changed.
func (f *RunFile) LocateParent(dir string, elsewhere ...string) (string, error) {
	p := f.Parent
	if p == nil {
		return "", errors.New("the run was not forked")
	}
	hint := filepath.Join(dir, filepath.FromSlash(p.Dir))
	var changed error
	for _, candidate := range append(slices.Clone(elsewhere), hint) {
		rec, err := readRecord(candidate)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNoRun) || errors.Is(err, ErrNotBegun) {
			continue
		}
		if err != nil && !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			return "", err
		}
		if err == nil {
			err = p.check(rec)
		}
		if err == nil {
			return candidate, nil
		}
		changed = errors.Join(changed, fmt.Errorf("%w: the parent run in %s: %w", ErrDamaged, candidate, err))
	}
	if changed != nil {
		return "", changed
	}
	return "", fmt.Errorf("%w: %s, which this run was forked from, is not in %s", ErrNoParent, p.Dir, hint)
}

// Fork makes a new run directory, child, that goes on from a checkpoint of the run in parent. It has a copy of that
// checkpoint, of the bank, and of the parent's run.json and ledger; run.json names the parent by its hashes. The parent is only read, and may be
// running. The child is opened and begun as any run, with the parent's identity: what the parent had done up to the fork
// counts in the child as its own.
func Fork(ctx context.Context, parent string, at Restore, child string) error {
	return fork(ctx, osDisk{}, time.Now, parent, at, child)
}

func fork(ctx context.Context, d disk, now func() time.Time, parent string, at Restore, child string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("forking %s from %s: %w", child, parent, err)
		}
	}()
	if parent, err = filepath.Abs(parent); err != nil {
		return err
	}
	if child, err = filepath.Abs(child); err != nil {
		return err
	}
	if _, err := os.Lstat(child); err == nil {
		return errors.New("the new directory exists already")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for above := filepath.Dir(child); ; above = filepath.Dir(above) {
		if _, err := os.Lstat(filepath.Join(above, ledgerName)); err == nil {
			return fmt.Errorf("the new directory would be inside the run directory %s, whose record it would spoil", above)
		}
		if above == filepath.Dir(above) {
			break
		}
	}
	rec, err := Read(parent)
	if err != nil {
		return err
	}
	file, err := rec.child(at)
	if err != nil {
		return err
	}
	file.Created = now().UTC().Truncate(time.Millisecond)
	hint, err := filepath.Rel(child, parent)
	if err != nil {
		return err
	}
	file.Parent.Dir = filepath.ToSlash(hint)
	above := filepath.Dir(child)
	if err := makeDir(d, above); err != nil {
		return err
	}
	tmp := filepath.Join(above, temporary+filepath.Base(child)+"-"+rand.Text()) // nobody else's, whatever else is there
	c := copier{ctx, d, parent, tmp}
	if err := c.run(rec, file); err != nil {
		if pruned := file.Parent.pruned(parent); pruned != nil {
			err = pruned
		}
		return errors.Join(err, d.RemoveAll(tmp))
	}
	if err := d.Rename(tmp, child); err != nil {
		return errors.Join(err, d.RemoveAll(tmp))
	}
	return d.SyncDir(above)
}

// child is the run.json of a run that is forked.
func (rec *Record) child(at Restore) (*RunFile, error) {
	h := &rec.History
	if len(rec.Events) == 0 {
		return nil, fmt.Errorf("%w there", ErrNotBegun)
	}
	saved, segment, err := h.find(at)
	if err != nil {
		return nil, err
	}
	if saved == nil {
		return nil, errors.New("a run from the base weights is no fork: begin a new one")
	}
	if !h.own(saved) {
		return nil, fmt.Errorf("%s is in the directory of the run that this one was forked from: fork from there", saved.Path)
	}
	last := rec.Events[len(rec.Events)-1]
	p := &Parent{
		Start: rec.Events[0].Prev, Head: LedgerHead{last.Seq, last.Hash}, Segment: segment, Update: saved.Update,
		Checkpoint: saved.Path, Manifest: saved.Manifest, Reason: at.Reason,
	}
	for _, e := range rec.Events {
		var s Saved
		if e.Kind == KindCheckpoint && unmarshal(e.Body, &s) == nil && s.Path == saved.Path && s.Manifest == saved.Manifest && s.Update == saved.Update {
			p.Saved = LedgerHead{e.Seq, e.Hash}
		}
	}
	if p.Saved.Seq == 0 {
		return nil, fmt.Errorf("%s was not made by this run: fork from the run that made it", saved.Path)
	}
	if back := h.leaves(segment, saved.Update); back.Updates > 0 {
		p.RolledBack = &back
	}
	file := rec.Run
	file.Parent = p
	return &file, nil
}

// own says whether a checkpoint is in the run's own directory, and not only in that of the run that it was forked from.
func (h *History) own(s *Saved) bool {
	return s.Segment > h.Inherited || h.parent != nil && s.Path == h.parent.Checkpoint && s.Manifest == h.parent.Manifest
}

// copier makes a child's directory.
type copier struct {
	ctx      context.Context
	disk     disk
	from, to string
}

func (c copier) run(rec *Record, file *RunFile) error {
	dirs := []string{"", "bank", "checkpoints", "evals", "rollouts", file.Parent.Checkpoint}
	for _, dir := range dirs {
		if err := c.disk.Mkdir(filepath.Join(c.to, filepath.FromSlash(dir))); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(file.Files)) {
		if err := c.file("bank/"+name, "bank/"+name, file.Files[name]); err != nil {
			return err
		}
	}
	if err := c.checkpoint(file.Parent); err != nil {
		return err
	}
	above, err := c.parents(rec, parentName, "")
	if err != nil {
		return err
	}
	data, err := file.encode()
	if err != nil {
		return err
	}
	if err := c.write(runName, data); err != nil {
		return err
	}
	if err := c.write(ledgerName, nil); err != nil {
		return err
	}
	slices.Reverse(dirs)
	for _, dir := range append(above, dirs...) {
		if err := c.disk.SyncDir(filepath.Join(c.to, filepath.FromSlash(dir))); err != nil {
			return err
		}
	}
	return nil
}

// parents copies the records of a run and of those that it was forked from, as far as they were read, into a folder and
// folders in it, and returns these, the deepest first.
func (c copier) parents(rec *Record, to, from string) (dirs []string, err error) {
	if err := c.disk.Mkdir(filepath.Join(c.to, filepath.FromSlash(to))); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(filepath.Join(c.from, filepath.FromSlash(from), runName))
	if err != nil {
		return nil, err
	}
	if rec.Run.Start(data) != rec.Events[0].Prev {
		return nil, fmt.Errorf("%w: %s has changed", ErrDamaged, runName)
	}
	if err := c.write(to+"/"+runName, data); err != nil {
		return nil, err
	}
	var ledger []byte
	for _, e := range rec.Events {
		ledger = append(ledger, e.line()...)
	}
	if err := c.write(to+"/"+ledgerName, ledger); err != nil {
		return nil, err
	}
	if rec.Parent != nil {
		if dirs, err = c.parents(rec.Parent, to+"/"+parentName, filepath.Join(from, parentName)); err != nil {
			return nil, err
		}
	}
	return append(dirs, to), nil
}

// checkpoint copies a checkpoint's folder and checks every byte of it.
func (c copier) checkpoint(p *Parent) error {
	data, err := os.ReadFile(filepath.Join(c.from, filepath.FromSlash(p.Checkpoint), manifestName))
	if err != nil {
		return fmt.Errorf("%s: %w", p.Checkpoint, err)
	}
	if got := hexDigest(data); got != p.Manifest {
		return fmt.Errorf("%w: %s/%s: SHA-256 is %s, expected %s", ErrDamaged, p.Checkpoint, manifestName, got, p.Manifest)
	}
	m, err := ParseManifest(data)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Checkpoint, err)
	}
	for _, f := range m.Files {
		name := p.Checkpoint + "/" + f.Name
		if err := c.file(name, name, f.SHA256); err != nil {
			return err
		}
	}
	return c.write(p.Checkpoint+"/"+manifestName, data)
}

func (c copier) write(name string, data []byte) error {
	return createFile(c.disk, filepath.Join(c.to, filepath.FromSlash(name)), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// file copies a file that must have a digest.
func (c copier) file(from, to, want string) error {
	f, err := os.Open(filepath.Join(c.from, filepath.FromSlash(from)))
	if err != nil {
		return err
	}
	defer f.Close()
	path := filepath.Join(c.to, filepath.FromSlash(to))
	err = createFile(c.disk, path, func(w io.Writer) error {
		for {
			if err := c.ctx.Err(); err != nil {
				return err
			}
			if n, err := io.CopyN(w, f, 1<<24); errors.Is(err, io.EOF) || err == nil && n == 0 {
				return nil
			} else if err != nil {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	got, err := fileDigest(path)
	if err == nil && got != want {
		err = fmt.Errorf("%w: %s: SHA-256 is %s, expected %s", ErrDamaged, from, got, want)
	}
	return err
}
