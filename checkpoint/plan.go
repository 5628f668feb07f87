package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// CheckUpdate says where an update and its completions are not what the plan fixes; seed is the run's.
func (p Plan) CheckUpdate(u Update, seed int64, lines []Line) error {
	if len(u.Tasks) != p.TasksPerUpdate {
		return fmt.Errorf("it has %d tasks, the plan %d", len(u.Tasks), p.TasksPerUpdate)
	}
	if len(lines) != p.TasksPerUpdate*p.GroupSize {
		return fmt.Errorf("it has %d completions, the plan %d × %d", len(lines), p.TasksPerUpdate, p.GroupSize)
	}
	if u.Weights < 0 || u.Weights >= u.Update {
		return fmt.Errorf("its completions are of the weights of update %d", u.Weights)
	}
	for i, l := range lines {
		task, sample := u.Tasks[i/p.GroupSize], i%p.GroupSize
		err := l.check()
		switch {
		case l.Task != task || l.Sample != sample:
			err = fmt.Errorf("task %q, sample %d where task %q, sample %d is expected", l.Task, l.Sample, task, sample)
		case l.Weights != u.Weights:
			err = fmt.Errorf("it is of the weights of update %d, expected %d", l.Weights, u.Weights)
		case l.Seed != seed:
			err = fmt.Errorf("its seed is %d, the run's is %d", l.Seed, seed)
		}
		if err != nil {
			return fmt.Errorf("completion %d: %w", i+1, err)
		}
	}
	return nil
}

// CheckEvaluation says where an evaluation and its completions, task by task and seed by seed, are not what the plan fixes.
func (p Plan) CheckEvaluation(e Evaluation, lines []Line) error {
	if p.Evaluation == nil {
		return errors.New("the plan has no evaluation")
	}
	ids := make([]string, len(e.Tasks))
	for i, t := range e.Tasks {
		ids[i] = t.Task
	}
	switch {
	case !slices.Equal(ids, p.Evaluation.Tasks):
		return fmt.Errorf("its tasks are not those of the plan")
	case !slices.Equal(e.Seeds, p.Evaluation.Seeds):
		return fmt.Errorf("its seeds are %v, the plan's %v", e.Seeds, p.Evaluation.Seeds)
	case len(p.Evaluation.Sampling) > 0 && !sameJSON(e.Sampling, p.Evaluation.Sampling):
		return fmt.Errorf("its sampling settings are %s, the plan's %s", e.Sampling, p.Evaluation.Sampling)
	case e.Scored != len(ids)*len(e.Seeds) || len(lines) != e.Scored:
		return fmt.Errorf("%d scored and %d completions, expected %d × %d", e.Scored, len(lines), len(ids), len(e.Seeds))
	}
	for i, l := range lines {
		task, sample := ids[i/len(e.Seeds)], i%len(e.Seeds)
		err := l.check()
		switch {
		case l.Task != task || l.Sample != sample || l.Seed != e.Seeds[sample]:
			err = fmt.Errorf("task %q, sample %d, seed %d where task %q, sample %d, seed %d is expected", l.Task, l.Sample, l.Seed, task, sample, e.Seeds[sample])
		case l.Weights != e.Update:
			err = fmt.Errorf("it is of the weights of update %d, expected %d", l.Weights, e.Update)
		}
		if err != nil {
			return fmt.Errorf("completion %d: %w", i+1, err)
		}
	}
	return nil
}

// sameJSON ignores white space: run.json is indented.
func sameJSON(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// check says what is wrong with a completion in itself.
func (l Line) check() error {
	switch {
	case len(l.Tokens) == 0:
		return errors.New("it has no tokens")
	case len(l.LogProbs) != len(l.Tokens) || len(l.Filtered) != len(l.Tokens) && len(l.Filtered) != 0: // an engine may not know them
		return fmt.Errorf("%d tokens, %d log-probs, %d filtered log-probs", len(l.Tokens), len(l.LogProbs), len(l.Filtered))
	case l.Finish != "stop" && l.Finish != "length":
		return fmt.Errorf("finish is %q", l.Finish)
	}
	return nil
}

// mergeMetrics adds figures to a flat object of numbers and sorts it.
func mergeMetrics(metrics json.RawMessage, figures map[string]float64) (json.RawMessage, error) {
	all := map[string]json.Number{}
	if len(metrics) > 0 {
		if err := unmarshal(metrics, &all); err != nil {
			return nil, fmt.Errorf("metrics must be a flat object of numbers: %w", err)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(figures)) {
		v := figures[key]
		if had, ok := all[key]; ok {
			h, err := had.Float64()
			if err != nil || !(math.Abs(h-v) <= 1e-9*max(1, math.Abs(v))) {
				return nil, fmt.Errorf("metric %q is %s, the completions give %v", key, had, v)
			}
		}
		data, err := marshal(v)
		if err != nil {
			return nil, fmt.Errorf("metric %q: %w", key, err)
		}
		all[key] = json.Number(data)
	}
	return marshal(all)
}
