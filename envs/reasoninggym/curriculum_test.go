package reasoninggym

import (
	"reflect"
	"testing"
)

// The values are what upstream's curricula give after the same calls.
func TestCurriculum(t *testing.T) {
	c, err := NewCurriculum("decimal_chain_sum")
	if err != nil {
		t.Fatal(err)
	}
	ends := func(want ...int) {
		t.Helper()
		config := c.Config(Config{"size": 7})
		got := []int{}
		for _, name := range []string{"min_terms", "max_terms", "min_digits", "max_digits", "min_decimal_places", "max_decimal_places"} {
			got = append(got, config[name].(int))
		}
		if !reflect.DeepEqual(got, want) || config["size"] != 7 {
			t.Errorf("config %v, want %v", config, want)
		}
		if _, err := New("decimal_chain_sum", config); err != nil {
			t.Error(err)
		}
	}
	ends(2, 2, 1, 2, 1, 2)
	if raised, err := c.IncrementLevel("num_digits"); !raised || err != nil {
		t.Error(raised, err)
	}
	ends(2, 2, 1, 4, 1, 2)
	if !c.Increment() { // to one above the highest level
		t.Error("not raised")
	}
	ends(2, 8, 1, 8, 1, 6)
	c.Mode = UpperBound
	ends(8, 8, 4, 8, 4, 6)
	c.Mode, c.Last = LastLevels, 2
	ends(5, 8, 2, 4, 2, 4)
	if err := c.SetLevels(99); err != nil {
		t.Error(err)
	}
	c.Mode = Inclusive
	ends(2, 10, 1, 10, 1, 8)
	if c.Increment() {
		t.Error("raised above the last level")
	}
	if !c.Decrement() { // the highest only: num_terms has fewer levels
		t.Error("not lowered")
	}
	ends(2, 10, 1, 10, 1, 8)
	if level, err := c.Level("num_digits"); level != 3 || err != nil {
		t.Error(level, err)
	}
	for _, err := range []error{c.SetLevel("num_terms", 4), c.SetLevel("terms", 0), c.SetLevels(-1)} {
		if err == nil {
			t.Error("no error")
		}
	}
	if _, err := NewCurriculum("caesar"); err == nil {
		t.Error("no error")
	}
}

// A level that names no field of the config, or a value that it cannot have, would be found by the user only.
func TestCurriculaFitConfigs(t *testing.T) {
	for _, info := range Names() {
		for _, a := range info.Attributes {
			if len(a.Fields) == 0 || len(a.Fields) > 2 || len(a.Levels) == 0 || a.Default < 0 || a.Default >= len(a.Levels) || a.Description == "" {
				t.Errorf("%s: %+v", info.Name, a)
			}
		}
		c, err := NewCurriculum(info.Name)
		if err != nil {
			continue
		}
		if _, err := New(info.Name, c.Config(nil)); err != nil {
			t.Errorf("level 0: %v", err)
		}
	}
}
