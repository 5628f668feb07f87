package checkpoint

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// Figures are the metrics of an update that follow from its completions alone:
//
//	reward_mean    mean reward of all completions
//	reward_std     unbiased standard deviation of the rewards of all completions; 0 for a single one
//	solve_all      fraction of the groups in which every reward is 1 or more
//	solve_none     fraction of the groups in which no reward is above 0
//	zero_variance  fraction of the groups whose rewards are all equal
//	truncated      fraction of the completions that did not finish with "stop"
//	tokens_mean    mean length of a completion
//	tokens_max     longest completion
func Figures(lines []Line, groupSize int) map[string]float64 {
	if len(lines) == 0 || groupSize < 1 {
		return nil
	}
	var rewards, squares, tokens, longest, truncated, all, none, equal, groups float64
	for i, l := range lines {
		rewards += l.Reward
		tokens += float64(len(l.Tokens))
		longest = max(longest, float64(len(l.Tokens)))
		if l.Finish != "stop" {
			truncated++
		}
		if i%groupSize != 0 {
			continue
		}
		groups++
		low, high := math.Inf(1), math.Inf(-1)
		for _, g := range lines[i:min(i+groupSize, len(lines))] {
			low, high = min(low, g.Reward), max(high, g.Reward)
		}
		if low >= 1 {
			all++
		}
		if high <= 0 {
			none++
		}
		if low == high {
			equal++
		}
	}
	n := float64(len(lines))
	mean := rewards / n
	for _, l := range lines {
		squares += (l.Reward - mean) * (l.Reward - mean)
	}
	return map[string]float64{
		"reward_mean": mean, "reward_std": math.Sqrt(squares / max(1, n-1)),
		"solve_all": all / groups, "solve_none": none / groups, "zero_variance": equal / groups,
		"truncated": truncated / n, "tokens_mean": tokens / n, "tokens_max": longest,
	}
}

// Figures are those of the update's completions, see [Figures], and "groups_dropped", the number of the groups that were sampled and
// left out.
func (u Update) Figures(lines []Line, groupSize int) map[string]float64 {
	figures := Figures(lines, groupSize)
	if figures != nil {
		figures["groups_dropped"] = float64(len(u.DroppedTasks))
	}
	return figures
}

// z95 is the 97.5 % quantile of the normal distribution.
const z95 = 1.959963984540054

// Summarize computes the figures of an evaluation from its completions alone, one for each task and seed, in any order.
// A completion is correct if it finished with "stop" and its reward is 1 or more; everything else is a failure that counts. A completion that is missing,
// stands twice, or is of another task or seed is an error. It fills in Accuracy, Correct, Scored, Truncated, Seeds,
// Interval, PassAtK, Tasks, Labels and MeanTokens.
func Summarize(lines []Line, tasks []string, seeds []int64) (Evaluation, error) {
	if len(tasks) == 0 || len(seeds) == 0 {
		return Evaluation{}, fmt.Errorf("an evaluation of %d tasks with %d seeds", len(tasks), len(seeds))
	}
	e := Evaluation{Scored: len(tasks) * len(seeds), Seeds: slices.Clone(seeds), Labels: map[string]int{}, PassAtK: map[string]float64{}}
	index := make(map[string]int, len(tasks))
	for i, task := range tasks {
		if _, twice := index[task]; twice {
			return Evaluation{}, fmt.Errorf("task %q is listed twice", task)
		}
		index[task] = i
		e.Tasks = append(e.Tasks, TaskResult{Task: task, Scored: len(seeds)})
	}
	type key struct {
		task string
		seed int64
	}
	seen := make(map[key]bool, e.Scored)
	for _, seed := range seeds {
		if seen[key{tasks[0], seed}] {
			return Evaluation{}, fmt.Errorf("seed %d is listed twice", seed)
		}
		seen[key{tasks[0], seed}] = true
	}
	clear(seen)
	tokens := 0
	for _, l := range lines {
		i, known := index[l.Task]
		k := key{l.Task, l.Seed}
		switch {
		case !known || !slices.Contains(seeds, l.Seed):
			return Evaluation{}, fmt.Errorf("a completion of task %q with seed %d, which is not evaluated", l.Task, l.Seed)
		case seen[k]:
			return Evaluation{}, fmt.Errorf("task %q with seed %d has two completions", l.Task, l.Seed)
		}
		seen[k] = true
		tokens += len(l.Tokens)
		for _, label := range l.Labels {
			e.Labels[label]++
		}
		if l.Finish != "stop" {
			e.Truncated++
		} else if l.Reward >= 1 {
			e.Correct++
			e.Tasks[i].Correct++
		}
	}
	for _, task := range tasks {
		for _, seed := range seeds {
			if !seen[key{task, seed}] {
				return Evaluation{}, fmt.Errorf("task %q with seed %d has no completion", task, seed)
			}
		}
	}
	e.Accuracy = float64(e.Correct) / float64(e.Scored)
	e.Interval = wilson(e.Correct, e.Scored)
	e.MeanTokens = float64(tokens) / float64(e.Scored)
	for k := 1; k <= len(seeds); k *= 2 {
		sum := 0.0
		for _, t := range e.Tasks {
			sum += passAtK(t.Scored, t.Correct, k)
		}
		e.PassAtK[strconv.Itoa(k)] = sum / float64(len(tasks))
	}
	return e, nil
}

// wilson is the 95 % score interval of a proportion (Wilson 1927).
func wilson(correct, n int) [2]float64 {
	p, nf := float64(correct)/float64(n), float64(n)
	scale := 1 + z95*z95/nf
	center := (p + z95*z95/(2*nf)) / scale
	half := z95 * math.Sqrt(p*(1-p)/nf+z95*z95/(4*nf*nf)) / scale
	low, high := max(0, center-half), min(1, center+half)
	if correct == 0 {
		low = 0 // exactly, where rounding would leave 1e-18
	}
	if correct == n {
		high = 1
	}
	return [2]float64{low, high}
}

// passAtK is the unbiased estimate 1 - C(n-c,k)/C(n,k) of the probability that one of k completions is correct, where c of n
// were (Chen et al. 2021, arXiv 2107.03374).
func passAtK(n, c, k int) float64 {
	if n-c < k {
		return 1
	}
	none := 1.0
	for i := n - c + 1; i <= n; i++ {
		none *= 1 - float64(k)/float64(i)
	}
	return 1 - none
}
