package hf_test

import (
	"bytes"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/safetensors"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// BenchmarkLoad compares opening a model of 135 million parameters, that of GROUPER_SMOLLM2 or random weights of its shape, with
// reading the bytes of its weights into new memory, a tensor at a time. Both find the file in the page cache and no memory that was
// used before. Times are the least of all rounds.
//
//	folder/read, weights/read   time of Load, with and without the folder's tokenizer, over that of reading
//	peak/bound                  resident memory that loading takes at most, over the size of the weights and of their largest tensor
func BenchmarkLoad(b *testing.B) {
	dir := os.Getenv("GROUPER_SMOLLM2")
	if dir == "" {
		dir = saved(b, decoder.Config{Vocab: 49152, Hidden: 576, Layers: 30, Heads: 9, KVHeads: 3, Intermediate: 1536, MaxPositions: 8192,
			NormEps: 1e-5, Rope: decoder.Rope{Theta: 1e5}, Tied: true, DType: dtypes.BFloat16, InitDeviation: .04})
	}
	folder := os.DirFS(dir)
	timed := func(f func()) (seconds float64) {
		debug.FreeOSMemory() // also collects
		begin := time.Now()
		f()
		return time.Since(begin).Seconds()
	}
	load := func(fsys fs.FS) {
		_, w, err := hf.Load(b.Context(), fsys)
		require.NoError(b, err)
		w.Free()
	}
	read, weights, whole, highest := math.Inf(1), math.Inf(1), math.Inf(1), 0.0
	size, largest := readPlainly(b, dir)
	for b.Loop() {
		read = min(read, timed(func() { readPlainly(b, dir) }))
		weights = min(weights, timed(func() { load(without{folder, tokenizer.FileName}) }))
		whole = min(whole, timed(func() { load(folder) }))
		if peak, ok := peakOf(func() { load(folder) }); ok {
			highest = max(highest, float64(peak))
		}
	}
	b.ReportMetric(0, "ns/op") // of all together, which says nothing
	b.ReportMetric(1e3*read, "read-ms")
	b.ReportMetric(weights/read, "weights/read")
	b.ReportMetric(whole/read, "folder/read")
	b.ReportMetric(highest/float64(size+largest), "peak/bound")
}

// Loading must not take more memory than the weights and one tensor: a model that fits must open.
func TestLoadMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector takes memory of its own")
	}
	const slack = 4 << 20 // stacks, the runtime's own, pages that the kernel has not counted yet
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		dir := saved(t, decoder.Config{Vocab: 8192, Hidden: 512, Layers: 24, Heads: 8, Intermediate: 1024, MaxPositions: 64, NormEps: 1e-6,
			Rope: decoder.Rope{Theta: 1e4}, Tied: true, DType: dtype, InitDeviation: .1})
		size, largest := readPlainly(t, dir)
		load := func() {
			_, w, err := hf.Load(t.Context(), os.DirFS(dir))
			require.NoError(t, err)
			require.Equal(t, size, int64(w.Size())*int64(dtype.Size()))
			w.Free()
		}
		load() // what is made once in a process
		debug.FreeOSMemory()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		load()
		runtime.ReadMemStats(&after)
		allocated := int64(after.TotalAlloc - before.TotalAlloc)
		require.Less(t, allocated, size+largest, "%s: bytes allocated, weights have %d, the largest tensor %d", dtype, size, largest)
		peak, ok := peakOf(load)
		if !ok {
			t.Logf("%s: allocated %.3f of the bound; this system does not tell the peak of resident memory", dtype, float64(allocated)/float64(size+largest))
			continue
		}
		require.Less(t, peak, size+largest+slack, "%s: resident bytes at most, weights have %d, the largest tensor %d", dtype, size, largest)
		t.Logf("%s: allocated %.3f, resident %.3f of the bound", dtype, float64(allocated)/float64(size+largest), float64(peak)/float64(size+largest))
	}
}

// saved is the folder of a model with random weights.
func saved(tb testing.TB, c decoder.Config) string {
	tb.Helper()
	d, err := decoder.New(c)
	require.NoError(tb, err)
	m, err := hf.New(d, nil)
	require.NoError(tb, err)
	w, err := d.Init(7)
	require.NoError(tb, err)
	defer w.Free()
	dir := filepath.Join(tb.TempDir(), "model")
	require.NoError(tb, hf.Save(tb.Context(), dir, m, w))
	return dir
}

// readPlainly reads the tensors of a folder into memory of their size.
func readPlainly(tb testing.TB, dir string) (size, largest int64) {
	f, err := os.Open(filepath.Join(dir, "model.safetensors"))
	require.NoError(tb, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(tb, err)
	file, err := safetensors.Open(f, info.Size())
	require.NoError(tb, err)
	ts := file.Tensors()
	for _, t := range ts {
		size, largest = size+t.Size(), max(largest, t.Size())
	}
	_, err = f.Seek(info.Size()-size, io.SeekStart)
	require.NoError(tb, err)
	kept := make([][]byte, len(ts))
	for i, t := range ts { // in the order of their data
		kept[i] = make([]byte, t.Size())
		_, err := io.ReadFull(f, kept[i])
		require.NoError(tb, err)
	}
	runtime.KeepAlive(kept)
	return size, largest
}

// peakOf is how far the resident memory rises above what it was; ok is false where the system does not tell.
func peakOf(f func()) (rise int64, ok bool) {
	debug.FreeOSMemory()
	if os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) != nil {
		return 0, false
	}
	before, ok := status("VmRSS:")
	f()
	peak, ok2 := status("VmHWM:")
	return peak - before, ok && ok2
}

// status is a size in /proc/self/status.
func status(key string) (int64, bool) {
	data, _ := os.ReadFile("/proc/self/status")
	for line := range bytes.Lines(data) {
		if rest, ok := bytes.CutPrefix(line, []byte(key)); ok {
			kib, err := strconv.ParseInt(string(bytes.TrimSpace(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte("kB")))), 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// without is a folder that lacks a file.
type without struct {
	fs.FS
	name string
}

func (w without) Open(name string) (fs.File, error) {
	if name == w.name {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return w.FS.Open(name)
}
