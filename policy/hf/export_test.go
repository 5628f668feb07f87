package hf_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/hf"

	"github.com/gomlx/compute/dtypes"
)

// model is a small one with weights.
func model(t testing.TB, dtype dtypes.DType) (*hf.Model, *policy.Weights) {
	t.Helper()
	d, err := decoder.New(decoder.Config{Vocab: 19, Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, Intermediate: 24, MaxPositions: 64,
		NormEps: 1e-6, Rope: decoder.Rope{Theta: 1e4}, QKNorm: true, DType: dtype, InitDeviation: .2})
	require.NoError(t, err)
	m, err := hf.New(d, nil)
	require.NoError(t, err)
	w, err := d.Init(3)
	require.NoError(t, err)
	return m, w
}

// What is exported must be what was trained, bit for bit, however it is spread over files, and open again.
func TestExport(t *testing.T) {
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		m, w := model(t, dtype)
		want, err := w.Digest()
		require.NoError(t, err)
		var tensors []hf.ManifestTensor
		for _, size := range []int64{0, 1, 2000, 1 << 40} {
			dir := filepath.Join(t.TempDir(), "out")
			manifest, err := hf.Export(t.Context(), dir, m, w, hf.ExportOptions{ShardSize: size, Files: map[string][]byte{"README.md": []byte("# card"), "LICENSE": []byte("free")}})
			require.NoError(t, err)
			require.Equal(t, want, manifest.Weights)
			files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
			require.NoError(t, err)
			require.Equal(t, size == 0 || size > 1<<30, len(files) == 1, "%d files", len(files))
			for i := range manifest.Tensors {
				manifest.Tensors[i].File = ""
			}
			if tensors == nil {
				tensors = manifest.Tensors
			}
			require.Equal(t, tensors, manifest.Tensors)
			_, err = hf.Verify(t.Context(), os.DirFS(dir), nil)
			require.NoError(t, err)
			again, back, err := hf.Load(t.Context(), os.DirFS(dir))
			require.NoError(t, err)
			got, err := back.Digest()
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, []byte("free"), again.Files["LICENSE"], "the licence goes along")
			entries, err := os.ReadDir(filepath.Dir(dir))
			require.NoError(t, err)
			require.Len(t, entries, 1, "nothing is left beside the folder")
		}
	}
}

// Whatever was changed in a published folder must be found and named.
func TestVerifyFindsChanges(t *testing.T) {
	m, w := model(t, dtypes.Float32)
	dir := filepath.Join(t.TempDir(), "out")
	_, err := hf.Export(t.Context(), dir, m, w, hf.ExportOptions{ShardSize: 4000, Files: map[string][]byte{"README.md": []byte("# card")}})
	require.NoError(t, err)
	whole := fstest.MapFS{}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	shard := ""
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		whole[e.Name()] = &fstest.MapFile{Data: data}
		if strings.HasSuffix(e.Name(), ".safetensors") {
			shard = e.Name()
		}
	}
	for want, change := range map[string]func(fsys fstest.MapFS, set func(name string, edit func([]byte) []byte)){
		"README.md has 6 bytes": func(_ fstest.MapFS, set func(string, func([]byte) []byte)) {
			set("README.md", func(d []byte) []byte { return bytes.ToUpper(d) })
		},
		"config.json is missing": func(fsys fstest.MapFS, _ func(string, func([]byte) []byte)) { delete(fsys, "config.json") },
		"has digest": func(_ fstest.MapFS, set func(string, func([]byte) []byte)) {
			set(shard, func(d []byte) []byte { d[len(d)-1] ^= 1; return d })
		},
		"truncated": func(_ fstest.MapFS, set func(string, func([]byte) []byte)) {
			set(shard, func(d []byte) []byte { return d[:len(d)-1] })
		},
		shard + ": ": func(fsys fstest.MapFS, _ func(string, func([]byte) []byte)) { delete(fsys, shard) },
		"the manifest does not name tensor": func(_ fstest.MapFS, set func(string, func([]byte) []byte)) {
			set(hf.ManifestName, func(d []byte) []byte {
				var m hf.Manifest
				require.NoError(t, json.Unmarshal(d, &m))
				m.Tensors = m.Tensors[1:]
				d, err := json.Marshal(m)
				require.NoError(t, err)
				return d
			})
		},
		"format 7": func(_ fstest.MapFS, set func(string, func([]byte) []byte)) {
			set(hf.ManifestName, func([]byte) []byte { return []byte(`{"format":7}`) })
		},
		"is not a file of the folder": func(_ fstest.MapFS, set func(string, func([]byte) []byte)) {
			set(hf.ManifestName, func(d []byte) []byte {
				return bytes.Replace(d, []byte(`"config.json"`), []byte(`"../config.json"`), 1)
			})
		},
		"the weights have digest": func(_ fstest.MapFS, set func(string, func([]byte) []byte)) { // receipts know them by it
			set(hf.ManifestName, func(d []byte) []byte {
				i := bytes.Index(d, []byte(`"weights": "`)) + len(`"weights": "`)
				d[i] ^= 1
				return d
			})
		},
		"behind its end": func(_ fstest.MapFS, set func(string, func([]byte) []byte)) {
			set(hf.ManifestName, func(d []byte) []byte { return append(d, '{') })
		},
		`key "format" stands twice`: func(_ fstest.MapFS, set func(string, func([]byte) []byte)) {
			set(hf.ManifestName, func(d []byte) []byte { return append([]byte(`{"format": 1,`), d[1:]...) })
		},
		"config.json has 1099511627776 bytes": func(fsys fstest.MapFS, _ func(string, func([]byte) []byte)) { fsys["config.json"].Sys = endless{} },
		"the manifest does not name modeling.py": func(fsys fstest.MapFS, _ func(string, func([]byte) []byte)) {
			fsys["modeling.py"] = &fstest.MapFile{Data: []byte("import os")}
		},
		"the manifest does not name sub/a.b": func(fsys fstest.MapFS, _ func(string, func([]byte) []byte)) { fsys["sub/a.b"] = &fstest.MapFile{} },
		"the manifest does not name x.safetensors": func(fsys fstest.MapFS, _ func(string, func([]byte) []byte)) {
			fsys["x.safetensors"] = fsys[shard] // nobody reads it, but for those who take all such files
		},
	} {
		fsys := fstest.MapFS{}
		for name, f := range whole {
			fsys[name] = &fstest.MapFile{Data: bytes.Clone(f.Data)}
		}
		change(fsys, func(name string, edit func([]byte) []byte) { fsys[name] = &fstest.MapFile{Data: edit(fsys[name].Data)} })
		_, err := hf.Verify(t.Context(), vast{fsys}, nil)
		require.ErrorContains(t, err, want)
	}
}

