package remote

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/grouper-rl/grouper/envs"
)

const childVariable = "GROUPER_TEST_REMOTE_CHILD"

// childConfig is the config that the tests' program gets.
type childConfig struct {
	Open string // what it does to "open"
	Mark string // a file that it makes when it first dies of the answer "die once"
}

// child is the tests' program. To an answer that is none of the faults below it gives the answer as the reply's score.
func child(in io.Reader, out, stderr io.Writer) {
	var config childConfig
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var ask struct {
			ID     int
			Call   string
			Config childConfig
			Index  int
			Task   envs.Task
			Answer string
		}
		if err := json.Unmarshal(line, &ask); err != nil {
			fmt.Fprintln(stderr, err)
			os.Exit(2)
		}
		say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
		what := ask.Answer
		switch ask.Call {
		case "open":
			config = ask.Config
			if what = config.Open; what == "" {
				say(`{"id":%d}`, ask.ID)
				continue
			}
		case "task":
			switch ask.Index {
			case 13:
				what = "error"
			case 14:
				what = "0" // a score for a task
			default:
				say(`{"id":%d,"question":"item %d","answer":"%d","key":null,"metadata":{"pid":%d}}`, ask.ID, ask.Index, ask.Index, os.Getpid())
				continue
			}
		}
		switch what {
		case "error":
			say(`{"id":%d,"error":"cannot judge that"}`, ask.ID)
		case "question":
			say(`{"id":%d,"question":"q"}`, ask.ID)
		case "another id":
			say(`{"id":%d,"score":1}`, ask.ID-1)
		case "no id":
			say(`{"score":1}`)
		case "broken":
			say(`{"id":%d,"score":`, ask.ID)
		case "chatter":
			say("loading...\n"+`{"id":%d,"score":1}`, ask.ID)
		case "twice":
			say(`{"id":%d,"score":1}`+"\n"+`{"id":%d,"score":1}`, ask.ID, ask.ID)
		case "long":
			say("%s", strings.Repeat(" ", 1<<20))
		case "sleep":
			time.Sleep(time.Minute)
		case "die once":
			if _, err := os.Stat(config.Mark); err == nil {
				say(`{"id":%d,"score":0.5}`, ask.ID)
				continue
			}
			if err := os.WriteFile(config.Mark, nil, 0o600); err != nil {
				fmt.Fprintln(stderr, err)
			}
			os.Exit(3)
		case "die":
			fmt.Fprintln(stderr, "Traceback: out of memory")
			os.Exit(3)
		case "half a line":
			fmt.Fprint(out, `{"id":`)
			os.Exit(0)
		case "the task":
			if ask.Task.ID != "mine" || ask.Task.Question != "q" || ask.Task.Answer != "a" || string(ask.Task.Metadata) != `{"x":1}` || ask.Task.Key != "" {
				say(`{"id":%d,"error":"asked about %s"}`, ask.ID, ask.Task.ID)
				continue
			}
			say(`{"id":%d,"score":1}`, ask.ID)
		default:
			say(`{"id":%d,"score":%s}`, ask.ID, what)
		}
	}
}

func processConfig(t *testing.T, limits Limits, child childConfig) ProcessConfig {
	t.Helper()
	config, err := json.Marshal(child)
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	limits.Backoff = time.Millisecond
	return ProcessConfig{Name: "test/child", Command: []string{self}, Env: append(os.Environ(), childVariable+"=1"), Config: config, Limits: limits}
}

