package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/policy/hf"
)

// What a run has trained must come out of it as a folder that opens, has a card, and can be checked where it was published.
func TestExport(t *testing.T) {
	d, err := decoder.New(decoder.Config{Vocab: 19, Hidden: 16, Layers: 1, Heads: 2, KVHeads: 1, Intermediate: 24, MaxPositions: 64,
		NormEps: 1e-6, Rope: decoder.Rope{Theta: 1e4}, QKNorm: true, DType: dtypes.BFloat16, InitDeviation: .2})
	require.NoError(t, err)
	model, err := hf.New(d, nil)
	require.NoError(t, err)
	base, err := d.Init(1)
	require.NoError(t, err)
	trained, err := d.Init(2)
	require.NoError(t, err)
	work := t.TempDir()
	at := func(name string) string { return filepath.Join(work, name) }
	require.NoError(t, hf.Save(t.Context(), at("base"), model, base))
	require.NoError(t, hf.Save(t.Context(), at("other"), model, trained))

	program := testrun.Program{Updates: 1, Every: 1, Seed: 7}
	id, err := program.Identity()
	require.NoError(t, err)
	id.Digests["weights"], err = base.Digest()
	require.NoError(t, err)
	id.About.License = "apache-2.0"
	id.Settings["policy_settings"] = d
	run, err := checkpoint.Open(at("run"))
	require.NoError(t, err)
	_, err = run.Begin(t.Context(), id)
	require.NoError(t, err)
	state := checkpoint.NewState(0)
	for i, p := range trained.Params {
		var data []byte
		require.NoError(t, trained.Tensors[i].ConstBytes(func(b []byte) { data = bytes.Clone(b) }))
		state.Tensors[checkpoint.WeightsGroup] = append(state.Tensors[checkpoint.WeightsGroup],
			checkpoint.Tensor{Name: p.Name, DType: "BF16", Shape: p.Shape.Dimensions, Data: checkpoint.Bytes(data)})
	}
	require.NoError(t, run.SaveCheckpoint(t.Context(), state))
	require.NoError(t, run.Close())

	var out bytes.Buffer
	export := func(c exportCommand) error {
		out.Reset()
		c.Dir = at("run")
		if c.Update == 0 {
			c.Update = -1
		}
		return c.Run(t.Context(), &out)
	}
	require.ErrorContains(t, export(exportCommand{Folder: at("out"), Base: at("other")}), "the run began with")
	otherConfig := d.Config()
	otherConfig.NormEps = .5
	otherNetwork, err := decoder.New(otherConfig)
	require.NoError(t, err)
	otherModel, err := hf.New(otherNetwork, nil)
	require.NoError(t, err)
	require.NoError(t, hf.Save(t.Context(), at("network"), otherModel, base))
	require.ErrorContains(t, export(exportCommand{Folder: at("out"), Base: at("network")}), "its NormEps is 0.5, the run's was 1e-06")
	require.ErrorContains(t, export(exportCommand{Folder: at("out"), Base: at("base"), Update: 9}), "there are those of 0")
	require.ErrorContains(t, export(exportCommand{Folder: at("out"), Base: at("base"), ShardSize: "some"}), "allowed: a number of bytes")
	require.ErrorContains(t, export(exportCommand{Folder: at("out")}), "--base")
	require.NoError(t, export(exportCommand{Folder: at("out"), Base: at("base"), ShardSize: "2KB"}))
	want, err := trained.Digest()
	require.NoError(t, err)
	require.Contains(t, out.String(), want)
	require.FileExists(t, at("out/model.safetensors.index.json"))
	card, err := os.ReadFile(at("out/README.md"))
	require.NoError(t, err)
	require.Contains(t, string(card), "license: \"apache-2.0\"")
	require.Contains(t, string(card), "vllm serve FOLDER")
	_, back, err := hf.Load(t.Context(), os.DirFS(at("out")))
	require.NoError(t, err)
	got, err := back.Digest()
	require.NoError(t, err)
	require.Equal(t, want, got)

	server := httptest.NewServer(http.FileServer(http.Dir(at("out"))))
	defer server.Close()
	for _, where := range []string{at("out"), server.URL} {
		require.NoError(t, export(exportCommand{Verify: where}))
		require.NoError(t, export(exportCommand{Verify: where, Manifest: at("out/" + hf.ManifestName)}))
	}
	require.NoError(t, os.WriteFile(at("out/.gitattributes"), []byte("*.safetensors filter=lfs"), 0o644))
	require.NoError(t, export(exportCommand{Verify: at("out")}))
	require.NoError(t, os.WriteFile(at("out/modeling.py"), []byte("import os"), 0o644))
	require.ErrorContains(t, export(exportCommand{Verify: at("out")}), "does not name modeling.py")
	require.NoError(t, export(exportCommand{Verify: server.URL}), "a server does not list its files")
	require.NoError(t, os.WriteFile(at("out/config.json"), []byte("{}"), 0o644))
	require.ErrorContains(t, export(exportCommand{Verify: server.URL}), "config.json")
	require.ErrorContains(t, export(exportCommand{Verify: at("base")}), "no exported folder")
}

func TestByteSize(t *testing.T) {
	for s, want := range map[string]int64{"": 0, "7": 7, "2GB": 2e9, "5 mb": 5e6, "1kb": 1000} {
		got, err := byteSize(s)
		require.NoError(t, err, s)
		require.Equal(t, want, got)
	}
	for _, s := range []string{"-1", "0", "x", "GB", "1.5GB", "9999999999999GB"} {
		_, err := byteSize(s)
		require.Error(t, err, s)
	}
}
