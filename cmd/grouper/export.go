package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/hf"
	"github.com/grouper-rl/grouper/provenance"
	"github.com/grouper-rl/grouper/report"
)

type exportCommand struct {
	Dir       string `arg:"" optional:"" help:"The run directory." type:"existingdir"`
	Folder    string `arg:"" optional:"" help:"The model folder to make."`
	Base      string `help:"The model folder that the run began with." placeholder:"DIR" type:"existingdir"`
	Update    int    `help:"Whose weights; the newest checkpoint if it is left out." default:"-1" placeholder:"N"`
	ShardSize string `help:"The most bytes of tensors in a file: 2GB, 500MB, 1000000." placeholder:"SIZE"`
	Verify    string `help:"Instead, check an exported folder, here or at an http(s) address, against its manifest. Here, no other file may be in it." placeholder:"FOLDER"`
	Manifest  string `help:"With --verify: the manifest to check against, instead of the folder's own." type:"existingfile"`
}

// Run exports or verifies.
func (c *exportCommand) Run(ctx context.Context, out io.Writer) error {
	if c.Verify != "" {
		return c.verify(ctx, out)
	}
	if c.Dir == "" || c.Folder == "" || c.Base == "" {
		return errors.New("export needs a run directory, the folder to make and --base; or --verify")
	}
	size, err := byteSize(c.ShardSize)
	if err != nil {
		return fmt.Errorf("--shard-size: %w", err)
	}
	rec, err := checkpoint.Read(c.Dir)
	if err != nil {
		return fmt.Errorf("export: %s: %w", c.Dir, err)
	}
	saved, err := c.find(rec.History.Checkpoints)
	if err != nil {
		return err
	}
	model, base, err := hf.Load(ctx, os.DirFS(c.Base))
	if err != nil {
		return fmt.Errorf("--base %s: %w", c.Base, err)
	}
	digest, err := base.Digest()
	if err != nil {
		return err
	}
	if want := rec.Run.Digests["weights"]; digest != want {
		return fmt.Errorf("--base %s: its weights have digest %s, the run began with %s", c.Base, digest, want)
	}
	if err := sameNetwork(rec.Run.Settings["policy_settings"], model); err != nil {
		return fmt.Errorf("--base %s: %w", c.Base, err)
	}
	weights, err := fill(filepath.Join(c.Dir, filepath.FromSlash(saved.Path)), saved, base)
	if err != nil {
		return err
	}
	files, err := papers(ctx, c.Dir)
	if err != nil {
		return err
	}
	m, err := hf.Export(ctx, c.Folder, model, weights, hf.ExportOptions{ShardSize: size, Files: files})
	if err != nil {
		return err
	}
	if m.Weights != saved.Weights {
		return fmt.Errorf("the exported weights have digest %s, the ledger says %s", m.Weights, saved.Weights)
	}
	_, err = fmt.Fprintf(out, "%s: %d tensors of update %d, each read back and compared; weights %s\n", c.Folder, len(m.Tensors), saved.Update, m.Weights)
	return err
}

func (c *exportCommand) verify(ctx context.Context, out io.Writer) error {
	fsys, err := os.DirFS(c.Verify), error(nil)
	if strings.Contains(c.Verify, "://") {
		if fsys, err = hf.Remote(ctx, c.Verify, nil); err != nil {
			return err
		}
	}
	var m *hf.Manifest
	if c.Manifest != "" {
		data, err := os.ReadFile(c.Manifest)
		if err != nil {
			return err
		}
		if m, err = hf.ParseManifest(data); err != nil {
			return err
		}
	}
	if m, err = hf.Verify(ctx, fsys, m); errors.Is(err, fs.ErrNotExist) && c.Manifest == "" {
		return fmt.Errorf("%s is no exported folder: %w", c.Verify, err)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.Verify, err)
	}
	_, err = fmt.Fprintf(out, "%d tensors and %d files are as the manifest says; weights %s\n", len(m.Tensors), len(m.Files), m.Weights)
	return err
}

