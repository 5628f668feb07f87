package hf

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/internal/files"
	"github.com/grouper-rl/grouper/internal/safetensors"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
)

// storage is the tensors of one or several safetensors files.
type storage struct {
	tensors map[string]safetensors.Tensor
	files   map[string]string // of each tensor
	opened  map[string]*safetensors.File
	stamps  map[string]stamp // of the files
	closers []io.Closer
}

// stamp tells whether a file is still the one that it was.
type stamp struct{ size, modified int64 }

// openWeights opens model.safetensors, or else the files that the index names.
func openWeights(fsys fs.FS) (*storage, error) {
	s := &storage{tensors: map[string]safetensors.Tensor{}, files: map[string]string{}, opened: map[string]*safetensors.File{},
		stamps: map[string]stamp{}}
	err := s.add(fsys, weightsName)
	if errors.Is(err, fs.ErrNotExist) {
		err = s.addShards(fsys)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *storage) close() {
	for _, c := range s.closers {
		_ = c.Close() // only read from
	}
}

// add opens one file and takes in its tensors.
func (s *storage) add(fsys fs.FS, name string) error {
	if _, err := files.Stat(fsys, name); err != nil {
		return err
	}
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	s.closers = append(s.closers, f)
	info, err := f.Stat()
	if err != nil {
		return err
	}
	size := info.Size()
	r, ok := f.(io.ReaderAt)
	if !ok { // a file system of streams, such as a compressed archive
		data, err := io.ReadAll(f)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		r, size = bytes.NewReader(data), int64(len(data))
	}
	file, err := safetensors.Open(r, size)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	s.opened[name], s.stamps[name] = file, stamp{size, info.ModTime().UnixNano()}
	for _, t := range file.Tensors() {
		if other, ok := s.files[t.Name]; ok {
			return fmt.Errorf("tensor %q is in %s and in %s", t.Name, other, name)
		}
		s.tensors[t.Name], s.files[t.Name] = t, name
	}
	return nil
}

// addShards opens the files of model.safetensors.index.json and checks that they hold what it says.
func (s *storage) addShards(fsys fs.FS) error {
	data, err := files.Read(fsys, indexName, maxKept)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("neither %s nor %s: %w", weightsName, indexName, err)
	}
	if err != nil {
		return err
	}
	var index struct {
		Map map[string]string `json:"weight_map"`
	}
	if err := files.Unmarshal(data, &index); err != nil {
		return fmt.Errorf("%s: %w", indexName, err)
	}
	if len(index.Map) == 0 {
		return fmt.Errorf("%s: weight_map is empty", indexName)
	}
	for _, name := range slices.Compact(slices.Sorted(maps.Values(index.Map))) {
		if strings.ContainsAny(name, `/\`) || !fs.ValidPath(name) || name == "." {
			return fmt.Errorf("%s: %q is not a file of the folder", indexName, name)
		}
		if err := s.add(fsys, name); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(index.Map)) {
		if at, ok := s.files[name]; !ok || at != index.Map[name] {
			return fmt.Errorf("tensor %q is not in %s, where %s says it is", name, index.Map[name], indexName)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		if _, ok := index.Map[name]; !ok {
			return fmt.Errorf("tensor %q in %s is not in %s", name, s.files[name], indexName)
		}
	}
	return nil
}

// decoder makes the decoder of a folder's configuration, in which it fills in the names and the types that the tensors have.
func (s *storage) decoder(cfg *decoder.Config, fam *family) (d *decoder.Decoder, err error) {
	cfg.Names = fam.namesIn(func(name string) bool { _, ok := s.tensors[name]; return ok })
	if cfg.DType, cfg.DTypes, err = s.dtypes(cfg.Names[decoder.Embedding]); err != nil {
		return nil, err
	}
	if d, err = decoder.New(*cfg); err != nil {
		return nil, fmt.Errorf("%s: %w", configName, err)
	}
	return d, nil
}

// stored are the element types of weights.
var stored = map[safetensors.DType]dtypes.DType{"F32": dtypes.Float32, "BF16": dtypes.BFloat16}

// dtypes are the type of one tensor, and those of the tensors of other supported types by name.
func (s *storage) dtypes(of string) (dtype dtypes.DType, others map[string]dtypes.DType, err error) {
	if len(s.tensors) == 0 {
		return 0, nil, errors.New("the weights' files hold no tensors")
	}
	t, ok := s.tensors[of]
	if !ok {
		return 0, nil, fmt.Errorf("tensor %q is missing", of)
	}
	if dtype, err = s.dtypeOf(t); err != nil {
		return 0, nil, err
	}
	others = map[string]dtypes.DType{}
	for name, t := range s.tensors {
		if other, ok := stored[t.DType]; ok && other != dtype {
			others[name] = other
		}
	}
	return dtype, others, nil
}

func (s *storage) dtypeOf(t safetensors.Tensor) (dtypes.DType, error) {
	dtype, ok := stored[t.DType]
	if !ok {
		return 0, fmt.Errorf("%w: %s: tensor %q has dtype %s, supported: F32, BF16", ErrUnsupported, s.files[t.Name], t.Name, t.DType)
	}
	return dtype, nil
}

// tiedNames are the tensors that are one if embeddings are tied; head is "" if they are not.
type tiedNames struct{ embedding, head string }

// read loads the tensors of the parameters, and lists the others, which must be those of towers. All shapes are checked against the
// files before memory is taken.
func (s *storage) read(ctx context.Context, params []policy.Param, tied tiedNames, isTower func(name string) bool) (*policy.Weights, []string, error) {
	wanted := map[string]bool{}
	for _, p := range params {
		wanted[p.Name] = true
		t, ok := s.tensors[p.Name]
		if !ok {
			return nil, nil, fmt.Errorf("tensor %q is missing", p.Name)
		}
		if !slices.Equal(t.Shape, p.Shape.Dimensions) {
			return nil, nil, fmt.Errorf("%s: tensor %q has shape %v, %s asks for %v", s.files[p.Name], p.Name, t.Shape, configName, p.Shape.Dimensions)
		}
		if _, err := s.dtypeOf(t); err != nil {
			return nil, nil, err
		}
	}
	var passed []string
	for _, name := range slices.Sorted(maps.Keys(s.tensors)) {
		switch {
		case wanted[name] || strings.HasSuffix(name, ".rotary_emb.inv_freq"): // the latter follow from the configuration
		case name == tied.head: // its bytes are compared when the embedding is there
		case isTower(name):
			passed = append(passed, name)
		default:
			return nil, nil, fmt.Errorf("%s: tensor %q does not belong to the model that %s describes", s.files[name], name, configName)
		}
	}
	ts := make([]*tensors.Tensor, 0, len(params))
	fail := func(err error) (*policy.Weights, []string, error) {
		for _, t := range ts {
			_ = t.FinalizeAll()
		}
		return nil, nil, err
	}
	for _, p := range params {
		if err := ctx.Err(); err != nil {
			return fail(err)
		}
		t := tensors.FromShape(p.Shape)
		ts = append(ts, t)
		var err error
		lockErr := t.MutableBytes(func(data []byte) {
			at := 0
			err = s.opened[s.files[p.Name]].ReadInto(p.Name, data, func(piece []byte) error {
				if i := finite(piece, p.Shape.DType); i >= 0 {
					return fmt.Errorf("element %d is NaN or infinite", at/p.Shape.DType.Size()+i)
				}
				at += len(piece)
				return nil
			})
			if err == nil && p.Name == tied.embedding {
				err = s.same(tied, data)
			}
		})
		if err = cmp.Or(err, lockErr); err != nil {
			return fail(fmt.Errorf("%s: tensor %q: %w", s.files[p.Name], p.Name, err))
		}
	}
	w, err := policy.NewWeights(0, params, ts)
	if err != nil {
		return fail(err)
	}
	return w, passed, nil
}

// finite looks for NaN and infinities, which have all exponent bits set: adding the lowest of them then sets the sign's place, which is
// masked out before. It takes 64 bytes at once and returns the index of the first such element, or -1.
func finite(data []byte, dtype dtypes.DType) int {
	size, exponent, lowest, sign := 4, uint64(0x7f800000_7f800000), uint64(0x00800000_00800000), uint64(0x80000000_80000000)
	if dtype == dtypes.BFloat16 {
		size, exponent, lowest, sign = 2, 0x7f80_7f80_7f80_7f80, 0x0080_0080_0080_0080, 0x8000_8000_8000_8000
	}
	at := 0
	for ; at+64 <= len(data); at += 64 {
		b := data[at : at+64 : at+64]
		sums := (binary.LittleEndian.Uint64(b)&exponent + lowest) | (binary.LittleEndian.Uint64(b[8:])&exponent + lowest) |
			(binary.LittleEndian.Uint64(b[16:])&exponent + lowest) | (binary.LittleEndian.Uint64(b[24:])&exponent + lowest) |
			(binary.LittleEndian.Uint64(b[32:])&exponent + lowest) | (binary.LittleEndian.Uint64(b[40:])&exponent + lowest) |
			(binary.LittleEndian.Uint64(b[48:])&exponent + lowest) | (binary.LittleEndian.Uint64(b[56:])&exponent + lowest)
		if sums&sign != 0 {
			break
		}
	}
	for ; at < len(data); at += size { // the rest, or the block with such an element; both types have the exponent in the last two bytes
		if binary.LittleEndian.Uint16(data[at+size-2:])&0x7f80 == 0x7f80 {
			return at / size
		}
	}
	return -1
}

// same checks an output projection that is stored although it is tied to the embedding, whose bytes are given.
func (s *storage) same(tied tiedNames, embedding []byte) error {
	head, ok := s.tensors[tied.head]
	if !ok {
		return nil
	}
	other := s.tensors[tied.embedding]
	differs := fmt.Errorf("tensor %q differs from %q, but tie_word_embeddings in %s says that they are one", tied.head, tied.embedding, configName)
	if head.DType != other.DType || !slices.Equal(head.Shape, other.Shape) {
		return differs
	}
	return head.Data(func(piece []byte) error {
		if !bytes.Equal(piece, embedding[:len(piece)]) {
			return differs
		}
		embedding = embedding[len(piece):]
		return nil
	})
}
