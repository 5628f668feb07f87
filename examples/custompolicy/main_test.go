package main

import (
	"io"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
)

// A network of the user's own must learn by the same trainer: from 2 right answers of 240 to more than one in four after 30 updates.
func TestLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("thirty updates")
	}
	dir := t.TempDir()
	require.NoError(t, run(t.Context(), options{dir: dir, backend: "go", updates: 30, seed: 1}, io.Discard))
	record, err := checkpoint.Read(dir)
	require.NoError(t, err)
	e := record.History.Evaluations
	require.Less(t, e[0].Accuracy, .1)
	require.Greater(t, e[len(e)-1].Accuracy, .25)
}

// Filler at the left of a row must change nothing, or what was sampled would not be what is trained on.
func TestFillerIsNotLookedAt(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		p := window{vocab: 5, width: 3, embed: 4, hidden: 6}
		w, err := p.random(1)
		require.NoError(t, err)
		f, err := backend.Compile(b, "hidden", func(in []*graph.Node) []*graph.Node {
			n := len(p.Params())
			h := p.Hidden(policy.Vars(in[:n]), policy.Inputs{Tokens: in[n], Pad: in[n+1]})
			return []*graph.Node{graph.Slice(h, graph.AxisRange(), graph.AxisRange(2), graph.AxisRange())}
		})
		require.NoError(t, err)
		defer f.Close()
		hidden := func(filler int32, pad int32) any {
			out, err := f.Call(0, w.Tensors, tensors.FromValue([][]int32{{filler, filler, 1, 2, 3}}), tensors.FromValue([]int32{pad}))
			require.NoError(t, err)
			require.NoError(t, out[0].Shape().CheckDims(1, 3, 6))
			return out[0].Value()
		}
		require.Equal(t, hidden(0, 2), hidden(4, 2))
		require.NotEqual(t, hidden(0, 0), hidden(4, 0), "without the mark they are tokens")
	})
}
