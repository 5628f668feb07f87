package verify

import (
	"context"
	"errors"
	"os"

	"github.com/grouper-rl/grouper/provenance"
)

// provenance checks that provenance.json, where there is one, says what the record says.
func (v *verifier) provenance(ctx context.Context) {
	if _, err := os.Lstat(v.path(provenance.Name)); err != nil {
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
