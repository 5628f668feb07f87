package rescore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/grouper-rl/grouper/checkpoint"
)

// Names lists the folders of labels in a run directory, sorted; none is no error.
func Names(dir string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, Folder))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && plainName.MatchString(e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Read reads a folder of labels and checks that it is whole and of this run: the digests of its files, that no other file is in
// it, and that the ledger, whose events are given, names every file that was graded with the same digest. An error wraps
// [checkpoint.ErrDamaged], begins with the file and leaves the record itself in no doubt.
func Read(dir, name string, events []checkpoint.Event) (*Manifest, error) {
	folder := filepath.Join(dir, Folder, name)
	damaged := func(file, format string, args ...any) error {
		return fmt.Errorf("%s: %w: "+format, append([]any{filepath.ToSlash(filepath.Join(Folder, name, file)), checkpoint.ErrDamaged}, args...)...)
	}
	data, err := os.ReadFile(filepath.Join(folder, ManifestName))
	if err != nil {
		return nil, damaged(ManifestName, "%w", err)
	}
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return nil, damaged(ManifestName, "%w", err)
	}
	switch {
	case m.Format != Format:
		return nil, damaged(ManifestName, "it has format %d, this program reads %d", m.Format, Format)
	case len(events) == 0 || events[0].Prev != m.Run:
		return nil, damaged(ManifestName, "it is of another run")
	case m.Ledger.Seq < 1 || m.Ledger.Seq > len(events) || events[m.Ledger.Seq-1].Hash != m.Ledger.Hash:
		return nil, damaged(ManifestName, "the ledger has no event %d with hash %s", m.Ledger.Seq, m.Ledger.Hash)
	}
	want := completions(events[:m.Ledger.Seq])
	known := map[string]bool{ManifestName: true}
	for i, f := range m.Files {
		if i >= len(want) || f.Of != want[i] || f.Labels.Path != f.Of.Path || f.Labels.Lines != f.Of.Lines {
			return nil, damaged(ManifestName, "file %d, %s, is not what the ledger has there", i+1, f.Of.Path)
		}
		known[f.Labels.Path] = true
		packed, err := os.ReadFile(filepath.Join(folder, filepath.FromSlash(f.Labels.Path)))
		if err != nil {
			return nil, damaged(f.Labels.Path, "%w", err)
		}
		if got := hexDigest(packed); got != f.Labels.SHA256 {
			return nil, damaged(f.Labels.Path, "SHA-256 is %s, expected %s", got, f.Labels.SHA256)
		}
	}
	if len(m.Files) != len(want) {
		return nil, damaged(ManifestName, "it has labels of %d files, the ledger names %d", len(m.Files), len(want))
	}
	var files []string
	err = fs.WalkDir(os.DirFS(folder), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && !known[path] {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return nil, damaged(".", "%w", err)
	}
	if slices.Sort(files); len(files) > 0 {
		return nil, damaged(files[0], "%s does not name it", ManifestName)
	}
	return &m, nil
}
