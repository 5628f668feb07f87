package decoder_test

import (
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
)

// peer is the model that other systems are measured with: 0.8 million weights.
func peer() decoder.Config {
	return decoder.Config{Vocab: 96, Hidden: 128, Layers: 4, Heads: 4, KVHeads: 2, Intermediate: 384,
		MaxPositions: 256, NormEps: 1e-6, Rope: decoder.Rope{Theta: 1e4}}
}

// peerRecurrent is as large and has gated DeltaNet in three of four layers.
func peerRecurrent() decoder.Config {
	c := peer()
	c.NormStyle, c.QKNorm, c.GatedOutput, c.Rope.Partial = decoder.NormOffset, true, true, 0.25
	c.PerLayer = []decoder.Layer{{Recurrent: true}, {Recurrent: true}, {Recurrent: true}, {}}
	c.DeltaNet = decoder.DeltaNet{KeyHeads: 2, ValueHeads: 4, KeyDim: 32, ValueDim: 32, Kernel: 4}
	return c
}

const benchGroups, benchEach, benchPrompt, benchLength = 8, 8, 64, 64

func eachBackend(b *testing.B, f func(b *testing.B, be *backend.Backend)) {
	for _, kind := range []string{backend.Go, backend.CPU, backend.CUDA} {
		be, err := backend.Open(b.Context(), kind)
		if err != nil {
			b.Logf("%s: %v", kind, err)
			continue
		}
		b.Run(kind, func(b *testing.B) { f(b, be) })
	}
}

// BenchmarkTrainStep is forward, backward and a plain gradient step for 64 completions of 64 tokens in 8 groups with
// prompts of 64 tokens.
func BenchmarkTrainStep(b *testing.B) {
	eachBackend(b, func(b *testing.B, be *backend.Backend) {
		for _, way := range []string{"shared", "separate", "rematerialized", "recurrent"} {
			b.Run(way, func(b *testing.B) {
				c := peer()
				if way == "recurrent" {
					c = peerRecurrent()
				}
				c.Rematerialize = way == "rematerialized"
				d, w := build(b, c)
				defer w.Free()
				n := len(w.Params)
				step, err := backend.Compile(be, "train step", func(in []*graph.Node) []*graph.Node {
					g := policy.Groups{Prompts: policy.Inputs{Tokens: in[n]}, Completions: in[n+1]}
					var h *graph.Node
					if way == "separate" {
						h = policy.CompletionHiddenSeparate(d, in[:n], g)
					} else {
						h = d.HiddenGroups(in[:n], g)
					}
					rows := in[n+1].Shape().Dim(0)
					h = graph.Reshape(graph.Slice(h, graph.AxisRange(), graph.AxisRange(0, benchLength)), rows*benchLength, -1)
					lp := graph.LogSoftmax(d.Logits(in[:n], h), -1)
					lp = graph.Mul(lp, graph.OneHot(graph.Reshape(in[n+1], -1), c.Vocab, dtypes.Float32))
					loss := graph.Neg(graph.DivScalar(graph.ReduceAllSum(lp), float64(rows*benchLength)))
					out := []*graph.Node{loss}
					for i, gr := range graph.Gradient(loss, in[:n]...) {
						out = append(out, graph.Sub(in[i], graph.MulScalar(gr, 0.1)))
					}
					return out
				})
				require.NoError(b, err)
				defer step.Close()
				r := rand.New(rand.NewPCG(1, 1))
				prompts := randomTokens(r, benchGroups, benchPrompt, c.Vocab)
				completions := randomTokens(r, benchGroups*benchEach, benchLength, c.Vocab)
				run := func() {
					out, err := step.Call(0, w.Tensors, prompts, completions)
					require.NoError(b, err)
					values(b, out[0])
					backend.Free(out...)
				}
				run()
				for b.Loop() {
					run()
				}
				b.ReportMetric(float64(b.N*benchGroups*benchEach*benchLength)/b.Elapsed().Seconds(), "tok/s")
			})
		}
	})
}

// BenchmarkDecodeStep is one token for each of 64 rows with a cache of 128 slots.
func BenchmarkDecodeStep(b *testing.B) {
	for name, c := range map[string]decoder.Config{"attention": peer(), "recurrent": peerRecurrent()} {
		b.Run(name, func(b *testing.B) { benchmarkDecodeStep(b, c) })
	}
}

func benchmarkDecodeStep(b *testing.B, c decoder.Config) {
	eachBackend(b, func(b *testing.B, be *backend.Backend) {
		const rows = 64
		d, w := build(b, c)
		defer w.Free()
		n := len(w.Params)
		step, err := backend.Compile(be, "decode step", func(in []*graph.Node) []*graph.Node {
			h, next := d.Extend(in[:n], in[n+3:], policy.Inputs{Tokens: in[n], Start: in[n+1], Pad: in[n+2]})
			logits := d.Logits(in[:n], graph.Reshape(h, rows, -1))
			return append([]*graph.Node{graph.ArgMax(logits, -1, dtypes.Int32)}, next...)
		})
		require.NoError(b, err)
		defer step.Close()
		var cache []*tensors.Tensor
		for _, s := range d.Cache(rows, benchPrompt+benchLength, dtypes.Float32) {
			cache = append(cache, tensors.FromShape(s))
		}
		tokens := randomTokens(rand.New(rand.NewPCG(1, 1)), rows, 1, c.Vocab)
		pads := make([]int32, rows)
		run := func(slot int) {
			out, err := step.Call(0, w.Tensors, tokens, int32(slot), pads, backend.Donate(cache))
			require.NoError(b, err)
			_, err = tensors.CopyFlatData[int32](out[0])
			require.NoError(b, err)
			backend.Free(out[0])
			cache = out[1:]
		}
		run(benchPrompt)
		for i := 0; b.Loop(); i++ {
			run(benchPrompt + i%benchLength)
		}
		b.ReportMetric(float64(b.N*rows)/b.Elapsed().Seconds(), "tok/s")
	})
}
