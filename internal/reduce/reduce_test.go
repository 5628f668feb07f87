package reduce_test

import (
	"math"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/reduce"
	"github.com/grouper-rl/grouper/internal/testbackend"
)

// Log-probs over a large vocabulary must be as good on every backend; on the pure Go backend they were off by up to 2e-4. Nothing
// may be lost or counted twice at any width, in the gradient too.
func TestSum(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		f, err := backend.Compile(b, "sum", func(in []*graph.Node) []*graph.Node {
			sum := reduce.Sum(in[0])
			return []*graph.Node{sum, graph.Gradient(graph.ReduceAllSum(sum), in[0])[0]}
		})
		require.NoError(t, err)
		defer f.Close()
		for _, width := range []int{1, 511, 512, 513, 1024, 1300, 151936, 512*512 + 7} {
			x, want := make([]float32, 2*width), [2]float64{}
			for i := range x {
				x[i] = float32(math.Exp(-10 * math.Abs(math.Sin(float64(i)))))
				want[i/width] += float64(x[i])
			}
			out, err := f.Call(0, tensors.FromFlatDataAndDimensions(x, 2, width))
			require.NoError(t, err, width)
			require.Equal(t, []int{2, 1}, out[0].Shape().Dimensions, width)
			got, err := tensors.CopyFlatData[float32](out[0])
			require.NoError(t, err)
			for i := range want {
				require.InEpsilon(t, want[i], got[i], 3e-6, width)
			}
			ones, err := tensors.CopyFlatData[float32](out[1])
			require.NoError(t, err)
			require.Len(t, ones, 2*width)
			for i := range ones {
				require.EqualValues(t, 1, ones[i], width)
			}
			backend.Free(out...)
		}
	})
}
