package checkpoint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// disk is everything that a run does to the file system except reading. Tests put full disks and crashes between its
// operations.
type disk interface {
	Create(path string) (diskFile, error) // a new file
	Append(path string) (diskFile, error) // an existing file or a new one
	Truncate(path string, size int64) error
	Rename(from, to string) error
	Mkdir(path string) error // no error if it exists
	RemoveAll(path string) error
	SyncDir(path string) error // makes names in the folder durable
}

type diskFile interface {
	io.Writer
	Sync() error
	Close() error
}

type osDisk struct{}

func (osDisk) Create(path string) (diskFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
}

func (osDisk) Append(path string) (diskFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
}

func (osDisk) Truncate(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := f.Truncate(size); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}

func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) Mkdir(path string) error {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

func (osDisk) RemoveAll(path string) error { return os.RemoveAll(path) }

func (osDisk) SyncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// temporary begins the names of unfinished files and folders.
const temporary = ".tmp-"

// writeFile writes a whole file: temporary name, sync, rename, sync of the folder. It replaces a file of that name.
func writeFile(d disk, path string, write func(io.Writer) error) error {
	dir, name := filepath.Split(path)
	tmp := filepath.Join(dir, temporary+name)
	if err := clearTemporary(d, tmp, 0); err != nil {
		return err
	}
	if err := createFile(d, tmp, write); err != nil {
		_ = d.RemoveAll(tmp)
		return err
	}
	if err := d.Rename(tmp, path); err != nil {
		_ = d.RemoveAll(tmp)
		return err
	}
	return d.SyncDir(filepath.Clean(dir))
}

// clearTemporary removes what an earlier try has left under a temporary name. What is of another type is not of this package.
func clearTemporary(d disk, path string, want fs.FileMode) error {
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != want {
		return fmt.Errorf("%s is in the way: it is no unfinished write", path)
	}
	return d.RemoveAll(path)
}

// createFile writes and syncs a new file.
func createFile(d disk, path string, write func(io.Writer) error) error {
	f, err := d.Create(path)
	if err != nil {
		return err
	}
	b := bufio.NewWriterSize(f, 1<<18)
	err = write(b)
	if err == nil {
		err = b.Flush()
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func writeBytes(d disk, path string, data []byte) error {
	return writeFile(d, path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// makeDir makes a folder, and those above it that are missing, durable.
func makeDir(d disk, path string) error {
	if info, err := os.Stat(path); err == nil {
		if !info.IsDir() {
			return fmt.Errorf("%s is not a folder", path)
		}
		return nil
	}
	parent := filepath.Dir(path)
	if parent != path {
		if err := makeDir(d, parent); err != nil {
			return err
		}
	}
	if err := d.Mkdir(path); err != nil {
		return err
	}
	return d.SyncDir(parent)
}
