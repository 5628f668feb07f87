package hf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/grouper-rl/grouper/internal/safetensors"
	"github.com/grouper-rl/grouper/policy"
)

// matches checks that the weights are the model's.
func matches(m *Model, w *policy.Weights) error {
	params := m.Params()
	if len(w.Params) != len(params) {
		return fmt.Errorf("%d weight tensors, the model has %d", len(w.Params), len(params))
	}
	for i, p := range params {
		if w.Params[i].Name != p.Name || !w.Params[i].Shape.Equal(p.Shape) {
			return fmt.Errorf("weight tensor %d is %q %v, the model has %q %v", i, w.Params[i].Name, w.Params[i].Shape, p.Name, p.Shape)
		}
	}
	return nil
}

// export describes the weights for a safetensors file; their bytes are taken when the file is written.
func export(ctx context.Context, w *policy.Weights) ([]safetensors.Tensor, error) {
	out := make([]safetensors.Tensor, len(w.Params))
	for i, p := range w.Params {
		t := safetensors.Tensor{Name: p.Name, Shape: p.Shape.Dimensions}
		for name, dtype := range stored {
			if dtype == p.Shape.DType {
				t.DType = name
			}
		}
		if t.DType == "" {
			return nil, fmt.Errorf("tensor %q: %w: dtype %s", p.Name, ErrUnsupported, p.Shape.DType)
		}
		t.Data = func(emit func([]byte) error) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			var err error
			if lockErr := w.Tensors[i].ConstBytes(func(data []byte) { err = emit(data) }); lockErr != nil {
				return lockErr
			}
			return err
		}
		out[i] = t
	}
	return out, nil
}

// passedThrough are the tensors that Save takes from the folder that was loaded. They are read when they are written.
func (m *Model) passedThrough(ctx context.Context) (ts []safetensors.Tensor, closeSource func(), err error) {
	if len(m.PassedThrough) == 0 {
		return nil, func() {}, nil
	}
	if m.source == nil {
		return nil, nil, fmt.Errorf("tensor %q: there is no folder that it comes from", m.PassedThrough[0])
	}
	s, err := openWeights(m.source)
	if err != nil {
		return nil, nil, fmt.Errorf("the folder that was loaded: %w", err)
	}
	for _, name := range m.PassedThrough {
		t, ok := s.tensors[name]
		if !ok {
			s.close()
			return nil, nil, fmt.Errorf("tensor %q is no longer in the folder that was loaded", name)
		}
		if file := s.files[name]; m.loaded[file] != s.stamps[file] {
			s.close()
			return nil, nil, fmt.Errorf("tensor %q: %s is not the file that was loaded", name, file)
		}
		data := t.Data
		t.Data = func(emit func([]byte) error) error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return data(emit)
		}
		ts = append(ts, t)
	}
	return ts, s.close, nil
}

// write makes a file and syncs it.
func write(name string, content func(io.Writer) error) (err error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := bufio.NewWriterSize(f, 1<<20)
	if err := content(b); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(name), err)
	}
	if err := b.Flush(); err != nil {
		return err
	}
	return f.Sync()
}

// syncDir makes the entries of a folder durable.
func syncDir(name string) (err error) {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	return d.Sync()
}
