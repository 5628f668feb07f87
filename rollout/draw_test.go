package rollout_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/rollout"
)

type drawn struct {
	token          int32
	full, filtered float32
}

// drawFunc runs Draw; logits are rows one after the other.
type drawFunc func(t require.TestingT, logits, uniforms []float32) []drawn

func drawer(t testing.TB, b *backend.Backend, s rollout.Sampling) drawFunc {
	f, err := backend.Compile(b, "draw", func(in []*graph.Node) []*graph.Node {
		token, full, filtered := rollout.Draw(in[0], in[1], s)
		return []*graph.Node{token, full, filtered}
	})
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return func(t require.TestingT, logits, uniforms []float32) []drawn {
		n := len(uniforms)
		in := []*tensors.Tensor{
			tensors.FromFlatDataAndDimensions(logits, n, len(logits)/n), tensors.FromFlatDataAndDimensions(uniforms, n),
		}
		out, err := f.Call(0, in)
		require.NoError(t, err)
		rows := make([]drawn, n)
		token, full, filtered := flat[int32](t, out[0]), flat[float32](t, out[1]), flat[float32](t, out[2])
		for i := range rows {
			rows[i] = drawn{token[i], full[i], filtered[i]}
		}
		backend.Free(append(in, out...)...)
		return rows
	}
}

func flat[T int32 | float32](t require.TestingT, x *tensors.Tensor) []T {
	data, err := tensors.CopyFlatData[T](x)
	require.NoError(t, err)
	return data
}

// near is the tolerance of the golden files for float32.
func near(t require.TestingT, want float64, got float32, msg ...any) {
	require.InDelta(t, want, got, 1e-5*max(1, math.Abs(want)), msg...)
}

// What the device draws must be what the reference and the other systems draw, in small vocabularies and, with tokens of
// no probability behind them, in large ones.
func TestDrawGolden(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		compiled := map[string]drawFunc{}
		outer := t
		check := func(t *testing.T, c goldenCase, filler int) {
			var logits, uniforms []float32
			for _, p := range c.Outputs.Picks {
				for _, l := range c.Inputs.Logits {
					logits = append(logits, float32(l))
				}
				logits = append(logits, slices.Repeat([]float32{-1e5}, filler)...)
				uniforms = append(uniforms, float32(p.U))
			}
			key := fmt.Sprint(c.sampling())
			if compiled[key] == nil {
				compiled[key] = drawer(outer, b, c.sampling())
			}
			for i, got := range compiled[key](t, logits, uniforms) {
				want := c.Outputs.Picks[i]
				require.EqualValues(t, want.Token, got.token, "u = %v", want.U)
				near(t, want.Full, got.full)
				near(t, want.Filtered, got.filtered)
			}
		}
		eachGolden(t, func(t *testing.T, c goldenCase) {
			check(t, c, 0)
			if b.Kind() == backend.Go { // XLA would compile half a second for each case
				check(t, c, 300)
			}
		})
	})
}

// drawSettings cover every filter in every order; 300 tokens need running sums of several blocks.
var drawSettings = map[string]rollout.Sampling{
	"plain":  {Temperature: .8},
	"greedy": {},
	"hf":     {Temperature: 1.3, TopK: 12, TopP: .8, MinP: .05},
	"vllm":   {Temperature: 1, TopK: 20, TopP: .7, MinP: .02, Order: rollout.VLLM},
	"joint":  {Temperature: .9, TopK: 9, TopP: .75, MinP: .03, Order: rollout.Joint},
	"top-p":  {Temperature: 1, TopP: .9},
}

