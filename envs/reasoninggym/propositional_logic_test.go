package reasoninggym

import (
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/envs"
)

// Whoever trains must not wait for an answer that a model nested deeply or filled with variables: what takes Python more stack or time than it
// has scores 0. Up to there the score is upstream's.
func TestPropositionalLogicHostileAnswers(t *testing.T) {
	d, err := New("propositional_logic", nil)
	if err != nil {
		t.Fatal(err)
	}
	task := envs.Task{Metadata: []byte(`{"variables": ["P", "Q"], "premises": ["P", "(P → Q)"]}`)}
	var variables []string
	for c := 'a'; c <= 'u'; c++ {
		variables = append(variables, string(c))
	}
	for _, c := range []struct {
		name, answer string
		want         float64
	}{
		{"parentheses", strings.Repeat("(", 900) + "P" + strings.Repeat(")", 900), 0.25},
		{"more parentheses", strings.Repeat("(", 100_000) + "P" + strings.Repeat(")", 100_000), 0},
		{"open parentheses", strings.Repeat("(", 100_000), 0.05},
		{"negations", strings.Repeat("¬", 900) + "Q", 1},
		{"more negations", strings.Repeat("¬", 100_000) + "Q", 0},
		{"conjunction", "P" + strings.Repeat("∧Q", 900), 1},
		{"longer conjunction", "P" + strings.Repeat("∧Q", 30_000), 0},
		{"variables", strings.Join(variables[:8], "∨"), 0.05},
		{"more variables", strings.Join(variables, "∨"), 0},
		{"long variable", strings.Repeat("x", 1_000_000), 0.05},
	} {
		if score, err := d.Score(t.Context(), task, c.answer); score != c.want || err != nil {
			t.Errorf("%s: %v (%v), want %v", c.name, score, err, c.want)
		}
	}
}
