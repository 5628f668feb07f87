package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/grouper-rl/grouper/internal/safetensors"
)

// Tensor is a named tensor whose little-endian bytes are handed out in pieces, so that a checkpoint need not be in
// memory twice. DType is named as in safetensors: "F32", "BF16", "I64", …
type Tensor = safetensors.Tensor

// DType is the element type of a [Tensor].
type DType = safetensors.DType

// Bytes is the Data of a [Tensor] whose bytes are in memory.
func Bytes(data []byte) func(func([]byte) error) error { return safetensors.Bytes(data) }

// WeightsGroup is the group of tensors that are the policy's weights, in the order of its parameters.
const WeightsGroup = "weights"

// State is everything that a run needs to go on after an update: groups of tensors ("weights", "masters", "slots") and
// JSON values (schedule, cursor, optimizer step, …). What is asked of a restored state and is not there is an error.
type State struct {
	Update  int
	Tensors map[string][]Tensor // in a group, names are unique; the order is kept
	Values  map[string]json.RawMessage
	Ready   []Line // whole groups that were sampled and graded and are not yet trained on

	closers []io.Closer
}

// NewState is an empty state after an update.
func NewState(update int) *State {
	return &State{Update: update, Tensors: map[string][]Tensor{}, Values: map[string]json.RawMessage{}}
}

// Set stores a value as JSON.
func (s *State) Set(key string, value any) error {
	data, err := marshal(value)
	if err != nil {
		return fmt.Errorf("checkpoint: state %q: %w", key, err)
	}
	s.Values[key] = data
	return nil
}

// Get reads a value back. A missing value is [ErrIncomplete]; unknown fields are errors.
func (s *State) Get(key string, value any) error {
	data, ok := s.Values[key]
	if !ok {
		return fmt.Errorf("%w: update %d has no %q", ErrIncomplete, s.Update, key)
	}
	if err := unmarshal(data, value); err != nil {
		return fmt.Errorf("checkpoint: state %q of update %d: %w", key, s.Update, err)
	}
	return nil
}

// Group returns a group of tensors in the order in which it was stored. A missing group is [ErrIncomplete]. The data of a
// restored tensor is read from the checkpoint when it is asked for, until the run is closed, and its digest is checked.
func (s *State) Group(name string) ([]Tensor, error) {
	ts, ok := s.Tensors[name]
	if !ok {
		return nil, fmt.Errorf("%w: update %d has no tensors %q", ErrIncomplete, s.Update, name)
	}
	return ts, nil
}

// Close releases the files of a restored state. The run does that for the state that Begin returned.
func (s *State) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// stateFile is the content of state.json.
type stateFile struct {
	Format int                        `json:"format"`
	Update int                        `json:"update"`
	Values map[string]json.RawMessage `json:"values"`
}

// Manifest is the content of a checkpoint's manifest.json.
type Manifest struct {
	Format int                       `json:"format"`
	Update int                       `json:"update"`
	Ready  int                       `json:"ready,omitempty"` // completions in ready.jsonl.zst
	Files  []ManifestFile            `json:"files"`           // every other file of the folder, sorted
	Groups map[string][]TensorRecord `json:"groups"`          // the tensors of <group>.safetensors
}

// ManifestFile names a file of a checkpoint with what it must contain.
type ManifestFile struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// TensorRecord names a tensor with what it must contain.
type TensorRecord struct {
	Name   string `json:"name"`
	DType  DType  `json:"dtype"`
	Shape  []int  `json:"shape"`
	Digest string `json:"digest"` // as policy.TensorDigest: SHA-256 of dtype, dimensions and little-endian bytes
}

func (m *Manifest) encode() ([]byte, error) {
	data, err := marshal(m)
	if err != nil {
		return nil, err
	}
	return indented(data), nil
}

// ParseManifest reads a manifest.json as strictly as it is written.
func ParseManifest(data []byte) (*Manifest, error) {
	if err := checkFormat(data); err != nil {
		return nil, fmt.Errorf("manifest.json: %w", err)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: manifest.json: %w", ErrDamaged, fmt.Errorf(format, args...))
	}
	var m Manifest
	if err := unmarshal(data, &m); err != nil {
		return nil, bad("%w", err)
	}
	if again, err := m.encode(); err != nil || !bytes.Equal(again, data) {
		return nil, bad("it is not in the canonical form")
	}
	names := map[string]bool{}
	for _, f := range m.Files {
		if !plainName(f.Name) || f.Name == manifestName || f.Size < 0 {
			return nil, bad("it names a file %q of %d bytes", f.Name, f.Size)
		}
		names[f.Name] = true
	}
	want := []string{stateName}
	for group := range m.Groups {
		want = append(want, group+tensorsExt)
	}
	if m.Ready < 0 {
		return nil, bad("it names %d ready completions", m.Ready)
	}
	if m.Ready > 0 {
		want = append(want, readyName)
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(names)); len(names) != len(m.Files) || !slices.Equal(got, want) {
		return nil, bad("it names the files %v, its groups need %v", got, want)
	}
	return &m, nil
}

// WeightsDigest names the tensors of a group as policy.Weights.Digest does: SHA-256 over "name NUL digest NUL" in order.
func WeightsDigest(ts []TensorRecord) string {
	h := sha256.New()
	for _, t := range ts {
		fmt.Fprintf(h, "%s\x00%s\x00", t.Name, t.Digest)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// digested passes a tensor's data on and gives its digest to done at the end.
func digested(t Tensor, done func(digest string) error) Tensor {
	data := t.Data
	t.Data = func(emit func([]byte) error) error {
		h := sha256.New()
		io.WriteString(h, safetensors.DigestHead(t.DType, t.Shape))
		err := data(func(p []byte) error {
			h.Write(p)
			return emit(p)
		})
		if err != nil {
			return err
		}
		return done(hex.EncodeToString(h.Sum(nil)))
	}
	return t
}
