package report

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/checkpoint"
)

// The dark curve is what people judge a run by.
func TestRunningMean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(rapid.Float64Range(-2, 2)).Draw(t, "values")
		window := rapid.IntRange(1, 12).Draw(t, "window")
		means := runningMean(values, window)
		if len(means) != len(values) {
			t.Fatalf("%d means of %d values", len(means), len(values))
		}
		for i := range values {
			sum, n := 0.0, 0
			for j := range values {
				if j <= i && i-j < window {
					sum += values[j]
					n++
				}
			}
			if want := sum / float64(n); math.Abs(means[i]-want) > 1e-12 {
				t.Fatalf("mean %d of %v over %d is %v, want %v", i, values, window, means[i], want)
			}
		}
	})
}

// Axes must be readable whatever is on them.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		low, high float64
		whole     bool
		want      string
	}{
		{0, 1, false, "0.0 0.2 0.4 0.6 0.8 1.0"},
		{0, 100, false, "0 20 40 60 80 100"},
		{-.5, 1, false, "-0.4 -0.2 0.0 0.2 0.4 0.6 0.8 1.0"},
		{-1.01, 101, true, "0 20 40 60 80 100"},
		{-.01, 1.01, true, "0 1"},
		{-.07, 7.07, true, "0 1 2 3 4 5 6 7"},
		{-25, 2525, true, "0 500 1000 1500 2000 2500"},
	} {
		var labels []string
		for _, tick := range (ticks{c.whole}).Ticks(c.low, c.high) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("ticks from %v to %v: %s, want %s", c.low, c.high, got, c.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		low := rapid.Float64Range(-1e6, 0).Draw(t, "low")
		high := rapid.Float64Range(1e-3, 1e6).Draw(t, "high")
		marks := ticks{}.Ticks(low, high)
		if len(marks) < 3 || len(marks) > 11 {
			t.Fatalf("%d ticks from %v to %v", len(marks), low, high)
		}
		seen := map[string]bool{}
		for _, m := range marks {
			if seen[m.Label] || m.Value < low-1e-9*(high-low) || m.Value > high+1e-9*(high-low) {
				t.Fatalf("ticks %v from %v to %v", marks, low, high)
			}
			seen[m.Label] = true
		}
	})
}

// A ledger of another program may hold its hash chain and still have no numbers to show.
func TestMetricsThatAreNoNumbers(t *testing.T) {
	for _, c := range []struct{ metrics, timing, want string }{
		{`null`, ``, "reward_mean"},
		{`{"loss":1}`, ``, "reward_mean"},
		{`{"reward_mean":1e999}`, ``, "reward_mean"},
		{`{"reward_mean":{"a":1}}`, ``, "metrics"},
		{`{"reward_mean":1}`, `{"backend":"cpu"}`, "host"},
	} {
		_, err := readUpdates([]checkpoint.Update{{Update: 7, Metrics: json.RawMessage(c.metrics), Timing: json.RawMessage(c.timing)}})
		if !errors.Is(err, checkpoint.ErrDamaged) || !strings.Contains(err.Error(), "update 7") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("metrics %s, host %s: %v", c.metrics, c.timing, err)
		}
	}
}
