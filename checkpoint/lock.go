package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gofrs/flock"
)

const lockName = ".lock"

// lock holds a run directory. The kernel releases it when the process ends, however it ends. The file stays: removing
// it would let two processes hold locks on two files of one name.
type lock struct {
	flock *flock.Flock
	path  string
}

func takeLock(dir string) (*lock, error) {
	l := &lock{path: filepath.Join(dir, lockName)}
	l.flock = flock.New(l.path)
	ok, err := l.flock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("locking: %w", err)
	}
	if !ok {
		holder := "another process"
		if pid, err := os.ReadFile(l.path); err == nil && len(strings.TrimSpace(string(pid))) > 0 {
			holder = "process " + strings.TrimSpace(string(pid))
		}
		return nil, fmt.Errorf("%w by %s", ErrLocked, holder)
	}
	// The pid only makes the message better: a full disk must not keep a run from being opened.
	_ = os.WriteFile(l.path, fmt.Appendf(nil, "%d\n", os.Getpid()), 0o644)
	return l, nil
}

func (l *lock) release() error {
	_ = os.Truncate(l.path, 0)
	return l.flock.Unlock()
}
