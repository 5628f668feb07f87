package rollout

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/grouper-rl/grouper/envs"
)

// Tokenizer is what a [Format] needs of a tokenizer.
type Tokenizer interface {
	Encode(text string) ([]int32, error)
	Decode(tokens []int32) (string, error)
}

// Format turns a task into prompt tokens, and completion tokens into the text that is graded.
type Format struct {
	Tokenizer Tokenizer
	Prompt    func(envs.Task) string // nil: the question as it is
}

// Encode returns the prompt tokens of a task.
func (f Format) Encode(task envs.Task) ([]int32, error) {
	text := task.Question
	if f.Prompt != nil {
		text = f.Prompt(task)
	}
	tokens, err := f.Tokenizer.Encode(text)
	if err == nil && len(tokens) == 0 {
		err = fmt.Errorf("its prompt has no tokens")
	}
	if err != nil {
		return nil, fmt.Errorf("task %q: %w", task.ID, err)
	}
	return tokens, nil
}

// Text decodes a completion without the stop token that ended it.
func (f Format) Text(c Completion) (string, error) {
	tokens := c.Tokens
	if c.Finish == Stop && len(tokens) > 0 {
		tokens = tokens[:len(tokens)-1]
	}
	return f.Tokenizer.Decode(tokens)
}

// Group is a task with its graded completions.
type Group struct {
	Task        envs.Task
	Prompt      []int32
	Completions []Completion
	Texts       []string     // what was graded, one for each completion
	Scores      []envs.Score // one for each completion
}

// Job asks for one group: a completion for each seed.
type Job struct {
	Task  envs.Task
	Seeds []Seed
}

// Sampler makes groups: it encodes prompts, samples, decodes and grades.
type Sampler struct {
	Engine   Engine
	Format   Format
	Grader   envs.Grader
	Sampling Sampling
}

// Groups returns the groups of the jobs in their order. A completion that cannot be sampled or graded is an error that
// names its task and sample; none is ever left out.
func (s Sampler) Groups(ctx context.Context, jobs []Job) ([]Group, error) {
	groups := make([]Group, len(jobs))
	reqs := make([]Request, len(jobs))
	for i, job := range jobs {
		prompt, err := s.Format.Encode(job.Task)
		if err != nil {
			return nil, err
		}
		groups[i] = Group{Task: job.Task, Prompt: prompt}
		reqs[i] = Request{Prompt: prompt, Seeds: job.Seeds}
	}
	sampled, err := s.Engine.Generate(ctx, reqs, s.Sampling)
	if err != nil {
		return nil, err
	}
	if len(sampled) != len(jobs) {
		return nil, fmt.Errorf("the engine returned %d groups for %d requests", len(sampled), len(jobs))
	}
	grading, ctx := errgroup.WithContext(ctx)
	grading.SetLimit(16)
	for i := range groups {
		g, completions := &groups[i], sampled[i]
		if len(completions) != len(jobs[i].Seeds) {
			return nil, fmt.Errorf("task %q: the engine returned %d completions for %d seeds", g.Task.ID, len(completions), len(jobs[i].Seeds))
		}
		g.Completions = completions
		g.Texts = make([]string, len(completions))
		g.Scores = make([]envs.Score, len(completions))
		grading.Go(func() error {
			for k, c := range completions {
				if err := s.grade(ctx, g, k, c); err != nil {
					return fmt.Errorf("task %q, sample %d: %w", g.Task.ID, k, err)
				}
			}
			return nil
		})
	}
	if err := grading.Wait(); err != nil {
		return nil, err
	}
	return groups, nil
}

func (s Sampler) grade(ctx context.Context, g *Group, k int, c Completion) (err error) {
	if len(c.Tokens) == 0 || len(c.LogProbs) != len(c.Tokens) {
		return fmt.Errorf("the engine returned %d tokens and %d log-probs", len(c.Tokens), len(c.LogProbs))
	}
	if c.Finish == Stop && !slices.Contains(s.Sampling.Stop, c.Tokens[len(c.Tokens)-1]) {
		return fmt.Errorf("finished by token %d, which is no stop token", c.Tokens[len(c.Tokens)-1])
	}
	if g.Texts[k], err = s.Format.Text(c); err != nil {
		return err
	}
	g.Scores[k], err = s.Grader.Grade(ctx, g.Task, envs.Reply{Text: g.Texts[k], Finished: c.Finish == Stop})
	return err
}
