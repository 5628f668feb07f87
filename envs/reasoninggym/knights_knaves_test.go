package reasoninggym

import (
	"strings"
	"testing"
)

// With such settings upstream draws for ever, or never finds a puzzle: a user must be told, and not wait.
func TestKnightsKnavesRefuses(t *testing.T) {
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{"n_people": 1}, "n_people is 1, must be 2 to 20"},
		{Config{"depth_constraint": 1}, "depth_constraint is 1, must be 2 to 10"},
		{Config{"width_constraint": 4}, "width_constraint is 4, must be at most 3 for 2 people"},
		{Config{"n_people": 3, "width_constraint": 6}, "width_constraint is 6, must be at most 5 for 3 people"},
	} {
		if _, err := New("knights_knaves", c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.config, err, c.want)
		}
	}
	if _, err := New("knights_knaves", Config{"n_people": 3, "width_constraint": 5}); err != nil {
		t.Error(err)
	}
}
