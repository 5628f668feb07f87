package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/grouper-rl/grouper/envs"
)

// regenerate freezes the bank again from the source that its manifest names.
func (v *verifier) regenerate(ctx context.Context) {
	if !v.opts.Full || v.frozen == nil {
		return
	}
	m := v.frozen.Manifest
	switch {
	case !m.FromSources():
		v.note("the bank was not made again: its tasks were given one by one, not frozen from a source")
		return
	case v.opts.Source == nil:
		v.note("the bank was not made again: nothing makes sources")
		return
	}
	var unknown error
	again, err := v.frozen.Again(ctx, func(o envs.Origin) (envs.Source, error) {
		source, err := v.opts.Source(o)
		unknown = errors.Join(unknown, err)
		return source, err
	})
	switch {
	case unknown != nil:
		v.note("the bank was not made again: %v", unknown)
		return
	case err != nil:
		v.find(Finding{File: "bank", What: fmt.Sprintf("it cannot be made again from its source: %v", err)})
		return
	}
	parts := [3]struct {
		name      string
		had, want []envs.Task
	}{
		{"train", v.frozen.Train, again.Train}, {"validation", v.frozen.Validation, again.Validation}, {"confirmation", v.frozen.Confirmation, again.Confirmation},
	}
	same := true
	for _, part := range parts {
		for i, want := range part.want { // as many as had: the split is the bank's
			had := part.had[i]
			for _, f := range []struct{ what, want, had string }{
				{"id", want.ID, had.ID}, {"question", want.Question, had.Question}, {"answer", want.Answer, had.Answer}, {"key", want.Key, had.Key},
				{"metadata", string(want.Metadata), string(had.Metadata)},
			} {
				if f.want != f.had {
					same = false
					v.find(Finding{File: "bank/" + part.name + ".jsonl", Line: i + 1, Task: had.ID, What: f.what + " against the source's", Expected: short(f.want), Found: short(f.had)})
				}
			}
		}
	}
	files, now := v.frozen.Files(), again.Files()
	if same && !bytes.Equal(files["manifest.json"], now["manifest.json"]) {
		v.find(Finding{File: "bank/manifest.json", What: "made again from the source it comes out otherwise"})
		return
	}
	if same {
		v.checked("bank: %d tasks of %s made again, all the same", len(v.tasks), m.Source.Name)
	}
}
