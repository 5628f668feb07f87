package rescore_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/testrun"
	"github.com/grouper-rl/grouper/rescore"
)

// lenient is a newer grader: a completion that was cut off is worth its value.
type lenient struct{ envs.Grader }

func (g lenient) Grade(ctx context.Context, task envs.Task, reply envs.Reply) (envs.Score, error) {
	s, err := g.Grader.Grade(ctx, task, reply)
	if s.Value == 1 {
		s.Reward = 1
	}
	s.Labels = append(s.Labels, "lenient")
	return s, err
}

func options(t testing.TB, name string) rescore.Options {
	t.Helper()
	source := checkpoint.Grader{Source: "echo"}
	grader, err := testrun.Grader(source)
	require.NoError(t, err)
	return rescore.Options{Name: name, Grader: lenient{grader}, Source: source, Version: "2"}
}

// record is a run with a rolled back update, and its files by path.
func record(t *testing.T) (string, map[string][]byte) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	for _, updates := range []int{3, 4} {
		r, err := checkpoint.Open(dir)
		require.NoError(t, err)
		require.NoError(t, testrun.Program{Updates: updates, Every: 2, Seed: 7}.Run(t.Context(), r))
		require.NoError(t, r.Close())
	}
	return dir, files(t, dir)
}

func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all[path], err = os.ReadFile(filepath.Join(dir, path))
		}
		return err
	})
	require.NoError(t, err)
	return all
}

func events(t *testing.T, dir string) []checkpoint.Event {
	t.Helper()
	rec, err := checkpoint.Read(dir)
	require.NoError(t, err)
	return rec.Events
}

func labels(t *testing.T, path string) []rescore.Label {
	t.Helper()
	packed, err := os.ReadFile(path)
	require.NoError(t, err)
	z, err := zstd.NewReader(nil)
	require.NoError(t, err)
	defer z.Close()
	data, err := z.DecodeAll(packed, nil)
	require.NoError(t, err)
	var all []rescore.Label
	for line := range strings.Lines(string(data)) {
		var l rescore.Label
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		all = append(all, l)
	}
	return all
}

// A newer grader's opinion must not touch what the run was trained and measured by: every file of the record stays as it was,
// byte for byte, and the new labels say of each completion what was recorded and what would be given now.
func TestRun(t *testing.T) {
	dir, was := record(t)
	m, err := rescore.Run(t.Context(), dir, options(t, "lenient-2"))
	require.NoError(t, err)
	require.Equal(t, 3*12+4*6, m.Completions, "three evaluations of twelve, four different files of updates with six: update 3 was made twice and came out the same")
	require.Positive(t, m.Differ)
	require.Equal(t, "echo", m.Grader.Source)

	now := files(t, dir)
	for path, data := range was {
		require.Equal(t, data, now[path], path)
	}
	differ := 0
	for _, f := range m.Files {
		file, err := os.Open(filepath.Join(dir, f.Of.Path))
		require.NoError(t, err)
		lines, _, err := checkpoint.ReadLines(file)
		require.NoError(t, errors.Join(err, file.Close()))
		got := labels(t, filepath.Join(dir, "labels", "lenient-2", f.Labels.Path))
		require.Len(t, got, len(lines))
		for i, l := range lines {
			digest, err := l.Digest()
			require.NoError(t, err)
			want := rescore.Label{Task: l.Task, Sample: l.Sample, Seed: l.Seed, SHA256: digest, Recorded: l.Reward, Reward: l.Reward, Value: l.Value, Labels: append(l.Labels, "lenient")}
			if l.Value == 1 {
				want.Reward = 1
			}
			if want.Reward != l.Reward {
				differ++
			}
			require.Equal(t, want, got[i])
		}
	}
	require.Equal(t, differ, m.Differ)
	again, err := rescore.Read(dir, "lenient-2", events(t, dir))
	require.NoError(t, err)
	require.Equal(t, m, again)

	_, err = rescore.Run(t.Context(), dir, options(t, "lenient-2"))
	require.ErrorIs(t, err, fs.ErrExist)
	_, err = rescore.Run(t.Context(), dir, options(t, "another"))
	require.NoError(t, err)
	names, err := rescore.Names(dir)
	require.NoError(t, err)
	require.Equal(t, []string{"another", "lenient-2"}, names)
}

