package decoder

import (
	"hash/fnv"
	"io"
	"math/rand/v2"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/policy"
)

// Init makes starting weights: matrices from a normal distribution of deviation Config.InitDeviation, norms such that
// they multiply by 1, biases 0. They
// are made on the host, so a seed means the same weights on every backend; bfloat16 weights are the rounded float32 ones.
func (d *Decoder) Init(seed uint64) (*policy.Weights, error) {
	ts := make([]*tensors.Tensor, len(d.params))
	for i, p := range d.params {
		values := make([]float32, p.Shape.Size())
		switch {
		case p.Decay:
			h := fnv.New64a()
			_, _ = io.WriteString(h, p.Name)
			r := rand.New(rand.NewPCG(seed, h.Sum64()))
			for j := range values {
				values[j] = float32(r.NormFloat64() * d.cfg.InitDeviation)
			}
		case !d.tensors[i].bias && d.cfg.NormStyle != NormOffset:
			for j := range values {
				values[j] = 1
			}
		}
		if p.Shape.DType == dtypes.Float32 {
			ts[i] = tensors.FromFlatDataAndDimensions(values, p.Shape.Dimensions...)
			continue
		}
		half := make([]bfloat16.BFloat16, len(values))
		for j, v := range values {
			half[j] = bfloat16.FromFloat32(v)
		}
		ts[i] = tensors.FromFlatDataAndDimensions(half, p.Shape.Dimensions...)
	}
	return policy.NewWeights(0, d.Params(), ts)
}
