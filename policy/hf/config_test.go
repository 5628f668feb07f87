package hf

import (
	"errors"
	"io/fs"
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
	f.Add(`{"model_type": "qwen3_5", "text_config": [], "tie_word_embeddings": true, "quantization_config": {}}`)
	f.Add(`{"model_type": "gemma3", "text_config": {"eos_token_id": [1, 2], "rope_parameters": {"full_attention": null}}, "eos_token_id": -1}`)
	f.Fuzz(func(t *testing.T, config string) {
		if _, err := parseGeneration([]byte(config), []byte(config)); err != nil {
			require.ErrorContains(t, err, ".json: ")
		}
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

// A manifest from the network must not crash its reader, or name a file that is not one of the folder.
func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"format": 1, "weights": "ab", "tensors": [{"name": "a", "dtype": "F32", "shape": [2, 3], "sha256": "", "file": "x"}],
		"files": [{"name": "additional_chat_templates/a.jinja", "size": 1, "sha256": ""}, {"name": "../a", "size": 0, "sha256": ""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := ParseManifest(data)
		if err != nil {
			require.ErrorContains(t, err, ManifestName)
			return
		}
		for _, file := range m.Files {
			require.True(t, fs.ValidPath(file.Name) && strings.Count(file.Name, "/") < 2, file.Name)
		}
		again, err := m.encode()
		require.NoError(t, err)
		same, err := ParseManifest(again)
		require.NoError(t, err)
		require.Equal(t, m, same)
	})
}
