package reasoninggym

import (
	"fmt"
	"strconv"

	"github.com/grouper-rl/grouper/internal/python"
)

// simpleGeometry is SimpleGeometryDataset of reasoning_gym/geometry/simple_geometry.py.
var simpleGeometry = definition[SimpleGeometryConfig]{
	name:        "simple_geometry",
	category:    "geometry",
	description: "Find the last interior angle of a convex polygon.",
	defaults:    SimpleGeometryConfig{MinSides: 3, MaxSides: 6, MinAngle: 10, MaxAngle: 170},
	size:        100,
	prepare:     func(c SimpleGeometryConfig) (generator, error) { return prepareSimpleGeometry(c, false) },

	prepareCorrected: func(c SimpleGeometryConfig) (generator, error) { return prepareSimpleGeometry(c, true) },
	faults: []Fault{
		{What: "The missing angle may be 180 degrees or more, which no convex polygon has; corrected, the others are then drawn again so that it is less.", Index: 2, Answer: "{answer}"},
	},
	curriculum: []Attribute{interval("sides", "min_sides", "max_sides", "Sides of the polygon", 5, 10, 15, 30)},
}

// SimpleGeometryConfig has the settings of simple_geometry.
type SimpleGeometryConfig struct {
	MinSides int `json:"min_sides"` // of the polygon
	MaxSides int `json:"max_sides"` // of the polygon
	MinAngle int `json:"min_angle"` // of the angles that the question names, in degrees
	MaxAngle int `json:"max_angle"` // of the angles that the question names, in degrees
}

func (c SimpleGeometryConfig) validate() error {
	return check(
		atLeast("min_sides", c.MinSides, 3),
		between("max_sides", c.MaxSides, c.MinSides, maxTerms),
		between("min_angle", c.MinAngle, 1, 179),
		between("max_angle", c.MaxAngle, c.MinAngle, 179),
	)
}

// simpleGeometryTemplates stand around the number of sides, one less than it, and the angles.
var simpleGeometryTemplates = [][4]string{
	{"Given a convex polygon with ", " sides, its first ", " interior angles are: ", ". What is the measure of the remaining interior angle (in degrees)?Return only the angle as your answer.Do not give the units in your answer."},
	{"A convex polygon has ", " sides. The measures of the first ", " interior angles are: ", ". Find the measure of the last interior angle.Return only the angle as your answer.Do not give the units in your answer."},
	{"Consider a convex ", "-gon whose first ", " interior angles are: ", ". Determine the measure of the remaining angle.Return only the angle as your answer.Do not give the units in your answer."},
}

func prepareSimpleGeometry(c SimpleGeometryConfig, corrected bool) (generator, error) {
	if corrected {
		for n := range c.MaxSides - c.MinSides + 1 {
			if err := c.convex(c.MinSides + n); err != nil {
				return nil, err
			}
		}
	}
	var difficulty object
	difficulty.ints("sides", c.MinSides, c.MaxSides)
	return func(r *python.Random, m *object) (item, error) {
		sides := r.RandInt(c.MinSides, c.MaxSides)
		total := 180 * (sides - 2)
		angles, sum, err := c.angles(r, sides, total)
		if corrected && (err != nil || total-sum >= 180) {
			sum = c.convexAngles(r, angles, total)
		} else if err != nil {
			return item{}, err
		}
		ask := python.Choice(r, simpleGeometryTemplates)
		question := append(make([]byte, 0, 320), ask[0]...)
		question = append(appendInt(question, sides), ask[1]...)
		question = append(appendInt(question, sides-1), ask[2]...)
		for i, angle := range angles {
			if i > 0 {
				question = append(question, ", "...)
			}
			question = append(appendInt(question, angle), ".0°"...)
		}
		question = append(question, ask[3]...)
		m.int("n_sides", sides)
		m.name("known_angles")
		m.data = appendJSONList(m.data, angles, appendWholeFloat)
		m.wholeFloat("sum_of_known_angles", sum)
		m.wholeFloat("missing_angle_raw", total-sum)
		m.int("missing_angle_rounded", total-sum)
		m.int("total_interior_sum", total)
		m.object("difficulty", difficulty)
		return item{string(question), strconv.Itoa(total - sum)}, nil
	}, nil
}

// appendWholeFloat appends a whole number that is a float in Python.
func appendWholeFloat(b []byte, n int) []byte { return append(appendInt(b, n), ".0"...) }

func (o *object) wholeFloat(name string, n int) {
	o.name(name)
	o.data = appendWholeFloat(o.data, n)
}

// angles draws all angles but one, again and again until something is left for that.
func (c SimpleGeometryConfig) angles(r *python.Random, sides, total int) (angles []int, sum int, err error) {
	angles = make([]int, sides-1)
	for range 100 {
		sum = 0
		for i := range angles {
			angles[i] = r.RandInt(c.MinAngle, c.MaxAngle)
			sum += angles[i]
		}
		if sum < total {
			return angles, sum, nil
		}
	}
	return angles, sum, python.Error{Type: "ValueError", Message: fmt.Sprintf("Could not generate valid angles for an %d-gon with total sum %d within 100 attempts.", sides, total)}
}

// convex says whether there is a convex polygon of so many sides.
func (c SimpleGeometryConfig) convex(sides int) error {
	known, total := sides-1, 180*(sides-2)
	if known*c.MaxAngle+179 < total || known*c.MinAngle >= total {
		return fmt.Errorf("no convex polygon of %d sides has %d angles of %d to %d degrees", sides, known, c.MinAngle, c.MaxAngle)
	}
	return nil
}

// convexAngles draws angles one after the other, each so that those after it can leave an angle of 1 to 179, and then their order.
func (c SimpleGeometryConfig) convexAngles(r *python.Random, angles []int, total int) (sum int) {
	for i := range angles {
		after := len(angles) - 1 - i
		low := max(c.MinAngle, total-179-sum-after*c.MaxAngle)
		high := min(c.MaxAngle, total-1-sum-after*c.MinAngle)
		angles[i] = r.RandInt(low, high)
		sum += angles[i]
	}
	python.Shuffle(r, angles)
	return sum
}
