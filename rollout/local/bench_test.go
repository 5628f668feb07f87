package local_test

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
)

// BenchmarkGenerate samples 64 completions of 64 tokens, 8 for each prompt of 64 tokens, from 0.8 million weights.
func BenchmarkGenerate(b *testing.B) {
	for _, spec := range []string{backend.Go, backend.CPU, backend.CUDA} {
		be, err := backend.Open(b.Context(), spec)
		if err != nil {
			b.Logf("%s: %v", spec, err)
			continue
		}
		b.Run(spec, func(b *testing.B) {
			p, err := decoder.New(decoder.Config{
				Vocab: 96, Hidden: 128, Layers: 4, Heads: 4, KVHeads: 2, Intermediate: 384, MaxPositions: 256, NormEps: 1e-6,
				Rope: decoder.Rope{Theta: 1e4},
			})
			require.NoError(b, err)
			w, err := p.Init(1)
			require.NoError(b, err)
			e := newEngine(b, be, p, w, local.Options{})
			reqs := requests(8, 96, 8, 64)
			s := rollout.Sampling{Temperature: 1, MaxTokens: 64}
			start := time.Now()
			generate := func() {
				_, err := e.Generate(b.Context(), reqs, s)
				require.NoError(b, err)
			}
			generate()
			first := time.Since(start)
			for b.Loop() {
				generate()
			}
			b.ReportMetric(64*64*float64(b.N)/b.Elapsed().Seconds(), "tok/s")
			b.ReportMetric(first.Seconds(), "first-s")
		})
	}
}

// A run samples thousands of times: what a call leaves behind on the device would end it. A cache here takes 1 MB.
func TestMemoryDoesNotGrow(t *testing.T) {
	if runtime.GOOS != "linux" || testing.Short() {
		t.Skip("reads /proc, and takes a while under the race detector")
	}
	p := recurrent{bag{vocab: 8, dim: 1 << 12, positions: 100}}
	w, _ := bagWeights(t, p.bag, 0)
	reqs := requests(8, 8, 8, 3)
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		e := newEngine(t, b, p, w, local.Options{})
		call := func(n int) {
			for range n {
				_, err := e.Generate(t.Context(), reqs, rollout.Sampling{Temperature: 1, MaxTokens: 2})
				require.NoError(t, err)
				require.NoError(t, e.Load(t.Context(), w))
			}
		}
		call(10)
		before := resident(t)
		call(80)
		require.Less(t, resident(t)-before, 30, "MB")
	})
}

// resident is the process's memory in MB.
func resident(t *testing.T) int {
	debug.FreeOSMemory()
	data, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.Atoi(strings.Fields(string(data))[1])
	require.NoError(t, err)
	return pages * os.Getpagesize() >> 20
}
