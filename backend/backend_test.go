package backend_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
)

// Without this a user of a machine without plug-ins could not run at all.
func TestOpenGoAndAuto(t *testing.T) {
	b, err := backend.Open(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, backend.Go, b.Kind())
	b, err = backend.Open(t.Context(), "auto")
	require.NoError(t, err)
	if b.Kind() == backend.Go {
		require.Contains(t, b.Note(), "PJRT_PLUGIN_LIBRARY_PATH", "says how to get XLA")
	}
}

// A wrong name or plug-in must be an error that says what to do, never a panic.
func TestOpenErrors(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "pjrt_c_api_cpu_plugin.so")
	require.NoError(t, os.WriteFile(junk, []byte("not a library"), 0o600))
	for _, spec := range []string{"tpu", "./relative.so", "/no/such/plugin.so", junk} {
		_, err := backend.Open(t.Context(), spec)
		require.ErrorIs(t, err, backend.ErrUnavailable, spec)
		t.Log(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := backend.Open(ctx, "auto")
	require.ErrorIs(t, err, context.Canceled)
}

// Errors of a step must name the step and its shapes, and leave the backend usable.
func TestFuncErrorsAndDonation(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		f, err := backend.Compile(b, "adding", func(in []*graph.Node) []*graph.Node {
			return []*graph.Node{graph.Add(in[0], in[1])}
		})
		require.NoError(t, err)
		_, err = f.Call(0, []float32{1, 2}, []float32{1, 2, 3})
		require.ErrorContains(t, err, "adding")
		x := tensors.FromFlatDataAndDimensions([]float32{1, 2}, 2)
		y := tensors.FromFlatDataAndDimensions([]float32{3, 4}, 2)
		out, err := f.Call(0, backend.Donated{Tensor: x}, []*tensors.Tensor{y})
		require.NoError(t, err)
		got, err := tensors.CopyFlatData[float32](out[0])
		require.NoError(t, err)
		require.Equal(t, []float32{4, 6}, got)
		backend.Free(out[0], y)
		_, err = f.Call(0, out[0], []float32{1, 2})
		require.Error(t, err, "a freed tensor")
	})
}

// A fault in what builds a graph must be an error, whatever it panics with, each time, and not keep the program from closing the function.
func TestFaultyGraphs(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		var foreign *graph.Node
		other, err := backend.Compile(b, "other", func(in []*graph.Node) []*graph.Node { foreign = in[0]; return in })
		require.NoError(t, err)
		defer other.Close()
		_, err = other.Call(0, []float32{1})
		require.NoError(t, err)
		for want, fn := range map[string]func(in []*graph.Node) []*graph.Node{
			"oops":                             func([]*graph.Node) []*graph.Node { panic("oops") },
			"sorry":                            func([]*graph.Node) []*graph.Node { panic(errors.New("sorry")) },
			"out of range":                     func(in []*graph.Node) []*graph.Node { return in[len(in) : len(in)+1][:1] },
			"output 1 is no node of the graph": func(in []*graph.Node) []*graph.Node { return append(in, nil) },
			"output 0 is no node of the graph": func([]*graph.Node) []*graph.Node { return []*graph.Node{foreign} },
		} {
			f, err := backend.Compile(b, "faulty", fn)
			require.NoError(t, err)
			for range 2 {
				_, err := f.Call(0, []float32{1})
				require.ErrorContains(t, err, want)
				require.ErrorContains(t, err, "faulty")
			}
			f.Close()
		}
	})
}

// Whoever names a plug-in and misspells its path must not get the slow backend without a word.
func TestAutoWithAWrongPath(t *testing.T) {
	const child = "GROUPER_TEST_AUTO"
	if os.Getenv(child) != "" { // go-xla reads the path when a program starts
		b, err := backend.Open(t.Context(), "auto")
		if err != nil {
			fmt.Println(err)
		} else {
			fmt.Println("opened", b.Kind())
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestAutoWithAWrongPath$")
	cmd.Env = append(os.Environ(), child+"=1", "PJRT_PLUGIN_LIBRARY_PATH=/no/such/folder")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	if _, err := backend.Open(t.Context(), backend.CPU); err != nil && strings.Contains(err.Error(), "built without XLA") {
		require.Contains(t, string(out), "opened go")
		return
	}
	require.Contains(t, string(out), `PJRT_PLUGIN_LIBRARY_PATH="/no/such/folder", and none there works`)
}
