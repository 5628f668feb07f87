package envs

import (
	"context"
	"encoding/json"
	"fmt"
)

// CompletedAnswer is the binary reward of a completed answer: 1 if the completion ended by itself, an answer could be
// extracted from it, and the environment gives that answer exactly 1; 0 otherwise. There is no partial credit: a score of
// 0.99 earns nothing, and so does a right answer in a completion that was cut off.
//
// Labels, in this order: Truncated, and one of NoAnswer, Wrong and Correct. Correct stands exactly where the reward is 1; a
// truncated completion with a right answer is labelled Truncated only.
type CompletedAnswer struct {
	Env Env
	// Extract finds the answer in a completion's text; nil takes the last <answer> element, as the function Extract does.
	Extract func(text string) (answer string, ok bool)
}

// MarshalJSON gives the environment's settings if it has a MarshalJSON of its own; null if not. The settings of the source of the bank are
// in its manifest.
func (g CompletedAnswer) MarshalJSON() ([]byte, error) {
	if env, ok := g.Env.(json.Marshaler); ok {
		return env.MarshalJSON()
	}
	return []byte("null"), nil
}

// Grade implements Grader. The score's Value is the environment's own, also of a truncated completion. The environment is
// not asked where there is no answer. A score outside [0,1] is an error: the completion could not be judged.
func (g CompletedAnswer) Grade(ctx context.Context, task Task, reply Reply) (Score, error) {
	var s Score
	if !reply.Finished {
		s.Labels = append(s.Labels, Truncated)
	}
	extract := g.Extract
	if extract == nil {
		extract = func(text string) (string, bool) { return Extract(text, "answer") }
	}
	answer, ok := extract(reply.Text)
	if !ok {
		s.Labels = append(s.Labels, NoAnswer)
		return s, nil
	}
	value, err := g.Env.Score(ctx, task, answer)
	if err != nil {
		return Score{}, fmt.Errorf("envs: task %s: %w", task.ID, err)
	}
	if !(value >= 0 && value <= 1) {
		return Score{}, fmt.Errorf("envs: task %s: the environment scored %v, must be in [0,1]", task.ID, value)
	}
	s.Value = value
	switch {
	case value < 1:
		s.Labels = append(s.Labels, Wrong)
	case reply.Finished:
		s.Reward = 1
		s.Labels = append(s.Labels, Correct)
	}
	return s, nil
}
