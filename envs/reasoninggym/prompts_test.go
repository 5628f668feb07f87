package reasoninggym

import (
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

// Results are compared with runs that asked with upstream's words. The digests are of reasoning_gym.utils.SYSTEM_PROMPTS.
func TestSystemPrompts(t *testing.T) {
	for name, digest := range map[string]string{
		"DeepSeekZero":   "b8b913a7d07af3a326b818a60dfbcf1dbb517f63961b47c2e786e8613a9af6b1",
		"chain_of_draft": "00195f60f7e00b70302907b0cc8e2dcb43a0376d2825d41001642ce41c9076b0",
		"default":        "9c1c3bbcecedecb615640064e6eac398edec724a94a4cb1f8acaed99c818d327",
		"direct":         "a42fcdf9e0a431d47ef12f93f966d7cdd1a221542598d7b62c2b5053180f81da",
		"simple":         "ecdd5748ccf1bd83da447a92eb55cf42b0d3462259fe6a966f9d2c7e374fa54b",
	} {
		prompt, err := SystemPrompt(name)
		require.NoError(t, err)
		sum := sha256.Sum256([]byte(prompt))
		require.Equal(t, digest, hex.EncodeToString(sum[:]), name)
	}
	_, err := SystemPrompt("nosuch")
	require.ErrorContains(t, err, `system prompt "nosuch", allowed: ["DeepSeekZero"`)
}
