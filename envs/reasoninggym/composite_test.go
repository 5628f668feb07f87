package reasoninggym

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
)

// Whoever changes a mixture during training must get the tasks, and the versions that name them, that upstream gets after the same
// changes; the values are its.
func TestCompositeChanges(t *testing.T) {
	ctx := t.Context()
	var versions Versions
	c, err := NewComposite(CompositeConfig{[]CompositePart{
		{Name: "gcd", Weight: 2}, {Name: "lcm", Weight: 1, Config: Config{"seed": 7, "max_value": 20}},
	}}, Common{Seed: 42, Size: 50}, &versions)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(want ...string) {
		t.Helper()
		for i, want := range want {
			task, err := c.Task(ctx, i)
			if err != nil {
				t.Fatal(err)
			}
			var m struct {
				Source  string `json:"source_dataset"`
				Index   int    `json:"source_index"`
				Version int    `json:"version_id"`
				Entry   string `json:"entry_id"`
			}
			if err := json.Unmarshal(task.Metadata, &m); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(m.Source, " ", m.Entry, " ", task.Answer); got != want || m.Index != i || !strings.HasPrefix(m.Entry, fmt.Sprint(m.Version, ".")) {
				t.Errorf("item %d is %s, want %s", i, got, want)
			}
			if score, err := c.Score(ctx, task, task.Answer); score != 1 || err != nil {
				t.Errorf("item %d: the oracle scores %v, %v", i, score, err)
			}
			if score, err := c.ScoreByID(ctx, m.Entry, task.Answer); score != 1 || err != nil {
				t.Errorf("item %d: the oracle scores %v, %v by its entry", i, score, err)
			}
		}
		again, err := FromOrigin(c.Origin())
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			task, err1 := c.Task(ctx, i)
			same, err2 := again.Task(ctx, i)
			if task.Question != same.Question || err1 != nil || err2 != nil {
				t.Errorf("item %d of the origin %s asks %q, not %q (%v, %v)", i, c.Origin().Config, same.Question, task.Question, err1, err2)
			}
		}
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	expect("gcd 1.0 4", "gcd 1.1 3", "gcd 1.2 4", "gcd 1.3 41", "lcm 2.4 90", "gcd 1.5 1")
	must(c.SetConfig("gcd", Config{"max_value": 10}))
	expect("gcd 3.0 2", "gcd 3.1 9", "gcd 3.2 1", "gcd 3.3 3", "lcm 2.4 90", "gcd 3.5 3")
	must(c.SetWeight("gcd", 0))
	for i, want := range []string{"18", "40", "60", "112", "90", "48"} {
		if task, err := c.Task(ctx, i); err != nil || task.Answer != want {
			t.Errorf("item %d has the answer %s (%v), want %s", i, task.Answer, err, want)
		}
	}
	must(c.Add(CompositePart{Name: "leg_counting", Weight: 3}))
	must(c.Remove("lcm"))
	must(c.SetWeight("gcd", 0.5))
	expect("leg_counting 4.0 187", "gcd 3.1 9", "leg_counting 4.2 231", "leg_counting 4.3 355", "leg_counting 4.4 228", "leg_counting 4.5 286")
	for i, err := range []error{
		c.SetWeight("lcm", 1), c.SetWeight("gcd", -1), c.SetWeight("gcd", math.NaN()), c.SetConfig("gcd", Config{"max_value": 0}), c.SetConfig("gcd", Config{"x": 0}), c.SetConfig("lcm", nil),
		c.Add(CompositePart{Name: "gcd", Weight: 1}), c.Add(CompositePart{Name: "lcm"}), c.Remove("lcm"),
	} {
		if err == nil {
			t.Errorf("change %d was made, which upstream refuses", i)
		}
	}
	must(c.Remove("leg_counting"))
	if c.Remove("gcd") == nil || c.SetWeight("gcd", 0) == nil {
		t.Error("a composite is without a dataset to draw from")
	}
	versions.Keep(2)
	for _, entry := range []string{"1.0", "5.0", "3", "3.x", "3.0.0", ""} {
		if _, err := c.ScoreByID(ctx, entry, "1"); err == nil {
			t.Errorf("entry %q has a score", entry)
		}
	}
	if score, err := c.ScoreByID(ctx, "3.1", "9"); score != 1 || err != nil {
		t.Error(score, err)
	}
}

func TestCompositeRefuses(t *testing.T) {
	part := func(fields Config) Config { return Config{"datasets": []any{fields}} }
	for _, c := range []struct {
		config Config
		want   string
	}{
		{Config{"datasets": []any{}}, "datasets is empty"},
		{Config{"datasets": "gcd"}, `datasets is "gcd", must be a list`},
		{Config{"datasets": []any{"gcd"}}, `element 0 of datasets: is "gcd", must be an object`},
		{Config{"data": nil}, `there is no field "data", there are: datasets, mode, seed, size`},
		{part(Config{"name": "gcd"}), "weight of gcd is 0, must be above 0"},
		{part(Config{"name": "gcd", "weight": "1"}), `weight is "1", must be a number`},
		{part(Config{"name": "gcd", "weight": -1}), "weight of gcd is -1, must be above 0"},
		{part(Config{"name": "gdc", "weight": 1}), `there is no dataset "gdc"`},
		{part(Config{"name": "gcd", "weight": 1, "wait": 2}), `there is no field "wait", there are: config, name, weight`},
		{part(Config{"name": "gcd", "weight": 1, "config": 2}), "config is 2, must be an object"},
		{part(Config{"name": "gcd", "weight": 1, "config": Config{"min_numbers": 1}}), "min_numbers is 1, must be at least 2"},
		{part(Config{"name": "composite", "weight": 1}), "datasets has a composite"},
		{Config{"datasets": []CompositePart{{"gcd", 1, nil}, {"gcd", 1, nil}}}, "datasets has gcd twice"},
		{Config{"size": 0}, "size is 0"},
		{Config{"seed": int64(math.MaxInt64)}, "seed is 9223372036854775807, must be at most 9223372036854775806"},
	} {
		if _, err := New("composite", c.config); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v, want %q", c.config, err, c.want)
		}
	}
}

// A curriculum changes a mixture while others draw from it.
func TestCompositeConcurrentUse(t *testing.T) {
	c, err := NewComposite(CompositeConfig{[]CompositePart{{Name: "gcd", Weight: 1}, {Name: "lcm", Weight: 1}}}, Common{}, new(Versions))
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for i := range 4 {
		wait.Go(func() {
			for n := range 50 {
				task, err := c.Task(t.Context(), n)
				if err == nil && i == 0 {
					err = c.SetConfig("gcd", Config{"max_value": 10 + n})
				}
				if err == nil && i == 1 {
					err = c.SetWeight("lcm", float64(n))
				}
				if err == nil {
					_, err = c.Score(t.Context(), task, task.Answer)
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
}
