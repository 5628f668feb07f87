//go:build cgo && !noxla && ((linux && (amd64 || arm64)) || (darwin && arm64))

package backend

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/compute/xla"
	"github.com/gomlx/go-xla/pjrt"
)

const builtWithXLA = true

func init() { xla.EnableAutoInstall(false) } // its download has no time-out and asks nobody

// pluginPath says where the user has asked for a plug-in; "": nowhere.
func pluginPath() string {
	p := os.Getenv(pjrt.PJRTPluginPathsEnv)
	if p == "" {
		return ""
	}
	return fmt.Sprintf("%s=%q", pjrt.PJRTPluginPathsEnv, p)
}

// openXLA opens the plug-in of that name or absolute path. Float32 stays float32: TF32 is off.
func openXLA(plugin string) (compute.Backend, error) {
	if filepath.IsAbs(plugin) {
		if _, err := os.Stat(plugin); err != nil {
			return nil, err
		}
	} else if _, found := pjrt.AvailablePlugins()[plugin]; !found {
		where := "the standard places"
		if p := pluginPath(); p != "" {
			where = p
		}
		return nil, fmt.Errorf("no PJRT plug-in %q in %s", plugin, where)
	}
	config := plugin
	if strings.Contains(filepath.Base(plugin), CUDA) {
		config += ",preallocate=false,tf32=false"
	}
	b, err := xla.NewWithOptions(config, nil)
	if err != nil {
		return nil, err
	}
	if b.NumDevices() == 0 {
		return nil, errors.New("the plug-in has no devices")
	}
	return b, nil
}
