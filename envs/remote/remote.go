// Package remote makes environments of what runs elsewhere: Server is an experiment of reasoning-gym's own HTTP server,
// Process a program that speaks JSON lines, in whatever language. Both are sources of tasks and score answers.
//
// # Any Python dataset or scorer
//
// With these ten lines in worker.py, any dataset of reasoning-gym is an environment, and so is any scorer that is put in their place:
//
//	import json, sys, reasoning_gym
//	for ask in map(json.loads, sys.stdin):
//	    try:
//	        match ask:
//	            case {"call": "open"}: reply, data = {}, reasoning_gym.create_dataset(**ask["config"])
//	            case {"call": "task"}: reply = data[ask["index"]]
//	            case {"call": "score"}: reply = {"score": data.score_answer(ask["answer"], ask["task"])}
//	    except Exception as e:
//	        reply = {"error": repr(e)}
//	    print(json.dumps({**reply, "id": ask["id"]}), flush=True)
//
// It is started by
//
//	env, err := remote.Start(ctx, remote.ProcessConfig{
//		Name:    "python/word_sorting",
//		Command: []string{"python3", "worker.py"},
//		Config:  json.RawMessage(`{"name": "word_sorting", "seed": 42}`),
//	})
//
// # The protocol
//
// A request is a JSON object on a line of the program's standard input, and the program answers each with one such line on its
// standard output, in the order of the requests, with the request's "id", and nothing else; the next request comes after the
// reply. The requests are
//
//	{"id": 1, "call": "open", "config": …}                          before all others; config is ProcessConfig.Config or null
//	{"id": 2, "call": "task", "index": 17}                          make task 17
//	{"id": 3, "call": "score", "task": {"id", "question", "answer", "metadata"}, "answer": "…"}
//
// and their replies
//
//	{"id": 1}
//	{"id": 2, "question": "…", "answer": "…", "metadata": …, "key": "…"}    all but the question may be left out or be null
//	{"id": 3, "score": 0.25}                                        in [0,1]
//
// or, to any of them, {"id": …, "error": "why"}: then it could not be done, and the program goes on. Standard error is free; its
// end is quoted when the program dies. When its standard input ends, the program should end. Replies must depend on nothing but the config and the request, because a request is
// repeated, to a new process, when a process dies.
//
// # When the other side fails
//
// An answer that could not be judged is an error that names the task, and never a score: a score that is missing, not a number
// or outside [0,1], a reply to something else, malformed JSON, a reply that is too long or too late.
package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
	"unicode/utf8"
)

// ErrClosed says that a call came after Close, or was ended by it.
var ErrClosed = errors.New("closed")

// Limits bound what a remote environment may take. Fields that are 0 have their default.
type Limits struct {
	Timeout     time.Duration // for one attempt of a call; 30 s
	Attempts    int           // of a call in all; 3, and 1 is without a retry
	Backoff     time.Duration // about the pause before the second attempt, twice that before the third, and so on up to 30 s; 200 ms
	Concurrency int           // calls at a time, others wait; 8 for a Server, 1 for a Process, which has as many processes
	MaxResponse int           // bytes of a reply; 16 MiB
}

// Validate says which field is out of range.
func (l Limits) Validate() error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"Timeout", int64(l.Timeout)}, {"Attempts", int64(l.Attempts)}, {"Backoff", int64(l.Backoff)},
		{"Concurrency", int64(l.Concurrency)}, {"MaxResponse", int64(l.MaxResponse)},
	} {
		if f.value < 0 {
			return fmt.Errorf("remote: Limits.%s is %d, must be at least 0, which is the default", f.name, f.value)
		}
	}
	return nil
}

func (l Limits) orDefaults(concurrency int) Limits {
	return Limits{
		Timeout:     positive(l.Timeout, 30*time.Second),
		Attempts:    positive(l.Attempts, 3),
		Backoff:     positive(l.Backoff, 200*time.Millisecond),
		Concurrency: positive(l.Concurrency, concurrency),
		MaxResponse: positive(l.MaxResponse, 16<<20),
	}
}

func positive[T int | time.Duration](value, otherwise T) T {
	if value > 0 {
		return value
	}
	return otherwise
}

const longestPause = 30 * time.Second

// transient marks the failures after which the same request may well succeed. A time-out is none: the other side may still
// be at work on the request, and would have it twice.
type transient struct{ error }

func (t transient) Unwrap() error { return t.error }

// retry calls f until it succeeds, fails for good or has had all its attempts.
func (l Limits) retry(ctx context.Context, f func() error) error {
	pause := min(l.Backoff, longestPause)
	for attempt := 1; ; attempt++ {
		err := f()
		var again transient
		if !errors.As(err, &again) || ctx.Err() != nil {
			return err
		}
		if attempt >= l.Attempts {
			return fmt.Errorf("after %d attempts: %w", attempt, again.error)
		}
		// Half of the pause is random, lest all that failed together come back together.
		timer := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w, after %w", context.Cause(ctx), again.error)
		case <-timer.C:
		}
		pause = min(2*pause, longestPause)
	}
}

// within calls f with a time-out, and gives its error the name of what ended it.
func within(ctx context.Context, timeout time.Duration, f func(context.Context) error) error {
	bounded, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := f(bounded)
	switch {
	case err == nil || bounded.Err() == nil:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("no reply within %s: %w", timeout, context.DeadlineExceeded)
	}
}

// decode reads the one JSON value that data must be.
func decode(data []byte, value any) error {
	if !utf8.Valid(data) {
		return fmt.Errorf("the reply is not UTF-8: %s", excerpt(data))
	}
	if err := json.Unmarshal(data, value); err != nil {
		return fmt.Errorf("the reply is not what it should be: %w: %s", err, excerpt(data))
	}
	return nil
}

// checked returns a score that exists and is in [0,1]. A scorer that adds up parts may come out a little beyond, as some of
// upstream's do: 1.0000000000000002 is 1.
func checked(score *float64) (float64, error) {
	const rounding = 1e-9
	if score == nil {
		return 0, errors.New("the reply has no score")
	}
	if !(*score >= -rounding && *score <= 1+rounding) {
		return 0, fmt.Errorf("the score is %v, must be in [0,1]", *score)
	}
	return min(max(*score, 0), 1), nil
}

// excerpt quotes the beginning of a reply.
func excerpt(data []byte) string {
	const most = 200
	if len(data) > most {
		return fmt.Sprintf("%q…", data[:most])
	}
	return fmt.Sprintf("%q", data)
}
