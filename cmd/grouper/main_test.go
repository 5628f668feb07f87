package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
	"github.com/grouper-rl/grouper/internal/testrun"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"grouper": main, "scorer": scorer})
}

// scorer is a program that scores answers in the protocol of envs/remote: all of them right.
func scorer() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var ask struct {
			ID   int    `json:"id"`
			Call string `json:"call"`
		}
		if err := json.Unmarshal(in.Bytes(), &ask); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if ask.Call == "score" {
			fmt.Printf("{\"id\": %d, \"score\": 1}\n", ask.ID)
		} else {
			fmt.Printf("{\"id\": %d}\n", ask.ID)
		}
	}
}

// TestScripts runs the command as a user does, on run directories that the Setup has written: caesar, of a reasoning-gym
// dataset, signed, of the same and signed with the key whose public one is $KEY, echo, of an environment that the command does
// not know, and tree, with a branch, and child, which was forked from it.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			ctx := context.Background()
			tasks, err := reasoninggym.New("caesar_cipher", reasoninggym.Config{"min_words": 5, "max_words": 12})
			if err != nil {
				return err
			}
			bank, err := envs.Freeze(ctx, tasks, envs.Split{Train: 10, Validation: 4, DistinctBy: "clear_text"})
			if err != nil {
				return err
			}
			public, private, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				return err
			}
			env.Setenv("KEY", checkpoint.KeyText(public))
			runs := map[string]testrun.Program{
				"caesar": {Updates: 3, Every: 2, Seed: 1, Bank: bank, Env: tasks},
				"echo":   {Updates: 1, Every: 1, Seed: 1},
				"signed": {Updates: 2, Every: 2, Seed: 1, Bank: bank, Env: tasks, Key: private},
			}
			run := func(name string, p testrun.Program) error {
				r, err := checkpoint.Open(filepath.Join(env.WorkDir, name))
				if err != nil {
					return err
				}
				if err := p.Run(ctx, r); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				return r.Close()
			}
			for name, p := range runs {
				if err := run(name, p); err != nil {
					return err
				}
			}
			p := testrun.Program{Updates: 4, Every: 2, Seed: 1, Bank: bank, Env: tasks, Stop: 3}
			branch := p
			branch.At, branch.Twist = &checkpoint.Restore{Update: 2, Reason: "hotter sampling"}, 1
			if err := errors.Join(run("tree", p), run("tree", branch)); err != nil {
				return err
			}
			at := checkpoint.Restore{Segment: 1, Update: 2, Reason: "another machine"}
			if err := checkpoint.Fork(ctx, filepath.Join(env.WorkDir, "tree"), at, filepath.Join(env.WorkDir, "child")); err != nil {
				return err
			}
			p.Stop = 0
			return run("child", p)
		},
	})
}
