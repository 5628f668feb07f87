package hf_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/policy/chat"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// A folder's chat template comes with the model. One that cannot be read does not keep anybody from training the weights.
func TestChatTemplate(t *testing.T) {
	for name, c := range map[string]struct {
		template, want string
		err            error
	}{
		"none":     {"", "", chat.ErrNoTemplate},
		"readable": {"{{ bos_token }}{{ messages[0].content }}", "<s>hi", nil},
		"limit":    {"{% if " + string(make([]byte, 1<<20)), "", chat.ErrLimit},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := folder(t, nil)
			fsys["tokenizer_config.json"] = &fstest.MapFile{Data: []byte(`{"bos_token": "<s>"}`)}
			if c.template != "" {
				fsys["chat_template.jinja"] = &fstest.MapFile{Data: []byte(c.template)}
			}
			m, w, err := hf.Load(t.Context(), fsys)
			require.NoError(t, err)
			w.Free()
			if c.err != nil {
				require.Nil(t, m.Chat)
				require.ErrorIs(t, m.ChatErr, c.err)
				return
			}
			require.NoError(t, m.ChatErr)
			out, err := m.Chat.Render(t.Context(), chat.Request{Messages: []chat.Message{chat.NewMessage("user", "hi")}})
			require.NoError(t, err)
			require.Equal(t, c.want, out.Text)
		})
	}
}

// A real model must be asked with the token ids that transformers gives it, special tokens once. The folder is named by
// GROUPER_SMOLLM2.
func TestSmolLM2Prompts(t *testing.T) {
	dir := os.Getenv("GROUPER_SMOLLM2")
	if dir == "" {
		t.Skip("GROUPER_SMOLLM2 is not set")
	}
	template, err := chat.Load(os.DirFS(dir))
	require.NoError(t, err)
	file, err := os.ReadFile(filepath.Join(dir, tokenizer.FileName))
	require.NoError(t, err)
	config, err := os.ReadFile(filepath.Join(dir, tokenizer.ConfigFileName))
	require.NoError(t, err)
	tok, err := tokenizer.Parse(file, config)
	require.NoError(t, err)
	for _, path := range golden.Glob(t, "smollm2/ref.json") {
		var ref struct {
			Prompts []struct {
				Name, Prompt string
				Messages     []chat.Message
				IDs          []int32 `json:"input_ids"`
			}
		}
		require.NoError(t, json.Unmarshal(golden.Read(t, path), &ref))
		require.NotEmpty(t, ref.Prompts)
		for _, p := range ref.Prompts {
			out, err := template.Render(t.Context(), chat.Request{Messages: p.Messages, GenerationPrompt: true})
			require.NoError(t, err, p.Name)
			require.Equal(t, p.Prompt, out.Text, p.Name)
			ids, err := tok.Encode(out.Text)
			require.NoError(t, err, p.Name)
			require.Equal(t, p.IDs, ids, p.Name)
		}
		t.Logf("%s: %d prompts", golden.Name(t, path), len(ref.Prompts))
	}
}
