package verify

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/provenance"
)

// modelCard is where a report leaves it.
const modelCard = "report/model-card.md"

// provenance checks that provenance.json, where there is one, says what the record says, and notes if it or the model card is missing.
func (v *verifier) provenance(ctx context.Context) {
	var missing []string
	for _, name := range []string{provenance.Name, modelCard} {
		if _, err := os.Lstat(v.path(name)); err != nil {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		v.note("not there: %s; they are no part of the record and follow from it: grouper report makes them", strings.Join(missing, ", "))
	}
	if slices.Contains(missing, provenance.Name) {
		return
	}
	switch err := provenance.Check(ctx, v.dir); {
	case err == nil:
		v.checked("%s: every field follows from the record", provenance.Name)
	case errors.Is(err, provenance.ErrOld):
		v.note("%s: %v; it was not checked", provenance.Name, err)
	case ctx.Err() == nil:
		v.find(Finding{File: provenance.Name, What: err.Error()})
	}
}
