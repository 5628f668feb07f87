package safetensors_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/internal/safetensors"
)

func file(header string, data int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, data)...)
}

func open(b []byte) (*safetensors.File, error) {
	return safetensors.Open(bytes.NewReader(b), int64(len(b)))
}

// A damaged or hostile file must be refused with the reason; trusting it would load wrong weights or exhaust memory.
func TestOpenRefuses(t *testing.T) {
	const ok = `"dtype":"F32","shape":[2],"data_offsets":[0,8]`
	huge := binary.LittleEndian.AppendUint64(nil, 1<<62)
	for _, c := range []struct {
		name string
		file []byte
		want string
	}{
		{"empty", nil, "too short"},
		{"header length", huge, "allowed are"},
		{"truncated header", binary.LittleEndian.AppendUint64(nil, 100), "truncated"},
		{"no object", file(`[]`, 0), "start with {"},
		{"leading space", file(` {}`, 0), "start with {"},
		{"cut JSON", file(`{"a":{`+ok, 8), "EOF"},
		{"behind the header", file(`{} x`, 0), "behind its end"},
		{"invalid UTF-8", file("{\"\xff\":{"+ok+"}}", 8), "UTF-8"},
		{"duplicate tensor", file(`{"a":{`+ok+`},"a":{`+ok+`}}`, 8), `"a" stands twice`},
		{"duplicate key", file(`{"a":{"dtype":"F32",`+ok+`}}`, 8), `"dtype" stands twice`},
		{"duplicate metadata", file(`{"__metadata__":{"x":"1","x":"2"}}`, 0), `"x" stands twice`},
		{"metadata value", file(`{"__metadata__":{"x":1}}`, 0), "not a string"},
		{"unknown key", file(`{"a":{"stride":1,`+ok+`}}`, 8), "unknown key"},
		{"no name", file(`{"":{`+ok+`}}`, 8), "no name"},
		{"unknown type", file(`{"a":{"dtype":"F3","shape":[2],"data_offsets":[0,8]}}`, 8), `unknown dtype "F3"`},
		{"no shape", file(`{"a":{"dtype":"F32","data_offsets":[0,8]}}`, 8), "no shape"},
		{"fraction", file(`{"a":{"dtype":"F32","shape":[2.5],"data_offsets":[0,8]}}`, 8), `"a"`},
		{"negative", file(`{"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}}`, 8), "negative"},
		{"overflow", file(`{"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`, 0), "too large"},
		{"one offset", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8]}}`, 8), "two numbers"},
		{"offsets reversed", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[8,0]}}`, 8), "data_offsets"},
		{"offsets and shape", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4), "but F32 [2] has 8"},
		{"truncated data", file(`{"a":{`+ok+`}}`, 7), `"a": truncated`},
		{"rest", file(`{"a":{`+ok+`}}`, 9), "1 bytes behind"},
		{"gap", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12), "begins at byte 4"},
		{"overlap", file(`{"a":{`+ok+`},"b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}}`, 12), "overlap"},
		{"same bytes", file(`{"a":{`+ok+`},"b":{`+ok+`}}`, 8), "overlap"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := open(c.file)
			require.ErrorIs(t, err, safetensors.ErrFormat)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// A disk that fails must not be taken for a bad file, and the tensor being read must be named.
func TestReadErrors(t *testing.T) {
	broken := errors.New("disk on fire")
	good := file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8)
	_, err := safetensors.Open(failAfter{good, 4, broken}, int64(len(good)))
	require.ErrorIs(t, err, broken)
	require.NotErrorIs(t, err, safetensors.ErrFormat)
	f, err := safetensors.Open(failAfter{good, len(good) - 4, broken}, int64(len(good)))
	require.NoError(t, err)
	a, ok := f.Tensor("a")
	require.True(t, ok)
	err = a.ReadInto(make([]byte, 8))
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, `"a"`)
	require.Error(t, a.ReadInto(make([]byte, 7)))
	whatever := func([]byte) error { return nil }
	err = f.ReadInto("a", make([]byte, 8), whatever)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, `"a"`)
	require.ErrorContains(t, f.ReadInto("a", make([]byte, 7), whatever), "7 bytes of room")
	require.ErrorContains(t, f.ReadInto("b", nil, whatever), `"b" is not in the file`)
	_, ok = f.Tensor("b")
	require.False(t, ok)
}

// A tensor of many pieces must arrive whole, and what is found in one of them must end the reading.
func TestPieces(t *testing.T) {
	const n = 700_001
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	var b bytes.Buffer
	require.NoError(t, safetensors.Write(&b, nil, []safetensors.Tensor{
		{Name: "a", DType: "F64", Shape: []int{1}, Data: safetensors.Bytes(make([]byte, 8))},
		{Name: "b", DType: "U8", Shape: []int{n}, Data: safetensors.Bytes(data)},
	}))
	f, err := open(b.Bytes())
	require.NoError(t, err)
	got, seen := make([]byte, n), 0
	require.NoError(t, f.ReadInto("b", got, func(piece []byte) error {
		require.Equal(t, data[seen:seen+len(piece)], piece)
		seen += len(piece)
		return nil
	}))
	require.Equal(t, n, seen)
	require.True(t, bytes.Equal(data, got))
	found, pieces := errors.New("found"), 0
	require.ErrorIs(t, f.ReadInto("b", got, func([]byte) error { pieces++; return found }), found)
	require.Equal(t, 1, pieces)
}

type failAfter struct {
	data []byte
	n    int
	err  error
}

func (f failAfter) ReadAt(p []byte, at int64) (int, error) {
	if int(at)+len(p) > f.n {
		return 0, f.err
	}
	return copy(p, f.data[at:]), nil
}