// vast has files that are as large as a disk can be where Sys is endless.
type (
	vast    struct{ fstest.MapFS }
	endless struct{ fs.FileInfo }
)

func (v vast) Stat(name string) (fs.FileInfo, error) {
	info, err := v.MapFS.Stat(name)
	if err == nil && info.Sys() == (endless{}) {
		info = endless{info}
	}
	return info, err
}

func (endless) Size() int64 { return 1 << 40 }

// A folder that was made for an export must be used, wherever it is, and what cannot be replaced must be said before any work.
func TestExportIntoFolder(t *testing.T) {
	m, w := model(t, dtypes.Float32)
	parent := t.TempDir()
	export := func(dir string, files map[string][]byte) error {
		_, err := hf.Export(t.Context(), dir, m, w, hf.ExportOptions{Files: files})
		return err
	}
	for _, name := range []string{"empty", "slash", "linked", "here"} {
		require.NoError(t, os.Mkdir(filepath.Join(parent, name), 0o755))
	}
	require.NoError(t, os.Symlink("linked", filepath.Join(parent, "link")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(parent, "lost")))
	require.NoError(t, os.WriteFile(filepath.Join(parent, "file"), nil, 0o644))
	for _, name := range []string{"empty", "slash/", "link", "a/../new"} {
		require.NoError(t, export(parent+"/"+name, nil), name)
		_, err := hf.Verify(t.Context(), os.DirFS(filepath.Join(parent, name)), nil)
		require.NoError(t, err, name)
	}
	info, err := os.Lstat(filepath.Join(parent, "link"))
	require.NoError(t, err)
	require.Equal(t, fs.ModeSymlink, info.Mode().Type())
	t.Chdir(filepath.Join(parent, "here"))
	for dir, want := range map[string]string{".": "working folder", "": "no name", "../file": "not a directory", "../lost": "nowhere", "../empty": "not empty"} {
		require.ErrorContains(t, export(dir, nil), want)
	}
	for _, name := range []string{"x.safetensors", "model.safetensors.index.json", hf.ManifestName} { // they would be taken for parts of the model
		require.ErrorContains(t, export("../new2", map[string][]byte{name: nil}), "Files has "+name)
	}
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Len(t, entries, 8, "nothing is left")
}

