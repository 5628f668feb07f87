package checkpoint

import (
	"context"
	"time"
)

// What tests outside the package need to put failures between file operations.
type (
	Disk     = disk
	DiskFile = diskFile
	OSDisk   = osDisk
)

func OpenOn(dir string, d Disk, now func() time.Time) (*Run, error) { return open(dir, d, now) }

func NewEvent(seq int, at time.Time, kind string, body any, prev string) (Event, error) {
	return newEvent(seq, at, kind, body, prev)
}

func (e *Event) Line() []byte { return e.line() }

func (m *Manifest) Encode() ([]byte, error) { return m.encode() }

func EncodeLines(lines []Line) ([]byte, error) { return encodeLines(lines) }

func ForkOn(ctx context.Context, d Disk, parent string, at Restore, child string) error {
	return fork(ctx, d, func() time.Time { return time.Unix(2e9, 0) }, parent, at, child)
}