// A wrong tensor list must fail while writing; a file that opens nowhere would lose the weights.
func TestWriteRefuses(t *testing.T) {
	two := safetensors.Bytes(make([]byte, 8))
	for _, c := range []struct {
		ts   []safetensors.Tensor
		want string
	}{
		{[]safetensors.Tensor{{Name: "", DType: "F32", Shape: []int{2}, Data: two}}, "name"},
		{[]safetensors.Tensor{{Name: "__metadata__", DType: "F32", Shape: []int{2}, Data: two}}, "name"},
		{[]safetensors.Tensor{{Name: "a\xff", DType: "F32", Shape: []int{2}, Data: two}}, "UTF-8"},
		{[]safetensors.Tensor{{Name: "a", DType: "F32", Shape: []int{2}, Data: two}, {Name: "a", DType: "F32", Shape: []int{2}, Data: two}}, "two tensors"},
		{[]safetensors.Tensor{{Name: "a", DType: "float32", Shape: []int{2}, Data: two}}, "unknown dtype"},
		{[]safetensors.Tensor{{Name: "a", DType: "F32", Shape: []int{-1}, Data: two}}, "negative"},
		{[]safetensors.Tensor{{Name: "a", DType: "F32", Shape: []int{3}, Data: two}}, "8 bytes of data"},
		{[]safetensors.Tensor{{Name: "a", DType: "F32", Shape: []int{1}, Data: two}}, "more than the 4 bytes"},
	} {
		require.ErrorContains(t, safetensors.Write(io.Discard, nil, c.ts), c.want)
	}
	full := errors.New("disk full")
	err := safetensors.Write(failing{full}, nil, nil)
	require.ErrorIs(t, err, full)
}

type failing struct{ error }

func (f failing) Write([]byte) (int, error) { return 0, f.error }

// What was written must come back bit for bit, whatever the names, types, shapes and order; the bytes must not depend on the order.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringN(1, 8, -1).Filter(func(s string) bool { return s != "__metadata__" }), 0, 6, rapid.ID).Draw(t, "names")
		meta := rapid.MapOfN(rapid.String(), rapid.String(), 0, 3).Draw(t, "meta")
		var ts []safetensors.Tensor
		data := map[string][]byte{}
		for _, n := range names {
			x := safetensors.Tensor{Name: n, DType: rapid.SampledFrom([]safetensors.DType{"F32", "BF16", "U8", "I64", "BOOL"}).Draw(t, "dtype"),
				Shape: rapid.SliceOfN(rapid.IntRange(0, 4), 0, 3).Draw(t, "shape")}
			data[n] = rapid.SliceOfN(rapid.Byte(), int(x.Size()), int(x.Size())).Draw(t, "data")
			x.Data = func(emit func([]byte) error) error { // in two pieces
				half := len(data[n]) / 2
				if err := emit(data[n][:half]); err != nil {
					return err
				}
				return emit(data[n][half:])
			}
			ts = append(ts, x)
		}
		var b, again bytes.Buffer
		if err := safetensors.Write(&b, meta, ts); err != nil {
			t.Fatal(err)
		}
		f, err := open(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Tensors()) != len(ts) || fmt.Sprint(f.Metadata()) != fmt.Sprint(meta) && len(meta) > 0 {
			t.Fatalf("%v %v", f.Tensors(), f.Metadata())
		}
		for _, want := range ts {
			got, ok := f.Tensor(want.Name)
			if !ok || got.DType != want.DType || fmt.Sprint(got.Shape) != fmt.Sprint(want.Shape) {
				t.Fatalf("%+v, want %+v", got, want)
			}
			into := make([]byte, got.Size())
			if err := got.ReadInto(into); err != nil || !bytes.Equal(into, data[want.Name]) {
				t.Fatalf("%q: %v", want.Name, err)
			}
			clear(into)
			seen := []byte{}
			err := f.ReadInto(want.Name, into, func(piece []byte) error { seen = append(seen, piece...); return nil })
			if err != nil || !bytes.Equal(into, data[want.Name]) || !bytes.Equal(seen, into) {
				t.Fatalf("%q: %v", want.Name, err)
			}
		}
		if err := safetensors.Write(&again, f.Metadata(), f.Tensors()); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b.Bytes(), again.Bytes()) {
			t.Fatal("writing what was read gives other bytes")
		}
	})
}

// The bytes must be those of Hugging Face's own library, so that a re-export of an unchanged model has the same hash.
func TestSameBytesAsReference(t *testing.T) {
	for _, path := range golden.Glob(t, "models/*/model*.safetensors") {
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		f, err := open(raw)
		require.NoError(t, err, path)
		var b bytes.Buffer
		require.NoError(t, safetensors.Write(&b, f.Metadata(), f.Tensors()))
		require.True(t, bytes.Equal(raw, b.Bytes()), "%s: written back, the bytes differ", path)
	}
}

// No bytes may crash the reader or make it reserve memory that the file does not have.
func FuzzOpen(f *testing.F) {
	f.Add(file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"__metadata__":{"k":"v"}}`, 8))
	f.Add(file(`{"a":{"dtype":"BF16","shape":[],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[0,9],"data_offsets":[2,2]}}`, 2))
	f.Add(file(strings.Repeat(`{"a":`, 50), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := open(b)
		if err != nil {
			return
		}
		total := int64(0)
		for _, x := range file.Tensors() {
			total += x.Size()
			if err := x.ReadInto(make([]byte, x.Size())); err != nil {
				t.Fatal(err)
			}
		}
		if total > int64(len(b)) {
			t.Fatalf("%d bytes of tensors in a file of %d", total, len(b))
		}
		if err := safetensors.Write(io.Discard, file.Metadata(), file.Tensors()); err != nil {
			t.Fatal(err)
		}
	})
}
