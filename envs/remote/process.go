package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/grouper-rl/grouper/envs"
)

// ProcessConfig says what program makes tasks or scores answers.
type ProcessConfig struct {
	Name    string          // of the source, in manifests, errors and task IDs: "python/word_sorting"
	Command []string        // the program and its arguments. It must not leave the work to a child of its own, as a shell does: Close kills the program alone
	Dir     string          // where it runs; "" is the current directory
	Env     []string        // its environment, "NAME=value" each; nil is that of this process
	Config  json.RawMessage // sent to the program before all else, and written to manifests; empty is null
	Start   time.Duration   // for starting it and its reply to "open"; 0 is one minute
	Limits  Limits
}

// Validate names the field that is wrong.
func (c ProcessConfig) Validate() error {
	if c.Name == "" {
		return errors.New("ProcessConfig.Name is empty, must name the source")
	}
	if len(c.Command) == 0 || c.Command[0] == "" {
		return errors.New("ProcessConfig.Command is empty, must have a program")
	}
	if len(c.Config) > 0 && !json.Valid(c.Config) {
		return errors.New("ProcessConfig.Config is no JSON, must be one JSON value")
	}
	if c.Start < 0 {
		return fmt.Errorf("ProcessConfig.Start is %s, must be at least 0", c.Start)
	}
	return c.Limits.Validate()
}

// Process is a program that makes tasks, scores answers, or both, in the protocol that the package's documentation has. It is an
// envs.Source, an envs.Env and an envs.Described, and is safe for concurrent use: each of Limits.Concurrency processes has one
// request at a time, and is started when it is first needed.
//
// A process that dies during a call is replaced and the call repeated. One that breaks the protocol, is late, or whose call is
// cancelled is killed, as nobody knows what it will say next; only the next call starts another.
type Process struct {
	config ProcessConfig
	limits Limits
	slots  chan *worker // nil stands for one that is not running

	closed context.Context // ends with Close
	close  context.CancelFunc
	once   sync.Once
}

var (
	_ envs.Described = (*Process)(nil)
	_ envs.Env       = (*Process)(nil)
)

// Start starts the program once, so that an error of its own shows here. The context is for starting only; the program runs
// until Close.
func Start(ctx context.Context, config ProcessConfig) (*Process, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("remote: %w", err)
	}
	if config.Start == 0 {
		config.Start = time.Minute
	}
	config.Config = bytes.Clone(config.Config)
	p := &Process{config: config, limits: config.Limits.orDefaults(1)}
	p.closed, p.close = context.WithCancel(context.Background())
	p.slots = make(chan *worker, p.limits.Concurrency)
	w, err := p.open(ctx)
	if err != nil {
		p.close()
		return nil, fmt.Errorf("remote: %s: %w", config.Name, err)
	}
	p.slots <- w
	for range p.limits.Concurrency - 1 {
		p.slots <- nil
	}
	return p, nil
}

// Name is ProcessConfig.Name.
func (p *Process) Name() string { return p.config.Name }

// Origin is the name with ProcessConfig.Config.
func (p *Process) Origin() envs.Origin {
	return envs.Origin{Name: p.config.Name, Config: bytes.Clone(p.config.Config)}
}

// Close kills the processes and waits until they are gone. Calls that are on their way fail with ErrClosed, as do later ones.
func (p *Process) Close() error {
	p.once.Do(func() {
		p.close()
		for range p.limits.Concurrency {
			if w := <-p.slots; w != nil {
				w.kill()
			}
		}
	})
	return nil
}

// Task is the program's task of this index. Its ID is Name and the index.
func (p *Process) Task(ctx context.Context, index int) (envs.Task, error) {
	id := fmt.Sprintf("%s/%d", p.config.Name, index)
	if index < 0 {
		return envs.Task{}, fmt.Errorf("remote: task %s: the index must be at least 0", id)
	}
	r, err := p.call(ctx, request{Call: "task", Index: &index})
	if err == nil && r.Question == nil {
		err = errors.New("the reply has no question")
	}
	if err != nil {
		return envs.Task{}, fmt.Errorf("remote: task %s: %w", id, err)
	}
	task := envs.Task{ID: id, Question: *r.Question, Answer: r.Answer, Key: r.Key, Metadata: r.Metadata}
	if string(task.Metadata) == "null" {
		task.Metadata = nil
	}
	return task, nil
}

// Score is the program's score of an answer. What is not UTF-8 in the answer reaches it as U+FFFD.
func (p *Process) Score(ctx context.Context, task envs.Task, answer string) (float64, error) {
	r, err := p.call(ctx, request{Call: "score", Answer: &answer, Task: &askedTask{task.ID, task.Question, task.Answer, task.Metadata}})
	var score float64
	if err == nil {
		score, err = checked(r.Score)
	}
	if err != nil {
		return 0, fmt.Errorf("remote: task %s: %w", task.ID, err)
	}
	return score, nil
}

type request struct {
	ID     int             `json:"id"`
	Call   string          `json:"call"`
	Config json.RawMessage `json:"config,omitempty"`
	Index  *int            `json:"index,omitempty"`
	Task   *askedTask      `json:"task,omitempty"`
	Answer *string         `json:"answer,omitempty"`
}

// askedTask is a task as a scorer is asked about it. It has no field "key", which is for splitting only.
type askedTask struct {
	ID       string          `json:"id"`
	Question string          `json:"question"`
	Answer   string          `json:"answer"`
	Metadata json.RawMessage `json:"metadata"`
}

type reply struct {
	ID       *int            `json:"id"`
	Error    *string         `json:"error"`
	Question *string         `json:"question"`
	Answer   string          `json:"answer"`
	Key      string          `json:"key"`
	Metadata json.RawMessage `json:"metadata"`
	Score    *float64        `json:"score"`
}

// refused is an error that the program itself reported: it works, and would say the same again.
type refused string

func (r refused) Error() string { return fmt.Sprintf("the program says: %s", excerpt([]byte(r))) }

// call asks one process, and another one if that dies.
func (p *Process) call(ctx context.Context, r request) (*reply, error) {
	if p.closed.Err() != nil {
		return nil, ErrClosed
	}
	var w *worker
	select {
	case w = <-p.slots:
		defer func() { p.slots <- w }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-p.closed.Done():
		return nil, ErrClosed
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(p.closed, func() { cancel(ErrClosed) })()
	var answer *reply
	err := p.limits.retry(ctx, func() (err error) {
		if w == nil {
			if w, err = p.open(ctx); err != nil {
				return err
			}
		}
		err = within(ctx, p.limits.Timeout, func(ctx context.Context) error {
			answer, err = w.ask(ctx, r)
			return err
		})
		var said refused
		if err != nil && !errors.As(err, &said) {
			w.kill()
			w = nil
		}
		return err
	})
	return answer, err
}

// open starts a process and has it read the config.
func (p *Process) open(ctx context.Context) (*worker, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w, err := p.config.start(p.limits.MaxResponse)
	if err != nil {
		return nil, err
	}
	config := p.config.Config
	if len(config) == 0 {
		config = json.RawMessage("null")
	}
	err = within(ctx, p.config.Start, func(ctx context.Context) error {
		_, err := w.ask(ctx, request{Call: "open", Config: config})
		return err
	})
	if err != nil {
		w.kill()
		return nil, fmt.Errorf("starting %s: %w", p.config.Command[0], err)
	}
	return w, nil
}
