package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/tensors"
)

// Weights are the tensors of a policy in the order of its Params, with the number of the update that made them
// (0: the base weights).
type Weights struct {
	Update  int
	Params  []Param
	Tensors []*tensors.Tensor
}

// NewWeights checks the tensors against the parameters.
func NewWeights(update int, params []Param, ts []*tensors.Tensor) (*Weights, error) {
	if len(ts) != len(params) {
		return nil, fmt.Errorf("%d tensors for %d parameters", len(ts), len(params))
	}
	for i, p := range params {
		if ts[i] == nil || !ts[i].Shape().Equal(p.Shape) {
			return nil, fmt.Errorf("tensor %q: shape %v, want %v", p.Name, ts[i].Shape(), p.Shape)
		}
	}
	return &Weights{Update: update, Params: params, Tensors: ts}, nil
}

// Clone copies the weights to a device, so that the original can be donated or changed.
func (w *Weights) Clone(b compute.Backend, device compute.DeviceNum) (*Weights, error) {
	out := &Weights{Update: w.Update, Params: w.Params, Tensors: make([]*tensors.Tensor, len(w.Tensors))}
	for i, t := range w.Tensors {
		var err error
		if lockErr := t.ConstBytes(func(data []byte) {
			out.Tensors[i], err = tensors.FromRaw(b, device, t.Shape(), data)
		}); lockErr != nil {
			err = lockErr
		}
		if err != nil {
			out.Free()
			return nil, fmt.Errorf("copying tensor %q to device %d: %w", w.Params[i].Name, device, err)
		}
	}
	return out, nil
}

// Host copies the weights to host memory, which the garbage collector frees.
func (w *Weights) Host() (*Weights, error) {
	out := &Weights{Update: w.Update, Params: w.Params, Tensors: make([]*tensors.Tensor, len(w.Tensors))}
	for i, t := range w.Tensors {
		out.Tensors[i] = tensors.FromShape(t.Shape())
		var inner error
		err := t.ConstBytes(func(data []byte) {
			inner = out.Tensors[i].MutableBytes(func(into []byte) { copy(into, data) })
		})
		if err = errors.Join(err, inner); err != nil {
			return nil, fmt.Errorf("copying tensor %q to host memory: %w", w.Params[i].Name, err)
		}
	}
	return out, nil
}

// Free releases the tensors.
func (w *Weights) Free() {
	for _, t := range w.Tensors {
		if t != nil {
			_ = t.FinalizeAll()
		}
	}
}

// Size is the number of weights.
func (w *Weights) Size() int {
	n := 0
	for _, p := range w.Params {
		n += p.Shape.Size()
	}
	return n
}

// TensorDigest is the SHA-256, in hex, of a tensor's dtype, dimensions and little-endian bytes.
func TensorDigest(t *tensors.Tensor) (string, error) {
	h := sha256.New()
	if err := hashTensor(h, t); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Digest is the SHA-256, in hex, over names and tensor digests in parameter order. It names the weights in
// receipts; the update number does not enter.
func (w *Weights) Digest() (string, error) {
	all := sha256.New()
	for i, t := range w.Tensors {
		d, err := TensorDigest(t)
		if err != nil {
			return "", fmt.Errorf("tensor %q: %w", w.Params[i].Name, err)
		}
		fmt.Fprintf(all, "%s\x00%s\x00", w.Params[i].Name, d)
	}
	return hex.EncodeToString(all.Sum(nil)), nil
}

func hashTensor(h hash.Hash, t *tensors.Tensor) error {
	if _, err := fmt.Fprintf(h, "%s %v\x00", t.DType(), t.Shape().Dimensions); err != nil {
		return err
	}
	return t.ConstBytes(func(data []byte) { _, _ = io.Writer(h).Write(data) })
}

// storedDTypes are the dtypes that weights can be stored in, with their names in safetensors files.
var storedDTypes = map[dtypes.DType]string{
	dtypes.Float32: "F32", dtypes.BFloat16: "BF16", dtypes.Float16: "F16", dtypes.Float64: "F64",
}

// StoredDType is the name of a dtype in safetensors files.
func StoredDType(d dtypes.DType) (string, error) {
	name, ok := storedDTypes[d]
	if !ok {
		return "", fmt.Errorf("dtype %s cannot be stored as weights", d)
	}
	return name, nil
}
