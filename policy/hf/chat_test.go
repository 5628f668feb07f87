package hf_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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

// Templates for special uses must not get lost on the way through a training run.
func TestAdditionalTemplates(t *testing.T) {
	const name = "additional_chat_templates/tool_use.jinja"
	fsys := folder(t, nil)
	fsys["tokenizer_config.json"] = &fstest.MapFile{Data: []byte(`{}`)}
	fsys["chat_template.jinja"] = &fstest.MapFile{Data: []byte("plain")}
	fsys[name] = &fstest.MapFile{Data: []byte("with {{ tools | length }}")}
	fsys["additional_chat_templates/notes.txt"] = &fstest.MapFile{}
	m, w, err := hf.Load(t.Context(), fsys)
	require.NoError(t, err)
	defer w.Free()
	dir := filepath.Join(t.TempDir(), "out")
	_, err = hf.Export(t.Context(), dir, m, w, hf.ExportOptions{})
	require.NoError(t, err)
	entries, err := os.ReadDir(filepath.Join(dir, "additional_chat_templates"))
	require.NoError(t, err)
	require.Len(t, entries, 1)

	again, weights, err := hf.Load(t.Context(), os.DirFS(dir))
	require.NoError(t, err)
	weights.Free()
	require.Equal(t, m.Files, again.Files)
	out, err := again.Chat.Render(t.Context(), chat.Request{Tools: []json.RawMessage{[]byte(`{}`)}, Messages: []chat.Message{chat.NewMessage("user", "hi")}})
	require.NoError(t, err)
	require.Equal(t, "with 1", out.Text)

	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer server.Close()
	remote, err := hf.Remote(t.Context(), server.URL, nil)
	require.NoError(t, err)
	_, err = hf.Verify(t.Context(), remote, nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("else"), 0o644))
	_, err = hf.Verify(t.Context(), os.DirFS(dir), nil)
	require.ErrorIs(t, err, hf.ErrAltered)
	require.ErrorContains(t, err, name)

	for _, bad := range []string{"additional_chat_templates/../x.jinja", "additional_chat_templates/x", "additional_chat_templates/a/x.jinja", "other/x.jinja", "/x.jinja", "."} {
		_, err = hf.Export(t.Context(), filepath.Join(t.TempDir(), "out"), m, w, hf.ExportOptions{Files: map[string][]byte{bad: nil}})
		require.ErrorContains(t, err, "not a file of the folder", bad)
	}
}
