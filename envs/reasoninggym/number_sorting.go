package reasoninggym

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// numberSorting is NumberSortingDataset of reasoning_gym/algorithmic/number_sorting.py.
var numberSorting = definition[NumberSortingConfig]{
	name:        "number_sorting",
	category:    "algorithmic",
	description: "Sort numbers in ascending or descending order.",
	defaults:    NumberSortingConfig{MinNumbers: 3, MaxNumbers: 10, MinDecimals: 0, MaxDecimals: 2, MinValue: Real(-100), MaxValue: Real(100)},
	prepare:     prepareNumberSorting,
	score:       scoreNumberSorting,

	scoreCorrected: scoreNumberSortingCorrected,
	faults: []Fault{
		{What: "Any sorted numbers within 1 of the right ones score 1; corrected, the values must be the same.", Index: 0, Answer: "[-95.4, -50.5, 47, 48.9]"},
		{What: "NaN counts as any number; corrected, it counts as none.", Index: 0, Answer: "[NaN, NaN, NaN, NaN]"},
	},
	curriculum: []Attribute{
		interval("numbers", "min_numbers", "max_numbers", "How many numbers there are", 10, 100, 500, 1000),
		interval("decimals", "min_decimals", "max_decimals", "Digits after the point", span(0, 8, 1)...),
		scalar("min_value", "min_value", "The least number", -100, -500, -1000, -10000),
		scalar("max_value", "max_value", "The greatest number", 100, 500, 1000, 10000),
	},
}

// NumberSortingConfig has the settings of number_sorting.
type NumberSortingConfig struct {
	MinNumbers  int    `json:"min_numbers"`  // how many numbers there are
	MaxNumbers  int    `json:"max_numbers"`  // how many numbers there are
	MinDecimals int    `json:"min_decimals"` // digits after the point
	MaxDecimals int    `json:"max_decimals"` // digits after the point
	MinValue    Number `json:"min_value"`    // of a number
	MaxValue    Number `json:"max_value"`    // of a number
}

func (c NumberSortingConfig) validate() error {
	if err := check(
		atLeast("min_numbers", c.MinNumbers, 1),
		between("max_numbers", c.MaxNumbers, c.MinNumbers, 100*maxTerms),
		atLeast("min_decimals", c.MinDecimals, 0),
		between("max_decimals", c.MaxDecimals, c.MinDecimals, 300),
		finite("min_value", c.MinValue),
		finite("max_value", c.MaxValue),
	); err != nil {
		return err
	}
	if !(c.MinValue.value < c.MaxValue.value) {
		return fmt.Errorf("max_value is %v, must be above %v", c.MaxValue, c.MinValue)
	}
	return nil
}

func prepareNumberSorting(c NumberSortingConfig) (generator, error) {
	var difficulty object
	difficulty.ints("numbers", c.MinNumbers, c.MaxNumbers)
	difficulty.ints("decimals", c.MinDecimals, c.MaxDecimals)
	difficulty.numbers("value", []Number{c.MinValue, c.MaxValue})
	return func(r *python.Random, m *object) (item, error) {
		type entry struct {
			value float64
			text  string
		}
		entries := make([]entry, r.RandInt(c.MinNumbers, c.MaxNumbers))
		texts := make([]string, len(entries))
		for i := range entries {
			x := r.Uniform(c.MinValue.value, c.MaxValue.value)
			x = python.NumpyRound(x, r.RandInt(c.MinDecimals, c.MaxDecimals))
			texts[i] = python.FloatRepr(x)
			entries[i] = entry{x, texts[i]}
		}
		direction := "ascending"
		if r.Below(2) == 1 {
			direction = "descending"
			slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(b.value, a.value) })
		} else {
			slices.SortStableFunc(entries, func(a, b entry) int { return cmp.Compare(a.value, b.value) })
		}
		question := "Sort these numbers in " + direction + " order: " + strings.Join(texts, ", ") + numberSortingInstruction
		m.strings("original_numbers", texts)
		for i, e := range entries {
			texts[i] = e.text
		}
		m.string("direction", direction)
		m.strings("sorted_numbers", texts)
		m.int("numbers", len(texts))
		m.object("difficulty", difficulty)
		return item{question, python.Repr(texts)}, nil
	}, nil
}

const numberSortingInstruction = `
Please follow the instruction below:
## 1. Let all your answers be a list of numbers. Instead of reporting your answer as -69, -13, 1, 7, 11, 43, 59, 61, use ['-69', '-13', '1', '7', '11', '43', '59', '61'] instead
## 2. Convert all numbers in the square brackets as strings. For example, ['-69', '-13', '1', '7', '11', '43', '59', '61']
`

// scoreNumberSorting gives 1 for a JSON list, single quotes taken as double ones, of as many numbers, sorted, each within 1 of
// the right one. NaN passes all of this.
func scoreNumberSorting(task envs.Task, answer string) (float64, error) {
	got, want, ok := readNumberLists(task, answer)
	if !ok {
		return 0, nil
	}
	sign, err := sortDirection(task)
	if err != nil {
		return 0, err
	}
	for i, x := range got {
		if i > 0 && sign*x < sign*got[i-1] || math.Abs(x-want[i]) > 1 {
			return 0, nil
		}
	}
	return 1, nil
}

func scoreNumberSortingCorrected(task envs.Task, answer string) (float64, error) {
	got, want, ok := readNumberLists(task, answer)
	if ok && slices.Equal(got, want) {
		return 1, nil
	}
	return 0, nil
}

// sortDirection is 1 for ascending and -1 for descending order.
func sortDirection(task envs.Task) (float64, error) {
	for name, value := range metadataFields(task.Metadata) {
		if name == "direction" {
			if string(value) == `"ascending"` {
				return 1, nil
			}
			return -1, nil
		}
	}
	return 0, fmt.Errorf("reasoninggym: the metadata of task %s have no direction", task.ID)
}

func readNumberLists(task envs.Task, answer string) (got, want []float64, ok bool) {
	if got, ok = readNumberList(answer); !ok {
		return nil, nil, false
	}
	want, ok = readNumberList(task.Answer)
	return got, want, ok && len(got) == len(want)
}

// readNumberList reads a JSON list of what Python's float() takes: numbers, texts of numbers, true and false.
func readNumberList(text string) ([]float64, bool) {
	v, err := python.ParseJSON(strings.ReplaceAll(text, "'", `"`))
	list, ok := v.([]any)
	if err != nil || !ok {
		return nil, false
	}
	numbers := make([]float64, len(list))
	for i, e := range list {
		switch e := e.(type) {
		case float64:
			numbers[i] = e
		case python.Int:
			numbers[i] = e.Float64()
		case string:
			f, err := python.ParseFloat(e)
			if err != nil {
				return nil, false
			}
			numbers[i] = f
		case bool:
			if e {
				numbers[i] = 1
			}
		default:
			return nil, false
		}
	}
	return numbers, true
}
