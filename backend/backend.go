// Package backend chooses, checks and wraps the compute backend that policies run on: XLA over PJRT
// (CUDA or CPU) or GoMLX's pure Go backend. It also turns GoMLX's panics into errors, so that nothing
// beyond this package has to recover.
package backend

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
)

// ErrUnavailable is returned by [Open] when the backend that was asked for cannot be used on this machine.
var ErrUnavailable = errors.New("backend unavailable")

// Kinds of backend, as [Backend.Kind] reports them.
const (
	Go   = "go"   // GoMLX's pure Go backend
	CPU  = "cpu"  // XLA on the CPU
	CUDA = "cuda" // XLA on NVIDIA GPUs
	PJRT = "pjrt" // XLA through a plug-in that was named by its path
)

// Backend is an opened compute backend that passed its smoke test. It is safe for concurrent use.
type Backend struct {
	raw  compute.Backend
	kind string
	note string
}

// Kind is one of [Go], [CPU], [CUDA] and [PJRT].
func (b *Backend) Kind() string { return b.kind }

// Note says why "auto" passed over other backends; it is empty otherwise.
func (b *Backend) Note() string { return b.note }

// Raw is GoMLX's backend. GoMLX tells backends apart by identity, so tensors made for it are made for this one.
func (b *Backend) Raw() compute.Backend { return b.raw }

// NumDevices is the number of devices; they are numbered from 0.
func (b *Backend) NumDevices() int { return int(b.raw.NumDevices()) }

// Supports reports whether the backend implements the operation.
func (b *Backend) Supports(op compute.OpType) bool { return b.raw.Capabilities().Operations[op] }

// Open opens a backend and runs a small computation on it before it is handed out. The spec is one of
//
//   - "auto": CUDA, then XLA on CPU, where a PJRT plug-in is found and works, else pure Go; not if PJRT_PLUGIN_LIBRARY_PATH is set, in a
//     program that has XLA: then it is an error if no plug-in there works;
//   - "go": pure Go, always there;
//   - "cpu", "cuda": XLA with the plug-in of that name, found through PJRT_PLUGIN_LIBRARY_PATH or in the
//     standard places of go-xla (~/.local/lib/go-xla, /usr/local/lib/go-xla and the loader's paths);
//   - an absolute path: that PJRT plug-in.
//
// Open never downloads anything. An error wraps [ErrUnavailable] and says what was tried and how to install a plug-in.
func Open(ctx context.Context, spec string) (*Backend, error) {
	switch {
	case spec == Go:
		return open(ctx, Go, openGo)
	case spec == CPU || spec == CUDA:
		return open(ctx, spec, func() (compute.Backend, error) { return openXLA(spec) })
	case filepath.IsAbs(spec):
		kind := PJRT
		switch base := filepath.Base(spec); {
		case strings.Contains(base, CUDA):
			kind = CUDA
		case strings.Contains(base, CPU):
			kind = CPU
		}
		return open(ctx, kind, func() (compute.Backend, error) { return openXLA(spec) })
	case spec == "auto" || spec == "":
		var passed []string
		for _, s := range []string{CUDA, CPU} {
			b, err := Open(ctx, s)
			if err == nil {
				b.note = strings.Join(passed, "; ")
				return b, nil
			}
			if ctx.Err() != nil {
				return nil, err
			}
			passed = append(passed, err.Error())
		}
		if where := pluginPath(); where != "" {
			return nil, fmt.Errorf("%w: backend %q: a plug-in was asked for by %s, and none there works (%s): correct or unset it, or ask for %q",
				ErrUnavailable, "auto", where, strings.Join(passed, "; "), Go)
		}
		b, err := Open(ctx, Go)
		if err == nil {
			b.note = strings.Join(passed, "; ")
		}
		return b, err
	}
	return nil, fmt.Errorf("%w: backend %q: allowed are auto, go, cpu, cuda or the absolute path of a PJRT plug-in", ErrUnavailable, spec)
}

// openGo lets independent operations run beside each other without a limit on workers: with a limit GoMLX's Go backend
// deadlocks at times, and one after the other they keep two cores busy to 120 % only. The price is that an operation that
// panics on bad input ends the process, so what reaches one is checked before.
func openGo() (compute.Backend, error) {
	b, err := gobackend.New("")
	if err != nil {
		return nil, err
	}
	// No limit on workers: what the setting "parallelism=-1" does, which also prints to standard output. The type is internal to GoMLX.
	workers, ok := reflect.ValueOf(b).Elem().FieldByName("Workers").Interface().(interface{ SetMaxParallelism(int) })
	if !ok {
		return nil, fmt.Errorf("cannot limit the parallelism of %T", b)
	}
	workers.SetMaxParallelism(-1)
	return b, nil
}

func open(ctx context.Context, kind string, create func() (compute.Backend, error)) (*Backend, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var raw compute.Backend
	err := catch(func() (err error) { raw, err = create(); return err })
	if err != nil {
		return nil, fmt.Errorf("%w: backend %q: %w%s", ErrUnavailable, kind, err, hint(kind))
	}
	b := &Backend{raw: raw, kind: kind}
	if err := b.smoke(); err != nil {
		_ = catch(func() error { raw.Finalize(); return nil })
		return nil, fmt.Errorf("%w: backend %q opened but failed its smoke test: %w", ErrUnavailable, kind, err)
	}
	return b, nil
}

// smoke multiplies two small matrices and takes a softmax, and compares with numbers worked out by hand.
func (b *Backend) smoke() error {
	f, err := Compile(b, "smoke test", func(in []*graph.Node) []*graph.Node {
		return []*graph.Node{graph.Softmax(graph.DotGeneral(in[0], []int{1}, nil, in[1], []int{0}, nil), -1)}
	})
	if err != nil {
		return err
	}
	defer f.Close()
	out, err := f.Call(0, [][]float32{{1, 2}}, [][]float32{{1, 0, 3}, {0, 1, -1}})
	if err != nil {
		return err
	}
	defer Free(out...)
	got, err := tensors.CopyFlatData[float32](out[0])
	if err != nil {
		return err
	}
	z := math.Exp(1) + math.Exp(2) + math.Exp(1)
	for i, want := range []float64{math.Exp(1) / z, math.Exp(2) / z, math.Exp(1) / z} {
		if math.Abs(float64(got[i])-want) > 1e-3 { // wide enough for TF32
			return fmt.Errorf("softmax(AB)[%d] = %v, want %v", i, got[i], want)
		}
	}
	return nil
}

func hint(kind string) string {
	if kind != CPU && kind != CUDA || !builtWithXLA {
		return ""
	}
	return "; put pjrt_c_api_" + kind + "_plugin.so into ~/.local/lib/go-xla or a folder named by PJRT_PLUGIN_LIBRARY_PATH " +
		"(for the CPU it is in the Python wheel lammps-jax-pjrt-cpu 0.11.2, for CUDA in jax-cuda13-pjrt)"
}

// catch runs f and turns a panic into an error.
func catch(f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = p
		default:
			err = fmt.Errorf("%v", p)
		}
	}()
	return f()
}
