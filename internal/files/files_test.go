package files_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/files"
)

// What is not a file must neither hold a program up nor fill its memory, and a link whose file was lost must not pass for no file.
func TestNoFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("text"), 0o644))
	require.NoError(t, os.Truncate(filepath.Join(dir, "file"), 4))
	for name, to := range map[string]string{"link": "file", "lost": "nowhere", "endless": "/dev/zero", "circle": "circle"} {
		require.NoError(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	fsys := os.DirFS(dir)
	for _, name := range []string{"file", "link"} {
		data, err := files.Read(fsys, name, 4)
		require.NoError(t, err)
		require.Equal(t, "text", string(data))
		_, err = files.Read(fsys, name, 3)
		require.ErrorContains(t, err, name+": 4 bytes, allowed are 3")
	}
	for _, name := range []string{"pipe", "folder", "endless"} {
		_, err := files.Read(fsys, name, 100)
		require.ErrorContains(t, err, name+": not a regular file")
	}
	_, err := files.Read(fsys, "lost", 100)
	require.ErrorContains(t, err, "lost: a link to a file that is not there")
	require.NotErrorIs(t, err, fs.ErrNotExist)
	_, err = files.Read(fsys, "absent", 100)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = files.Read(fsys, "circle", 100)
	require.ErrorContains(t, err, "circle")
}

// A file that has more bytes than it said must not be read without end.
func TestGrowingFile(t *testing.T) {
	_, err := files.Read(growing{fstest.MapFS{"f": {Data: make([]byte, 100)}}}, "f", 50)
	require.ErrorContains(t, err, "f: 51 bytes, allowed are 50")
}

// growing says that its files are smaller than they are.
type growing struct{ fstest.MapFS }

func (g growing) Stat(name string) (fs.FileInfo, error) {
	return fstest.MapFS{name: {Data: make([]byte, 10)}}.Stat(name)
}

// Of two values under one key readers take one or the other, so that a file would mean two things.
func TestUniqueKeys(t *testing.T) {
	for _, good := range []string{
		`1`, `"a"`, `[]`, `{}`, `{"a": "a", "b": {"a": ["a", "a", {"a": 1}, {"a": 2}]}, "c": [[{"x": 1}]]}`, `["a", "a"]`,
		`{"vocab": {"a": 1, "a": 2}, "c": 1}`, `{"a": "\"b\": 1, \"b\\", "b": "{\"a\""}`,
	} {
		require.NoError(t, files.UniqueKeys([]byte(good), "vocab"), good)
	}
	for bad, key := range map[string]string{
		`{"a": 1, "a": 1}`: "a", `{"a": {"b": [1], "c": "", "b": 2}}`: "b", `[{"": 1, "": 2}]`: "", `{"é": 1, "\u00e9": 2}`: "é",
		`{"vocab": {"a": 1}, "vocab": {}}`: "vocab", `{"vocab": {"a": 1}, "c": {"d": 1}, "c": 1}`: "c", `{"a": [], "b": {}, "a": []}`: "a",
		`{"vocab": [{"a": 1, "a": 2}]}`: "a",
	} {
		require.ErrorContains(t, files.UniqueKeys([]byte(bad), "vocab"), `key "`+key+`" stands twice`, bad)
	}
	require.Error(t, files.UniqueKeys([]byte(`{"vocab": {"a": 1, "a": 2}}`), ""))
}

// Whatever JSON a folder has, the check must neither crash nor judge otherwise than the standard library's tokens do.
func FuzzUniqueKeys(f *testing.F) {
	for _, text := range []string{`{"a": {"vocab": {"a": 1, "a": 2}}, "b": [{"a": "\"\\"}, {"\u0061": 1, "a": 2}]}`, `[[], {}, "{", "}", 1e5, null]`, `{"vocab": "x", "vocab": []}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if !json.Valid([]byte(text)) || !utf8.ValidString(text) {
			return
		}
		err := files.UniqueKeys([]byte(text), "")
		require.Equal(t, hasTwice(t, text), err != nil, "%v", err)
		_ = files.UniqueKeys([]byte(text), "vocab")
	})
}

// hasTwice says whether an object has a key twice, by the standard library.
func hasTwice(t *testing.T, text string) (twice bool) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var value func()
	value = func() {
		token, err := d.Token()
		require.NoError(t, err)
		keys := map[string]bool{}
		for open, ok := token.(json.Delim); ok && d.More(); {
			if open == '{' {
				key, err := d.Token()
				require.NoError(t, err)
				twice = twice || keys[key.(string)]
				keys[key.(string)] = true
			}
			value()
		}
		if _, ok := token.(json.Delim); ok {
			_, err := d.Token()
			require.NoError(t, err)
		}
	}
	value()
	return twice
}
