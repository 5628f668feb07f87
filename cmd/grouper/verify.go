package main

import (
	"context"
	"io"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
	"github.com/grouper-rl/grouper/verify"
)

type verifyCommand struct {
	Dir       string `arg:"" help:"The run directory." type:"existingdir"`
	NoRewards bool   `help:"Do not grade completions again: for runs whose environment this program does not know."`
}

// Run prints the report. What does not hold makes the program exit with status 1.
func (c *verifyCommand) Run(ctx context.Context, out io.Writer) error {
	opts := verify.Options{Grader: grader}
	if c.NoRewards {
		opts.Grader = nil
	}
	report, err := verify.Run(ctx, c.Dir, opts)
	if err != nil {
		return err
	}
	if err := report.Write(out); err != nil {
		return err
	}
	if !report.OK() {
		return errSaid
	}
	return nil
}

// grader makes the grader of a run from its record.
func grader(g checkpoint.Grader) (envs.Grader, error) {
	env, err := reasoninggym.FromOrigin(envs.Origin{Name: g.Source, Config: g.Config})
	if err != nil {
		return nil, err
	}
	return envs.CompletedAnswer{Env: env}, nil
}
