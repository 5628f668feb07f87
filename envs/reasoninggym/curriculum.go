package reasoninggym

import (
	"fmt"
	"slices"
	"strings"
)

// Attribute is one of the scales on which a dataset can be made harder: at each level, one field of its config or the two ends
// of a range have other values.
type Attribute struct {
	Name        string
	Description string
	Levels      []any    // values of a field; of a range, each is an end or a list of both ends
	Fields      []string // the field, or the lower and the upper field of a range
	Default     int      // level to start at
	Interval    bool     // a range always has two different ends, as far as there are levels
}

// scalar is upstream's ScalarAttributeDefinition.
func scalar(name, field, description string, levels ...any) Attribute {
	return Attribute{Name: name, Description: description, Levels: levels, Fields: []string{field}}
}

// ranged is upstream's RangeAttributeDefinition without ensure_interval.
func ranged(name, lower, upper, description string, levels ...any) Attribute {
	return Attribute{Name: name, Description: description, Levels: levels, Fields: []string{lower, upper}}
}

// interval is upstream's RangeAttributeDefinition with ensure_interval.
func interval(name, lower, upper, description string, levels ...any) Attribute {
	a := ranged(name, lower, upper, description, levels...)
	a.Interval = true
	return a
}

// span is list(range(start, stop, step)), as levels.
func span(start, stop, step int) []any {
	var levels []any
	for i := start; i < stop; i += step {
		levels = append(levels, i)
	}
	return levels
}

// RangeMode says which levels of a range a Curriculum's config has.
type RangeMode int

const (
	Inclusive  RangeMode = iota // all from the first to the current one
	UpperBound                  // the current one alone
	LastLevels                  // the last few up to the current one, Curriculum.Last
)

// Curriculum makes configs of one dataset harder or easier, as upstream's curricula do. It is not safe for concurrent use.
type Curriculum struct {
	Mode RangeMode // of ranges
	Last int       // how many levels LastLevels has; 0 is all

	dataset    string
	attributes []Attribute
	levels     []int
}

// NewCurriculum returns the curriculum of a dataset, with all attributes at their first level. Composite datasets and a few
// others have none.
func NewCurriculum(dataset string) (*Curriculum, error) {
	d, err := find(dataset)
	if err != nil {
		return nil, err
	}
	c := &Curriculum{dataset: dataset, attributes: d.info().Attributes}
	if len(c.attributes) == 0 {
		return nil, fmt.Errorf("reasoninggym: %s has no curriculum", dataset)
	}
	for _, a := range c.attributes {
		c.levels = append(c.levels, a.Default)
	}
	return c, nil
}

// Attributes lists the attributes.
func (c *Curriculum) Attributes() []Attribute { return slices.Clone(c.attributes) }

// Level is an attribute's level, from 0 on.
func (c *Curriculum) Level(attribute string) (int, error) {
	i, err := c.index(attribute)
	if err != nil {
		return 0, err
	}
	return c.levels[i], nil
}

// SetLevel sets an attribute's level.
func (c *Curriculum) SetLevel(attribute string, level int) error {
	i, err := c.index(attribute)
	if err != nil {
		return err
	}
	if err := between("level of "+attribute, level, 0, len(c.attributes[i].Levels)-1); err != nil {
		return fmt.Errorf("reasoninggym: curriculum of %s: %w", c.dataset, err)
	}
	c.levels[i] = level
	return nil
}

func (c *Curriculum) index(attribute string) (int, error) {
	var names []string
	for i, a := range c.attributes {
		if a.Name == attribute {
			return i, nil
		}
		names = append(names, a.Name)
	}
	return 0, fmt.Errorf("reasoninggym: curriculum of %s: there is no attribute %q, there are: %s", c.dataset, attribute, strings.Join(names, ", "))
}

// IncrementLevel raises an attribute's level by one and says whether there was a higher one.
func (c *Curriculum) IncrementLevel(attribute string) (bool, error) { return c.move(attribute, 1) }

// DecrementLevel lowers an attribute's level by one and says whether there was a lower one.
func (c *Curriculum) DecrementLevel(attribute string) (bool, error) { return c.move(attribute, -1) }

func (c *Curriculum) move(attribute string, by int) (bool, error) {
	i, err := c.index(attribute)
	if err != nil {
		return false, err
	}
	level := c.levels[i] + by
	if level < 0 || level > c.highest(i) {
		return false, nil
	}
	c.levels[i] = level
	return true, nil
}

func (c *Curriculum) highest(i int) int { return len(c.attributes[i].Levels) - 1 }

// SetLevels sets all attributes to a level, or to their highest where that is lower.
func (c *Curriculum) SetLevels(level int) error {
	if err := atLeast("level", level, 0); err != nil {
		return fmt.Errorf("reasoninggym: curriculum of %s: %w", c.dataset, err)
	}
	for i := range c.levels {
		c.levels[i] = min(level, c.highest(i))
	}
	return nil
}

// Increment raises every attribute that can be raised to one more than the highest current level, as far as it has levels.
// It says whether one could.
func (c *Curriculum) Increment() bool {
	target := slices.Max(c.levels) + 1
	raised := false
	for i, level := range c.levels {
		if level < c.highest(i) {
			c.levels[i] = min(target, c.highest(i))
			raised = true
		}
	}
	return raised
}

// Decrement lowers the attributes that are at the highest current level by one. It says whether that was above 0.
func (c *Curriculum) Decrement() bool {
	highest := slices.Max(c.levels)
	if highest == 0 {
		return false
	}
	for i, level := range c.levels {
		if level == highest {
			c.levels[i]--
		}
	}
	return true
}

// Config is upstream's generate_configuration: the given settings with those of the current levels.
func (c *Curriculum) Config(settings Config) Config {
	config := Config{}
	for name, value := range settings {
		config[name] = value
	}
	for i, a := range c.attributes {
		value := a.Levels[c.levels[i]]
		if len(a.Fields) == 1 {
			config[a.Fields[0]] = value
			continue
		}
		ends, ok := value.([]any)
		if !ok {
			low, high := c.window(a, c.levels[i])
			ends = []any{a.Levels[low], a.Levels[high]}
		}
		config[a.Fields[0]] = slices.MinFunc(ends, byValue)
		config[a.Fields[1]] = slices.MaxFunc(ends, byValue)
	}
	return config
}

// window is the lowest and the highest level whose values are a range's ends.
func (c *Curriculum) window(a Attribute, level int) (low, high int) {
	last := len(a.Levels) - 1
	high = min(level, last)
	if a.Interval && c.Mode != LastLevels {
		high = min(level+1, last)
	}
	switch c.Mode {
	case UpperBound:
		low = high
		if a.Interval {
			low = max(0, high-1)
		}
	case LastLevels:
		if c.Last > 0 {
			low = max(0, high-c.Last+1)
		}
		if a.Interval && low == high {
			low = max(0, high-1)
		}
	}
	return low, high
}

// byValue orders the ends of a range, which are ints or float64s.
func byValue(a, b any) int {
	number := func(v any) float64 {
		if n, ok := v.(int); ok {
			return float64(n)
		}
		f, _ := v.(float64)
		return f
	}
	switch x, y := number(a), number(b); {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}