// What the hub and its tools put into a folder, and another split into files, must not be taken for a change; what is left of the old
// split must.
func TestVerifyOtherFiles(t *testing.T) {
	m, w := model(t, dtypes.Float32)
	var manifests [2]*hf.Manifest
	dirs := [2]string{filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "shards")}
	for i, size := range []int64{0, 4000} {
		var err error
		manifests[i], err = hf.Export(t.Context(), dirs[i], m, w, hf.ExportOptions{ShardSize: size})
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dirs[i], ".cache", "huggingface"), 0o755))
		for _, name := range []string{".gitattributes", ".cache/huggingface/x.metadata"} {
			require.NoError(t, os.WriteFile(filepath.Join(dirs[i], name), nil, 0o644))
		}
	}
	for i, dir := range dirs {
		for _, manifest := range []*hf.Manifest{nil, manifests[i], manifests[1-i]} {
			_, err := hf.Verify(t.Context(), os.DirFS(dir), manifest)
			require.NoError(t, err)
		}
	}
	require.NoError(t, os.Rename(filepath.Join(dirs[0], "model.safetensors"), filepath.Join(dirs[1], "model.safetensors")))
	_, err := hf.Verify(t.Context(), os.DirFS(dirs[1]), nil)
	require.ErrorIs(t, err, hf.ErrAltered)
	require.ErrorContains(t, err, "model-00001-of-")
}

// A folder on a server must be checked as one on a disk is, by ranges; a server that lies, breaks off or hangs must be an error.
func TestRemote(t *testing.T) {
	m, w := model(t, dtypes.BFloat16)
	dir := filepath.Join(t.TempDir(), "out")
	_, err := hf.Export(t.Context(), dir, m, w, hf.ExportOptions{ShardSize: 3000})
	require.NoError(t, err)
	serve := func(handler http.HandlerFunc) (fs.FS, *httptest.Server) {
		server := httptest.NewServer(handler)
		t.Cleanup(server.Close)
		fsys, err := hf.Remote(t.Context(), server.URL+"/models/it", nil)
		require.NoError(t, err)
		return fsys, server
	}
	files := http.StripPrefix("/models/it", http.FileServer(http.Dir(dir)))
	honest, _ := serve(files.ServeHTTP)
	_, err = hf.Verify(t.Context(), honest, nil)
	require.NoError(t, err)
	_, back, err := hf.Load(t.Context(), honest)
	require.NoError(t, err)
	want, err := w.Digest()
	require.NoError(t, err)
	got, err := back.Digest()
	require.NoError(t, err)
	require.Equal(t, want, got)

	tensors := func(bad http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, ".safetensors") {
				bad(w, r)
				return
			}
			files.ServeHTTP(w, r)
		}
	}
	for want, bad := range map[string]http.HandlerFunc{
		"500":              func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusInternalServerError) },
		"Content-Range is": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusPartialContent) },
		"asked for from 0": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 7-9/100")
			w.WriteHeader(http.StatusPartialContent)
		},
		"ended early": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-99/100")
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "short")
		},
		"does not answer range requests": func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "a stream")
		},
		"header of": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Range", "bytes 0-9/10")
			w.WriteHeader(http.StatusPartialContent)
			fmt.Fprint(w, "0123456789")
		},
	} {
		fsys, _ := serve(tensors(bad))
		_, err := hf.Verify(t.Context(), fsys, nil)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, ".safetensors")
	}

	asked := int64(0) // a server whose file grows while it is read must not make the reader ask for that memory
	grown, _ := serve(func(w http.ResponseWriter, r *http.Request) {
		size := asked * 1 << 60
		if asked++; size == 0 {
			size = 9
		}
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 0-8/%d", size))
		w.WriteHeader(http.StatusPartialContent)
		fmt.Fprint(w, "{        ")
	})
	_, _, err = hf.Load(t.Context(), grown)
	require.ErrorContains(t, err, "config.json")

	hang, server := serve(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_ = hang
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	fsys, err := hf.Remote(ctx, server.URL, nil)
	require.NoError(t, err)
	_, err = hf.Verify(ctx, fsys, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	_, err = hf.Remote(t.Context(), "ftp://host/x", nil)
	require.ErrorContains(t, err, "no http or https address")
}

// An export that is interrupted must not leave a folder that could be taken for a whole one.
func TestInterruptedExport(t *testing.T) {
	m, w := model(t, dtypes.Float32)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	parent := t.TempDir()
	_, err := hf.Export(ctx, filepath.Join(parent, "out"), m, w, hf.ExportOptions{})
	require.ErrorIs(t, err, context.Canceled)
	entries, err := os.ReadDir(parent)
	require.NoError(t, err)
	require.Empty(t, entries)

	require.NoError(t, os.Mkdir(filepath.Join(parent, "full"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(parent, "full", "x"), nil, 0o644))
	_, err = hf.Export(t.Context(), filepath.Join(parent, "full"), m, w, hf.ExportOptions{})
	require.True(t, errors.Is(err, fs.ErrExist), err)
	_, err = hf.Export(t.Context(), filepath.Join(parent, "out"), m, w, hf.ExportOptions{Files: map[string][]byte{"../x": nil}})
	require.ErrorContains(t, err, "not a file of the folder")
	_, err = hf.Export(t.Context(), filepath.Join(parent, "out"), m, w, hf.ExportOptions{ShardSize: -1})
	require.ErrorContains(t, err, "ShardSize is -1")
}
