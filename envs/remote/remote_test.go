package remote

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/grouper-rl/grouper/envs"
)

// The test binary is also the program that the tests of Process start. Whatever the tests leave running fails them.
func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		child(os.Stdin, os.Stdout, os.Stderr)
		return
	}
	goleak.VerifyTestMain(m)
}

func wantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("got %v, want %q", err, p)
		}
	}
}

// A mistyped limit would otherwise be a default that nobody asked for, or a wait without end.
func TestValidate(t *testing.T) {
	server := ServerConfig{URL: "http://127.0.0.1:1", Experiment: "e"}
	process := ProcessConfig{Name: "p", Command: []string{"c"}}
	experiment := Experiment{Size: 1, Datasets: []Dataset{{Name: "gcd", Weight: 1}}}
	with := func(change func()) error {
		s, p, e := server, process, experiment
		defer func() { server, process, experiment = s, p, e }()
		change()
		return errors.Join(server.Validate(), process.Validate(), experiment.Validate())
	}
	if err := with(func() {}); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(){
		"Limits.Timeout is -1":                       func() { server.Limits.Timeout = -1 },
		"Limits.Attempts is -1":                      func() { process.Limits.Attempts = -1 },
		"Limits.Backoff is -1":                       func() { process.Limits.Backoff = -1 },
		"Limits.Concurrency is -1":                   func() { process.Limits.Concurrency = -1 },
		"Limits.MaxResponse is -1":                   func() { process.Limits.MaxResponse = -1 },
		"ServerConfig.URL must":                      func() { server.URL = "127.0.0.1:80" },
		"ServerConfig.URL must be":                   func() { server.URL = "http://me:secret@127.0.0.1" },
		"ServerConfig.URL must be http":              func() { server.URL = "file:///tmp" },
		`ServerConfig.Experiment is ""`:              func() { server.Experiment = "" },
		`ServerConfig.Experiment is ".."`:            func() { server.Experiment = ".." },
		`ServerConfig.Experiment is "a/b"`:           func() { server.Experiment = "a/b" },
		"ProcessConfig.Name is empty":                func() { process.Name = "" },
		"ProcessConfig.Command is empty":             func() { process.Command = nil },
		"ProcessConfig.Config is no JSON":            func() { process.Config = json.RawMessage(`{"a"`) },
		"ProcessConfig.Start is -1ns":                func() { process.Start = -1 },
		"Experiment.Size is 0":                       func() { experiment.Size = 0 },
		"Experiment.Datasets has no weight":          func() { experiment.Datasets = nil },
		"Experiment.Datasets[0].Weight is -1":        func() { experiment.Datasets = []Dataset{{Name: "gcd", Weight: -1}} },
		`Experiment.Datasets[1].Name is "gcd" again`: func() { experiment.Datasets = []Dataset{{Name: "gcd", Weight: 1}, {Name: "gcd"}} },
	} {
		wantError(t, with(change), want)
	}
}

// Without pauses between them, attempts would only add to what overwhelmed the other side.
func TestRetryPauses(t *testing.T) {
	l := Limits{Attempts: 3, Backoff: 20 * time.Millisecond}
	var at []time.Time
	err := l.retry(t.Context(), func() error {
		at = append(at, time.Now())
		return transient{errors.New("down")}
	})
	wantError(t, err, "after 3 attempts: down")
	if len(at) != 3 || at[1].Sub(at[0]) < 10*time.Millisecond || at[2].Sub(at[1]) < 20*time.Millisecond {
		t.Errorf("attempts at %v", at)
	}

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	l.Backoff = time.Hour
	begin := time.Now()
	err = l.retry(ctx, func() error { return transient{errors.New("down")} })
	if wantError(t, err, "down"); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 5*time.Second {
		t.Errorf("got %v after %s", err, time.Since(begin))
	}
}

// Whatever comes over the wire, there is an error or a task and a score that can be used.
func FuzzReplies(f *testing.F) {
	f.Add([]byte(`{"scores":[1.0],"entry_ids":["1.5"]}`))
	f.Add([]byte(`{"entries":[{"question":"q","entry_id":"1.5","metadata":{"entry_id":"1.5"}}]}`))
	f.Add([]byte(`{"id":1,"score":0.5,"question":"q","metadata":null}`))
	f.Add([]byte(`{"id":1,"score":1e999}`))
	f.Add([]byte(`{"id":1,"score":NaN}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		usable := func(score float64, err error) {
			if err == nil && !(score >= 0 && score <= 1) {
				t.Errorf("score %v", score)
			}
		}
		if scores, err := decodeScores(data, []entryAnswer{{"1.5", "x"}}); err == nil {
			usable(scores[0], nil)
		}
		s := &Server{config: ServerConfig{Experiment: "e"}}
		if tasks, err := s.decodeBatch(data, 5, 1); err == nil {
			if _, err := envs.FromTasks(envs.Origin{}, tasks, nil, nil); err != nil {
				t.Errorf("a task that no bank takes: %v", err)
			}
		}
		if r, err := decodeReply(data, 1); err == nil {
			usable(checked(r.Score))
		}
	})
}
