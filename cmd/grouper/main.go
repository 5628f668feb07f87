// Command grouper works on run directories, finished or running.
//
//	grouper verify DIR     check every hash, reward and figure of a run
//	grouper report DIR     plots and tables of a run
//	grouper lineage DIR    the tree of a run's segments: what counts, and what was rolled back
//	grouper fork DIR NEW --at UPDATE --reason TEXT    a new run that goes on from a checkpoint
//	grouper rescore DIR    grade the recorded completions again, beside the record
//	grouper export DIR FOLDER --base MODEL    a model folder of a checkpoint's weights; --verify checks one
//	grouper keygen FILE    a pair of keys to sign a run's receipts with
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"

	"github.com/alecthomas/kong"
)

type cli struct {
	Verify  verifyCommand  `cmd:"" help:"Check every hash, reward and figure of a run directory, without a backend."`
	Report  reportCommand  `cmd:"" help:"Write plots and tables of a run directory into its folder report; the run may be going on."`
	Lineage lineageCommand `cmd:"" help:"Print the tree of segments that a run consists of: updates, consumed and excluded responses, evaluations."`
	Fork    forkCommand    `cmd:"" help:"Make a new run directory that goes on from a checkpoint of another run."`
	Rescore rescoreCommand `cmd:"" help:"Grade all recorded completions again and write the labels into the folder labels; no reward is changed."`
	Export  exportCommand  `cmd:"" help:"Make a model folder of a checkpoint's weights, with a model card and a manifest, or check one."`
	Keygen  keygenCommand  `cmd:"" help:"Make a pair of keys to sign receipts with."`
}

// errSaid ends the program with status 1 when everything has been said.
var errSaid = errors.New("failed")

// oneDash is a flag as Go's own commands take it, too: -full for --full.
var oneDash = regexp.MustCompile(`^-[a-z][a-z-]+(=|$)`)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	for i, arg := range os.Args {
		if oneDash.MatchString(arg) {
			os.Args[i] = "-" + arg
		}
	}
	var c cli
	parsed := kong.Parse(&c, kong.Name("grouper"), kong.Description("Works on Grouper's run directories."), kong.UsageOnError(),
		kong.BindTo(ctx, (*context.Context)(nil)), kong.BindTo(os.Stdout, (*io.Writer)(nil)))
	if err := parsed.Run(); err != nil {
		if !errors.Is(err, errSaid) {
			fmt.Fprintln(os.Stderr, "grouper:", err)
		}
		os.Exit(1)
	}
}
