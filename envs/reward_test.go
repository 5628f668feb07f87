package envs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
)

// judge scores an answer by the number it is mapped to.
type judge map[string]float64

func (j judge) Score(_ context.Context, _ Task, answer string) (float64, error) {
	value, ok := j[answer]
	if !ok {
		return 0, errors.New("no verdict")
	}
	return value, nil
}

func TestCompletedAnswer(t *testing.T) {
	env := judge{"right": 1, "near": math.Nextafter(1, 0), "half": .5, "wrong": 0, "": 0}
	for _, c := range []struct {
		name  string
		reply Reply
		want  Score
	}{
		{"right", Reply{"so <answer> right\n</answer>", true}, Score{1, 1, []string{Correct}}},
		{"the last counts", Reply{"<answer>right</answer><answer>wrong</answer>", true}, Score{0, 0, []string{Wrong}}},
		{"no partial credit", Reply{"<answer>half</answer>", true}, Score{0, .5, []string{Wrong}}},
		{"an ulp below 1 is below 1", Reply{"<answer>near</answer>", true}, Score{0, math.Nextafter(1, 0), []string{Wrong}}},
		{"empty", Reply{"<answer></answer>", true}, Score{0, 0, []string{Wrong}}},
		{"no answer", Reply{"right", true}, Score{0, 0, []string{NoAnswer}}},
		{"cut off", Reply{"<answer>right", false}, Score{0, 0, []string{Truncated, NoAnswer}}},
		{"cut off after a wrong answer", Reply{"<answer>wrong</answer> or", false}, Score{0, 0, []string{Truncated, Wrong}}},
		{"cut off after the right answer", Reply{"<answer>right</answer> or", false}, Score{0, 1, []string{Truncated}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := CompletedAnswer{Env: env}.Grade(t.Context(), Task{ID: "t"}, c.reply)
			if err != nil {
				t.Fatal(err)
			}
			if got.Reward != c.want.Reward || got.Value != c.want.Value || !slices.Equal(got.Labels, c.want.Labels) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// A completion that cannot be judged must not quietly count as wrong.
func TestCompletedAnswerErrors(t *testing.T) {
	for name, env := range map[string]judge{"the environment fails": {}, "NaN": {"x": math.NaN()}, "above 1": {"x": 1.5}, "below 0": {"x": -1}} {
		if s, err := (CompletedAnswer{Env: env}).Grade(t.Context(), Task{}, Reply{"<answer>x</answer>", true}); err == nil {
			t.Errorf("%s: scored %+v", name, s)
		}
	}
}

func ExampleCompletedAnswer() {
	env := judge{"IT WAS": 1}
	grader := CompletedAnswer{
		Env:     env,
		Extract: func(text string) (string, bool) { return text, text != "" }, // the whole reply is the answer
	}
	score, err := grader.Grade(context.Background(), Task{ID: "caesar"}, Reply{Text: "IT WAS", Finished: true})
	fmt.Println(score.Reward, score.Labels, err)
	// Output: 1 [correct] <nil>
}
