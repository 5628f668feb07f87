package verify_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/provenance"
)

// The file that is published must not say more than the record behind it.
func TestProvenance(t *testing.T) {
	dir := write(t, program, 3)
	if out := text(t, check(t, dir)); !strings.Contains(out, "note: not there: provenance.json, report/model-card.md; ") {
		t.Errorf("nothing was said of the missing files:\n%s", out)
	}
	if _, err := provenance.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if report := check(t, dir); !report.OK() || !strings.Contains(text(t, report), "note: not there: report/model-card.md; ") {
		t.Fatal(text(t, report))
	}
	if err := os.Mkdir(filepath.Join(dir, "report"), 0o755); err != nil {
		t.Fatal(err)
	}
	rewrite(t, filepath.Join(dir, "report", "model-card.md"), nil)
	if out := text(t, check(t, dir)); strings.Contains(out, "not there") {
		t.Errorf("both files are there:\n%s", out)
	}
	path := filepath.Join(dir, provenance.Name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, path, bytes.Replace(data, []byte(`"rolled_back": {
      "updates": 0`), []byte(`"rolled_back": {
      "updates": 9`), 1))
	found(t, check(t, dir), provenance.Name, "training.rolled_back.updates: expected 0, found 9")
}
