package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"
)

// ErrFormat is wrapped by every error about a file's content.
var ErrFormat = errors.New("not a valid safetensors file")

// File is an opened safetensors file. Its header has been checked; the data is read when it is asked for.
type File struct {
	r       io.ReaderAt
	meta    map[string]string
	tensors []Tensor
	begins  []int64 // where in r
	byName  map[string]int
}

// Open reads and checks the header of a file of the given size. Everything that the format demands is checked: the
// header's length, its JSON (no duplicate and no unknown keys), types, that each tensor's offsets fit its shape, and that the tensors
// cover the data exactly, without gap, overlap or rest. Errors wrap [ErrFormat] unless reading failed.
func Open(r io.ReaderAt, size int64) (*File, error) {
	header, err := readHeader(r, size)
	if err != nil {
		return nil, err
	}
	f := &File{r: r, byName: map[string]int{}}
	entries, err := f.parse(header)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	base := int64(8 + len(header))
	if err := f.place(base, size-base, entries); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return f, nil
}

// Metadata is the header's free-form map; nil if the file has none.
func (f *File) Metadata() map[string]string { return f.meta }

// Tensors lists the tensors in the order of their data.
func (f *File) Tensors() []Tensor { return slices.Clone(f.tensors) }

// Tensor finds a tensor by name.
func (f *File) Tensor(name string) (Tensor, bool) {
	i, ok := f.byName[name]
	if !ok {
		return Tensor{}, false
	}
	return f.tensors[i], true
}

// pieceSize is how much [File.ReadInto] reads at once. It fits the second-level cache and holds whole elements of any type.
const pieceSize = 256 << 10

// ReadInto reads a tensor's data into dst, whose length must be [Tensor.Size], without a buffer between. Each piece of dst, some whole
// elements, goes to check as soon as it is read, when the processor has it in its cache still; an error of check ends it and is returned.
func (f *File) ReadInto(name string, dst []byte, check func(piece []byte) error) error {
	i, ok := f.byName[name]
	if !ok {
		return fmt.Errorf("tensor %q is not in the file", name)
	}
	if int64(len(dst)) != f.tensors[i].Size() {
		return fmt.Errorf("tensor %q: %d bytes of room for %d bytes of data", name, len(dst), f.tensors[i].Size())
	}
	for at := 0; at < len(dst); {
		piece := dst[at:min(at+pieceSize, len(dst))]
		if err := readAt(f.r, piece, f.begins[i]+int64(at)); err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		if err := check(piece); err != nil {
			return err
		}
		at += len(piece)
	}
	return nil
}

