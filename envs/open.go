package envs

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
)

// OpenBank reads a bank from a folder with the files of Bank.Files and checks all of it. Whatever is not as it was frozen,
// down to one byte, is an error that wraps ErrBankChanged and names the file and, where it can, the line and the task.
// A bank that was replaced as a whole is another bank, with another Digest.
func OpenBank(folder fs.FS) (*Bank, error) {
	written, err := fs.ReadFile(folder, manifestFile)
	if err != nil {
		return nil, changed(manifestFile, "%w", err)
	}
	var m Manifest
	if err := decode(written, &m); err != nil {
		return nil, changed(manifestFile, "%w", err)
	}
	if m.Format != 1 {
		return nil, changed(manifestFile, "it has format %d, this version reads 1", m.Format)
	}
	if err := m.check(written); err != nil {
		return nil, err
	}
	var parts [3][]Task
	files := map[string][]byte{manifestFile: written}
	for i, name := range partNames {
		k := slices.IndexFunc(m.Parts, func(p Part) bool { return p.Name == name })
		data, err := fs.ReadFile(folder, name+".jsonl")
		switch {
		case k < 0 && errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, changed(name+".jsonl", "%w", err)
		case k < 0:
			return nil, changed(name+".jsonl", "the manifest has no such file")
		}
		if parts[i], err = m.Parts[k].decode(data); err != nil {
			return nil, err
		}
		files[name+".jsonl"] = data
	}
	b, err := newBank(m, parts[:]...)
	if err != nil {
		return nil, changed(manifestFile, "%w", err)
	}
	// What was read must be what would be written: this catches everything that the checks above explain better.
	for name, data := range b.files {
		if !bytes.Equal(data, files[name]) {
			return nil, changed(name, "it is not as this bank is written")
		}
	}
	return b, nil
}

func changed(file, format string, args ...any) error {
	return fmt.Errorf("envs: %w: %s: "+format, append([]any{ErrBankChanged, file}, args...)...)
}

// check compares a manifest with its own digest and with its bytes.
func (m Manifest) check(written []byte) error {
	again, err := m.encode()
	if err != nil {
		return err
	}
	unsigned := m
	unsigned.Digest = ""
	data, err := unsigned.encode()
	if err != nil {
		return err
	}
	if digest(data) != m.Digest || !bytes.Equal(again, written) {
		return changed(manifestFile, "it does not have the digest %s", m.Digest)
	}
	return nil
}

// decode reads a file's tasks and checks that file and lines have their digests.
func (p Part) decode(data []byte) ([]Task, error) {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if last := len(lines) - 1; len(lines[last]) == 0 {
		lines = lines[:last]
	}
	var tasks []Task
	for i, line := range lines {
		var t Task
		err := decode(line, &t)
		if i < len(p.Lines) && lineDigest(line) != p.Lines[i] {
			if t.ID != "" {
				return nil, changed(p.File, "line %d (task %s)", i+1, t.ID)
			}
			return nil, changed(p.File, "line %d", i+1)
		}
		if err != nil {
			return nil, changed(p.File, "line %d: %w", i+1, err)
		}
		tasks = append(tasks, t)
	}
	if len(tasks) != p.Tasks {
		return nil, changed(p.File, "it has %d tasks, the manifest says %d", len(tasks), p.Tasks)
	}
	if digest(data) != p.SHA256 {
		return nil, changed(p.File, "it does not have the digest %s", p.SHA256)
	}
	return tasks, nil
}

// decode reads exactly one JSON value without unknown fields.
func decode(data []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the end")
	}
	return nil
}
