package checkpoint_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/grouper-rl/grouper/checkpoint"
)

var (
	errFull  = errors.New("no space left on device")
	errCrash = errors.New("the machine is off")
)

// faulty is a disk that stops working at one operation: it is full for that operation and all after it, or the machine goes down
// with it. After a crash, lose takes back what was never synced, as a file system may: names in folders that were not synced, and
// the ends of files that were not. It may be used concurrently.
type faulty struct {
	checkpoint.OSDisk
	failAt int // the operation that fails, from 1; 0: none
	crash  bool
	once   bool // only that one fails
	rng    *rand.Rand
	mu     sync.Mutex

	ops     int
	names   []name           // not yet synced, in order
	written map[string]int64 // sizes
	synced  map[string]int64
}

// name is an entry of a folder that a crash can take back.
type name struct {
	path   string // where it is now
	from   string // where it was before a rename; "": nowhere
	old    []byte // what it replaced
	oldErr error
}

func newFaulty(failAt int, crash bool) *faulty {
	return &faulty{failAt: failAt, crash: crash, rng: rand.New(rand.NewPCG(uint64(failAt), 1)), written: map[string]int64{}, synced: map[string]int64{}}
}

// step counts an operation and says whether it happens.
func (d *faulty) step() error {
	d.ops++
	if d.failAt == 0 || d.ops < d.failAt || d.once && d.ops > d.failAt {
		return nil
	}
	if d.crash {
		return errCrash
	}
	return errFull
}

func (d *faulty) Create(path string) (checkpoint.DiskFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return nil, err
	}
	f, err := d.OSDisk.Create(path)
	if err != nil {
		return nil, err
	}
	d.names = append(d.names, name{path: path})
	d.written[path], d.synced[path] = 0, 0
	return &faultyFile{d, path, f}, nil
}

func (d *faulty) Append(path string) (checkpoint.DiskFile, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	size := int64(0)
	if err == nil {
		size = info.Size()
	} else {
		d.names = append(d.names, name{path: path})
	}
	f, err := d.OSDisk.Append(path)
	if err != nil {
		return nil, err
	}
	d.written[path], d.synced[path] = size, size
	return &faultyFile{d, path, f}, nil
}

func (d *faulty) Truncate(path string, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Making a file shorter needs no space.
	if err := d.step(); err == errCrash {
		return err
	}
	d.written[path], d.synced[path] = size, min(size, d.synced[path])
	return os.Truncate(path, size)
}

func (d *faulty) Rename(from, to string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	old, oldErr := os.ReadFile(to)
	if err := os.Rename(from, to); err != nil {
		return err
	}
	d.move(from, to)
	d.names = append(d.names, name{to, from, old, oldErr})
	return nil
}

func (d *faulty) move(from, to string) {
	moved := func(path string) (string, bool) {
		if path == from || strings.HasPrefix(path, from+"/") {
			return to + strings.TrimPrefix(path, from), true
		}
		return path, false
	}
	for i := range d.names {
		d.names[i].path, _ = moved(d.names[i].path)
	}
	for _, sizes := range []map[string]int64{d.written, d.synced} {
		for path, size := range sizes {
			if path, ok := moved(path); ok {
				sizes[path] = size
			}
		}
	}
}

func (d *faulty) Mkdir(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	d.names = append(d.names, name{path: path})
	return d.OSDisk.Mkdir(path)
}

func (d *faulty) RemoveAll(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err == errCrash { // removing needs no space
		return err
	}
	for p := range d.written {
		if p == path || strings.HasPrefix(p, path+"/") {
			delete(d.written, p)
			delete(d.synced, p)
		}
	}
	return os.RemoveAll(path)
}

func (d *faulty) SyncDir(path string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.step(); err != nil {
		return err
	}
	d.names = slices.DeleteFunc(d.names, func(n name) bool { return filepath.Dir(n.path) == path })
	return nil
}

// lose takes back what was not synced, or only a part of it.
func (d *faulty) lose() {
	for path, size := range d.written {
		if keep := d.synced[path]; keep < size {
			keep += d.rng.Int64N(size - keep + 1)
			_ = os.Truncate(path, keep)
		}
	}
	for len(d.names) > 0 {
		n := d.names[len(d.names)-1]
		d.names = d.names[:len(d.names)-1]
		switch {
		case d.rng.IntN(4) == 0: // it reached the disk all the same
		case n.from == "":
			_ = os.RemoveAll(n.path)
		default:
			_ = os.Rename(n.path, n.from) // it may be gone with its folder
			d.move(n.path, n.from)
			if n.oldErr == nil {
				_ = os.WriteFile(n.path, n.old, 0o644)
			}
		}
	}
}

type faultyFile struct {
	d    *faulty
	path string
	f    checkpoint.DiskFile
}

func (f *faultyFile) Write(p []byte) (int, error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step(); err != nil {
		n, _ := f.f.Write(p[:len(p)/2])
		f.d.written[f.path] += int64(n)
		return n, err
	}
	n, err := f.f.Write(p)
	f.d.written[f.path] += int64(n)
	return n, err
}

func (f *faultyFile) Sync() error {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	if err := f.d.step(); err != nil {
		return err
	}
	f.d.synced[f.path] = f.d.written[f.path] // no real sync: the machine does not really go down
	return nil
}

func (f *faultyFile) Close() error { return f.f.Close() }
