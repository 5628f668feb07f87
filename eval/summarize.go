package eval

import "github.com/grouper-rl/grouper/checkpoint"

// Summarize computes the figures of an evaluation from its completions alone: see [checkpoint.Summarize], where it stands so
// that a record can be verified without a policy.
func Summarize(lines []checkpoint.Line, tasks []string, seeds []int64) (checkpoint.Evaluation, error) {
	return checkpoint.Summarize(lines, tasks, seeds)
}
