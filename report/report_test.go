package report_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
	"github.com/grouper-rl/grouper/provenance"
	"github.com/grouper-rl/grouper/report"
)

var names = []string{
	"curves.png", "curves.svg", "metrics.csv", "model-card.md", "results.md", "training.png", "training.svg", "validation.png", "validation.svg",
}

// record writes a run and returns its directory.
func record(t *testing.T, programs ...testrun.Program) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	for _, p := range programs {
		r, err := checkpoint.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(p.Run(t.Context(), r), r.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// begin opens a run of another identity and leaves it open.
func begin(t *testing.T, change func(*checkpoint.Identity)) *checkpoint.Run {
	t.Helper()
	id, err := testrun.Program{Updates: 1, Every: 1}.Identity()
	if err != nil {
		t.Fatal(err)
	}
	change(&id)
	r, err := checkpoint.Open(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	if _, err := r.Begin(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return r
}

// write reports on a run and returns the report's files and what it is about.
func write(t *testing.T, dir string) (map[string]string, checkpoint.History) {
	t.Helper()
	if err := report.Write(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	rec, err := checkpoint.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := tree(t, filepath.Join(dir, report.Folder))
	if got := slices.Sorted(maps.Keys(files)); !slices.Equal(got, names) {
		t.Fatalf("the report is %v, want %v", got, names)
	}
	return files, rec.History
}

// tree reads all files below a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(filepath.Join(dir, path))
		files[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Who analyses a run with another program must get the recorded numbers, all of them, each in the row of its update.
func TestMetricsAreTheRecord(t *testing.T) {
	files, h := write(t, record(t, testrun.Program{Updates: 12, Every: 5, Seed: 3, Host: 1.5}))
	rows, err := csv.NewReader(strings.NewReader(files["metrics.csv"])).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if want := 1 + 1 + len(h.Updates); len(rows) != want {
		t.Fatalf("%d rows, want %d: a header, the base weights and %d updates", len(rows), want, len(h.Updates))
	}
	for n, row := range rows[1:] {
		cells := map[string]string{}
		for i, name := range rows[0] {
			cells[name] = row[i]
		}
		if len(cells) != len(row) {
			t.Fatalf("two columns of one name in %v", rows[0])
		}
		want := map[string]float64{"update": float64(n), "weights_update": 0}
		if n > 0 {
			u := h.Updates[n-1]
			want["weights_update"] = float64(u.Weights)
			var metrics, host map[string]float64
			if err := errors.Join(json.Unmarshal(u.Metrics, &metrics), json.Unmarshal(u.Timing, &host)); err != nil {
				t.Fatal(err)
			}
			if len(metrics) < 9 || len(host) != 1 {
				t.Fatalf("update %d: the run has metrics %v, host %v", n, metrics, host)
			}
			maps.Copy(want, metrics)
			for name, v := range host {
				want["host_"+name] = v
			}
		}
		if e, ok := h.Evaluation(n); ok {
			maps.Copy(want, map[string]float64{
				"eval_accuracy": e.Accuracy, "eval_correct": float64(e.Correct), "eval_scored": float64(e.Scored),
				"eval_truncated": float64(e.Truncated), "eval_interval_low": e.Interval[0], "eval_interval_high": e.Interval[1],
				"eval_mean_tokens": e.MeanTokens,
			})
		}
		for name, cell := range cells {
			w, ok := want[name]
			if !ok {
				if cell != "" {
					t.Errorf("row %d: %s is %q, nothing was recorded", n, name, cell)
				}
				continue
			}
			if v, err := strconv.ParseFloat(cell, 64); err != nil || v != w {
				t.Errorf("row %d: %s is %q, recorded %v", n, name, cell, w)
			}
			delete(want, name)
		}
		if len(want) > 0 {
			t.Errorf("row %d lacks %v", n, want)
		}
	}
}

// The table is what a user quotes: every figure in it must be the evaluation's, in aligned columns.
func TestTables(t *testing.T) {
	files, h := write(t, record(t, testrun.Program{Updates: 4, Every: 2, Seed: 7}))
	lines := strings.Split(strings.TrimSuffix(report.Table(h.Evaluations), "\n"), "\n")
	var rows []string
	for _, line := range strings.Split(files["results.md"], "\n") {
		if strings.HasPrefix(line, "| ") {
			rows = append(rows, line)
		}
	}
	if len(h.Evaluations) != 3 || len(lines) != 4 || len(rows) != 4 {
		t.Fatalf("%d evaluations in %d lines and %d rows", len(h.Evaluations), len(lines), len(rows))
	}
	for i, e := range h.Evaluations {
		want := []string{
			fmt.Sprint(e.Update), fmt.Sprintf("%.2f %%", 100*float64(e.Correct)/float64(e.Scored)), fmt.Sprintf("%d / %d", e.Correct, e.Scored),
			fmt.Sprint(e.Truncated), fmt.Sprintf("%.2f – %.2f %%", 100*e.Interval[0], 100*e.Interval[1]), fmt.Sprintf("%.1f", e.MeanTokens),
		}
		if got := regexp.MustCompile(` {2,}`).Split(strings.TrimSpace(lines[i+1]), -1); !slices.Equal(got, want) {
			t.Errorf("line %q, want %q", lines[i+1], want)
		}
		if got := strings.Split(strings.Trim(rows[i+1], "| "), " | "); !slices.Equal(got, want) {
			t.Errorf("row %q, want %q", rows[i+1], want)
		}
	}
	for _, line := range lines[1:] {
		if len([]rune(line)) != len([]rune(lines[0])) {
			t.Errorf("the columns are not aligned:\n%s", strings.Join(lines, "\n"))
		}
	}
	first, last := h.Evaluations[0], h.Evaluations[2]
	headline := fmt.Sprintf("**%.2f %%** before training (%d of %d) → **%.2f %%** after update 4 (%d of %d)",
		100*first.Accuracy, first.Correct, first.Scored, 100*last.Accuracy, last.Correct, last.Scored)
	if !strings.Contains(files["results.md"], headline) {
		t.Errorf("results.md does not say %q:\n%s", headline, files["results.md"])
	}
}

// Work that was lost and done again must count once: a curve with both trajectories in it is of no run.
func TestRolledBackUpdatesCountInNothing(t *testing.T) {
	interrupted := record(t, testrun.Program{Updates: 5, Every: 2, Seed: 9}, testrun.Program{Updates: 7, Every: 2, Seed: 9})
	got, h := write(t, interrupted)
	if h.RolledBack.Updates != 1 || len(h.Updates) != 7 {
		t.Fatalf("%d updates, %d rolled back", len(h.Updates), h.RolledBack.Updates)
	}
	want, _ := write(t, record(t, testrun.Program{Updates: 7, Every: 2, Seed: 9}))
	note := "; 1 more were rolled back and count in nothing"
	if !strings.Contains(got["results.md"], note) {
		t.Errorf("results.md does not say what was rolled back:\n%s", got["results.md"])
	}
	got["results.md"] = strings.Replace(got["results.md"], note, "", 1)
	if card := got["model-card.md"]; !strings.Contains(card, "7 updates and 42 responses count; 1 updates and 6 responses are preserved and excluded.") {
		t.Errorf("the card does not say what counts:\n%s", card)
	}
	got["model-card.md"] = want["model-card.md"] // their lineages differ
	for name := range want {
		if got[name] != want[name] {
			t.Errorf("%s differs from the one of a run that was never interrupted", name)
		}
	}
}

// The same record gives the same bytes wherever it lies, so that a committed report can be compared.
func TestReportsAreReproducible(t *testing.T) {
	dir := record(t, testrun.Program{Updates: 4, Every: 2})
	elsewhere := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(elsewhere, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	here, _ := write(t, dir)
	there, _ := write(t, elsewhere)
	for name := range here {
		if here[name] != there[name] {
			t.Errorf("%s differs", name)
		}
	}
}

// Reporting on a run that goes on must neither wait for it nor change a byte of its record; two reports at once give one.
func TestRunningRunIsNotDisturbed(t *testing.T) {
	dir := record(t, testrun.Program{Updates: 3, Every: 2})
	running, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()
	f, err := os.OpenFile(filepath.Join(dir, "ledger.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":`); err != nil { // an append that is under way
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			if err := report.Write(t.Context(), dir); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	after := tree(t, dir)
	for _, name := range names {
		if after[report.Folder+"/"+name] == "" {
			t.Errorf("no %s was written", name)
		}
	}
	if rows := strings.Count(after[report.Folder+"/metrics.csv"], "\n"); rows != 1+1+3 {
		t.Errorf("%d rows in metrics.csv: %s", rows, after[report.Folder+"/metrics.csv"])
	}
	maps.DeleteFunc(after, func(name, _ string) bool {
		return name == provenance.Name || slices.Contains(names, strings.TrimPrefix(name, report.Folder+"/"))
	})
	if !maps.Equal(before, after) {
		t.Error("reporting changed the run directory, or left something behind")
	}
}

// A user looks at a run early: there must be a report before there is anything to show.
func TestRunsWithLittleInThem(t *testing.T) {
	for _, c := range []struct {
		name, says, picture string
		rows                int
		run                 func(*testing.T) string
	}{
		{"no updates", "0 updates so far", "no updates yet", 0, func(t *testing.T) string {
			return begin(t, func(*checkpoint.Identity) {}).Dir()
		}},
		{"no evaluations", "No evaluation was recorded", "no evaluations yet", 1, func(t *testing.T) string {
			r := begin(t, func(id *checkpoint.Identity) { id.Plan = checkpoint.Plan{TasksPerUpdate: 1, GroupSize: 1} })
			line := checkpoint.Line{Task: "echo/0", Prompt: []int32{1}, Tokens: []int32{2}, LogProbs: []float32{-1}, Finish: "stop", Reward: 1}
			if err := r.RecordUpdate(t.Context(), checkpoint.Update{Update: 1, Tasks: []string{"echo/0"}}, []checkpoint.Line{line}, nil); err != nil {
				t.Fatal(err)
			}
			return r.Dir()
		}},
		{"only the base", "before training", "Validation accuracy<", 1, func(t *testing.T) string {
			return record(t, testrun.Program{Updates: 0, Every: 1})
		}},
		{"one update", "1 update.", "Validation accuracy: ", 2, func(t *testing.T) string {
			return record(t, testrun.Program{Updates: 1, Every: 1})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			files, _ := write(t, c.run(t))
			if !strings.Contains(files["results.md"], c.says) {
				t.Errorf("results.md does not say %q:\n%s", c.says, files["results.md"])
			}
			if !strings.Contains(files["curves.svg"], c.picture) {
				t.Errorf("curves.svg does not say %q", c.picture)
			}
			if rows := strings.Count(files["metrics.csv"], "\n") - 1; rows != c.rows {
				t.Errorf("metrics.csv has %d rows, want %d", rows, c.rows)
			}
		})
	}
}

// A record that does not hold must not be reported on as if it did, and the last good report stays.
func TestDamagedRecord(t *testing.T) {
	dir := record(t, testrun.Program{Updates: 2, Every: 1})
	before, _ := write(t, dir)
	path := filepath.Join(dir, "ledger.jsonl")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(data, []byte(`"reward_mean":0`), []byte(`"reward_mean":1`), 1)
	if bytes.Equal(changed, data) {
		t.Fatal("nothing to damage")
	}
	if err := os.WriteFile(path, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	err = report.Write(t.Context(), dir)
	var damage *checkpoint.LedgerError
	if !errors.As(err, &damage) || !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("error %v", err)
	}
	if line := bytes.Count(data[:bytes.Index(data, []byte(`"reward_mean":0`))], []byte("\n")) + 1; damage.Line != line {
		t.Errorf("the error names line %d, line %d is damaged", damage.Line, line)
	}
	if !maps.Equal(before, tree(t, filepath.Join(dir, report.Folder))) {
		t.Error("the report changed")
	}
}

func TestNothingIsWrittenWithoutARun(t *testing.T) {
	dir := t.TempDir()
	if err := report.Write(t.Context(), dir); !errors.Is(err, checkpoint.ErrNoRun) || !strings.Contains(err.Error(), "run.json") {
		t.Errorf("in an empty folder: %v", err)
	}
	if files := tree(t, dir); len(files) != 0 {
		t.Errorf("wrote %v", slices.Collect(maps.Keys(files)))
	}
	run := record(t, testrun.Program{Updates: 1, Every: 1})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := report.Write(ctx, run); !errors.Is(err, context.Canceled) {
		t.Errorf("after cancellation: %v", err)
	}
	if _, err := os.Stat(filepath.Join(run, report.Folder)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a cancelled report left its folder: %v", err)
	}
}

func ExampleTable() {
	fmt.Print(report.Table([]checkpoint.Evaluation{
		{Update: 0, Accuracy: .4325, Correct: 173, Scored: 400, Truncated: 12, Interval: [2]float64{.3848, .4815}, MeanTokens: 35.2},
		{Update: 100, Accuracy: .9225, Correct: 369, Scored: 400, Interval: [2]float64{.8919, .945}, MeanTokens: 31.7},
	}))
	// Output:
	// update  accuracy  correct / scored  truncated    95 % interval  mean tokens
	//      0   43.25 %         173 / 400         12  38.48 – 48.15 %         35.2
	//    100   92.25 %         369 / 400          0  89.19 – 94.50 %         31.7
}
