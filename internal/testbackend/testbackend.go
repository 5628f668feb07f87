// Package testbackend runs a test on every backend that this machine has.
package testbackend

import (
	"context"
	"sync"
	"testing"

	"github.com/grouper-rl/grouper/backend"
)

var open = sync.OnceValue(func() (all struct {
	goBackend, cpu *backend.Backend
	goErr, cpuErr  error
}) {
	all.goBackend, all.goErr = backend.Open(context.Background(), backend.Go)
	all.cpu, all.cpuErr = backend.Open(context.Background(), backend.CPU)
	return all
})

// Each runs f on the pure Go backend and, where a PJRT plug-in is found, on XLA CPU; a skip says why not.
func Each(t *testing.T, f func(t *testing.T, b *backend.Backend)) {
	t.Helper()
	t.Run("go", func(t *testing.T) { f(t, Go(t)) })
	t.Run("cpu", func(t *testing.T) {
		all := open()
		if all.cpuErr != nil {
			t.Skipf("no XLA CPU here: %v", all.cpuErr)
		}
		f(t, all.cpu)
	})
}

// Go is the pure Go backend.
func Go(t testing.TB) *backend.Backend {
	t.Helper()
	all := open()
	if all.goErr != nil {
		t.Fatal(all.goErr)
	}
	return all.goBackend
}
