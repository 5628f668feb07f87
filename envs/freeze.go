package envs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	tasks, walked, err := split.walk(ctx, src, split.Train+split.Validation+split.Confirmation)
	if err != nil {
		return nil, err
	}
	manifest := Manifest{Source: originOf(src), DistinctBy: split.distinctBy(), Walked: walked}
	trained, held := split.Train, split.Train+split.Validation
	return newBank(manifest, tasks[:trained:trained], tasks[trained:held:held], tasks[held:])
}

// Sources has the source of each part of a bank. That of a part which gets no task may be nil.
type Sources struct{ Train, Validation, Confirmation Source }

// FreezeParts makes a bank whose parts come from sources of their own, such as one dataset with three seeds: each is walked from its
// item 0 on, as by Freeze. Seeds that are near each other may give the same tasks, and datasets of few tasks give them with any
// seed: if a question or a key is in two parts, the error wraps ErrOverlap and names the two tasks. (Freeze, with one
// source, leaves such tasks out instead.)
func FreezeParts(ctx context.Context, from Sources, split Split) (*Bank, error) {
	if err := split.Validate(); err != nil {
		return nil, err
	}
	manifest := Manifest{DistinctBy: split.distinctBy()}
	var parts [3][]Task
	for i, part := range []struct {
		source Source
		tasks  int
	}{{from.Train, split.Train}, {from.Validation, split.Validation}, {from.Confirmation, split.Confirmation}} {
		if part.tasks == 0 {
			continue
		}
		if part.source == nil {
			return nil, fmt.Errorf("envs: Sources has none for %s, of which the split wants %d tasks", partNames[i], part.tasks)
		}
		origin := originOf(part.source)
		described := Part{Name: partNames[i], Source: &origin}
		var err error
		if parts[i], described.Walked, err = split.walk(ctx, part.source, part.tasks); err != nil {
			return nil, fmt.Errorf("envs: %s: %w", partNames[i], err)
		}
		if manifest.Parts = append(manifest.Parts, described); len(manifest.Parts) == 1 {
			manifest.Source = origin // which can score all of them
		}
	}
	return newBank(manifest, parts[:]...)
}

// Again freezes the bank a second time, from sources that the function makes of the origins in its manifest. With the same sources
// it is the same bank, down to its digest. A bank that was not frozen from sources cannot be made again.
func (b *Bank) Again(ctx context.Context, sourceOf func(Origin) (Source, error)) (*Bank, error) {
	m := b.Manifest
	split := Split{Train: len(b.Train), Validation: len(b.Validation), Confirmation: len(b.Confirmation), DistinctBy: m.DistinctBy, Limit: m.Walked}
	if m.Walked > 0 {
		source, err := sourceOf(m.Source)
		if err != nil {
			return nil, err
		}
		return Freeze(ctx, source, split)
	}
	var sources [3]Source
	if !m.FromSources() {
		return nil, errors.New("envs: the bank's tasks were given one by one, not frozen from a source")
	}
	for _, part := range m.Parts {
		var err error
		if sources[slices.Index(partNames[:], part.Name)], err = sourceOf(*part.Source); err != nil {
			return nil, err
		}
		split.Limit = max(split.Limit, part.Walked)
	}
	return FreezeParts(ctx, Sources{sources[0], sources[1], sources[2]}, split)
}

func originOf(src Source) Origin {
	if d, ok := src.(Described); ok {
		return d.Origin()
	}
	return Origin{Name: src.Name()}
}

func (s Split) distinctBy() string { return cmp.Or(s.DistinctBy, "question") }

// walk takes the first item of each key until there are as many as wanted, and says how many it looked at.
func (s Split) walk(ctx context.Context, src Source, want int) (tasks []Task, walked int, err error) {
	by, limit := s.distinctBy(), cmp.Or(s.Limit, DefaultLimit)
	seen := map[string]bool{}
	for ; len(tasks) < want; walked++ {
		if walked == limit {
			return nil, walked, fmt.Errorf("envs: %s has %d tasks with a distinct %s among its first %d items, %d are wanted", src.Name(), len(tasks), by, limit, want)
		}
		if err := ctx.Err(); err != nil {
			return nil, walked, err
		}
		task, err := src.Task(ctx, walked)
		if err != nil {
			return nil, walked, fmt.Errorf("envs: item %d of %s, after %d distinct tasks: %w", walked, src.Name(), len(tasks), err)
		}
		task.Key, err = keyOf(task, by)
		if err != nil {
			return nil, walked, fmt.Errorf("envs: item %d of %s: %w", walked, src.Name(), err)
		}
		if !seen[task.Key] {
			seen[task.Key] = true
			tasks = append(tasks, task)
		}
	}
	return tasks, walked, nil
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
