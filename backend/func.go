package backend

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// Func is a pure function of tensors, compiled once for each combination of input shapes. It is safe for concurrent use.
type Func struct {
	b    *Backend
	name string
	exec *graph.Exec
}

// Compile prepares fn, which builds the graph of a function from its inputs. Compilation itself happens at the first
// [Func.Call] with given shapes. The name stands in errors.
func Compile(b *Backend, name string, fn func(in []*graph.Node) []*graph.Node) (*Func, error) {
	f := &Func{b: b, name: name}
	err := catch(func() (err error) {
		if f.exec, err = graph.NewExec(b.raw, building(fn)); err == nil {
			f.exec.WithName(name).SetMaxCache(-1)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// building has fn panic with nothing but errors: those GoMLX turns into an error itself. After any other panic it would wait for ever for
// the graph to be built, in the next call and in Close.
func building(fn func(in []*graph.Node) []*graph.Node) func(in []*graph.Node) []*graph.Node {
	return func(in []*graph.Node) (out []*graph.Node) {
		err := catch(func() error {
			out = fn(in)
			for i, n := range out {
				if n == nil || len(in) > 0 && n.Graph() != in[0].Graph() {
					return fmt.Errorf("output %d is no node of the graph", i)
				}
			}
			return nil
		})
		if err != nil {
			panic(err)
		}
		return out
	}
}

// Donated marks a tensor whose buffer the function may overwrite; the tensor must not be used afterwards,
// whether the call succeeds or not.
type Donated struct{ *tensors.Tensor }

// Call runs the function on a device. Arguments are *tensors.Tensor, [Donated], []*tensors.Tensor and []Donated (which
// are spread), or Go scalars and (nested) slices. The caller owns the outputs and frees them with [Free].
func (f *Func) Call(device compute.DeviceNum, args ...any) (out []*tensors.Tensor, err error) {
	flat := make([]any, 0, len(args))
	donate := func(t *tensors.Tensor) error {
		d, err := graph.DonateTensorBuffer(t, f.b.raw, device)
		flat = append(flat, d)
		return err
	}
	err = catch(func() error {
		for _, a := range args {
			switch a := a.(type) {
			case []*tensors.Tensor:
				for _, t := range a {
					flat = append(flat, t)
				}
			case Donated:
				if err := donate(a.Tensor); err != nil {
					return err
				}
			case []Donated:
				for _, d := range a {
					if err := donate(d.Tensor); err != nil {
						return err
					}
				}
			default:
				flat = append(flat, a)
			}
		}
		out, _, err = f.exec.CallWithGraphOnDevice(device, flat...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s on %s device %d with %s: %w", f.name, f.b.kind, device, shapesOf(args), err)
	}
	return out, nil
}

// Close frees the compiled executables.
func (f *Func) Close() { _ = catch(func() error { f.exec.Finalize(); return nil }) }

// Donate marks every tensor of a list.
func Donate(ts []*tensors.Tensor) []Donated {
	ds := make([]Donated, len(ts))
	for i, t := range ts {
		ds[i] = Donated{t}
	}
	return ds
}

// Free releases the device and host memory of tensors that are no longer needed; Go's garbage collector does not know
// its size. Nil tensors are skipped.
func Free(ts ...*tensors.Tensor) {
	for _, t := range ts {
		if t != nil {
			_ = catch(t.FinalizeAll)
		}
	}
}

// shapesOf lists the distinct shapes of the arguments for an error message, up to eight.
func shapesOf(args []any) string {
	var out []string
	add := func(t *tensors.Tensor) {
		s := "a freed tensor"
		if t != nil && t.Ok() {
			s = t.Shape().String()
		}
		if len(out) == 0 || out[len(out)-1] != s {
			out = append(out, s)
		}
	}
	for _, a := range args {
		switch a := a.(type) {
		case *tensors.Tensor:
			add(a)
		case Donated:
			out = append(out, "donated")
		case []*tensors.Tensor:
			for _, t := range a {
				add(t)
			}
		case []Donated:
			out = append(out, fmt.Sprintf("%d donated", len(a)))
		default:
			out = append(out, fmt.Sprintf("%T", a))
		}
	}
	if len(out) > 8 {
		out = append(out[:8], "…")
	}
	return strings.Join(out, ", ")
}
