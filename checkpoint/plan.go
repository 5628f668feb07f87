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

// SampledBy is the range of updates whose weights may sample the batch that an update trains on: one update, unless
// Staleness is [Eager].
func (p Plan) SampledBy(update int) (oldest, newest int) {
	oldest = max(0, update-1-p.Lag)
	if p.Staleness == Eager {
		return oldest, max(0, update-1)
	}
	return oldest, oldest
}

// CheckUpdate says where an update and its completions are not what the plan fixes; dropped are those of the groups that
// were left out, seed is the run's.
func (p Plan) CheckUpdate(u Update, seed int64, lines, dropped []Line) error {
	if len(u.Tasks) != p.TasksPerUpdate {
		return fmt.Errorf("it has %d tasks, the plan %d", len(u.Tasks), p.TasksPerUpdate)
	}
	if err := u.check(); err != nil {
		return err
	}
	oldest, newest := p.SampledBy(u.Update)
	weights, err := p.groups(u.Tasks, lines, seed, oldest, newest)
	if err != nil {
		return err
	}
	for i, w := range weights {
		if want := u.groupWeights(i); w != want {
			return fmt.Errorf("group %d is of the weights of update %d, expected %d", i+1, w, want)
		}
	}
	if _, err := p.groups(u.DroppedTasks, dropped, seed, oldest, newest); err != nil {
		return fmt.Errorf("dropped groups: %w", err)
	}
	for i, task := range u.DroppedTasks {
		if varies(dropped[i*p.GroupSize:][:p.GroupSize]) {
			return fmt.Errorf("dropped group %d (task %q) has rewards that are not all equal", i+1, task)
		}
	}
	return nil
}

// varies says whether the rewards of a group are not all equal.
func varies(group []Line) bool {
	return slices.ContainsFunc(group, func(l Line) bool { return l.Reward != group[0].Reward })
}

// CheckReady says where the groups that a checkpoint holds ready for the updates after its own are not what the plan fixes.
func (p Plan) CheckReady(update int, seed int64, lines []Line) error {
	var tasks []string
	for i := 0; i < len(lines); i += p.GroupSize {
		tasks = append(tasks, lines[i].Task)
	}
	_, err := p.groups(tasks, lines, seed, max(0, update-p.Lag), update)
	return err
}

// groups checks that completions are a whole group of each task, sampled by one update's weights, from oldest to newest,
// which it returns.
func (p Plan) groups(tasks []string, lines []Line, seed int64, oldest, newest int) (weights []int, err error) {
	if len(lines) != len(tasks)*p.GroupSize {
		return nil, fmt.Errorf("%d completions, expected %d × %d", len(lines), len(tasks), p.GroupSize)
	}
	for i, l := range lines {
		task, sample := tasks[i/p.GroupSize], i%p.GroupSize
		err := l.check()
		switch first := lines[i-sample].Weights; {
		case l.Task != task || l.Sample != sample:
			err = fmt.Errorf("task %q, sample %d where task %q, sample %d is expected", l.Task, l.Sample, task, sample)
		case l.Weights != first:
			err = fmt.Errorf("it is of the weights of update %d, its group of those of update %d", l.Weights, first)
		case l.Weights < oldest || l.Weights > newest:
			err = fmt.Errorf("it is of the weights of update %d, the plan allows those of %d to %d", l.Weights, oldest, newest)
		case l.Seed != seed:
			err = fmt.Errorf("its seed is %d, the run's is %d", l.Seed, seed)
		}
		if err != nil {
			return nil, fmt.Errorf("completion %d: %w", i+1, err)
		}
		if sample == 0 {
			weights = append(weights, l.Weights)
		}
	}
	return weights, nil
}

// check says what is wrong with an update in itself.
func (u Update) check() error {
	if u.Weights < 0 || u.Weights >= u.Update {
		return fmt.Errorf("its completions are of the weights of update %d", u.Weights)
	}
	if n := len(u.GroupWeights); n > 0 {
		switch oldest, newest := slices.Min(u.GroupWeights), slices.Max(u.GroupWeights); {
		case n != len(u.Tasks):
			return fmt.Errorf("it has %d groups and the weights of %d", len(u.Tasks), n)
		case oldest == newest:
			return fmt.Errorf("it lists the weights of its groups, which are all those of update %d", oldest)
		case oldest != u.Weights || newest >= u.Update:
			return fmt.Errorf("its groups are of the weights of updates %d to %d, the oldest is said to be %d", oldest, newest, u.Weights)
		}
	}
	if n := len(u.SampledIn); n > 0 && n != len(u.Tasks) {
		return fmt.Errorf("it has %d groups and the segments of %d", len(u.Tasks), n)
	}
	return nil
}

// groupWeights is the update whose weights sampled a group.
func (u Update) groupWeights(group int) int {
	if len(u.GroupWeights) == 0 {
		return u.Weights
	}
	return u.GroupWeights[group]
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
