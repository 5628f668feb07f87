// Package envs says what a task is, what judges an answer, and how tasks are frozen into banks. It knows nothing of
// policies: an environment is a source of tasks plus a scorer, usable without any trainer.
package envs

import (
	"context"
	"encoding/json"
)

// Task is one question with what its scorer needs. It is what a bank stores, a JSON object a line.
type Task struct {
	ID       string          `json:"id"`                 // unique in a bank, stable across runs: "caesar_cipher/42/17"
	Question string          `json:"question"`           // as the environment words it
	Answer   string          `json:"answer"`             // the oracle; "" where the environment has none
	Key      string          `json:"key"`                // tasks with the same key count as the same task when splitting
	Metadata json.RawMessage `json:"metadata,omitempty"` // whatever the scorer reads
}

// Source makes tasks. Task i depends on nothing but i.
type Source interface {
	// Name names the source and its settings in manifests and errors.
	Name() string
	Task(ctx context.Context, index int) (Task, error)
}

// Env judges answers.
type Env interface {
	// Score returns upstream's score of an answer that was extracted from a completion, in [0,1].
	// An error means that the answer could not be judged at all, never that it is wrong.
	Score(ctx context.Context, task Task, answer string) (float64, error)
}

// Reply is what a completion said, as text.
type Reply struct {
	Text     string
	Finished bool // ended by a stop token, not by a limit
}

// Labels that graders put beside a reward. Labels describe, rewards count: a label never changes a reward.
const (
	Truncated = "truncated" // stopped by a length limit
	NoAnswer  = "no_answer" // no answer could be extracted
	Wrong     = "wrong"     // an answer was extracted and its score is below 1
	Correct   = "correct"
)

// Score is a graded completion.
type Score struct {
	Reward float64  `json:"reward"`           // what training and accuracy use
	Value  float64  `json:"value"`            // the environment's own score of the extracted answer, 0 without one
	Labels []string `json:"labels,omitempty"` // in a fixed order
}

// Grader turns a completion into a score. Grade returns soon after ctx has ended; what does not is left behind after half a minute. It may
// be called concurrently.
//
// A grader with settings that rewards depend on implements json.Marshaler: the settings are recorded with the run, which then does not go on
// with others. They are published with it, too: no secrets.
type Grader interface {
	Grade(ctx context.Context, task Task, reply Reply) (Score, error)
}