func readHeader(r io.ReaderAt, size int64) ([]byte, error) {
	if size < 8 {
		return nil, fmt.Errorf("%w: %d bytes, too short for a header", ErrFormat, size)
	}
	var length [8]byte
	if err := readAt(r, length[:], 0); err != nil {
		return nil, fmt.Errorf("header length: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > MaxHeader {
		return nil, fmt.Errorf("%w: header of %d bytes, allowed are %d", ErrFormat, n, MaxHeader)
	}
	if int64(n) > size-8 {
		return nil, fmt.Errorf("%w: truncated: header of %d bytes in a file of %d", ErrFormat, n, size)
	}
	header := make([]byte, n)
	if err := readAt(r, header, 8); err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	return header, nil
}

// parse fills the metadata and the tensors without their data, and returns the offsets.
func (f *File) parse(header []byte) ([]entry, error) {
	if len(header) == 0 || header[0] != '{' {
		return nil, errors.New("the header does not start with {")
	}
	if !utf8.Valid(header) {
		return nil, errors.New("the header is not valid UTF-8")
	}
	var entries []entry
	d := json.NewDecoder(bytes.NewReader(header))
	hasMeta := false
	err := object(d, func(name string) error {
		if name == metadataKey {
			if hasMeta {
				return errors.New("the header has metadata twice")
			}
			hasMeta = true
			f.meta = map[string]string{}
			return object(d, func(key string) error {
				if _, twice := f.meta[key]; twice {
					return fmt.Errorf("metadata %q stands twice", key)
				}
				t, err := d.Token()
				if err != nil {
					return err
				}
				s, ok := t.(string)
				if !ok {
					return fmt.Errorf("metadata %q is not a string", key)
				}
				f.meta[key] = s
				return nil
			})
		}
		if name == "" {
			return errors.New("a tensor has no name")
		}
		if _, twice := f.byName[name]; twice {
			return fmt.Errorf("tensor %q stands twice in the header", name)
		}
		e, err := parseEntry(d)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		f.byName[name] = len(entries)
		entries = append(entries, e)
		f.tensors = append(f.tensors, Tensor{Name: name, DType: e.DType, Shape: e.Shape})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if rest := bytes.TrimRight(header[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, fmt.Errorf("header: %d bytes behind its end", len(rest))
	}
	return entries, nil
}

func parseEntry(d *json.Decoder) (entry, error) {
	var e entry
	seen := map[string]bool{}
	err := object(d, func(key string) error {
		if seen[key] {
			return fmt.Errorf("key %q stands twice", key)
		}
		seen[key] = true
		switch key {
		case "dtype":
			return d.Decode(&e.DType)
		case "shape":
			return d.Decode(&e.Shape)
		case "data_offsets":
			return d.Decode(&e.Offsets)
		}
		return fmt.Errorf("unknown key %q", key)
	})
	if err != nil {
		return e, err
	}
	switch {
	case e.Shape == nil:
		return e, errors.New("no shape")
	case len(e.Offsets) != 2:
		return e, fmt.Errorf("data_offsets are %v, want two numbers", e.Offsets)
	}
	n, err := byteSize(e.DType, e.Shape)
	if err != nil {
		return e, err
	}
	begin, end := e.Offsets[0], e.Offsets[1]
	if begin < 0 || end < begin {
		return e, fmt.Errorf("data_offsets are %v", e.Offsets)
	}
	if end-begin != n {
		return e, fmt.Errorf("%d bytes at offsets %v, but %s %v has %d", end-begin, e.Offsets, e.DType, e.Shape, n)
	}
	return e, nil
}

// place sorts the tensors by offset, checks that they cover the data, and gives them their Data functions.
func (f *File) place(base, size int64, entries []entry) error {
	order := make([]int, len(entries))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		x, y := entries[a].Offsets, entries[b].Offsets
		return slices.Compare(x, y)
	})
	sorted := make([]Tensor, 0, len(order))
	at := int64(0)
	for _, i := range order {
		t, begin, end := f.tensors[i], entries[i].Offsets[0], entries[i].Offsets[1]
		switch {
		case begin < at:
			return fmt.Errorf("tensor %q: its bytes %d to %d overlap those of %q", t.Name, begin, end, sorted[len(sorted)-1].Name)
		case begin > at:
			return fmt.Errorf("tensor %q: it begins at byte %d, the tensors before it end at %d", t.Name, begin, at)
		case end > size:
			return fmt.Errorf("tensor %q: truncated: it ends at byte %d, the file has %d bytes of data", t.Name, end, size)
		}
		at = end
		t.Data = section(f.r, t.Name, base+begin, end-begin)
		f.begins = append(f.begins, base+begin)
		f.byName[t.Name] = len(sorted)
		sorted = append(sorted, t)
	}
	if at != size {
		return fmt.Errorf("%d bytes behind the last tensor", size-at)
	}
	f.tensors = sorted
	return nil
}

// section reads bytes of a file in pieces of up to a mebibyte.
func section(r io.ReaderAt, name string, at, n int64) func(func([]byte) error) error {
	return func(emit func([]byte) error) error {
		buf := make([]byte, min(n, 1<<20))
		for done := int64(0); done < n; {
			p := buf[:min(int64(len(buf)), n-done)]
			if err := readAt(r, p, at+done); err != nil {
				return fmt.Errorf("tensor %q: %w", name, err)
			}
			if err := emit(p); err != nil {
				return err
			}
			done += int64(len(p))
		}
		return nil
	}
}

// readAt fills p; a reader that has all the bytes but also reports the file's end is no error.
func readAt(r io.ReaderAt, p []byte, at int64) error {
	n, err := r.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// object reads a JSON object; value must consume the value of each key.
func object(d *json.Decoder, value func(key string) error) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("%v where an object should be", t)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("%v where a key should be", t)
		}
		if err := value(key); err != nil {
			return err
		}
	}
	_, err = d.Token()
	return err
}
