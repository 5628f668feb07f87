package verify_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/grouper-rl/grouper/provenance"
)

// The file that is published must not say more than the record behind it.
func TestProvenance(t *testing.T) {
	dir := write(t, program, 3)
	if _, err := provenance.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if report := check(t, dir); !report.OK() {
		t.Fatal(text(t, report))
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
