package hf_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/policy/chat"
	"github.com/grouper-rl/grouper/policy/hf"
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
