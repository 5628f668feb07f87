// Package files reads the small files of folders that somebody else made.
package files

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Stat describes a file. It is an error if there is something else in its place: a pipe, which would hold a reader up, a device, which
// may never end, a folder. So is a link that leads nowhere, as in a hub cache that lost a blob: it does not wrap [fs.ErrNotExist],
// because the folder says that the file belongs to it.
func Stat(fsys fs.FS, name string) (fs.FileInfo, error) {
	info, err := fs.Stat(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		if link, lerr := fs.Lstat(fsys, name); lerr == nil && link.Mode()&fs.ModeSymlink != 0 {
			return nil, fmt.Errorf("%s: a link to a file that is not there", name)
		}
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file (mode %v)", name, info.Mode())
	}
	return info, nil
}

// Read reads a whole file of up to max bytes, whatever size it says that it has.
func Read(fsys fs.FS, name string, max int64) ([]byte, error) {
	info, err := Stat(fsys, name)
	if err != nil {
		return nil, err
	}
	tooLarge := func(size int64) error { return fmt.Errorf("%s: %d bytes, allowed are %d", name, size, max) }
	if info.Size() > max {
		return nil, tooLarge(info.Size())
	}
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err := b.ReadFrom(io.LimitReader(f, max+1)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if int64(b.Len()) > max {
		return nil, tooLarge(int64(b.Len()))
	}
	return b.Bytes(), nil
}

// Unmarshal is json.Unmarshal, but for an object that has a key twice, which is an error.
func Unmarshal(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	return UniqueKeys(data, "")
}

// UniqueKeys makes sure that no object in data, which is valid JSON, has a key twice: of two values readers take one or the other.
// The object that is the value of the key except is not looked into; "" is none.
func UniqueKeys(data []byte, except string) error {
	var within []map[string]bool // the keys so far of the objects around; nil: a list, or an object that is not looked into
	last := ""                   // the key whose value comes next
	keyNext := false
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '{':
			var keys map[string]bool
			if except == "" || last != except {
				keys = map[string]bool{}
			}
			within, keyNext, last = append(within, keys), keys != nil, ""
		case '[':
			within, keyNext, last = append(within, nil), false, ""
		case '}', ']':
			within, keyNext = within[:len(within)-1], false
		case ',':
			keyNext, last = within[len(within)-1] != nil, ""
		case '"':
			from := i
			for i++; data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			if !keyNext {
				continue
			}
			if last = string(data[from+1 : i]); strings.Contains(last, `\`) {
				if err := json.Unmarshal(data[from:i+1], &last); err != nil {
					return err
				}
			}
			keys := within[len(within)-1]
			if keys[last] {
				return fmt.Errorf("key %q stands twice", last)
			}
			keys[last], keyNext = true, false
		}
	}
	return nil
}
