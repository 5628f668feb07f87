package main

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
	"github.com/grouper-rl/grouper/verify"
)

type verifyCommand struct {
	Dir       string   `arg:"" help:"The run directory." type:"existingdir"`
	NoRewards bool     `help:"Do not grade completions again: for runs whose environment this program does not know."`
	Full      bool     `help:"Check all of checkpoints tensor by tensor, not the weights alone, and make the bank again from its source."`
	Parent    []string `help:"Where to look for the run that this one was forked from, if it is not where it was." placeholder:"DIR" type:"existingdir"`
	Key       string   `help:"The run must be finished, and all its receipts signed by this key: a file with a public key in PEM, or ed25519:…" placeholder:"KEY"`
}

// Run prints the report. What does not hold makes the program exit with status 1.
func (c *verifyCommand) Run(ctx context.Context, out io.Writer) error {
	opts := verify.Options{Grader: recorded, Source: source, Full: c.Full, Parents: c.Parent}
	if c.NoRewards {
		opts.Grader = nil
	}
	if c.Key != "" {
		var err error
		if opts.Key, err = publicKey(c.Key); err != nil {
			return err
		}
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

func publicKey(key string) (ed25519.PublicKey, error) {
	if strings.HasPrefix(key, "ed25519:") {
		return checkpoint.ParseKey([]byte(key))
	}
	data, err := os.ReadFile(key)
	if err != nil {
		return nil, err
	}
	return checkpoint.ParseKey(data)
}

// grader makes the grader of a run from its record.
func grader(g checkpoint.Grader) (envs.Grader, error) {
	env, err := reasoninggym.FromOrigin(envs.Origin{Name: g.Source, Config: g.Config})
	if err != nil {
		return nil, err
	}
	return envs.CompletedAnswer{Env: env}, nil
}

// recorded is grader, with what to do if the record names an environment that this program does not have.
func recorded(g checkpoint.Grader) (envs.Grader, error) {
	made, err := grader(g)
	if err != nil {
		return nil, fmt.Errorf("%w; --no-rewards checks everything else", err)
	}
	return made, nil
}

// source makes what a bank was frozen from.
func source(o envs.Origin) (envs.Source, error) { return reasoninggym.FromOrigin(o) }
