package verify

import (
	"encoding/json"
	"maps"
	"os"
	"slices"

	"github.com/grouper-rl/grouper/checkpoint"
)

// prunedBy lists the checkpoints that an event says were removed.
func prunedBy(e *checkpoint.Event) (paths []string) {
	var p checkpoint.Pruned
	if e.Kind != checkpoint.KindPruned || json.Unmarshal(e.Body, &p) != nil {
		return nil // its form is checked with the history
	}
	for _, c := range p.Checkpoints {
		paths = append(paths, c.Path)
	}
	return paths
}

// prunedLeft says what was pruned, and of what something is left.
func (v *verifier) prunedLeft(pruned map[string]bool) {
	if len(pruned) > 0 {
		v.checked("pruned: %d checkpoints were removed to save space, as the ledger says", len(pruned))
	}
	for _, path := range slices.Sorted(maps.Keys(pruned)) {
		if _, err := os.Lstat(v.path(path)); err == nil {
			v.note("%s was pruned and is not gone yet: opening the run removes it", path)
		}
	}
}

// prunedSince says whether a running program has pruned a checkpoint since the ledger was read.
func (v *verifier) prunedSince(path string) bool {
	rec, err := checkpoint.Read(v.dir)
	if err != nil || len(rec.Events) <= len(v.events) {
		return false
	}
	gone := false
	for i := range rec.Events[len(v.events):] {
		gone = gone || slices.Contains(prunedBy(&rec.Events[len(v.events)+i]), path)
	}
	return gone
}
