// Package report shows what a run directory holds: pictures of the training and of the validation curve, every metric
// as a table for other programs, and the results as a table for people. It reads run.json and the ledger, takes no lock and
// repairs nothing, so that a run can be reported on while it goes on. Only the retained trajectory counts (see
// [checkpoint.History]): work that was rolled back is in no curve, row or figure.
//
// A report is derived from the record and can be made again at any time. The same record gives the same bytes.
package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/provenance"
)

// Folder is where in a run directory [Write] leaves the report.
const Folder = "report"

// Write reads the run directory dir as it is now and writes into its folder report/:
//
//	training.png, .svg     mean reward of every update and its running mean over 10 updates
//	validation.png, .svg   accuracy of every evaluation with its 95 % interval
//	curves.png, .svg       both side by side
//	metrics.csv            a row an update: all metrics, timings and, where there was one, the evaluation
//	results.md             all evaluations in a table
//	model-card.md          the model card, see [Card]
//
// and, in the run directory itself, provenance.json (see package provenance).
//
// Everything is made before anything is written, and each file is replaced as a whole. A run without updates or without
// evaluations gets a report that says so; one that has not begun is [checkpoint.ErrNotBegun]. A ledger that does not hold is a [checkpoint.LedgerError].
func Write(ctx context.Context, dir string) error {
	rec, err := checkpoint.Read(dir)
	if err != nil {
		return fmt.Errorf("report: reading run directory %s: %w", dir, err)
	}
	if len(rec.Events) == 0 { // it was forked
		return fmt.Errorf("report: run directory %s: %w", dir, checkpoint.ErrNotBegun)
	}
	files, err := render(ctx, &rec.History)
	if err != nil {
		return fmt.Errorf("report: run directory %s: %w", dir, err)
	}
	d, err := provenance.Write(ctx, dir)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	files = append(files, file{"model-card.md", Card(d)})
	folder := filepath.Join(dir, Folder)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	for _, f := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := replace(folder, f.name, f.data); err != nil {
			return fmt.Errorf("report: writing %s: %w", filepath.Join(folder, f.name), err)
		}
	}
	return nil
}

// file is a file of the report.
type file struct {
	name string
	data []byte
}

func render(ctx context.Context, h *checkpoint.History) ([]file, error) {
	updates, err := readUpdates(h.Updates)
	if err != nil {
		return nil, err
	}
	var table bytes.Buffer
	if err := writeCSV(&table, updates, h.Evaluations); err != nil {
		return nil, err
	}
	files := []file{{"metrics.csv", table.Bytes()}, {"results.md", results(h)}}
	training, validation := trainingPanel(updates), validationPanel(len(updates), h.Evaluations)
	for _, p := range []struct {
		name   string
		panels []*panel
	}{
		{"training", []*panel{training}},
		{"validation", []*panel{validation}},
		{"curves", []*panel{training, validation}},
	} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		png, svg, err := picture(p.panels...)
		if err != nil {
			return nil, fmt.Errorf("drawing %s: %w", p.name, err)
		}
		files = append(files, file{p.name + ".png", png}, file{p.name + ".svg", svg})
	}
	return files, nil
}

// replace writes a file under a temporary name and renames it. Two reports written at once do not mix.
func replace(folder, name string, data []byte) (err error) {
	f, err := os.CreateTemp(folder, ".tmp-"+name+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err == nil {
		err = f.Chmod(0o644) // CreateTemp lets nobody else read
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(folder, name))
}
