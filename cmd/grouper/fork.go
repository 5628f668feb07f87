package main

import (
	"context"
	"fmt"
	"io"

	"github.com/grouper-rl/grouper/checkpoint"
)

type forkCommand struct {
	Parent  string `arg:"" help:"The run directory to fork from; it is only read, and may be in use." type:"existingdir"`
	Dir     string `arg:"" help:"The directory of the new run. It must not exist."`
	At      int    `required:"" help:"The update whose checkpoint the new run goes on from." placeholder:"UPDATE"`
	Segment int    `help:"Whose update that is; the one that counts if it is left out. See grouper lineage."`
	Reason  string `required:"" help:"Why, for the record: a line of text." placeholder:"TEXT"`
}

// Run forks and says how to go on.
func (c *forkCommand) Run(ctx context.Context, out io.Writer) error {
	if err := checkpoint.Fork(ctx, c.Parent, checkpoint.Restore{Segment: c.Segment, Update: c.At, Reason: c.Reason}, c.Dir); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "%s goes on from update %d of %s: start the program with the same settings on it\n", c.Dir, c.At, c.Parent)
	return err
}
