package hf

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/internal/safetensors"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/chat"
)

// ExportOptions say what an exported folder looks like. The zero value is one file of weights and no card.
type ExportOptions struct {
	// ShardSize is the most bytes of tensors in one file; a larger tensor has a file of its own. 0: all in model.safetensors.
	ShardSize int64
	// Files are put beside the model's own: README.md (the model card), its pictures, a LICENSE. They win over the model's. Names are
	// those of files of the folder itself, or of .jinja files in additional_chat_templates, but not of safetensors, their index or the manifest.
	Files map[string][]byte
}

// Export writes a model folder for others: what [Save] writes, in shards if asked for, with the given files and a manifest of every tensor
// and file. A tensor's digest is taken from memory before anything is written, and again from the written files before the folder gets
// its name: what is exported is bit for bit what was trained. dir must not exist, or be an empty folder.
func Export(ctx context.Context, dir string, m *Model, w *policy.Weights, o ExportOptions) (*Manifest, error) {
	if o.ShardSize < 0 {
		return nil, fmt.Errorf("export: ShardSize is %d, allowed: 0 (one file) or more bytes", o.ShardSize)
	}
	digest, err := w.Digest()
	if err != nil {
		return nil, err
	}
	made := &Manifest{Format: manifestFormat, Weights: digest}
	files := maps.Clone(m.Files)
	maps.Copy(files, o.Files)
	return made, makeFolder(ctx, dir, m, w, files, o.ShardSize, made)
}

// Save writes a model folder that transformers and [Load] open: the model's Files as they are and the weights, and the tensors that
// were PassedThrough, bit for bit, in model.safetensors. The folder appears whole or not at all: it is written under a temporary
// name beside its place, synced and renamed. dir must not exist, or be an empty folder.
func Save(ctx context.Context, dir string, m *Model, w *policy.Weights) error {
	return makeFolder(ctx, dir, m, w, m.Files, 0, nil)
}

