package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Write writes one file. The bytes depend on the metadata and the tensors alone, not on their order: as in the reference
// implementation tensors are sorted by element type, widest first, then by name, so that all are aligned. Each tensor's
// data is streamed from its Data function. An error names the tensor.
func Write(w io.Writer, meta map[string]string, ts []Tensor) error {
	sorted := slices.Clone(ts)
	slices.SortStableFunc(sorted, func(a, b Tensor) int {
		if d := b.DType.rank() - a.DType.rank(); d != 0 {
			return d
		}
		return strings.Compare(a.Name, b.Name)
	})
	header, err := buildHeader(meta, sorted)
	if err != nil {
		return err
	}
	if _, err := w.Write(header); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	for _, t := range sorted {
		want, n := t.Size(), int64(0)
		err := t.Data(func(p []byte) error {
			if n += int64(len(p)); n > want {
				return fmt.Errorf("more than the %d bytes of shape %v", want, t.Shape)
			}
			_, err := w.Write(p)
			return err
		})
		if err == nil && n != want {
			err = fmt.Errorf("%d bytes of data, shape %v has %d", n, t.Shape, want)
		}
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// buildHeader gives the length field and the header, padded with spaces to a multiple of eight bytes.
func buildHeader(meta map[string]string, sorted []Tensor) ([]byte, error) {
	b := bytes.NewBuffer(make([]byte, 8))
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	encode := func(v any) error {
		if err := enc.Encode(v); err != nil {
			return err
		}
		b.Truncate(b.Len() - 1) // the encoder's newline
		return nil
	}
	field := func(key string, value any) error {
		if !utf8.ValidString(key) {
			return errors.New("the name is not valid UTF-8")
		}
		if b.Len() == 8 {
			b.WriteByte('{')
		} else {
			b.WriteByte(',')
		}
		if err := encode(key); err != nil {
			return err
		}
		b.WriteByte(':')
		return encode(value)
	}
	if len(meta) > 0 {
		for _, k := range slices.Sorted(maps.Keys(meta)) {
			if !utf8.ValidString(k) || !utf8.ValidString(meta[k]) {
				return nil, fmt.Errorf("metadata %q: not valid UTF-8", k)
			}
		}
		if err := field(metadataKey, meta); err != nil {
			return nil, err
		}
	}
	seen := make(map[string]bool, len(sorted))
	at := int64(0)
	for _, t := range sorted {
		n, err := byteSize(t.DType, t.Shape)
		switch {
		case err != nil:
		case t.Name == "" || t.Name == metadataKey:
			err = errors.New("a tensor cannot have this name")
		case seen[t.Name]:
			err = errors.New("two tensors have this name")
		case at+n < at:
			err = errors.New("the file would be too large")
		}
		if err == nil {
			err = field(t.Name, entry{DType: t.DType, Shape: append([]int{}, t.Shape...), Offsets: []int64{at, at + n}})
		}
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		seen[t.Name] = true
		at += n
	}
	if b.Len() == 8 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	if b.Len()-8 > MaxHeader {
		return nil, fmt.Errorf("the header would have %d bytes, the format allows %d", b.Len()-8, MaxHeader)
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-8))
	return b.Bytes(), nil
}

// entry is a tensor in the header.
type entry struct {
	DType   DType   `json:"dtype"`
	Shape   []int   `json:"shape"`
	Offsets []int64 `json:"data_offsets"`
}