func start(t *testing.T, limits Limits) *Process {
	t.Helper()
	p, err := Start(t.Context(), processConfig(t, limits, childConfig{Mark: t.TempDir() + "/mark"}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

var mine = envs.Task{ID: "mine", Question: "q", Answer: "a", Key: "k", Metadata: json.RawMessage(`{"x":1}`)}

func TestProcess(t *testing.T) {
	p := start(t, Limits{})
	task, err := p.Task(t.Context(), 17)
	if err != nil || task.ID != "test/child/17" || task.Question != "item 17" || task.Answer != "17" || task.Key != "" || !strings.Contains(string(task.Metadata), "pid") {
		t.Errorf("%+v, %v", task, err)
	}
	for answer, want := range map[string]float64{"the task": 1, "0": 0, "1": 1, "0.125": 0.125, "1.0000000000000002": 1, "-1e-17": 0} {
		if got, err := p.Score(t.Context(), mine, answer); got != want || err != nil {
			t.Errorf("%q: %v, %v", answer, got, err)
		}
	}
	bank, err := envs.Freeze(t.Context(), p, envs.Split{Train: 5, Validation: 2})
	if err != nil {
		t.Fatal(err)
	}
	if source := bank.Manifest.Source; source.Name != "test/child" || !strings.Contains(string(source.Config), "mark") {
		t.Errorf("a bank from %s %s", source.Name, source.Config)
	}
	for index, want := range map[int]string{-1: "at least 0", 13: "cannot judge that", 14: "no question"} {
		_, err := p.Task(t.Context(), index)
		wantError(t, err, fmt.Sprintf("task test/child/%d: ", index), want)
	}
}

// Whatever a program does, its caller gets the task's name with the reason, never a score, and the next answer is judged.
func TestProcessFaults(t *testing.T) {
	p := start(t, Limits{MaxResponse: 1000})
	for _, c := range []struct {
		answer, want string
		replaced     bool // a program that did not keep to the protocol is not asked again
	}{
		{"error", "the program says: \"cannot judge that\"", false},
		{"question", "no score", false},
		{"1.5", "the score is 1.5, must be in [0,1]", false},
		{"-1", "the score is -1, must be in [0,1]", false},
		{"null", "no score", false},
		{"NaN", "not what it should be", true},
		{"1e999", "not what it should be", true},
		{`"1"`, "not what it should be", true},
		{"another id", "must have", true},
		{"no id", "no id", true},
		{"broken", "not what it should be", true},
		{"chatter", "loading", true},
		{"long", "more than 1000 bytes", true},
		{"die", "after 3 attempts: the program ended without a reply (exit status 3, EOF), its standard error ends: \"Traceback: out of memory", true},
		{"half a line", "after 3 attempts: the program ended without a reply (exit status 0, unexpected EOF after", true},
	} {
		before := pid(t, p)
		got, err := p.Score(t.Context(), mine, c.answer)
		wantError(t, err, "task mine: ", c.want)
		if after := pid(t, p); got != 0 || (after != before) != c.replaced {
			t.Errorf("%s: score %v, replaced %v", c.answer, got, after != before)
		}
		if got, err := p.Score(t.Context(), mine, "0.5"); got != 0.5 || err != nil {
			t.Errorf("after %s: %v, %v", c.answer, got, err)
		}
	}
	// The second of two replies is to nothing, and must not pass for the reply to the next request.
	if _, err := p.Score(t.Context(), mine, "twice"); err == nil {
		_, err = p.Score(t.Context(), mine, "0")
		wantError(t, err, "task mine", "must have")
	}
	if got, err := p.Score(t.Context(), mine, "die once"); got != 0.5 || err != nil {
		t.Errorf("after a death: %v, %v", got, err)
	}
}

func TestProcessIsLate(t *testing.T) {
	p := start(t, Limits{Timeout: 2 * time.Second})
	_, err := p.Score(t.Context(), mine, "sleep")
	if wantError(t, err, "task mine: no reply within 2s"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is no time-out", err)
	}
	if got, err := p.Score(t.Context(), mine, "0.5"); got != 0.5 || err != nil {
		t.Errorf("after a time-out: %v, %v", got, err)
	}
}

// Users copy the program in the package's documentation; it must speak the protocol that stands below it.
func TestDocumentedProgram(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	source, err := os.ReadFile("remote.go")
	if err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(source), "//\timport json")
	script, _, found := strings.Cut("import json"+script, "\n//\n")
	if !found {
		t.Fatal("the documentation has no program")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"worker.py": strings.ReplaceAll(script, "//\t", ""),
		"reasoning_gym.py": `
class Data:
    def __init__(self, seed): self.seed = seed
    def __getitem__(self, i): return {"question": f"{self.seed}+{i}", "answer": str(self.seed + i), "metadata": {"i": i}}
    def score_answer(self, answer, entry): return 1.0 if answer == entry["answer"] and "i" in entry["metadata"] else 1 / len(answer)
def create_dataset(name, seed): return {"sum": Data}[name](seed)
`,
	} {
		if err := os.WriteFile(dir+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := ProcessConfig{Name: "python/sum", Command: []string{python, "worker.py"}, Dir: dir, Config: json.RawMessage(`{"name": "sum", "seed": 40}`)}
	p, err := Start(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	task, err := p.Task(t.Context(), 2)
	if err != nil || task.Question != "40+2" || task.Answer != "42" {
		t.Fatalf("%+v, %v", task, err)
	}
	for answer, want := range map[string]float64{"42": 1, "four": 0.25} {
		if got, err := p.Score(t.Context(), task, answer); got != want || err != nil {
			t.Errorf("%s: %v, %v", answer, got, err)
		}
	}
	_, err = p.Score(t.Context(), task, "")
	wantError(t, err, "task python/sum/2", "ZeroDivisionError")
	config.Config = json.RawMessage(`{"name": "none", "seed": 1}`)
	_, err = Start(t.Context(), config)
	wantError(t, err, "python/sum", "KeyError('none')")
}

func pid(t *testing.T, p *Process) int {
	t.Helper()
	task, err := p.Task(t.Context(), 0)
	var metadata struct{ PID int }
	if err := errors.Join(err, json.Unmarshal(task.Metadata, &metadata)); err != nil {
		t.Fatal(err)
	}
	return metadata.PID
}

func TestStartFails(t *testing.T) {
	for open, want := range map[string]string{
		"error":      "cannot judge that",
		"die":        "Traceback",
		"chatter":    "loading",
		"another id": "the reply has id 0, must have 1",
		"sleep":      "no reply within 500ms",
	} {
		config := processConfig(t, Limits{}, childConfig{Open: open})
		if open == "sleep" {
			config.Start = 500 * time.Millisecond
		}
		_, err := Start(t.Context(), config)
		wantError(t, err, "test/child", want)
	}
	config := processConfig(t, Limits{}, childConfig{})
	config.Command = []string{"/no/such/program"}
	_, err := Start(t.Context(), config)
	wantError(t, err, "test/child", "/no/such/program")
	_, err = Start(t.Context(), ProcessConfig{})
	wantError(t, err, "ProcessConfig.Name")
}

// A run that is stopped must not leave programs behind, nor wait for the slowest of them.
func TestCloseEndsCallsAndProcesses(t *testing.T) {
	p := start(t, Limits{Concurrency: 2})
	id := pid(t, p)
	var g errgroup.Group
	begin := time.Now()
	for range 4 { // two that run and two that wait
		g.Go(func() error {
			_, err := p.Score(context.Background(), mine, "sleep")
			if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "task mine") {
				t.Errorf("got %v", err)
			}
			return nil
		})
	}
	time.Sleep(100 * time.Millisecond)
	for range 2 {
		g.Go(p.Close)
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if d := time.Since(begin); d > 20*time.Second {
		t.Errorf("took %s", d)
	}
	if _, err := p.Score(t.Context(), mine, "1"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if process, err := os.FindProcess(id); err == nil && process.Signal(syscall.Signal(0)) == nil {
		t.Errorf("process %d is still there", id)
	}
}

// Stopping one call must not cost the others.
func TestProcessCancellation(t *testing.T) {
	p := start(t, Limits{Concurrency: 2})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var g errgroup.Group
	for range 3 { // the third waits for a process
		g.Go(func() error {
			_, err := p.Score(ctx, mine, "sleep")
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "task mine") {
				t.Errorf("got %v", err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	for range 8 {
		g.Go(func() error {
			got, err := p.Score(t.Context(), mine, "0.5")
			if got != 0.5 {
				t.Errorf("got %v", got)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
}