// A grader that fails, or a record that is damaged, must not leave labels that look whole.
func TestRunFails(t *testing.T) {
	dir, _ := record(t)
	o := options(t, "x")
	o.Grader = failing{}
	_, err := rescore.Run(t.Context(), dir, o)
	require.ErrorContains(t, err, "line 1, task echo/")
	require.ErrorContains(t, err, "cannot judge")

	path := filepath.Join(dir, "rollouts", "000002.jsonl.zst")
	require.NoError(t, os.WriteFile(path, []byte("x"), 0o644))
	_, err = rescore.Run(t.Context(), dir, options(t, "x"))
	require.ErrorIs(t, err, checkpoint.ErrDamaged)
	require.ErrorContains(t, err, "rollouts/000002.jsonl.zst")
	entries, err := os.ReadDir(filepath.Join(dir, "labels"))
	require.NoError(t, err)
	require.Empty(t, entries)
	names, err := rescore.Names(t.TempDir())
	require.NoError(t, err)
	require.Empty(t, names)

	for want, change := range map[string]func(*rescore.Options){
		"Name": func(o *rescore.Options) { o.Name = "../x" }, "Grader is nil": func(o *rescore.Options) { o.Grader = nil },
		"Source": func(o *rescore.Options) { o.Source.Source = "" }, "Version": func(o *rescore.Options) { o.Version = "" },
	} {
		o := options(t, "x")
		change(&o)
		_, err := rescore.Run(t.Context(), dir, o)
		require.ErrorContains(t, err, want)
	}
}

type failing struct{}

func (failing) Grade(context.Context, envs.Task, envs.Reply) (envs.Score, error) {
	return envs.Score{}, errors.New("cannot judge")
}

// Labels that were changed afterwards, or belong to another run, must not pass for what the grader said.
func TestReadDamaged(t *testing.T) {
	dir, _ := record(t)
	_, err := rescore.Run(t.Context(), dir, options(t, "x"))
	require.NoError(t, err)
	other, _ := record(t)
	require.NoError(t, os.CopyFS(filepath.Join(other, "labels"), os.DirFS(filepath.Join(dir, "labels"))))
	_, err = rescore.Read(other, "x", events(t, other))
	require.ErrorContains(t, err, "it is of another run") // run.json has the time of its making
	all := events(t, dir)
	in := func(name string) string { return filepath.Join(dir, "labels", "x", name) }
	for name, c := range map[string]struct {
		damage func(t *testing.T)
		want   string
	}{
		"a byte":      {func(t *testing.T) { flip(t, in("rollouts/000002.jsonl.zst")) }, "labels/x/rollouts/000002.jsonl.zst"},
		"a file less": {func(t *testing.T) { require.NoError(t, os.Remove(in("evals/000002.jsonl.zst"))) }, "labels/x/evals/000002.jsonl.zst"},
		"a file more": {func(t *testing.T) { require.NoError(t, os.WriteFile(in("evals/more"), nil, 0o644)) }, "labels/x/evals/more"},
		"of another file": {func(t *testing.T) {
			data, err := os.ReadFile(in("labels.json"))
			require.NoError(t, err)
			data = []byte(strings.Replace(string(data), `"path": "rollouts/000001`, `"path": "rollouts/000009`, 1))
			require.NoError(t, os.WriteFile(in("labels.json"), data, 0o644))
		}, "labels/x/labels.json"},
		"no manifest": {func(t *testing.T) { require.NoError(t, os.Remove(in("labels.json"))) }, "labels/x/labels.json"},
	} {
		t.Run(name, func(t *testing.T) {
			saved := files(t, filepath.Join(dir, "labels", "x"))
			c.damage(t)
			_, err := rescore.Read(dir, "x", all)
			require.ErrorIs(t, err, checkpoint.ErrDamaged)
			require.ErrorContains(t, err, c.want)
			require.NoError(t, os.RemoveAll(in("")))
			for path, data := range saved {
				require.NoError(t, os.MkdirAll(filepath.Dir(in(path)), 0o755))
				require.NoError(t, os.WriteFile(in(path), data, 0o644))
			}
			_, err = rescore.Read(dir, "x", all)
			require.NoError(t, err)
		})
	}
}

func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(path, data, 0o644))
}

// Labels may come from anybody who could write to the directory: reading them must end in an error that says so, or in labels
// that are whole.
func FuzzRead(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "run")
	r, err := checkpoint.Open(dir)
	require.NoError(f, err)
	require.NoError(f, testrun.Program{Updates: 1, Every: 2, Seed: 7}.Run(f.Context(), r))
	require.NoError(f, r.Close())
	_, err = rescore.Run(f.Context(), dir, options(f, "x"))
	require.NoError(f, err)
	path := filepath.Join(dir, "labels", "x", "labels.json")
	data, err := os.ReadFile(path)
	require.NoError(f, err)
	rec, err := checkpoint.Read(dir)
	require.NoError(f, err)
	f.Add(data)
	f.Add([]byte(`{"format":1,"files":null}`))
	f.Add([]byte(strings.Replace(string(data), `"seq": `, `"seq": -`, 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		require.NoError(t, os.WriteFile(path, data, 0o644))
		if m, err := rescore.Read(dir, "x", rec.Events); err == nil {
			require.Len(t, m.Files, 2)
		} else {
			require.ErrorIs(t, err, checkpoint.ErrDamaged)
		}
	})
}
