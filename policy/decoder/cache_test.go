package decoder_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
)

// Decoding with a cache must give the distribution that training sees.
func TestExtendEqualsHidden(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		for n, change := range []func(*decoder.Config){
			func(c *decoder.Config) { c.QKNorm = true },
			func(c *decoder.Config) { c.QKNorm, c.QueryBlock = true, 3 },
			func(c *decoder.Config) { c.QueryBlock, c.PerLayer = 3, []decoder.Layer{{Window: 4}, {Window: 9}} },
		} {
			if n == 2 && b.Kind() != backend.Go { // compiling takes long, and TestGolden decodes with windows on XLA
				continue
			}
			cfg := small()
			change(&cfg)
			d, w := build(t, cfg)
			const rows, width, capacity = 3, 11, 13
			tokens := randomTokens(rand.New(rand.NewPCG(3, 4)), rows, width, cfg.Vocab)
			pads := []int32{0, 5, 2}
			whole := call(t, b, func(in []*graph.Node) []*graph.Node {
				n := len(w.Params)
				return []*graph.Node{d.Hidden(in[:n], policy.Inputs{Tokens: in[n], Pad: in[n+1]})}
			}, w.Tensors, tokens, pads)
			want := values(t, whole[0])

			extend, err := backend.Compile(b, "extend", func(in []*graph.Node) []*graph.Node {
				n := len(w.Params)
				h, next := d.Extend(in[:n], in[n+3:], policy.Inputs{Tokens: in[n], Pad: in[n+1], Start: in[n+2]})
				return append([]*graph.Node{h}, next...)
			})
			require.NoError(t, err)
			var cache []*tensors.Tensor
			for i, s := range d.Cache(rows, capacity, dtypes.Float32) {
				x := tensors.FromShape(s)
				if i == 0 { // what a slot held before must not matter
					require.NoError(t, tensors.MutableFlatData(x, func(v []float32) {
						for j := range v {
							v[j] = 3
						}
					}))
				}
				cache = append(cache, x)
			}
			for _, span := range [][2]int{{0, 6}, {6, 7}, {7, 8}, {8, 11}} {
				piece := make([][]int32, rows)
				for i := range piece {
					piece[i] = tokens[i][span[0]:span[1]]
				}
				out, err := extend.Call(0, w.Tensors, piece, pads, int32(span[0]), backend.Donate(cache))
				require.NoError(t, err)
				got := values(t, out[0])
				cache = out[1:]
				for i := range rows {
					for j := max(span[0], int(pads[i])); j < span[1]; j++ {
						a := got[(i*(span[1]-span[0])+j-span[0])*cfg.Hidden:][:cfg.Hidden]
						requireNear(t, distance(a, want[(i*width+j)*cfg.Hidden:][:cfg.Hidden]), 1e-4, fmt.Sprintf("case %d, row %d, token %d", n, i, j))
					}
				}
			}
			requireNear(t, distance(want, want), 0, "filler is NaN")
		}
	})
}

// The engine decodes inside a loop on the device, where nothing may be captured from outside.
func TestExtendInLoop(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		if !b.Supports(compute.OpTypeDynamicUpdateSlice) {
			t.Skip("this backend decodes one call a token")
		}
		c := small() // with all that needs constants of its own
		c.Norms, c.NormStyle, c.Activation, c.EmbeddingScale = decoder.NormsAround, decoder.NormOffset, decoder.GeluTanh, 5
		c.LocalRope = decoder.Rope{Type: decoder.RopeLinear, Factor: 8, Theta: 1e6}
		c.PerLayer = []decoder.Layer{{Window: 3, Rope: decoder.LocalRope, Experts: true}, {Recurrent: true}}
		c.DeltaNet = decoder.DeltaNet{KeyHeads: 1, ValueHeads: 2, KeyDim: 4, ValueDim: 4, Kernel: 3}
		c.Experts = decoder.Experts{Count: 5, Chosen: 2, Intermediate: 7, Renormalize: true}
		d, w := build(t, c)
		defer w.Free()
		const rows, steps = 2, 6
		n := len(w.Params)
		greedy := func(v policy.Vars, cache []*graph.Node, token, slot, pads *graph.Node) (*graph.Node, []*graph.Node) {
			h, next := d.Extend(v, cache, policy.Inputs{Tokens: graph.Reshape(token, rows, 1), Start: slot, Pad: pads})
			return graph.ArgMax(d.Logits(v, graph.Reshape(h, rows, -1)), -1, dtypes.Int32), next
		}
		first, pads := []int32{3, 7}, []int32{0, 0}
		looped := call(t, b, func(in []*graph.Node) []*graph.Node {
			g := in[0].Graph()
			// GoMLX shares the scalars of Zeros, MulScalar and the like across closures, where XLA refuses them; Const is safe.
			zeros := func(zero any, dims ...int) *graph.Node { return graph.BroadcastToDims(graph.Const(g, zero), dims...) }
			state := append([]*graph.Node{}, in...) // weights, token, pads, then slot, tokens so far, caches
			state = append(state, graph.Const(g, int32(0)), zeros(int32(0), steps, rows))
			for _, s := range d.Cache(rows, steps, dtypes.Float32) {
				state = append(state, zeros(float32(0), s.Dimensions...))
			}
			params := func(g *graph.Graph) (ps []*graph.Node) {
				for i, s := range state {
					ps = append(ps, graph.Parameter(g, fmt.Sprint("p", i), s.Shape()))
				}
				return ps
			}
			cond := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node {
				return []*graph.Node{graph.LessThan(params(g)[n+2], graph.Const(g, int32(steps)))}
			})
			body := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node {
				ps := params(g)
				token, next := greedy(ps[:n], ps[n+4:], ps[n], ps[n+2], ps[n+1])
				all := graph.DynamicUpdateSlice(ps[n+3], graph.Reshape(token, 1, rows), []*graph.Node{ps[n+2], graph.Const(g, int32(0))})
				return append(append(append([]*graph.Node{}, ps[:n]...), token, ps[n+1], graph.AddScalar(ps[n+2], 1), all), next...)
			})
			return graph.While(cond, body, state...)[n+3 : n+4]
		}, w.Tensors, first, pads)
		got, err := tensors.CopyFlatData[int32](looped[0])
		require.NoError(t, err)

		step, err := backend.Compile(b, "step", func(in []*graph.Node) []*graph.Node {
			token, next := greedy(in[:n], in[n+3:], in[n], in[n+2], in[n+1])
			return append([]*graph.Node{token}, next...)
		})
		require.NoError(t, err)
		defer step.Close()
		var cache []*tensors.Tensor
		for _, s := range d.Cache(rows, steps, dtypes.Float32) {
			cache = append(cache, tensors.FromShape(s))
		}
		var want []int32
		for slot := range steps {
			out, err := step.Call(0, w.Tensors, first, pads, int32(slot), backend.Donate(cache))
			require.NoError(t, err)
			first, err = tensors.CopyFlatData[int32](out[0])
			require.NoError(t, err)
			want = append(want, first...)
			cache = out[1:]
		}
		require.Equal(t, want, got)
	})
}
