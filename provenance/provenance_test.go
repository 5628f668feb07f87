package provenance_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
	"github.com/grouper-rl/grouper/provenance"
)

func write(t *testing.T, p testrun.Program) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	again(t, dir, p)
	return dir
}

func again(t *testing.T, dir string, p testrun.Program) {
	t.Helper()
	r, err := checkpoint.Open(dir)
	require.NoError(t, err)
	require.NoError(t, p.Run(t.Context(), r))
	require.NoError(t, r.Close())
}

// Whoever reads provenance.json by its schema must be able to rely on it, and must find the figures of the record.
func TestDocument(t *testing.T) {
	dir := write(t, testrun.Program{Updates: 5, Every: 2, Seed: 7})
	doc, err := provenance.Write(t.Context(), dir)
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(dir, provenance.Name))
	require.NoError(t, err)

	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(provenance.Schema))
	require.NoError(t, err)
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("schema.json", schema))
	valid, err := compiler.Compile("schema.json")
	require.NoError(t, err)
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	require.NoError(t, valid.Validate(value))
	value.(map[string]any)["more"] = 1
	require.Error(t, valid.Validate(value), "the schema must be able to refuse something")

	rec, err := checkpoint.Read(dir)
	require.NoError(t, err)
	require.Equal(t, len(rec.Events), doc.Run.Ledger.Seq)
	require.Equal(t, checkpoint.Work{Updates: 5, Responses: 30}, doc.Training.Retained)
	require.Len(t, doc.Results.Evaluations, len(rec.History.Evaluations))
	require.Equal(t, rec.History.Evaluations[0].Accuracy, doc.Results.Base.Accuracy)
	require.Equal(t, rec.History.Evaluations[len(rec.History.Evaluations)-1].Update, doc.Results.Final.Update)
	for _, f := range doc.Files {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(f.Path)))
		require.NoError(t, err, f.Path)
		require.Equal(t, f.SHA256, sum(data), f.Path)
	}
	require.NoError(t, provenance.Check(t.Context(), dir))
	second, err := provenance.Build(t.Context(), dir)
	require.NoError(t, err)
	encoded, err := second.Encode()
	require.NoError(t, err)
	require.Equal(t, string(data), string(encoded), "the same record gives the same bytes")
}

// A figure that was edited after the fact must be named, whatever else was left alone.
func TestEdited(t *testing.T) {
	dir := write(t, testrun.Program{Updates: 4, Every: 2, Seed: 7})
	require.NoError(t, provenance.Check(t.Context(), dir), "there need not be one")
	_, err := provenance.Write(t.Context(), dir)
	require.NoError(t, err)
	path := filepath.Join(dir, provenance.Name)
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	for want, edit := range map[string]func(d map[string]any){
		"results.final.accuracy": func(d map[string]any) { at(d, "results", "final")["accuracy"] = .99 },
		"training.retained.updates": func(d map[string]any) {
			at(d, "training", "retained")["updates"] = 100
		},
		"limitations: ":     func(d map[string]any) { d["limitations"] = []any{} },
		"files[0].sha256":   func(d map[string]any) { d["files"].([]any)[0].(map[string]any)["sha256"] = strings.Repeat("0", 64) },
		"settings.lr":       func(d map[string]any) { at(d, "settings")["lr"] = 1 },
		"results.more":      func(d map[string]any) { at(d, "results")["more"] = 1 },
		"run.ledger.hash":   func(d map[string]any) { at(d, "run", "ledger")["hash"] = strings.Repeat("0", 64) },
		"the form in which": func(map[string]any) {},
	} {
		var d map[string]any
		require.NoError(t, json.Unmarshal(whole, &d))
		edit(d)
		data, err := json.Marshal(d)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, data, 0o644))
		require.ErrorContains(t, provenance.Check(t.Context(), dir), want)
	}
	require.NoError(t, os.WriteFile(path, whole[:100], 0o644))
	require.Error(t, provenance.Check(t.Context(), dir))

	// A run that went on since makes it old, not wrong.
	require.NoError(t, os.WriteFile(path, whole, 0o644))
	again(t, dir, testrun.Program{Updates: 6, Every: 2, Seed: 7})
	require.ErrorIs(t, provenance.Check(t.Context(), dir), provenance.ErrOld)
}

// What limits the results must be stated from the record, not left to the author.
func TestFacts(t *testing.T) {
	dir := write(t, testrun.Program{Updates: 4, Every: 2, Seed: 7})
	doc, err := provenance.Build(t.Context(), dir)
	require.NoError(t, err)
	names := map[string]string{}
	for _, f := range doc.Facts {
		names[f.Name] = f.Text
	}
	require.Contains(t, names["validation_seen"], "evaluated 3 times during training")
	require.Contains(t, names, "no_confirmation")
	require.Contains(t, names["one_seed"], "(7)")
	require.NotContains(t, names, "rolled_back")
	require.NotContains(t, names, "not_finished")
}

func at(d map[string]any, path ...string) map[string]any {
	for _, key := range path {
		d = d[key].(map[string]any)
	}
	return d
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}
