package decoder_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
)

// Training computes each prompt once; a difference from separate rows would silently train something else.
func TestGroupsEqualSeparateRows(t *testing.T) {
	type shape struct {
		name                     string
		groups, each, width, len int
		pads                     []int32
		change                   func(*decoder.Config)
	}
	cases := []shape{
		{"odd sizes", 3, 5, 7, 9, []int32{0, 2, 6}, func(*decoder.Config) {}},
		{"all options", 2, 3, 5, 2, []int32{4, 0}, func(c *decoder.Config) {
			c.Layers, c.QKNorm, c.QKVBias, c.OutputBias, c.MLPBias, c.Tied = 1, true, true, true, true, true
		}},
		{"one completion of one token", 2, 1, 5, 1, []int32{3, 0}, func(c *decoder.Config) { c.Layers = 1 }},
		{"blocks, rematerialized", 2, 3, 7, 9, []int32{0, 4}, func(c *decoder.Config) { c.QueryBlock, c.Rematerialize = 4, true }},
		{"unpadded prompts of one token, heads of their own, gathered embedding", 2, 2, 1, 3, nil, func(c *decoder.Config) {
			c.Layers, c.KVHeads, c.Vocab = 1, 6, 3000
		}},
		// Blocks of two completion tokens: windows that cut the prompt, and that leave it behind.
		{"windows in blocks", 2, 2, 9, 7, []int32{0, 5}, func(c *decoder.Config) {
			c.QueryBlock, c.PerLayer = 2, []decoder.Layer{{Window: 4}, {Window: 11}}
		}},
	}
	onBoth := len(cases)
	for _, f := range families {
		cases = append(cases, shape{f.name, 2, 2, 6, 5, []int32{3, 0}, f.change})
	}
	cases = append(cases, shape{"qwen3.5, several chunks, rematerialized", 2, 2, 70, 130, []int32{66, 0}, func(c *decoder.Config) {
		qwen35(c)
		c.MaxPositions, c.Rematerialize = 256, true
	}})
	tolerance := func(name string) float64 {
		if strings.HasPrefix(name, "qwen3.5") {
			return 5e-4 // chunks are cut elsewhere, and the norm of what is read amplifies rounding
		}
		return 1e-5
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
				if i >= onBoth && b.Kind() != backend.Go {
					t.Skip("compiling takes long; TestGolden has groups of these families on XLA")
				}
				cfg := small()
				c.change(&cfg)
				d, w := build(t, cfg)
				defer w.Free()
				r := rand.New(rand.NewPCG(1, 2))
				prompts, completions := randomTokens(r, c.groups, c.width, cfg.Vocab), randomTokens(r, c.groups*c.each, c.len, cfg.Vocab)
				weights := make([][][]float32, c.groups*c.each)
				for i := range weights {
					weights[i] = make([][]float32, c.len+1)
					for j := range weights[i] {
						for range cfg.Hidden {
							weights[i][j] = append(weights[i][j], float32(r.NormFloat64()))
						}
					}
				}
				args := []any{w.Tensors, prompts, completions, weights}
				if c.pads != nil {
					args = append(args, c.pads)
				}
				run := func(hidden func(policy.Vars, policy.Groups) *graph.Node) []*tensors.Tensor {
					return call(t, b, func(in []*graph.Node) []*graph.Node {
						n := len(w.Params)
						g := policy.Groups{Prompts: policy.Inputs{Tokens: in[n]}, Completions: in[n+1]}
						if c.pads != nil {
							g.Prompts.Pad = in[n+3]
						}
						h := hidden(in[:n], g)
						out := []*graph.Node{h}
						if !cfg.Tied { // the head's gradient too
							h = graph.Add(h, graph.MulScalar(graph.ReduceAllMean(d.Logits(in[:n], graph.Reshape(h, -1, cfg.Hidden))), 0.1))
						}
						return append(out, graph.Gradient(graph.ReduceAllSum(graph.Mul(h, in[n+2])), in[:n]...)...)
					}, args...)
				}
				shared := run(d.HiddenGroups)
				separate := run(func(v policy.Vars, g policy.Groups) *graph.Node { return policy.CompletionHiddenSeparate(d, v, g) })
				for i := range shared {
					a, s := values(t, shared[i]), values(t, separate[i])
					name, size := "states", 1.0
					if i > 0 {
						name = "gradient of " + w.Params[i-1].Name
						for _, x := range s {
							size = max(size, math.Abs(float64(x)))
						}
					}
					requireNear(t, distance(a, s), tolerance(c.name)*size, name)
				}
			})
		})
	}
}
