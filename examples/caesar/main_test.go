package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/verify"
)

// The main job from an empty folder, cut to two updates: what it prints, that running it again goes on, and that what it leaves can be
// verified.
func TestCaesarFromStartToEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute on the Go backend")
	}
	dir := t.TempDir()
	o := console.Options{Dir: dir, Backend: "go", Optimizer: "adam", Updates: 1, EvalEvery: 1, Seed: 1}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), o, &out))
	require.Contains(t, out.String(), "114 training tasks, 50 validation tasks")
	require.Contains(t, out.String(), "evaluation of update 0")
	require.Contains(t, out.String(), "update   1/1")

	o.Updates, o.Quiet = 2, true
	out.Reset()
	require.NoError(t, run(t.Context(), o, &out))
	require.NotContains(t, out.String(), "update   2/2", "quiet")
	require.Contains(t, out.String(), "/ 400", "the table at the end")

	report, err := verify.Run(t.Context(), dir, verify.Options{Grader: func(g checkpoint.Grader) (envs.Grader, error) {
		tasks, err := reasoninggym.FromOrigin(envs.Origin{Name: g.Source, Config: g.Config})
		return envs.CompletedAnswer{Env: tasks}, err
	}})
	require.NoError(t, err)
	require.Empty(t, report.Findings)
	record, err := checkpoint.Read(dir)
	require.NoError(t, err)
	require.Len(t, record.History.Evaluations, 3)
	base := record.History.Evaluations[0]
	require.Equal(t, 400, base.Scored)
	require.Equal(t, []int64{17, 43, 101, 137, 211, 307, 401, 503}, base.Seeds)
	require.InDelta(t, .4, base.Accuracy, .1, "the base model solves 30 to 50 % of the held-out tasks")

	o.Optimizer = "lion"
	require.ErrorContains(t, run(t.Context(), o, &out), "-optimizer")
}