// makeFolder writes a folder under a temporary name and renames it. With a manifest, it is filled in, checked and written too.
func makeFolder(ctx context.Context, dir string, m *Model, w *policy.Weights, files map[string][]byte, shardSize int64, made *Manifest) (err error) {
	if err := matches(m, w); err != nil {
		return err
	}
	for name := range files {
		if err := belongs(name); err != nil {
			return fmt.Errorf("saving %s: %w", dir, err)
		}
		if strings.HasSuffix(name, ".safetensors") || name == indexName || name == ManifestName {
			return fmt.Errorf("saving %s: Files has %s, allowed are files other than those of the weights and the manifest", dir, name)
		}
	}
	target, err := place(dir)
	if err != nil {
		return fmt.Errorf("saving %s: %w", dir, err)
	}
	parent, base := filepath.Split(target)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(parent, "."+base+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("saving %s: %w", dir, err), os.RemoveAll(tmp))
		}
	}()
	if err := os.Chmod(tmp, 0o755); err != nil { // MkdirTemp makes it private
		return err
	}
	ts, err := export(ctx, w)
	if err != nil {
		return err
	}
	passed, closeSource, err := m.passedThrough(ctx)
	if err != nil {
		return err
	}
	defer closeSource()
	ts = append(ts, passed...)
	shards := pack(ts, shardSize)
	if made != nil {
		in := map[string]string{}
		for name, shard := range shards {
			for _, t := range shard {
				in[t.Name] = name
			}
		}
		if made.Tensors, err = describe(ctx, ts, func(name string) string { return in[name] }); err != nil {
			return err
		}
	}
	if len(shards) > 1 {
		files = maps.Clone(files)
		if files[indexName], err = index(shards); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		within := filepath.Join(tmp, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(within), 0o755); err != nil {
			return err
		}
		if err := write(within, func(w io.Writer) error { _, err := w.Write(files[name]); return err }); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(shards)) {
		if err := write(filepath.Join(tmp, name), func(w io.Writer) error {
			return safetensors.Write(w, map[string]string{"format": "pt"}, shards[name])
		}); err != nil {
			return err
		}
	}
	if made != nil {
		if err := made.finish(ctx, tmp); err != nil {
			return err
		}
	}
	if err := syncDir(filepath.Join(tmp, chat.FolderName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syncDir(tmp); err != nil {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) { // an empty folder, in whose place os.Rename puts nothing
		return err
	}
	if err := os.Rename(tmp, target); err != nil {
		return err
	}
	return syncDir(parent)
}

// place is where a folder can be made: dir itself, or the empty folder that it links to.
func place(dir string) (string, error) {
	if dir == "" {
		return "", errors.New("the folder has no name")
	}
	target, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if _, err := os.Lstat(target); errors.Is(err, fs.ErrNotExist) {
		return target, nil
	}
	if target, err = filepath.EvalSymlinks(target); err != nil {
		return "", err
	}
	if entries, err := os.ReadDir(target); err != nil {
		return "", err
	} else if len(entries) > 0 {
		return "", fmt.Errorf("the folder is not empty: %w", fs.ErrExist)
	}
	here, err := os.Stat(".")
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(target); err != nil {
		return "", err
	} else if os.SameFile(here, info) {
		return "", errors.New("it is the working folder, which cannot be replaced")
	}
	return target, nil
}

// finish lists the files that were written, reads the tensors back, and writes the manifest.
func (m *Manifest) finish(ctx context.Context, dir string) error {
	fsys := os.DirFS(dir)
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error { // sorted
		if err != nil || e.IsDir() {
			return err
		}
		size, digest, err := fileDigest(fsys, name, math.MaxInt64)
		m.Files = append(m.Files, ManifestFile{name, size, digest})
		return err
	})
	if err != nil {
		return err
	}
	s, err := openWeights(fsys)
	if err != nil {
		return err
	}
	defer s.close()
	if err := m.checkTensors(ctx, s); err != nil {
		return fmt.Errorf("reading back what was written: %w", err)
	}
	data, err := m.encode()
	if err != nil {
		return err
	}
	return write(filepath.Join(dir, ManifestName), func(w io.Writer) error { _, err := w.Write(data); return err })
}

// pack spreads tensors over files, in the order of their names, so that none has more than limit bytes of tensors unless one
// tensor has. 0: one file.
func pack(ts []safetensors.Tensor, limit int64) map[string][]safetensors.Tensor {
	if limit == 0 {
		return map[string][]safetensors.Tensor{weightsName: ts}
	}
	ts = slices.Clone(ts)
	slices.SortFunc(ts, func(a, b safetensors.Tensor) int { return cmp.Compare(a.Name, b.Name) })
	var shards [][]safetensors.Tensor
	room := int64(-1)
	for _, t := range ts {
		if n := t.Size(); room < n {
			shards = append(shards, nil)
			room = max(limit, n)
		}
		last := len(shards) - 1
		shards[last] = append(shards[last], t)
		room -= t.Size()
	}
	if len(shards) == 1 {
		return map[string][]safetensors.Tensor{weightsName: ts}
	}
	out := map[string][]safetensors.Tensor{}
	for i, shard := range shards {
		out[fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))] = shard
	}
	return out
}

// index is the content of model.safetensors.index.json.
func index(shards map[string][]safetensors.Tensor) ([]byte, error) {
	type metadata struct {
		Size int64 `json:"total_size"`
	}
	var out struct {
		Metadata metadata          `json:"metadata"`
		Map      map[string]string `json:"weight_map"`
	}
	out.Map = map[string]string{}
	for name, shard := range shards {
		for _, t := range shard {
			out.Metadata.Size += t.Size()
			out.Map[t.Name] = name
		}
	}
	data, err := json.MarshalIndent(out, "", "  ")
	return append(data, '\n'), err
}

// Licences are names under which model folders keep theirs.
func isLicence(name string) bool {
	upper := strings.ToUpper(name)
	return strings.HasPrefix(upper, "LICENSE") || strings.HasPrefix(upper, "LICENCE") || strings.HasPrefix(upper, "NOTICE")
}
