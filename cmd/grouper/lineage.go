package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/grouper-rl/grouper/checkpoint"
)

type lineageCommand struct {
	Dir    string   `arg:"" help:"The run directory." type:"existingdir"`
	Parent []string `help:"Where to look for the run that this one was forked from, if it is not where it was." placeholder:"DIR" type:"existingdir"`
}

// Run prints the tree of segments. A parent that has changed since the fork makes the program exit with status 1.
func (c *lineageCommand) Run(_ context.Context, out io.Writer) error {
	lineage, err := checkpoint.ReadLineage(c.Dir, c.Parent...)
	if err != nil {
		return fmt.Errorf("lineage: %s: %w", c.Dir, err)
	}
	if err := lineage.Write(out); err != nil {
		return err
	}
	if err := lineage.Changed(); err != nil {
		fmt.Fprintln(os.Stderr, "grouper:", err)
		return errSaid
	}
	return nil
}
