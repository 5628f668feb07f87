// Package safetensors writes and strictly reads the safetensors format (https://github.com/huggingface/safetensors):
// eight bytes of little-endian header length, a JSON header, then the tensors' little-endian bytes without gaps.
package safetensors

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// MaxHeader is the longest header that is read or written, in bytes; the reference implementation has the same limit.
const MaxHeader = 100_000_000

// metadataKey is the header's key for the free-form string map; no tensor may have this name.
const metadataKey = "__metadata__"

// DType is an element type as the format names it: "F32", "BF16", "I64", …
type DType string

// dtypes lists the known types, with their sizes in bytes, in the reference implementation's order.
var dtypes = []struct {
	name DType
	size int64
}{
	{"BOOL", 1}, {"U8", 1}, {"I8", 1}, {"F8_E5M2", 1}, {"F8_E4M3", 1}, {"F8_E8M0", 1}, {"I16", 2}, {"U16", 2}, {"F16", 2},
	{"BF16", 2}, {"I32", 4}, {"U32", 4}, {"F32", 4}, {"C64", 8}, {"F64", 8}, {"I64", 8}, {"U64", 8},
}

func (d DType) rank() int {
	for i, k := range dtypes {
		if k.name == d {
			return i
		}
	}
	return -1
}

// Size is the number of bytes of one element; 0 for an unknown type.
func (d DType) Size() int64 {
	if i := d.rank(); i >= 0 {
		return dtypes[i].size
	}
	return 0
}

// Tensor is one named tensor, to be written or found in a [File].
type Tensor struct {
	Name  string
	DType DType
	Shape []int // row-major; empty for a scalar
	// Data hands out the tensor's little-endian bytes, in order, in pieces of any size. A piece is valid during the
	// call of emit only. An error of emit ends it and is returned.
	Data func(emit func([]byte) error) error
}

// Bytes is a Data function for bytes in memory.
func Bytes(data []byte) func(func([]byte) error) error {
	return func(emit func([]byte) error) error { return emit(data) }
}

// Size is the length of the tensor's data in bytes. Shape and DType must be valid, as those in a [File] are.
func (t Tensor) Size() int64 {
	n, err := byteSize(t.DType, t.Shape)
	if err != nil {
		return 0
	}
	return n
}

// ReadInto copies the tensor's data to dst, whose length must be [Tensor.Size].
func (t Tensor) ReadInto(dst []byte) error {
	if int64(len(dst)) != t.Size() {
		return fmt.Errorf("tensor %q: %d bytes of room for %d bytes of data", t.Name, len(dst), t.Size())
	}
	n := 0
	err := t.Data(func(p []byte) error {
		if len(p) > len(dst)-n {
			return fmt.Errorf("tensor %q: more data than its shape %v has", t.Name, t.Shape)
		}
		n += copy(dst[n:], p)
		return nil
	})
	if err == nil && n < len(dst) {
		err = fmt.Errorf("tensor %q: %d bytes of data, its shape %v has %d", t.Name, n, t.Shape, len(dst))
	}
	return err
}

// byteSize is the number of bytes of a tensor, refusing unknown types, negative dimensions and sizes beyond int64.
func byteSize(d DType, shape []int) (int64, error) {
	n := uint64(d.Size())
	if n == 0 {
		return 0, fmt.Errorf("unknown dtype %q", d)
	}
	for _, dim := range shape {
		if dim < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
	}
	if slices.Contains(shape, 0) {
		return 0, nil
	}
	for _, dim := range shape {
		hi, lo := bits.Mul64(n, uint64(dim))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v is too large", shape)
		}
		n = lo
	}
	return int64(n), nil
}
