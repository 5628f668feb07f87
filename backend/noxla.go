//go:build !(cgo && !noxla && ((linux && (amd64 || arm64)) || (darwin && arm64)))

package backend

import (
	"errors"

	"github.com/gomlx/compute"
)

const builtWithXLA = false

func pluginPath() string { return "" }

func openXLA(string) (compute.Backend, error) {
	return nil, errors.New("this program was built without XLA (it needs cgo, and no noxla tag)")
}
