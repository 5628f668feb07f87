// Command reasoninggym measures how many tasks of each reasoning-gym dataset are made, and how many answers scored, per second of
// CPU time on one core. It prints one JSON line a dataset, as rates.py does for upstream; bench/reasoninggym.sh compares the two.
//
//	go run ./bench/reasoninggym [-seconds 0.5] [dataset …]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/envs/reasoninggym"
	"github.com/grouper-rl/grouper/internal/python"
)

// row has "items_per_s" and "scores_per_s" of a dataset. The answers to score are those of the first 20 tasks, or "wrong" where
// a task has none.
type row struct {
	Dataset string  `json:"dataset"`
	Items   float64 `json:"items_per_s"`
	Scores  float64 `json:"scores_per_s"`
}

func main() {
	log.SetFlags(0)
	log.SetPrefix("reasoninggym: ")
	seconds := flag.Float64("seconds", 0.5, "CPU time of a measurement")
	list := flag.Bool("list", false, "print the names of the datasets and measure nothing")
	flag.Parse()
	names := flag.Args()
	if len(names) == 0 {
		for _, info := range reasoninggym.Names() {
			if info.Name != "composite" { // has no default upstream
				names = append(names, info.Name)
			}
		}
	}
	if *list {
		fmt.Println(strings.Join(names, "\n"))
		return
	}
	runtime.GOMAXPROCS(1)
	if err := run(names, *seconds); err != nil {
		log.Fatal(err)
	}
}

func run(names []string, seconds float64) error {
	out := json.NewEncoder(os.Stdout)
	seeding, err := rate(seconds, func(i int) error { return seed(42 + int64(i)) })
	if err != nil {
		return err
	}
	if err := out.Encode(row{Dataset: "seeding alone", Items: seeding}); err != nil {
		return err
	}
	for _, name := range names {
		r, err := measure(name, seconds)
		if err != nil {
			return err
		}
		if err := out.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

var sequence python.Sequence

// seed is what any dataset pays for each item: a Mersenne Twister that is seeded anew, and the first number from it.
func seed(n int64) error {
	if f := sequence.Random(n).Float64(); f < 0 {
		return fmt.Errorf("random number %v", f)
	}
	return nil
}

func measure(name string, seconds float64) (row, error) {
	ctx := context.Background()
	d, err := reasoninggym.New(name, nil)
	if err != nil {
		return row{}, err
	}
	var tasks []envs.Task
	for i := range 20 {
		task, err := d.Task(ctx, i)
		if errors.Is(err, reasoninggym.ErrNoItem) {
			continue
		}
		if err != nil {
			return row{}, err
		}
		tasks = append(tasks, task)
	}
	items, err := rate(seconds, func(i int) error {
		if _, err := d.Task(ctx, i); err != nil && !errors.Is(err, reasoninggym.ErrNoItem) {
			return err
		}
		return nil
	})
	if err != nil {
		return row{}, err
	}
	scores, err := rate(seconds, func(i int) error {
		task := tasks[i%len(tasks)]
		answer := task.Answer
		if answer == "" {
			answer = "wrong"
		}
		_, err := d.Score(ctx, task, answer)
		return err
	})
	return row{name, items, scores}, err
}

// rate is how often work is done in a second of CPU time. It looks at the clock after as many turns as take about a
// hundredth of the time.
func rate(seconds float64, work func(i int) error) (float64, error) {
	start := cpuTime()
	spent, done := 0.0, 0
	for turns := 1; spent < seconds; {
		before := spent
		for range turns {
			if err := work(done); err != nil {
				return 0, err
			}
			done++
		}
		if spent = (cpuTime() - start).Seconds(); spent-before < seconds/100 {
			turns *= 2
		}
	}
	return float64(done) / spent, nil
}

// cpuTime is what the process has used of all cores, the garbage collector included.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		log.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
