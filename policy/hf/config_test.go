package hf

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/policy/decoder"
)

// A configuration from the network must not crash the reader or make it ask for memory without measure, and a model
// made from it must be what is written for it again.
func FuzzConfig(f *testing.F) {
	for _, pattern := range []string{"models/*/config.json", "models/*/config.legacy.json"} {
		for _, path := range golden.Glob(f, pattern) {
			f.Add(string(golden.Read(f, path)))
		}
	}
	f.Fuzz(func(t *testing.T, config string) {
		c, _, err := parseConfig([]byte(config))
		if err != nil {
			require.NotEmpty(t, err.Error())
			require.False(t, strings.Contains(err.Error(), "runtime error"))
			return
		}
		d, err := decoder.New(c)
		require.NoError(t, err)
		if len(d.Params()) > 1000 { // the rest would take long
			return
		}
		again, err := writeConfig(d.Config(), Generation{})
		if errors.Is(err, ErrUnsupported) { // a number that is not read again as it was, to the last bit
			return
		}
		require.NoError(t, err)
		c, f, err := parseConfig(again)
		require.NoError(t, err)
		require.True(t, f.same(c, d.Config()))
	})
}
