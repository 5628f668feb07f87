package report_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
	"github.com/grouper-rl/grouper/provenance"
	"github.com/grouper-rl/grouper/report"
)

// A card must be publishable as it comes: everything that a reader asks of a result, from the record, without a hand edit.
func TestCard(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run := func(p testrun.Program) {
		r, err := checkpoint.Open(dir)
		require.NoError(t, err)
		require.NoError(t, p.Run(t.Context(), r))
		require.NoError(t, r.Close())
	}
	p := testrun.Program{Updates: 6, Every: 2, Seed: 7, About: checkpoint.About{
		Title: "Echo | small", Task: "Say a word back", BaseModel: "grouper-rl/echo-base", License: "apache-2.0", Limitations: []string{"It is a test."},
	}}
	run(p)
	require.NoError(t, report.Write(t.Context(), dir))
	data, err := os.ReadFile(filepath.Join(dir, report.Folder, "model-card.md"))
	require.NoError(t, err)
	card := string(data)
	rec, err := checkpoint.Read(dir)
	require.NoError(t, err)
	final := rec.History.Evaluations[len(rec.History.Evaluations)-1]
	for _, want := range []string{
		"---\nlicense: \"apache-2.0\"\nbase_model: \"grouper-rl/echo-base\"\n", "# Echo | small\n", "Say a word back.\n",
		"6 updates on 36 sampled responses", "| base | 0 | ", "| **final** | 6 | " + fmt.Sprintf("%.2f %%", 100*final.Accuracy), "curves.png",
		"4 held-out tasks of `echo` × 3 fixed seeds (17, 43, 101) = 12 completions", "| `objective.clip_high` | `0.28` |",
		"| 1 | the base weights | start | not recorded | 6 | 0 |", "6 updates and 36 responses count; 0 updates", "- There is no confirmation set", "- It is a test.",
		"AutoModelForCausalLM.from_pretrained(\"FOLDER\"", "vllm serve FOLDER", "sglang.launch_server --model-path FOLDER",
		"## Licence\n\napache-2.0\n", rec.Events[len(rec.Events)-1].Hash,
	} {
		require.Contains(t, card, want)
	}
	d, err := provenance.Build(t.Context(), dir)
	require.NoError(t, err)
	d.Segments[0].Versions["backend"] = "cuda" // this program has none
	require.Contains(t, string(report.Card(d)), "| 1 | the base weights | start | cuda | 6 | 0 |")
	for _, bad := range []string{"<nil>", "%!", "null"} {
		require.NotContains(t, card, bad)
	}
	for _, line := range strings.Split(card, "\n") {
		if strings.HasPrefix(line, "| ") {
			require.NotContains(t, line, "|  |", "an empty cell: %s", line)
		}
	}
}

// A run of which nobody said anything must still get a card, which does not invent a licence.
func TestCardWithoutWords(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r, err := checkpoint.Open(dir)
	require.NoError(t, err)
	require.NoError(t, testrun.Program{Updates: 1, Every: 1, Seed: 7}.Run(t.Context(), r))
	require.NoError(t, r.Close())
	d, err := provenance.Build(t.Context(), dir)
	require.NoError(t, err)
	card := string(report.Card(d))
	require.NotContains(t, card, "license:")
	require.Contains(t, card, "# echo by GRPO, seed 7")
	require.Contains(t, card, "Not stated")
}