// Goldens are few and small: any logits, with ties and with long tails, must be drawn from as the reference says, wherever
// no decision hangs on the last bits.
func TestDrawProperties(t *testing.T) {
	const rows = 8
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		for name, s := range drawSettings {
			t.Run(name, func(t *testing.T) {
				vocab := map[string]int{"joint": 300, "vllm": 300, "top-p": 130}[name]
				if vocab == 0 {
					vocab = 40
				}
				draw := drawer(t, b, s)
				drawn, compared := 0, 0
				rapid.Check(t, func(t *rapid.T) {
					step := rapid.SampledFrom([]float64{1e-4, .1, .5, 2}).Draw(t, "step") // coarse steps make ties
					values := rapid.SliceOfN(rapid.IntRange(-40, 40), rows*vocab, rows*vocab).Draw(t, "values")
					logits := make([]float32, rows*vocab)
					for i, v := range values {
						logits[i] = float32(float64(v) * step)
					}
					uniforms := make([]float32, rows)
					for i, v := range rapid.SliceOfN(rapid.IntRange(0, 1<<24-1), rows, rows).Draw(t, "uniforms") {
						uniforms[i] = float32(v) / (1 << 24)
					}
					for i, got := range draw(t, logits, uniforms) {
						row := make([]float64, vocab)
						for j := range row {
							row[j] = float64(logits[i*vocab+j])
						}
						d, err := rollout.NewDistribution(row, s)
						require.NoError(t, err)
						require.NotZero(t, d.Probs[got.token], "a token that was filtered out")
						drawn++
						if token, clear := clearPick(t, row, s, float64(uniforms[i])); clear {
							compared++
							require.EqualValues(t, token, got.token)
							near(t, d.Full[token], got.full)
							near(t, d.Filtered[token], got.filtered)
						}
					}
				})
				require.Greater(t, compared, drawn/4)
			})
		}
	})
}

// clearPick returns the reference's token, and whether it stays the same when p, min-p and u move a little.
func clearPick(t require.TestingT, logits []float64, s rollout.Sampling, u float64) (token int, clear bool) {
	const margin = 1e-4
	d, err := rollout.NewDistribution(logits, s)
	require.NoError(t, err)
	token = d.Pick(u)
	for _, by := range []float64{-margin, margin} {
		moved := s
		if moved.TopP > 0 {
			moved.TopP += by
		}
		if moved.MinP > 0 {
			moved.MinP += by
		}
		m, err := rollout.NewDistribution(logits, moved)
		require.NoError(t, err)
		if d.Pick(u+by) != token || m.Mass != d.Mass {
			return token, false
		}
	}
	return token, true
}

// Rounding must never carry a draw past the last token that was kept, nor before the first.
func TestDrawEnds(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		const vocab = 200
		for _, s := range []rollout.Sampling{{Temperature: 1}, {Temperature: 1, TopK: 150, MinP: 1e-6}} {
			logits := make([]float32, 2*vocab)
			for i := range logits {
				logits[i] = 3 * rollout.Seed{5}.Uniform(i)
				if j := i % vocab; j < 7 || j > 180 {
					logits[i] = -1e5 // no probability at all in float32
				}
			}
			got := drawer(t, b, s)(t, logits, []float32{0, 1 - 1.0/(1<<24)})
			require.EqualValues(t, 7, got[0].token)
			require.LessOrEqual(t, got[1].token, int32(180))
			require.Greater(t, got[1].token, int32(170))
			require.False(t, math.IsInf(float64(got[1].filtered), 0))
		}
	})
}

// A broken policy must be noticed, whatever the settings, and must not disturb the other rows.
func TestDrawNotFinite(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		for _, s := range []rollout.Sampling{{}, {Temperature: 1}, {Temperature: 1, TopK: 2, TopP: .9}} {
			nan, inf := float32(math.NaN()), float32(math.Inf(1))
			rows := []float32{0, nan, 1, 1, 5, 2, inf, 0, 0, 0, -inf, 0, nan, nan, nan}
			tokens := []int32{}
			for _, d := range drawer(t, b, s)(t, rows, []float32{.5, .5, .5, .5, .5}) {
				tokens = append(tokens, d.token)
			}
			require.Equal(t, []int32{-1, 1, -1, -1, -1}, tokens, fmt.Sprint(s))
		}
	})
}

func BenchmarkDraw(b *testing.B) {
	const rows, vocab = 64, 96
	logits, uniforms := make([]float32, rows*vocab), make([]float32, rows)
	for i := range logits {
		logits[i] = 8 * rollout.Seed{}.Uniform(i)
	}
	for i := range uniforms {
		uniforms[i] = rollout.Seed{1}.Uniform(i)
	}
	for _, spec := range []string{backend.Go, backend.CPU} {
		bk, err := backend.Open(b.Context(), spec)
		if err != nil {
			b.Log(err)
			continue
		}
		for name, s := range drawSettings {
			b.Run(spec+"/"+name, func(b *testing.B) {
				draw := drawer(b, bk, s)
				start := time.Now()
				draw(b, logits, uniforms)
				compile := time.Since(start)
				for b.Loop() {
					draw(b, logits, uniforms)
				}
				b.ReportMetric(compile.Seconds(), "first-s")
			})
		}
	}
}
