package envs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Split says how many tasks each part of a bank gets and when two tasks count as the same.
type Split struct {
	Train        int // tasks to train on
	Validation   int // tasks that training is evaluated on
	Confirmation int // tasks for a last evaluation, after everything was decided
	// DistinctBy is what tasks must differ in: "question" (also ""), "answer", or a field of the metadata.
	DistinctBy string
	// Limit is how many items of the source may be looked at; 0 is DefaultLimit.
	Limit int
}

// DefaultLimit is how many items Freeze looks at if Split.Limit is 0.
const DefaultLimit = 100_000

// Validate says which field is wrong and what is allowed.
func (s Split) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{{"Train", s.Train}, {"Validation", s.Validation}, {"Confirmation", s.Confirmation}, {"Limit", s.Limit}} {
		if f.value < 0 {
			return fmt.Errorf("envs: Split.%s is %d, must be at least 0", f.name, f.value)
		}
	}
	if s.Train+s.Validation+s.Confirmation == 0 {
		return fmt.Errorf("envs: Split asks for no task: Train, Validation and Confirmation are all 0")
	}
	return nil
}

// Freeze walks a source from item 0 on and keeps the first item of each key until the split is full: the first Train tasks
// are for training, the next for validation, the last for confirmation. No key is in two parts, so that what is evaluated
// was never trained on. Each task's Key is set to what it was told apart by.
//
// If the source or the limit ends first, the error says how many distinct tasks were found.
func Freeze(ctx context.Context, src Source, split Split) (*Bank, error) {
	if err := split.Validate(); err != nil {
		return nil, err
	}
	by := split.DistinctBy
	if by == "" {
		by = "question"
	}
	limit := split.Limit
	if limit == 0 {
		limit = DefaultLimit
	}
	want := split.Train + split.Validation + split.Confirmation
	var tasks []Task
	seen := map[string]bool{}
	walked := 0
	for ; len(tasks) < want; walked++ {
		if walked == limit {
			return nil, fmt.Errorf("envs: %s has %d tasks with a distinct %s among its first %d items, %d are wanted", src.Name(), len(tasks), by, limit, want)
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		task, err := src.Task(ctx, walked)
		if err != nil {
			return nil, fmt.Errorf("envs: item %d of %s, after %d distinct tasks: %w", walked, src.Name(), len(tasks), err)
		}
		task.Key, err = keyOf(task, by)
		if err != nil {
			return nil, fmt.Errorf("envs: item %d of %s: %w", walked, src.Name(), err)
		}
		if !seen[task.Key] {
			seen[task.Key] = true
			tasks = append(tasks, task)
		}
	}
	manifest := Manifest{Source: Origin{Name: src.Name()}, DistinctBy: by, Walked: walked}
	if d, ok := src.(Described); ok {
		manifest.Source = d.Origin()
	}
	trained, held := split.Train, split.Train+split.Validation
	return newBank(manifest, tasks[:trained:trained], tasks[trained:held:held], tasks[held:])
}

func keyOf(task Task, by string) (string, error) {
	switch by {
	case "question":
		return task.Question, nil
	case "answer":
		return task.Answer, nil
	}
	var fields map[string]json.RawMessage
	if len(task.Metadata) > 0 {
		if err := json.Unmarshal(task.Metadata, &fields); err != nil {
			return "", fmt.Errorf("metadata is not a JSON object: %w", err)
		}
	}
	field, ok := fields[by]
	if !ok {
		known := append([]string{"question", "answer"}, slices.Sorted(maps.Keys(fields))...)
		return "", fmt.Errorf("there is no %q to tell tasks apart by; DistinctBy may be %s", by, strings.Join(known, ", "))
	}
	var text string
	if json.Unmarshal(field, &text) == nil && field[0] == '"' {
		return text, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, field); err != nil {
		return "", err
	}
	return compact.String(), nil
}
