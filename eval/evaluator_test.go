package eval_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/eval"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// scripted is an engine whose completions depend on prompt and seed in a simple way: token 1, then the stop token 0 if the
// seed's uniform is below a half.
type scripted struct {
	update int
	seeds  map[rollout.Seed]bool
	drop   bool
}

func (e *scripted) Load(_ context.Context, w *policy.Weights) error { e.update = w.Update; return nil }

func (e *scripted) Generate(_ context.Context, reqs []rollout.Request, _ rollout.Sampling) ([][]rollout.Completion, error) {
	out := make([][]rollout.Completion, len(reqs))
	for i, r := range reqs {
		for _, seed := range r.Seeds {
			e.seeds[seed] = true
			c := rollout.Completion{Tokens: []int32{1, 1}, LogProbs: []float32{-1, -1}, Filtered: []float32{-1, -1}, Finish: rollout.Length, Update: e.update}
			if seed.Uniform(0) < .5 {
				c.Tokens[1], c.Finish = 0, rollout.Stop
			}
			out[i] = append(out[i], c)
		}
	}
	if e.drop {
		out[0] = out[0][1:]
	}
	return out, nil
}

// words is a tokenizer whose every prompt is one token.
type words struct{}

func (words) Encode(string) ([]int32, error)        { return []int32{1}, nil }
func (words) Decode(tokens []int32) (string, error) { return fmt.Sprint(tokens), nil }

// always gives every text the full score.
type always struct{}

func (always) Score(context.Context, envs.Task, string) (float64, error) { return 1, nil }

func evaluator(engine rollout.Engine) *eval.Evaluator {
	var tasks []envs.Task
	for i := range 5 {
		tasks = append(tasks, envs.Task{ID: fmt.Sprint("task ", i)})
	}
	return &eval.Evaluator{Tasks: tasks, Sampler: rollout.Sampler{
		Engine: engine, Format: rollout.Format{Tokenizer: words{}},
		Grader:   envs.CompletedAnswer{Env: always{}, Extract: func(text string) (string, bool) { return text, true }},
		Sampling: rollout.Sampling{Temperature: 1, MaxTokens: 2, Stop: []int32{0}},
	}}
}

func weights(t *testing.T, update int) *policy.Weights {
	t.Helper()
	shape := shapes.Make(dtypes.Float32, 2)
	w, err := policy.NewWeights(update, []policy.Param{{Name: "w", Shape: shape}}, []*tensors.Tensor{tensors.FromShape(shape)})
	require.NoError(t, err)
	return w
}

// The denominator is tasks × seeds whatever happens: completions that were cut off count as failures although their answer
// is right, and every evaluation sees the same random numbers, whichever update is evaluated.
func TestEvaluate(t *testing.T) {
	first := &scripted{seeds: map[rollout.Seed]bool{}}
	figures, lines, err := evaluator(first).Evaluate(t.Context(), weights(t, 10))
	require.NoError(t, err)
	require.Equal(t, 10, figures.Update)
	require.Equal(t, 40, figures.Scored)
	require.Len(t, lines, 40)
	require.Len(t, first.seeds, 40, "each task and seed has randomness of its own")
	require.Positive(t, figures.Truncated)
	require.Equal(t, 40-figures.Truncated, figures.Correct)
	require.InDelta(t, float64(figures.Correct)/40, figures.Accuracy, 1e-12)
	require.Equal(t, eval.DefaultSeeds(), figures.Seeds)
	require.Less(t, figures.Interval[0], figures.Accuracy)
	require.Greater(t, figures.Interval[1], figures.Accuracy)
	require.NotEmpty(t, figures.WeightsHash)

	second := &scripted{seeds: map[rollout.Seed]bool{}}
	again, _, err := evaluator(second).Evaluate(t.Context(), weights(t, 20))
	require.NoError(t, err)
	require.Equal(t, first.seeds, second.seeds)
	require.Equal(t, figures.Correct, again.Correct)
}

// A completion that is missing must stop the evaluation: leaving it out would flatter the accuracy.
func TestMissingCompletionStopsTheEvaluation(t *testing.T) {
	_, _, err := evaluator(&scripted{seeds: map[rollout.Seed]bool{}, drop: true}).Evaluate(t.Context(), weights(t, 0))
	require.ErrorContains(t, err, "task 0")
}

func TestValidate(t *testing.T) {
	for want, change := range map[string]func(*eval.Evaluator){
		"no tasks":  func(e *eval.Evaluator) { e.Tasks = nil },
		"twice":     func(e *eval.Evaluator) { e.Seeds = []int64{1, 2, 1} },
		"Engine":    func(e *eval.Evaluator) { e.Sampler.Engine = nil },
		"Tokenizer": func(e *eval.Evaluator) { e.Sampler.Format.Tokenizer = nil },
		"Grader":    func(e *eval.Evaluator) { e.Sampler.Grader = nil },
		"MaxTokens": func(e *eval.Evaluator) { e.Sampler.Sampling.MaxTokens = 0 },
	} {
		e := evaluator(&scripted{})
		change(e)
		require.ErrorContains(t, e.Validate(), want)
	}
}
