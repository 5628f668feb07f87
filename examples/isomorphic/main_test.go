package main

import (
	"bytes"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
	"github.com/grouper-rl/grouper/examples/internal/console"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/verify"
)

// The second experiment from an empty folder, cut short: what it prints, that running it again goes on, and that what it leaves
// can be verified.
func TestIsomorphicFromStartToEnd(t *testing.T) {
	o := console.Options{Dir: t.TempDir(), Backend: "go", Optimizer: "sgd", Updates: 2, EvalEvery: 2, Seed: 1}
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), o, &out))
	require.Contains(t, out.String(), "400 training tasks, 50 validation tasks")
	require.Contains(t, out.String(), "evaluation of update 0")
	require.Contains(t, out.String(), "update   2/2")

	o.Updates, o.Quiet = 4, true
	out.Reset()
	require.NoError(t, run(t.Context(), o, &out))
	require.NotContains(t, out.String(), "update   3/4", "quiet")
	require.Contains(t, out.String(), "/ 400", "the table at the end")

	report, err := verify.Run(t.Context(), o.Dir, verify.Options{Grader: func(g checkpoint.Grader) (envs.Grader, error) {
		tasks, err := reasoninggym.FromOrigin(envs.Origin{Name: g.Source, Config: g.Config})
		return envs.CompletedAnswer{Env: tasks}, err
	}})
	require.NoError(t, err)
	require.Empty(t, report.Findings)

	record, err := checkpoint.Read(o.Dir)
	require.NoError(t, err)
	require.Len(t, record.History.Evaluations, 3)
	base := record.History.Evaluations[0]
	require.Equal(t, 400, base.Scored)
	require.Equal(t, []int64{17, 43, 101, 137, 211, 307, 401, 503}, base.Seeds)
	require.Zero(t, base.Truncated)
	require.InDelta(t, .56, base.Accuracy, .06, "the base model is right in 50 to 62 % of the cases")

	o.Optimizer = "lion"
	require.ErrorContains(t, run(t.Context(), o, &out), "-optimizer")
}

// Whoever asks where the base model comes from reads its card, which must be about these weights.
func TestModelIsTheOneOnItsCard(t *testing.T) {
	folder, err := fs.Sub(files, "model")
	require.NoError(t, err)
	_, weights, err := hf.Load(t.Context(), folder)
	require.NoError(t, err)
	digest, err := weights.Digest()
	require.NoError(t, err)
	card, err := fs.ReadFile(folder, "README.md")
	require.NoError(t, err)
	require.Contains(t, string(card), digest)
}
