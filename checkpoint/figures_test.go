package checkpoint_test

import (
	"math"
	"math/big"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/checkpoint"
)

// completions of tasks × seeds, of which the first correct[i] of task i are right.
func completions(tasks []string, seeds []int64, correct []int) []checkpoint.Line {
	var lines []checkpoint.Line
	for i, task := range tasks {
		for k, seed := range seeds {
			l := checkpoint.Line{Task: task, Sample: k, Seed: seed, Tokens: make([]int32, 1+k), Finish: "stop", Labels: []string{"wrong"}}
			if k < correct[i] {
				l.Reward, l.Labels = 1, []string{"correct"}
			}
			lines = append(lines, l)
		}
	}
	return lines
}

// Accuracies and intervals are what a reader believes; the ends of the intervals are roots of the
// score equation (p̂-p)² = z² p(1-p)/n, solved in another program.
func TestSummarize(t *testing.T) {
	tasks, seeds := []string{"a", "b"}, []int64{17, 43, 101, 137}
	lines := completions(tasks, seeds, []int{4, 1})
	lines[0].Finish = "length" // right, but cut off: a failure
	e, err := checkpoint.Summarize(lines, tasks, seeds)
	if err != nil {
		t.Fatal(err)
	}
	if e.Correct != 4 || e.Scored != 8 || e.Truncated != 1 || e.Accuracy != 0.5 || e.MeanTokens != 2.5 || e.Labels["correct"] != 5 || e.Labels["wrong"] != 3 {
		t.Errorf("%+v", e)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-8 {
			t.Errorf("%s is %v, expected %v", what, got, want)
		}
	}
	near("lower end", e.Interval[0], 0.21521606)
	near("upper end", e.Interval[1], 0.78478394)
	near("pass@1", e.PassAtK["1"], 0.5)
	near("pass@2", e.PassAtK["2"], (1+0.5)/2) // 3 of 4 right: 1 - C(1,2)/C(4,2) = 1; 1 of 4: 1 - 3/6
	near("pass@4", e.PassAtK["4"], 1)
	if len(e.PassAtK) != 3 || !slices.Equal(e.Tasks, []checkpoint.TaskResult{{"a", 3, 4}, {"b", 1, 4}}) || !slices.Equal(e.Seeds, seeds) {
		t.Errorf("%+v", e)
	}
	none, err := checkpoint.Summarize(completions(tasks, seeds, []int{0, 0}), tasks, seeds)
	if err != nil {
		t.Fatal(err)
	}
	near("upper end of 0 of 8", none.Interval[1], 0.32440756)
	if none.Interval[0] != 0 || none.Accuracy != 0 || none.PassAtK["4"] != 0 {
		t.Errorf("%+v", none)
	}
	all, err := checkpoint.Summarize(completions(tasks, seeds, []int{4, 4}), tasks, seeds)
	if err != nil {
		t.Fatal(err)
	}
	if all.Interval[1] != 1 || all.Accuracy != 1 {
		t.Errorf("%+v", all)
	}
}

// A denominator that shrinks because a completion is missing makes a policy look better than it is.
func TestSummarizeRefuses(t *testing.T) {
	tasks, seeds := []string{"a", "b"}, []int64{17, 43}
	lines := func() []checkpoint.Line { return completions(tasks, seeds, []int{1, 1}) }
	other := lines()
	other[0].Seed = 18
	unknown := lines()
	unknown[0].Task = "c"
	for name, c := range map[string]struct {
		lines []checkpoint.Line
		tasks []string
		seeds []int64
		want  string
	}{
		"missing":      {lines()[1:], tasks, seeds, `task "a" with seed 17 has no completion`},
		"twice":        {append(lines(), lines()[2]), tasks, seeds, `task "b" with seed 17 has two completions`},
		"other seed":   {other, tasks, seeds, "not evaluated"},
		"unknown task": {unknown, tasks, seeds, "not evaluated"},
		"no tasks":     {nil, nil, seeds, "0 tasks"},
		"same task":    {lines(), []string{"a", "a"}, seeds, `task "a" is listed twice`},
		"same seed":    {lines(), tasks, []int64{17, 17}, "seed 17 is listed twice"},
	} {
		if _, err := checkpoint.Summarize(c.lines, c.tasks, c.seeds); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, expected one that says %q", name, err, c.want)
		}
	}
}

// pass@k by the product must be the ratio of binomial coefficients that the paper defines, and figures must not depend on the
// order of the completions.
func TestSummarizeProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 40).Draw(t, "seeds")
		c := rapid.IntRange(0, n).Draw(t, "correct")
		seeds := make([]int64, n)
		for i := range seeds {
			seeds[i] = int64(i)
		}
		lines := completions([]string{"a"}, seeds, []int{c})
		e, err := checkpoint.Summarize(lines, []string{"a"}, seeds)
		if err != nil {
			t.Fatal(err)
		}
		for k, key := 1, 0; k <= n; k, key = 2*k, key+1 {
			var ratio big.Rat
			ratio.SetFrac(new(big.Int).Binomial(int64(n-c), int64(k)), new(big.Int).Binomial(int64(n), int64(k)))
			none, _ := ratio.Float64()
			name := []string{"1", "2", "4", "8", "16", "32"}[key]
			if got := e.PassAtK[name]; math.Abs(got-(1-none)) > 1e-12 {
				t.Fatalf("pass@%d with %d of %d right is %v, expected %v", k, c, n, got, 1-none)
			}
		}
		if !(e.Interval[0] <= e.Accuracy && e.Accuracy <= e.Interval[1]) {
			t.Fatalf("accuracy %v outside of %v", e.Accuracy, e.Interval)
		}
		// The interval's ends are where a score test just rejects: (p̂-p)² = z² p(1-p)/n.
		for _, p := range e.Interval {
			z := 1.959963984540054
			if p > 0 && p < 1 && math.Abs((e.Accuracy-p)*(e.Accuracy-p)-z*z*p*(1-p)/float64(n)) > 1e-9 {
				t.Fatalf("%v is no end of the score interval of %d / %d", p, c, n)
			}
		}
		shuffled := rapid.Permutation(lines).Draw(t, "order")
		again, err := checkpoint.Summarize(shuffled, []string{"a"}, seeds)
		if err != nil || again.Correct != e.Correct || again.MeanTokens != e.MeanTokens {
			t.Fatalf("another order gives %+v, %v", again, err)
		}
	})
}

// Curves are drawn from these numbers.
func TestFigures(t *testing.T) {
	rewards := []float64{1, 1, 0, 1, 0, 0}
	var lines []checkpoint.Line
	for i, r := range rewards {
		lines = append(lines, checkpoint.Line{Reward: r, Tokens: make([]int32, i+1), Finish: "stop"})
	}
	lines[5].Finish = "length"
	got := checkpoint.Figures(lines, 2)
	want := map[string]float64{"reward_mean": .5, "reward_std": math.Sqrt(1.5 / 5), "solve_all": 1. / 3, "solve_none": 1. / 3, "zero_variance": 2. / 3,
		"truncated": 1. / 6, "tokens_mean": 3.5, "tokens_max": 6}
	for key, w := range want {
		if math.Abs(got[key]-w) > 1e-15 {
			t.Errorf("%s is %v, expected %v", key, got[key], w)
		}
	}
	if len(got) != len(want) || checkpoint.Figures(nil, 2) != nil {
		t.Errorf("%v", got)
	}
}
