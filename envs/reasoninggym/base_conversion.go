package reasoninggym

import (
	"strconv"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// baseConversion is BaseConversionDataset of reasoning_gym/algorithmic/base_conversion.py.
var baseConversion = definition[BaseConversionConfig]{
	name:        "base_conversion",
	category:    "algorithmic",
	description: "Write a number in another base.",
	defaults:    BaseConversionConfig{MinBase: 2, MaxBase: 16, MinValue: 0, MaxValue: 1000},
	prepare:     func(c BaseConversionConfig) (generator, error) { return prepareBaseConversion(c, digitsUpstream), nil },

	prepareCorrected: func(c BaseConversionConfig) (generator, error) { return prepareBaseConversion(c, digits), nil },
	scoreCorrected:   scoreBaseConversion,
	faults: []Fault{
		{What: "0 has no digit in bases other than 2 and 16: the question has no number, or the answer is empty; corrected, it is 0.", Config: Config{"max_value": 1}, Index: 1, Answer: "0"},
		{What: "A right number with leading zeros gets a part of the credit, and one with capital letters none; corrected, the value counts.", Answer: "00{answer}"},
	},
	curriculum: []Attribute{
		interval("base", "min_base", "max_base", "Bases of the number systems", 2, 9, 18, 27, 36),
		interval("value", "min_value", "max_value", "The number", 1_000, 10_000, 100_000, 1_000_000),
	},
}

// BaseConversionConfig has the settings of base_conversion.
type BaseConversionConfig struct {
	MinBase  int `json:"min_base"`  // of both number systems
	MaxBase  int `json:"max_base"`  // of both number systems
	MinValue int `json:"min_value"` // of the number
	MaxValue int `json:"max_value"` // of the number
}

func (c BaseConversionConfig) validate() error {
	return check(
		between("min_base", c.MinBase, 2, 35),
		between("max_base", c.MaxBase, c.MinBase+1, 36), // of one base alone, upstream looks for another one for ever
		atLeast("min_value", c.MinValue, 0),
		above("max_value", c.MaxValue, c.MinValue),
	)
}

func prepareBaseConversion(c BaseConversionConfig, digits func(value, base int) string) generator {
	var difficulty object
	difficulty.ints("base", c.MinBase, c.MaxBase)
	difficulty.ints("value", c.MinValue, c.MaxValue)
	return func(r *python.Random, m *object) (item, error) {
		value := r.RandInt(c.MinValue, c.MaxValue)
		source, target := r.RandInt(c.MinBase, c.MaxBase), r.RandInt(c.MinBase, c.MaxBase)
		for target == source {
			target = r.RandInt(c.MinBase, c.MaxBase)
		}
		given, wanted := digits(value, source), digits(value, target)
		m.int("decimal_value", value)
		m.int("source_base", source)
		m.int("target_base", target)
		m.string("source_repr", given)
		m.string("target_repr", wanted)
		m.object("difficulty", difficulty)
		return item{
			question: "Your task is to convert a number between two different bases.\n\n" +
				"If the target base is > 10, use lowercase letters a-z for digits above 9.\n\n" +
				"Now, convert the " + baseName(source) + " number " + given + " to " + baseName(target) + "\n",
			answer: wanted,
		}, nil
	}
}

func digits(value, base int) string { return strconv.FormatInt(int64(value), base) }

func digitsUpstream(value, base int) string {
	if value == 0 && base != 2 && base != 16 {
		return ""
	}
	return digits(value, base)
}

func baseName(base int) string {
	switch base {
	case 2:
		return "binary"
	case 16:
		return "hexadecimal"
	}
	return "base-" + strconv.Itoa(base)
}

// scoreBaseConversion gives 1 for the value, whatever the case of letters and the number of leading zeros.
func scoreBaseConversion(task envs.Task, answer string) (float64, error) {
	significant := func(s string) string { return strings.TrimLeft(strings.ToLower(python.Strip(s)), "0") }
	if python.Strip(answer) != "" && significant(answer) == significant(task.Answer) {
		return 1, nil
	}
	return 0, nil
}
