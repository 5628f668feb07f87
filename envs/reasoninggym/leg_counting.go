package reasoninggym

import (
	"strconv"

	"github.com/grouper-rl/grouper/internal/python"
)

// legCounting is LegCountingDataset of reasoning_gym/arithmetic/leg_counting.py.
var legCounting = definition[LegCountingConfig]{
	name:        "leg_counting",
	category:    "arithmetic",
	description: "Count the legs of a number of animals.",
	defaults:    LegCountingConfig{MinAnimals: 3, MaxAnimals: 10, MinInstances: 1, MaxInstances: 15},
	prepare:     prepareLegCounting,
	curriculum: []Attribute{
		ranged("num_animals", "min_animals", "max_animals", "Kinds of animals", span(1, 37, 1)...),
		interval("num_instances", "min_instances", "max_instances", "Animals of a kind", 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024),
	},
}

// LegCountingConfig has the settings of leg_counting.
type LegCountingConfig struct {
	MinAnimals   int `json:"min_animals"`   // kinds of animals
	MaxAnimals   int `json:"max_animals"`   // kinds of animals
	MinInstances int `json:"min_instances"` // animals of a kind
	MaxInstances int `json:"max_instances"` // animals of a kind
}

func (c LegCountingConfig) validate() error {
	return check(
		atLeast("min_animals", c.MinAnimals, 1),
		between("max_animals", c.MaxAnimals, c.MinAnimals, len(animals)),
		atLeast("min_instances", c.MinInstances, 1),
		between("max_instances", c.MaxInstances, c.MinInstances, 1<<50),
	)
}

type animal struct {
	name string
	legs int
}

// animals are upstream's, in its order.
var animals = []animal{
	{"snake", 0}, {"sea slug", 0}, {"jellyfish", 0}, {"flatworm", 0}, {"leech", 0},
	{"chicken", 2}, {"bird", 2}, {"human", 2}, {"duck", 2},
	{"dog", 4}, {"cat", 4}, {"cow", 4}, {"horse", 4}, {"lion", 4}, {"elephant", 4}, {"giraffe", 4}, {"tiger", 4}, {"deer", 4}, {"sheep", 4},
	{"starfish", 5},
	{"insect", 6}, {"ant", 6}, {"butterfly", 6}, {"beetle", 6}, {"bee", 6}, {"wasp", 6}, {"grasshopper", 6}, {"cricket", 6}, {"cockroach", 6},
	{"praying mantis", 6}, {"firefly", 6},
	{"spider", 8}, {"scorpion", 8},
	{"crab", 10}, {"lobster", 10}, {"shrimp", 10},
	{"woodlouse", 14},
}

func prepareLegCounting(c LegCountingConfig) (generator, error) {
	var difficulty object
	difficulty.ints("num_animals", c.MinAnimals, c.MaxAnimals)
	difficulty.ints("num_instances", c.MinInstances, c.MaxInstances)
	return func(r *python.Random, m *object) (item, error) {
		chosen := python.Sample(r, animals, r.RandInt(c.MinAnimals, c.MaxAnimals))
		legs := 0
		var counts object
		counts.data = make([]byte, 0, 256)
		question := make([]byte, 0, 512)
		question = append(question, "Your task is to count how many legs there are in total when given a list of animals.\n\nNow, how many legs are there in total if you have "...)
		for i, a := range chosen {
			count := r.RandInt(c.MinInstances, c.MaxInstances)
			counts.int(a.name, count)
			legs += count * a.legs
			if i > 0 {
				question = append(question, ", "...)
			}
			question = append(append(appendInt(question, count), ' '), a.name...)
			if count > 1 {
				question = append(question, 's')
			}
		}
		question = append(question, "?\n"...)
		m.object("animals", counts)
		m.int("num_animals", len(chosen))
		m.int("total_legs", legs)
		m.object("difficulty", difficulty)
		return item{string(question), strconv.Itoa(legs)}, nil
	}, nil
}
