package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/guard"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/chat"
)

// Tokenizer is what a [Format] needs of a tokenizer. Encode recognises special tokens in a text and adds none.
type Tokenizer interface {
	Encode(text string) ([]int32, error)
	Decode(tokens []int32) (string, error)
}

// Format turns a task into prompt tokens, and completion tokens into the text that is graded.
type Format struct {
	Tokenizer Tokenizer
	Prompt    func(envs.Task) string // what the model is asked; nil: the question as it is
	Chat      *chat.Format           // puts that into a chat template, and knows where the answer is in a reply; nil: neither
}

// Encode returns the prompt tokens of a task.
func (f Format) Encode(task envs.Task) ([]int32, error) {
	fail := func(err error) ([]int32, error) { return nil, fmt.Errorf("task %q: %w", task.ID, err) }
	text := task.Question
	if f.Prompt != nil {
		if err := guard.Call("Format.Prompt", func() error { text = f.Prompt(task); return nil }); err != nil {
			return fail(err)
		}
	}
	if f.Chat != nil {
		var err error
		if text, err = f.Chat.Prompt(text); err != nil {
			return fail(err)
		}
	}
	var tokens []int32
	err := guard.Call("Format.Tokenizer", func() (err error) { tokens, err = f.Tokenizer.Encode(text); return err })
	switch {
	case err != nil:
		return fail(err)
	case len(tokens) == 0:
		return fail(fmt.Errorf("its prompt has no tokens"))
	}
	return tokens, nil
}

// Text decodes a completion without the stop token that ended it. Bytes that are no UTF-8 become U+FFFD here, before
// anything is graded, since no record could keep them.
func (f Format) Text(c Completion) (text string, err error) {
	tokens := c.Tokens
	if c.Finish == Stop && len(tokens) > 0 {
		tokens = tokens[:len(tokens)-1]
	}
	err = guard.Call("Format.Tokenizer", func() (err error) { text, err = f.Tokenizer.Decode(tokens); return err })
	return strings.ToValidUTF8(text, "\uFFFD"), err
}

// Reasoning says how replies are divided into reasoning and answer; nil: they are answers as they are.
func (f Format) Reasoning() *chat.Reasoning {
	if f.Chat == nil {
		return nil
	}
	return f.Chat.Reasoning()
}

// Group is a task with its graded completions.
type Group struct {
	Task        envs.Task
	Prompt      []int32
	Completions []Completion
	Texts       []string     // one for each completion, with its reasoning; what follows that was graded
	Scores      []envs.Score // one for each completion
	Segment     int          // the segment of the run that sampled it; 0: none is kept
}

// Weights is the update whose weights sampled the group.
func (g Group) Weights() int { return g.Completions[0].Update }

// Job asks for one group: a completion for each seed.
type Job struct {
	Task  envs.Task
	Seeds []Seed
}

// Sampler makes groups: it encodes prompts, samples, decodes and grades. It is safe for concurrent use if its parts are.
type Sampler struct {
	Engine   Engine
	Format   Format
	Grader   envs.Grader
	Sampling Sampling
	Retry    Retry // of a call of the engine, and of grading a completion
}

// Load gives the engine weights.
func (s Sampler) Load(ctx context.Context, w *policy.Weights) error {
	return s.Retry.Do(ctx, func() error {
		return guard.Call("the engine", func() error { return s.Engine.Load(ctx, w) })
	})
}

// Groups returns the groups of the jobs in their order. A completion that cannot be sampled or graded is an error that
// names its task and sample; none is ever left out. So is a part that panics, and an engine or a grader that has not returned half a minute
// after ctx ended: its goroutine is left behind.
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
	var sampled [][]Completion
	err := s.Retry.Do(ctx, func() (err error) {
		sampled, err = guard.Await(ctx, "the engine", func() ([][]Completion, error) { return s.Engine.Generate(ctx, reqs, s.Sampling) })
		return err
	})
	if err != nil {
		return nil, blame(jobs, err)
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

// blame names the task of an engine's error, or those of the whole call.
func blame(jobs []Job, err error) error {
	var request *RequestError
	switch {
	case errors.As(err, &request) && request.Request >= 0 && request.Request < len(jobs):
		task := jobs[request.Request].Task.ID
		if request.Sample < 0 {
			return fmt.Errorf("task %q: %w", task, err)
		}
		return fmt.Errorf("task %q, sample %d: %w", task, request.Sample, err)
	case len(jobs) == 1:
		return fmt.Errorf("task %q: %w", jobs[0].Task.ID, err)
	}
	return fmt.Errorf("%d tasks, %q to %q: %w", len(jobs), jobs[0].Task.ID, jobs[len(jobs)-1].Task.ID, err)
}

// grade decodes and grades a completion.
func (s Sampler) grade(ctx context.Context, g *Group, k int, c Completion) (err error) {
	if err := c.check(s.Sampling); err != nil {
		return fmt.Errorf("from the engine: %w", err)
	}
	if g.Texts[k], err = s.Format.Text(c); err != nil {
		return err
	}
	answer, task := s.Format.Reasoning().Answer(g.Texts[k]), g.Task
	var score envs.Score
	err = s.Retry.Do(ctx, func() (err error) {
		score, err = guard.Await(ctx, "the grader", func() (envs.Score, error) {
			return s.Grader.Grade(ctx, task, envs.Reply{Text: answer, Finished: c.Finish == Stop})
		})
		return err
	})
	if err != nil {
		return err
	}
	for name, x := range map[string]float64{"reward": score.Reward, "value": score.Value} {
		if math.IsNaN(x) || math.Abs(x) > largestReward {
			return fmt.Errorf("the grader's %s is %v, allowed: -%g to %g", name, x, largestReward, largestReward)
		}
	}
	g.Scores[k] = score
	return nil
}

// largestReward keeps sums of squares of rewards within float32.
const largestReward = 1e9

// check refuses what no sampling with these settings can have made.
func (c Completion) check(s Sampling) error {
	n := len(c.Tokens)
	switch {
	case n == 0:
		return fmt.Errorf("no tokens")
	case n > s.MaxTokens:
		return fmt.Errorf("%d tokens, at most %d were asked for", n, s.MaxTokens)
	case len(c.LogProbs) != n || len(c.Filtered) != n:
		return fmt.Errorf("%d tokens with %d log-probs and %d filtered ones", n, len(c.LogProbs), len(c.Filtered))
	case c.Finish != Stop && c.Finish != Length:
		return fmt.Errorf("finish reason %q, allowed: %q, %q", c.Finish, Stop, Length)
	case c.Finish == Stop && !slices.Contains(s.Stop, c.Tokens[n-1]):
		return fmt.Errorf("finished by token %d, which is no stop token", c.Tokens[n-1])
	}
	for t := range n {
		for _, p := range []float32{c.LogProbs[t], c.Filtered[t]} {
			if !(p > float32(math.Inf(-1)) && p <= 1e-3) { // a little above 0 by rounding
				return fmt.Errorf("the log-prob of token %d is %v", t, p)
			}
		}
	}
	return nil
}
