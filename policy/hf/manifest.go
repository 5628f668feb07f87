package hf

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
	"path"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/internal/files"
	"github.com/grouper-rl/grouper/internal/safetensors"
	"github.com/grouper-rl/grouper/policy/chat"
)

// ManifestName is the file of an exported folder that says what must be in it.
const ManifestName = "grouper-manifest.json"

const manifestFormat = 1

// Manifest says what an exported folder holds. It does not depend on how tensors are spread over files, but for File.
type Manifest struct {
	Format  int              `json:"format"`
	Weights string           `json:"weights"` // digest of the policy's weights: policy.Weights.Digest, which receipts name
	Tensors []ManifestTensor `json:"tensors"` // all, by name
	Files   []ManifestFile   `json:"files"`   // all but the manifest, by name
}

// ManifestTensor is one tensor. Its digest was taken of the trained tensor before anything was written, and again after reading it back.
type ManifestTensor struct {
	Name   string `json:"name"`
	DType  string `json:"dtype"`
	Shape  []int  `json:"shape"`
	SHA256 string `json:"sha256"` // of dtype, shape and bytes: policy.TensorDigest
	File   string `json:"file"`
}

// ManifestFile is one file.
type ManifestFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// ErrAltered says that a folder is not what its manifest says; the message names the file or the tensor.
var ErrAltered = errors.New("the folder is not what its manifest says")

func (m *Manifest) encode() ([]byte, error) {
	data, err := json.MarshalIndent(m, "", "  ")
	return append(data, '\n'), err
}

// ParseManifest reads a manifest.
func ParseManifest(data []byte) (*Manifest, error) {
	var m Manifest
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	err := d.Decode(&m)
	if err == nil && len(bytes.TrimSpace(data[d.InputOffset():])) > 0 {
		err = errors.New("something stands behind its end")
	}
	if err == nil {
		err = files.UniqueKeys(data, "")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestName, err)
	}
	if m.Format != manifestFormat {
		return nil, fmt.Errorf("%s: format %d, this program reads format %d", ManifestName, m.Format, manifestFormat)
	}
	for _, f := range m.Files {
		if err := belongs(f.Name); err != nil {
			return nil, fmt.Errorf("%s: %w", ManifestName, err)
		}
	}
	return &m, nil
}

