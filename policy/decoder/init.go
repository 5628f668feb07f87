package decoder

import (
	"hash/fnv"
	"io"
	"math"
	"math/rand/v2"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/policy"
)

// Init makes starting weights: matrices from a normal distribution of deviation Config.InitDeviation, norms such that
// they multiply by 1, biases 0; in gated DeltaNet layers biases of the step 1 and decays log(u) with u uniform between 0.01 and 16, as in
// transformers. They are made on the host, so a seed means the same weights on every backend; bfloat16 weights are the rounded float32 ones.
func (d *Decoder) Init(seed uint64) (*policy.Weights, error) {
	ts := make([]*tensors.Tensor, len(d.params))
	for i, p := range d.params {
		h := fnv.New64a()
		_, _ = io.WriteString(h, p.Name)
		r := rand.New(rand.NewPCG(seed, h.Sum64()))
		one := func() float64 { return 0 }
		switch role := d.tensors[i].role; {
		case p.Decay:
			one = func() float64 { return r.NormFloat64() * d.cfg.InitDeviation }
		case role == DeltaLogDecay:
			one = func() float64 { return math.Log(0.01 + 15.99*r.Float64()) }
		case role == DeltaStepBias, role == DeltaNorm, !d.tensors[i].bias && d.cfg.NormStyle != NormOffset:
			one = func() float64 { return 1 }
		}
		values := make([]float32, p.Shape.Size())
		for j := range values {
			values[j] = float32(one())
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
