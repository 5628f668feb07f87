// Package eval measures a policy on a fixed bank with fixed seeds. The denominator is fixed before the run: truncated,
// unparsable and failed completions count as failures, and a completion that could not be obtained stops the evaluation.
package eval

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// DefaultSeeds are the eight evaluation seeds of the reference experiments.
func DefaultSeeds() []int64 { return []int64{17, 43, 101, 137, 211, 307, 401, 503} }

// Evaluator evaluates weights on tasks: one completion for each task and seed. A completion's randomness depends on its
// evaluation seed and its task alone, so evaluations of different updates and runs see the same random numbers.
type Evaluator struct {
	Sampler rollout.Sampler // may have an engine of its own: the evaluation role
	Tasks   []envs.Task
	Seeds   []int64 // nil: DefaultSeeds
}

// Validate names the first setting that cannot be used.
func (e *Evaluator) Validate() error {
	switch {
	case e.Sampler.Engine == nil:
		return fmt.Errorf("evaluator: Sampler.Engine is nil")
	case e.Sampler.Format.Tokenizer == nil:
		return fmt.Errorf("evaluator: Sampler.Format.Tokenizer is nil")
	case e.Sampler.Grader == nil:
		return fmt.Errorf("evaluator: Sampler.Grader is nil")
	case len(e.Tasks) == 0:
		return fmt.Errorf("evaluator: no tasks")
	}
	if seeds := slices.Sorted(slices.Values(e.SeedList())); len(slices.Compact(seeds)) != len(e.SeedList()) {
		return fmt.Errorf("evaluator: Seeds %v: a seed occurs twice", e.SeedList())
	}
	return e.Sampler.Sampling.Validate()
}

// SeedList is Seeds, or the default ones.
func (e *Evaluator) SeedList() []int64 {
	if e.Seeds == nil {
		return DefaultSeeds()
	}
	return e.Seeds
}

// Evaluate returns the figures of the weights and the raw completions that they follow from.
func (e *Evaluator) Evaluate(ctx context.Context, w *policy.Weights) (checkpoint.Evaluation, []checkpoint.Line, error) {
	fail := func(err error) (checkpoint.Evaluation, []checkpoint.Line, error) {
		return checkpoint.Evaluation{}, nil, fmt.Errorf("evaluating update %d: %w", w.Update, err)
	}
	if err := e.Validate(); err != nil {
		return fail(err)
	}
	start := time.Now()
	hash, err := w.Digest()
	if err != nil {
		return fail(err)
	}
	if err := e.Sampler.Load(ctx, w); err != nil {
		return fail(err)
	}
	jobs := make([]rollout.Job, len(e.Tasks))
	ids := make([]string, len(e.Tasks))
	for i, task := range e.Tasks {
		ids[i] = task.ID
		jobs[i].Task = task
		for _, seed := range e.SeedList() {
			jobs[i].Seeds = append(jobs[i].Seeds, rollout.NewSeed(seed, "evaluation", 0, task.ID, 0))
		}
	}
	groups, err := e.Sampler.Groups(ctx, jobs)
	if err != nil {
		return fail(err)
	}
	lines := Lines(groups, func(sample int) int64 { return e.SeedList()[sample] })
	figures, err := Summarize(lines, ids, e.SeedList())
	if err != nil {
		return fail(err)
	}
	figures.Update, figures.WeightsHash = w.Update, hash
	if figures.Sampling, err = json.Marshal(e.Sampler.Sampling); err != nil {
		return fail(err)
	}
	seconds := time.Since(start).Seconds()
	figures.Host, err = json.Marshal(map[string]float64{
		"seconds":           seconds,
		"tokens_per_second": figures.MeanTokens * float64(figures.Scored) / seconds,
	})
	if err != nil {
		return fail(err)
	}
	return figures, lines, nil
}

// Lines lists the completions of groups as they are recorded; seed gives the seed of the k-th sample of a group.
func Lines(groups []rollout.Group, seed func(sample int) int64) []checkpoint.Line {
	var lines []checkpoint.Line
	for _, g := range groups {
		for k, c := range g.Completions {
			s := g.Scores[k]
			lines = append(lines, checkpoint.Line{
				Task: g.Task.ID, Sample: k, Seed: seed(k), Weights: c.Update,
				Prompt: g.Prompt, Tokens: c.Tokens, LogProbs: c.LogProbs, Filtered: c.Filtered,
				Text: g.Texts[k], Finish: string(c.Finish), Reward: s.Reward, Value: s.Value, Labels: s.Labels,
			})
		}
	}
	return lines
}