// sameNetwork compares a model's settings with those that the run recorded, if it did.
func sameNetwork(recorded any, model *hf.Model) error {
	if recorded == nil {
		return nil
	}
	var had, has map[string]any
	for _, side := range []struct {
		from any
		into *map[string]any
	}{{recorded, &had}, {model, &has}} {
		data, err := json.Marshal(side.from)
		if err == nil {
			err = json.Unmarshal(data, side.into)
		}
		if err != nil {
			return fmt.Errorf("the policy's settings: %w", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(has)) {
		if !reflect.DeepEqual(had[key], has[key]) {
			return fmt.Errorf("its %s is %v, the run's was %v", key, has[key], had[key])
		}
	}
	return nil
}

// find is the checkpoint of an update, or the newest.
func (c *exportCommand) find(saved []checkpoint.Saved) (found checkpoint.Saved, err error) {
	var there []string
	ok := false
	for _, s := range saved {
		if s.Pruned {
			continue
		}
		there = append(there, strconv.Itoa(s.Update))
		if c.Update < 0 || s.Update == c.Update {
			found, ok = s, true
		}
	}
	if len(there) == 0 {
		return found, errors.New("the run has no checkpoint yet")
	}
	if !ok {
		return found, fmt.Errorf("there is no checkpoint of update %d; there are those of %s", c.Update, strings.Join(there, ", "))
	}
	return found, nil
}

// fill reads the weights of a checkpoint into tensors of the base model's names and shapes, which the base gives up.
func fill(dir string, saved checkpoint.Saved, base *policy.Weights) (*policy.Weights, error) {
	state, _, err := checkpoint.OpenState(dir, saved.Manifest)
	if err != nil {
		return nil, err
	}
	defer state.Close()
	stored, err := state.Group(checkpoint.WeightsGroup)
	if err != nil {
		return nil, err
	}
	if len(stored) != len(base.Params) {
		return nil, fmt.Errorf("%s has %d weights, the base model %d", saved.Path, len(stored), len(base.Params))
	}
	w := &policy.Weights{Update: saved.Update, Params: base.Params, Tensors: make([]*tensors.Tensor, len(stored))}
	base.Free()
	for i, p := range w.Params {
		dtype, err := policy.StoredDType(p.Shape.DType)
		if err != nil {
			return nil, err
		}
		if t := stored[i]; t.Name != p.Name || string(t.DType) != dtype || fmt.Sprint(t.Shape) != fmt.Sprint(p.Shape.Dimensions) {
			return nil, fmt.Errorf("%s: tensor %d is %q %s %v, the base model has %q %s %v", saved.Path, i, t.Name, t.DType, t.Shape, p.Name, dtype, p.Shape.Dimensions)
		}
		w.Tensors[i] = tensors.FromShape(p.Shape)
		var inner error
		if err := w.Tensors[i].MutableBytes(func(into []byte) { inner = stored[i].ReadInto(into) }); err != nil {
			return nil, err
		}
		if inner != nil {
			return nil, fmt.Errorf("%s: %w", saved.Path, inner)
		}
	}
	return w, nil
}

// papers are the model card with its picture, and the provenance.
func papers(ctx context.Context, dir string) (map[string][]byte, error) {
	if err := report.Write(ctx, dir); err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for name, from := range map[string]string{
		"README.md": report.Folder + "/model-card.md", "curves.png": report.Folder + "/curves.png", provenance.Name: provenance.Name,
	} {
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(from)))
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	return files, nil
}

// byteSize reads "2GB", "500MB" or a number of bytes; "" is 0.
func byteSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	unit := int64(1)
	number := s
	for suffix, n := range map[string]int64{"GB": 1e9, "MB": 1e6, "KB": 1e3} {
		if rest, ok := strings.CutSuffix(strings.ToUpper(s), suffix); ok {
			unit, number = n, rest
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || n < 1 || n > (1<<62)/unit {
		return 0, fmt.Errorf("%q, allowed: a number of bytes, also in KB, MB or GB", s)
	}
	return n * unit, nil
}
