package local

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// counter says the last token plus one, whatever its weight is.
type counter struct{ policy.Policy }

func (counter) Params() []policy.Param {
	return []policy.Param{{Name: "w", Shape: shapes.Make(dtypes.Float32)}}
}
func (counter) VocabSize() int    { return 30 }
func (counter) MaxPositions() int { return 100 }
func (counter) Cache(rows, _ int, _ dtypes.DType) []shapes.Shape {
	return []shapes.Shape{shapes.Make(dtypes.Float32, rows)}
}

func (counter) Extend(_ policy.Vars, cache []*graph.Node, in policy.Inputs) (*graph.Node, []*graph.Node) {
	return graph.ExpandAxes(graph.ConvertDType(in.Tokens, dtypes.Float32), -1), cache
}

func (counter) Logits(_ policy.Vars, hidden *graph.Node) *graph.Node {
	next := graph.ConvertDType(graph.AddScalar(graph.Reshape(hidden, -1), 1), dtypes.Int32)
	return graph.OneHot(next, 30, dtypes.Float32)
}

// The device must not go on when all rows are finished: evaluations would take as long as their token limit.
func TestSegmentStops(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		e, err := New(b, counter{}, Options{Segment: 9})
		require.NoError(t, err)
		defer e.Close()
		if !e.loop {
			t.Skip("decodes single tokens")
		}
		f, err := e.segment(rollout.Sampling{Stop: []int32{14}})
		require.NoError(t, err)
		in := []*tensors.Tensor{
			tensors.FromScalar(float32(0)), tensor([]float32{0, 0}, 2), // weights and cache
			tensor([]int32{10, 20}, 2), tensor([]int32{0, 0}, 2), tensor([]int32{50, 2}, 2), tensor([]int32{0}),
			tensor(make([]float32, 9*2), 9, 2),
		}
		out, err := f.Call(0, in)
		require.NoError(t, err)
		defer backend.Free(append(out, in...)...)
		tokens, err := tensors.CopyFlatData[int32](out[0])
		require.NoError(t, err)
		require.Equal(t, []int32{11, 21, 12, 22, 13, 23, 14, 24}, tokens[:8])
		require.Equal(t, make([]int32, 10), tokens[8:])
	})
}

// mixed has a weight that it needs in float32.
type mixed struct{ counter }

func (mixed) Params() []policy.Param {
	shape := shapes.Make(dtypes.BFloat16, 2)
	return []policy.Param{{Name: "a", Shape: shape, Float32: true}, {Name: "b", Shape: shape}}
}

// Rounding a weight that says how fast a state decays would change the policy over hundreds of tokens.
func TestLoadKeepsFloat32(t *testing.T) {
	e, err := New(testbackend.Go(t), mixed{}, Options{DType: dtypes.BFloat16})
	require.NoError(t, err)
	defer e.Close()
	shape := shapes.Make(dtypes.BFloat16, 2)
	w, err := policy.NewWeights(0, mixed{}.Params(), []*tensors.Tensor{tensors.FromShape(shape), tensors.FromShape(shape)})
	require.NoError(t, err)
	defer w.Free()
	require.NoError(t, e.Load(t.Context(), w))
	require.Equal(t, dtypes.Float32, e.weights.Tensors[0].DType())
	require.Equal(t, dtypes.BFloat16, e.weights.Tensors[1].DType())
}
