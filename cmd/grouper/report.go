package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/provenance"
	"github.com/grouper-rl/grouper/report"
)

type reportCommand struct {
	Dir string `arg:"" help:"The run directory." type:"existingdir"`
}

// Run writes the report and prints the evaluations.
func (c *reportCommand) Run(ctx context.Context, out io.Writer) error {
	if err := report.Write(ctx, c.Dir); err != nil {
		return err
	}
	rec, err := checkpoint.Read(c.Dir)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\nplots, metrics.csv, results.md and model-card.md are in %s; settings, results and file hashes for programs in %s\n",
		report.Table(rec.History.Evaluations), filepath.Join(c.Dir, report.Folder), filepath.Join(c.Dir, provenance.Name))
	return err
}
