package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/remote"
	"github.com/grouper-rl/grouper/rescore"
)

type rescoreCommand struct {
	Dir     string `arg:"" help:"The run directory." type:"existingdir"`
	Name    string `required:"" help:"Of the folder below labels/ that is written."`
	Env     string `help:"What scores answers: reasoning_gym/NAME, or the name of what --program is. The run's own if it is left out."`
	Config  string `help:"Its settings, a JSON object. The run's if --env is left out, too."`
	Program string `help:"A program with its arguments that scores answers in the protocol of the package envs/remote."`
	Version string `help:"Of what scores answers. That of this program if it is left out; --program needs one."`
}

// Run writes the labels and says how many rewards would be others.
func (c *rescoreCommand) Run(ctx context.Context, out io.Writer) error {
	source, err := c.source()
	if err != nil {
		return err
	}
	o := rescore.Options{Name: c.Name, Source: source, Version: c.Version}
	if c.Program != "" {
		if c.Version == "" {
			return errors.New("--program needs --version: which version of it grades")
		}
		process, err := remote.Start(ctx, remote.ProcessConfig{Name: source.Source, Command: strings.Fields(c.Program), Config: source.Config})
		if err != nil {
			return err
		}
		defer process.Close()
		o.Grader = envs.CompletedAnswer{Env: process}
	} else {
		if o.Grader, err = grader(source); err != nil {
			return fmt.Errorf("%w; --env or --program grades otherwise", err)
		}
		if o.Version == "" {
			o.Version = version()
		}
	}
	m, err := rescore.Run(ctx, c.Dir, o)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d completions graded by %s, version %s: %d rewards would be others, none was changed\nthe labels are in %s\n",
		m.Completions, m.Grader.Source, m.Version, m.Differ, filepath.Join(c.Dir, rescore.Folder, c.Name))
	return err
}

// source names what grades.
func (c *rescoreCommand) source() (checkpoint.Grader, error) {
	run, err := checkpoint.ReadRunFile(c.Dir)
	if err != nil {
		return checkpoint.Grader{}, fmt.Errorf("rescore: %s: %w", c.Dir, err)
	}
	source := run.Grader
	if c.Env != "" {
		source = checkpoint.Grader{Source: c.Env, Reasoning: source.Reasoning}
	}
	if c.Config != "" {
		if !json.Valid([]byte(c.Config)) {
			return source, fmt.Errorf("--config is no JSON: %s", c.Config)
		}
		source.Config = json.RawMessage(c.Config)
	}
	return source, nil
}

// version is this program's: the module's, and the commit that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	v := info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v += " " + s.Value
		}
	}
	return strings.TrimSpace("grouper " + v)
}
