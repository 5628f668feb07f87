package grpo

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
)

// linearHead is a policy with an output matrix [D,V] and nothing else.
type linearHead struct {
	policy.Policy
}

func (linearHead) Logits(w policy.Vars, hidden *graph.Node) *graph.Node {
	return graph.DotGeneral(hidden, []int{1}, nil, w[0], []int{0}, nil)
}

func wave(n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(scale * math.Sin(float64(i)*1.7+0.3))
	}
	return x
}

// Chunks save memory; they must change neither log-probs nor gradients, and must not leave all logits in the graph.
func TestLogProbsInChunks(t *testing.T) {
	const rows, width, dim, vocab = 3, 5, 4, 11
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		run := func(chunk int) (out [][][]float64, largest int) {
			f, err := backend.Compile(b, "log-probs", func(in []*graph.Node) []*graph.Node {
				logp, entropy := LogProbs(linearHead{}, policy.Vars{in[1]}, in[0], in[2], 0.7, chunk)
				loss := graph.Add(graph.ReduceAllSum(graph.Square(logp)), graph.ReduceAllSum(entropy))
				results := append([]*graph.Node{logp, entropy}, graph.Gradient(loss, in[0], in[1])...)
				for _, node := range loss.Graph().Nodes() {
					if node.NumOutputs() == 1 {
						largest = max(largest, node.Shape().Size())
					}
				}
				return results
			})
			require.NoError(t, err)
			defer f.Close()
			tokens := make([]int32, rows*width)
			for i := range tokens {
				tokens[i] = int32(i*7) % vocab
			}
			results, err := f.Call(0,
				tensors.FromFlatDataAndDimensions(wave(rows*width*dim, 2), rows, width, dim),
				tensors.FromFlatDataAndDimensions(wave(dim*vocab, 1.5), dim, vocab),
				tensors.FromFlatDataAndDimensions(tokens, rows, width))
			require.NoError(t, err)
			for _, r := range results {
				out = append(out, unflatten[float32](t, r))
			}
			return out, largest
		}
		whole, largest := run(0)
		require.GreaterOrEqual(t, largest, rows*width*vocab)
		for _, chunk := range []int{1, 4, 5, 14} {
			parts, largest := run(chunk)
			require.LessOrEqual(t, largest, max(chunk*vocab, rows*width*dim), "largest array with chunk %d", chunk)
			for i := range whole {
				nearRows(t, []string{"log-probs", "entropy", "hidden gradient", "head gradient"}[i], whole[i], parts[i], tolerance32)
			}
		}
	})
}

// A policy may forbid tokens by a logit of -Inf; that must not poison the others.
func TestLogProbsOfForbiddenTokens(t *testing.T) {
	inf := float32(math.Inf(-1))
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		f, err := backend.Compile(b, "log-probs", func(in []*graph.Node) []*graph.Node {
			logp, entropy := LogProbs(bare{}, nil, in[0], in[1], 1, 0)
			loss := graph.Add(graph.ReduceAllSum(logp), graph.ReduceAllSum(entropy))
			return append([]*graph.Node{logp, entropy}, graph.Gradient(loss, in[0])...)
		})
		require.NoError(t, err)
		defer f.Close()
		out, err := f.Call(0, [][][]float32{{{0, inf, 0}}}, [][]int32{{2}})
		require.NoError(t, err)
		nearRows(t, "log-prob", [][]float64{{-math.Ln2}}, unflatten[float32](t, out[0]), 1e-6)
		nearRows(t, "entropy", [][]float64{{math.Ln2}}, unflatten[float32](t, out[1]), 1e-6)
		nearRows(t, "gradient", [][]float64{{-0.5, 0, 0.5}}, unflatten[float32](t, out[2]), 1e-6)
	})
}