// belongs refuses what is not the name of a file of the folder itself or of a chat template in its only subfolder.
func belongs(name string) error {
	dir, base := path.Split(name)
	if template := dir == chat.FolderName+"/" && path.Ext(base) == ".jinja"; dir != "" && !template || base == "." ||
		!fs.ValidPath(name) || strings.Contains(name, `\`) {
		return fmt.Errorf("%q is not a file of the folder", name)
	}
	return nil
}

// Verify checks a folder, local or [Remote], against a manifest; nil: its own. Every tensor's type, shape and bytes and every other file
// must be as the manifest says, and no tensor may be there that it does not name; its digest of the weights must be that of the policy's tensors. Tensors may be in other files than it says: a folder
// that was repacked into other shards holds the same tensors. Where the folder can be listed, which a [Remote] one cannot, no other
// file may be in it: only names that begin with a dot, such as .gitattributes and .cache, are nobody's business. Errors wrap
// [ErrAltered] where something differs.
func Verify(ctx context.Context, fsys fs.FS, m *Manifest) (*Manifest, error) {
	if m == nil {
		data, err := files.Read(fsys, ManifestName, maxKept)
		if err != nil {
			return nil, err
		}
		if m, err = ParseManifest(data); err != nil {
			return nil, err
		}
	}
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if strings.HasSuffix(f.Name, ".safetensors") || f.Name == indexName {
			continue // their tensors are checked
		}
		info, err := files.Stat(fsys, f.Name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%w: %s is missing", ErrAltered, f.Name)
		}
		if err != nil {
			return nil, err
		}
		if info.Size() != f.Size { // which may be endless
			return nil, fmt.Errorf("%w: %s has %d bytes, expected %d", ErrAltered, f.Name, info.Size(), f.Size)
		}
		size, sum, err := fileDigest(fsys, f.Name, f.Size+1)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if size != f.Size || sum != f.SHA256 {
			return nil, fmt.Errorf("%w: %s has %d bytes with SHA-256 %s, expected %d with %s", ErrAltered, f.Name, size, sum, f.Size, f.SHA256)
		}
	}
	s, err := openWeights(fsys)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := m.checkTensors(ctx, s); err != nil {
		return nil, err
	}
	if err := m.checkWeights(fsys, s); err != nil {
		return nil, err
	}
	return m, m.nothingElse(fsys, s)
}

// checkWeights makes the digest of the policy's weights, by which receipts know them, from those of its tensors, as
// policy.Weights.Digest does. Which tensors and in which order follows from config.json.
func (m *Manifest) checkWeights(fsys fs.FS, s *storage) error {
	config, err := files.Read(fsys, configName, maxKept)
	if err != nil {
		return err
	}
	cfg, fam, err := parseConfig(config)
	if err != nil {
		return fmt.Errorf("%s: %w", configName, err)
	}
	d, err := s.decoder(&cfg, fam)
	if err != nil {
		return err
	}
	digests := map[string]string{}
	for _, t := range m.Tensors {
		digests[t.Name] = t.SHA256
	}
	all := sha256.New()
	for _, p := range d.Params() {
		if digests[p.Name] == "" {
			return fmt.Errorf("tensor %q is missing", p.Name)
		}
		fmt.Fprintf(all, "%s\x00%s\x00", p.Name, digests[p.Name])
	}
	if digest := hex.EncodeToString(all.Sum(nil)); digest != m.Weights {
		return fmt.Errorf("%w: the weights have digest %s, expected %s", ErrAltered, digest, m.Weights)
	}
	return nil
}

// nothingElse looks for files that are neither the manifest's nor those which the tensors were read from: code, weights in another
// format, shards of another model.
func (m *Manifest) nothingElse(fsys fs.FS, s *storage) error {
	named := map[string]bool{ManifestName: true}
	for _, f := range m.Files {
		named[f.Name] = true
	}
	return fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		if name == "." && errors.Is(err, fs.ErrInvalid) {
			return fs.SkipAll // it cannot be listed
		}
		if err != nil || name == "." {
			return err
		}
		hidden := strings.HasPrefix(e.Name(), ".")
		if e.IsDir() {
			if hidden {
				return fs.SkipDir
			}
			return nil
		}
		ok := hidden || named[name]
		switch {
		case strings.HasSuffix(name, ".safetensors"):
			ok = s.opened[name] != nil
		case name == indexName:
			ok = s.opened[weightsName] == nil
		}
		if !ok {
			return fmt.Errorf("%w: the manifest does not name %s", ErrAltered, name)
		}
		return nil
	})
}

func (m *Manifest) checkTensors(ctx context.Context, s *storage) error {
	rest := maps.Clone(s.tensors)
	for _, want := range m.Tensors {
		if err := ctx.Err(); err != nil {
			return err
		}
		t, ok := rest[want.Name]
		if !ok {
			return fmt.Errorf("%w: tensor %q is missing", ErrAltered, want.Name)
		}
		delete(rest, want.Name)
		if string(t.DType) != want.DType || !slices.Equal(t.Shape, want.Shape) {
			return fmt.Errorf("%w: tensor %q in %s is %s %v, expected %s %v", ErrAltered, want.Name, s.files[want.Name], t.DType, t.Shape, want.DType, want.Shape)
		}
		got, err := t.Digest()
		if err != nil {
			return fmt.Errorf("%s: %w", s.files[want.Name], err)
		}
		if got != want.SHA256 {
			return fmt.Errorf("%w: tensor %q in %s has digest %s, expected %s", ErrAltered, want.Name, s.files[want.Name], got, want.SHA256)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(rest)) {
		return fmt.Errorf("%w: the manifest does not name tensor %q in %s", ErrAltered, name, s.files[name])
	}
	return nil
}

// describe lists tensors with their digests, sorted by name.
func describe(ctx context.Context, ts []safetensors.Tensor, file func(name string) string) ([]ManifestTensor, error) {
	out := make([]ManifestTensor, 0, len(ts))
	for _, t := range ts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		digest, err := t.Digest()
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		out = append(out, ManifestTensor{t.Name, string(t.DType), append([]int{}, t.Shape...), digest, file(t.Name)})
	}
	slices.SortFunc(out, func(a, b ManifestTensor) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// fileDigest reads no more than max bytes.
func fileDigest(fsys fs.FS, name string, max int64) (size int64, digest string, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, io.LimitReader(f, max))
	return size, hex.EncodeToString(h.Sum(nil)), err
}
