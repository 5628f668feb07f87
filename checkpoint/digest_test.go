package checkpoint_test

import (
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/policy"
)

// An evaluation names its weights by the policy's digest, a checkpoint by its own. Only if the two are the same can anyone
// check that what was evaluated is what was trained.
func TestWeightsDigestIsThePolicys(t *testing.T) {
	ts := []*tensors.Tensor{
		tensors.FromValue([][]float32{{1, 2, 3}, {4, 5, 6}}),
		tensors.FromValue([]bfloat16.BFloat16{bfloat16.FromFloat32(1.5), bfloat16.FromFloat32(-2)}),
		tensors.FromValue(float32(7)),
	}
	names := []string{"z", "a", "m"}
	types := map[dtypes.DType]checkpoint.DType{dtypes.Float32: "F32", dtypes.BFloat16: "BF16"}
	var params []policy.Param
	state := checkpoint.NewState(0)
	for i, x := range ts {
		params = append(params, policy.Param{Name: names[i], Shape: shapes.Make(x.DType(), x.Shape().Dimensions...)})
		state.Tensors[checkpoint.WeightsGroup] = append(state.Tensors[checkpoint.WeightsGroup], checkpoint.Tensor{
			Name: names[i], DType: types[x.DType()], Shape: x.Shape().Dimensions,
			Data: func(emit func([]byte) error) (err error) {
				if lockErr := x.ConstBytes(func(data []byte) { err = emit(data) }); lockErr != nil {
					return lockErr
				}
				return err
			},
		})
	}
	w, err := policy.NewWeights(0, params, ts)
	if err != nil {
		t.Fatal(err)
	}
	want, err := w.Digest()
	if err != nil {
		t.Fatal(err)
	}
	r := mustOpen(t, filepath.Join(t.TempDir(), "run"))
	id, err := program.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Begin(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := r.SaveCheckpoint(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	if got := r.History().Checkpoints[0].Weights; got != want {
		t.Errorf("the checkpoint's digest is %s, the policy's %s", got, want)
	}
}
