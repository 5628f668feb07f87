package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/grouper-rl/grouper/internal/safetensors"
)

const (
	manifestName = "manifest.json"
	stateName    = "state.json"
	readyName    = "ready.jsonl.zst"
	tensorsExt   = ".safetensors"
)

func plainName(name string) bool {
	return fs.ValidPath(name) && !strings.ContainsAny(name, `/\`) && !strings.HasPrefix(name, ".")
}

// writeState fills a new folder with a checkpoint and makes it durable. The bytes depend on the state alone.
func writeState(ctx context.Context, d disk, dir string, s *State) (*Manifest, []byte, error) {
	if err := d.Mkdir(dir); err != nil {
		return nil, nil, err
	}
	m := &Manifest{Format: Format, Update: s.Update, Ready: len(s.Ready), Files: []ManifestFile{}, Groups: map[string][]TensorRecord{}}
	write := func(name string, content func(io.Writer) error) error {
		f := ManifestFile{Name: name}
		err := createFile(d, filepath.Join(dir, name), func(w io.Writer) error {
			h := sha256.New()
			count := &counter{w: io.MultiWriter(w, h)}
			err := content(count)
			f.Size, f.SHA256 = count.n, hex.EncodeToString(h.Sum(nil))
			return err
		})
		m.Files = append(m.Files, f)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return nil
	}
	for _, group := range slices.Sorted(maps.Keys(s.Tensors)) {
		if !plainName(group + tensorsExt) {
			return nil, nil, fmt.Errorf("%q cannot name a group of tensors", group)
		}
		records := make([]TensorRecord, len(s.Tensors[group]))
		ts := make([]Tensor, len(records))
		for i, t := range s.Tensors[group] {
			records[i] = TensorRecord{Name: t.Name, DType: t.DType, Shape: append([]int{}, t.Shape...)}
			ts[i] = digested(t, func(digest string) error {
				records[i].Digest = digest
				return ctx.Err()
			})
		}
		m.Groups[group] = records
		if err := write(group+tensorsExt, func(w io.Writer) error { return safetensors.Write(w, nil, ts) }); err != nil {
			return nil, nil, err
		}
	}
	state, err := marshal(stateFile{Format, s.Update, s.Values})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", stateName, err)
	}
	err = write(stateName, func(w io.Writer) error {
		_, err := w.Write(indented(state))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	if len(s.Ready) > 0 {
		lines, err := encodeLines(s.Ready)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", readyName, err)
		}
		err = write(readyName, func(w io.Writer) error {
			_, err := w.Write(lines)
			return err
		})
		if err != nil {
			return nil, nil, err
		}
	}
	slices.SortFunc(m.Files, func(a, b ManifestFile) int { return strings.Compare(a.Name, b.Name) })
	data, err := m.encode()
	if err != nil {
		return nil, nil, err
	}
	err = createFile(d, filepath.Join(dir, manifestName), func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", manifestName, err)
	}
	return m, data, d.SyncDir(dir)
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// OpenState opens a checkpoint's folder after checking that it is whole: the manifest has the given SHA-256 (if one is
// given), every file has its size and digest, no file is missing or foreign. Errors wrap [ErrDamaged] or [ErrFormat], unless
// the system does not let a file be read: that says nothing about it. A file in place of a folder, or the other way round,
// is damage.
func OpenState(dir, manifest string) (_ *State, _ *Manifest, err error) {
	damaged := func(name string, err error) error {
		var system *fs.PathError
		is := func(e error) bool { return errors.Is(err, e) }
		misplaced := slices.ContainsFunc([]error{fs.ErrNotExist, syscall.ENOTDIR, syscall.EISDIR}, is)
		if errors.Is(err, ErrFormat) || errors.Is(err, ErrDamaged) || errors.As(err, &system) && !misplaced {
			return err
		}
		return fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
	}
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	if err != nil {
		return nil, nil, damaged(manifestName, err)
	}
	if got := hexDigest(data); manifest != "" && got != manifest {
		return nil, nil, damaged(manifestName, fmt.Errorf("SHA-256 is %s, expected %s", got, manifest))
	}
	m, err := ParseManifest(data)
	if err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, damaged(dir, err)
	}
	for _, e := range entries {
		known := slices.ContainsFunc(m.Files, func(f ManifestFile) bool { return f.Name == e.Name() })
		if !known && e.Name() != manifestName {
			return nil, nil, damaged(e.Name(), errors.New("the manifest does not name it"))
		}
	}
	s := NewState(m.Update)
	defer func() {
		if err != nil {
			_ = s.Close()
		}
	}()
	for _, f := range m.Files {
		if err := s.open(dir, f, m); err != nil {
			return nil, nil, damaged(f.Name, err)
		}
	}
	return s, m, nil
}

// open checks one file and takes it into the state.
func (s *State) open(dir string, want ManifestFile, m *Manifest) error {
	file, err := os.Open(filepath.Join(dir, want.Name))
	if err != nil {
		return err
	}
	s.closers = append(s.closers, file)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != want.Size {
		return fmt.Errorf("%d bytes, expected %d", info.Size(), want.Size)
	}
	h := sha256.New()
	if _, err := io.Copy(h, file); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != want.SHA256 {
		return fmt.Errorf("SHA-256 is %s, expected %s", got, want.SHA256)
	}
	if want.Name == readyName {
		if s.Ready, _, err = ReadLines(io.NewSectionReader(file, 0, want.Size)); err == nil && len(s.Ready) != m.Ready {
			err = fmt.Errorf("%d completions, expected %d", len(s.Ready), m.Ready)
		}
		return err
	}
	group, isGroup := strings.CutSuffix(want.Name, tensorsExt)
	if !isGroup {
		data := make([]byte, want.Size)
		if _, err := file.ReadAt(data, 0); err != nil && want.Size > 0 {
			return err
		}
		return s.parse(data, m.Update)
	}
	tensors, err := safetensors.Open(file, want.Size)
	if err != nil {
		return err
	}
	if got := len(tensors.Tensors()); got != len(m.Groups[group]) {
		return fmt.Errorf("%d tensors, expected %d", got, len(m.Groups[group]))
	}
	s.Tensors[group] = []Tensor{}
	for _, r := range m.Groups[group] {
		t, ok := tensors.Tensor(r.Name)
		switch {
		case !ok:
			return fmt.Errorf("it has no tensor %q", r.Name)
		case t.DType != r.DType || !slices.Equal(t.Shape, r.Shape):
			return fmt.Errorf("tensor %q is %s %v, expected %s %v", r.Name, t.DType, t.Shape, r.DType, r.Shape)
		}
		s.Tensors[group] = append(s.Tensors[group], digested(t, func(digest string) error {
			if digest != r.Digest {
				return fmt.Errorf("%w: tensor %q of %s: digest is %s, expected %s", ErrDamaged, r.Name, want.Name, digest, r.Digest)
			}
			return nil
		}))
	}
	return nil
}

func (s *State) parse(data []byte, update int) error {
	if err := checkFormat(data); err != nil {
		return err
	}
	var f stateFile
	if err := unmarshal(data, &f); err != nil {
		return err
	}
	if f.Update != update {
		return fmt.Errorf("it is of update %d, the manifest of %d", f.Update, update)
	}
	for key, value := range f.Values {
		var b bytes.Buffer // as it was set: the file is indented
		if err := json.Compact(&b, value); err != nil {
			return err
		}
		s.Values[key] = b.Bytes()
	}
	return nil
}
