package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/grouper-rl/grouper/checkpoint"
)

// passedOver takes note of the damaged checkpoints that a segment passed over: they must stay as they were found then.
func (v *verifier) passedOver(e *checkpoint.Event) {
	var s checkpoint.Segment
	if json.Unmarshal(e.Body, &s) != nil {
		return // its form is checked with the history
	}
	for _, p := range s.PassedOver {
		delete(v.saved, p.Checkpoint)
		v.note("%s is damaged, and segment %d passed it over: %s", p.Checkpoint, s.Segment, p.Reason)
	}
}

// checkpoints checks manifests, files and tensors.
func (v *verifier) checkpoints(ctx context.Context) {
	tensors := 0
	for _, path := range slices.Sorted(maps.Keys(v.saved)) {
		if ctx.Err() != nil {
			return
		}
		n, err := v.checkpoint(v.saved[path])
		if err != nil && v.prunedSince(path) {
			v.note("%s was pruned while it was checked", path)
			continue
		}
		if err != nil {
			v.fails(path, err)
		}
		tensors += n
	}
	of := "of the weights"
	if v.opts.Full {
		of = "of all groups"
	}
	v.checked("checkpoints: manifests and files of %d, each of %d tensors %s", len(v.saved), tensors, of)
}

func (v *verifier) checkpoint(s checkpoint.Saved) (tensors int, err error) {
	state, m, err := checkpoint.OpenState(v.path(s.Path), s.Manifest)
	if err != nil {
		return 0, err
	}
	defer state.Close()
	if m.Update != s.Update {
		return 0, fmt.Errorf("its manifest is of update %d, the ledger says %d", m.Update, s.Update)
	}
	if weights, ok := m.Groups[checkpoint.WeightsGroup]; ok || s.Weights != "" {
		if got := checkpoint.WeightsDigest(weights); got != s.Weights {
			return 0, fmt.Errorf("its weights have digest %s, the ledger says %s", got, s.Weights)
		}
	}
	for name, group := range state.Tensors {
		if name != checkpoint.WeightsGroup && !v.opts.Full {
			continue // the file is whole, and no other digest hangs on its tensors
		}
		for _, t := range group {
			if err := t.Data(func([]byte) error { return nil }); err != nil {
				return tensors, err
			}
			tensors++
		}
	}
	return tensors, nil
}
