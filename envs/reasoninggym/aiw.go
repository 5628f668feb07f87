package reasoninggym

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/grouper-rl/grouper/internal/python"
)

// aiw is AliceInWonderlandDataset of reasoning_gym/logic/aiw.py.
var aiw = definition[AIWConfig]{
	name:        "aiw",
	category:    "logic",
	description: "Count the sisters, friends or colleagues of someone who is related to Alice.",
	size:        10,
	defaults: AIWConfig{
		MaleNames:       []string{"James", "John", "Robert", "Michael", "William", "David", "Richard", "Joseph", "Thomas", "Charles", "Bob"},
		FemaleNames:     []string{"Mary", "Patricia", "Jennifer", "Linda", "Elizabeth", "Barbara", "Susan", "Jessica", "Sarah", "Margaret", "Alice"},
		TaskTypes:       []string{"siblings", "friends", "colleagues"},
		TaskTypeWeights: []Number{Real(1. / 3), Real(1. / 3), Real(1. / 3)},
		MaxEntities:     6,
	},
	prepare: func(c AIWConfig) (generator, error) { return prepareAIW(c, Upstream) },

	prepareCorrected: func(c AIWConfig) (generator, error) { return prepareAIW(c, Corrected) },
	faults: []Fault{{
		What: "Matilda of the colleagues is said to have one female colleague more than Alice, as if she were none of Alice's and did not know Bob's; " +
			"corrected, she has as many in Alice's circle as Alice herself, and those of Bob but herself.",
		Config: Config{"task_type_weights": []int{0, 0, 1}},
		Index:  2,
	}},
	curriculum: []Attribute{
		scalar("task_type_weights", "task_type_weights", "Weights of the types of task",
			[]float64{1, 0, 0}, []float64{0.9, 0.05, 0.05}, []float64{0.7, 0.15, 0.15}, []float64{0.6, 0.2, 0.2}, []float64{0.5, 0.25, 0.25},
			[]float64{0.4, 0.3, 0.3}, []float64{0.3, 0.35, 0.35}, []float64{0.2, 0.4, 0.4}, []float64{0.1, 0.45, 0.45}),
		scalar("num_entities", "max_entities", "People of each kind at most", span(4, 18, 2)...),
	},
}

// AIWConfig has the settings of aiw.
type AIWConfig struct {
	MaleNames       []string `json:"male_names"`        // of Bob
	FemaleNames     []string `json:"female_names"`      // of Alice, who must be among them
	TaskTypes       []string `json:"task_types"`        // siblings, friends, colleagues
	TaskTypeWeights []Number `json:"task_type_weights"` // one for each type
	MaxEntities     int      `json:"max_entities"`      // people of each kind at most
}

func (c AIWConfig) validate() error {
	const largest = 1 << 61 // so that sums are ints
	if len(c.MaleNames) == 0 {
		return fmt.Errorf("male_names is empty, must have at least one name")
	}
	if !slices.Contains(c.FemaleNames, "Alice") {
		return fmt.Errorf(`female_names is %q, must have "Alice"`, c.FemaleNames)
	}
	return check(
		someOf("task_types", c.TaskTypes, "siblings", "friends", "colleagues"),
		weightsFor("task_type_weights", len(c.TaskTypes), c.TaskTypeWeights),
		between("max_entities", c.MaxEntities, 1, largest),
	)
}

func prepareAIW(c AIWConfig, mode Mode) (generator, error) {
	weights := weights(c.TaskTypeWeights)
	var difficulty object
	difficulty.numbers("task_type_weights", c.TaskTypeWeights)
	difficulty.int("num_entities", c.MaxEntities)
	return func(r *python.Random, m *object) (item, error) {
		taskType := python.WeightedChoices(r, c.TaskTypes, weights, 1)[0]
		alice, bob := python.Choice(r, c.FemaleNames), python.Choice(r, c.MaleNames)
		count := func() (int, string) {
			n := r.RandInt(1, c.MaxEntities)
			return n, strconv.Itoa(n)
		}
		_, male := count()
		females, female := count()
		answer := females + 1
		var question string
		switch taskType {
		case "siblings":
			if r.Below(2) == 0 {
				question = alice + " has " + male + " brothers and she also has " + female + " sisters. How many sisters does " + alice + "'s brother have?"
			} else {
				question = alice + " has " + female + " sisters and she also has " + male + " brothers. How many sisters does " + bob + "'s brother have?"
			}
		case "friends":
			question = alice + " has " + male + " male friends and she also has " + female + " female friends. They all are friends with each other" +
				" and have no other friends aside. How many female friends does " + bob + ", a male friend of " + alice + ", have?"
		case "colleagues":
			_, bobsMale := count()
			bobsFemales, bobsFemale := count()
			if mode == Corrected {
				answer = females + bobsFemales - 1
			}
			question = alice + " has " + male + " male colleagues and she also has " + female + " female colleagues. These are all colleagues that " +
				alice + " has. All these mentioned persons around " + alice + " are colleagues of each other. " +
				bob + " has " + bobsMale + " male colleagues and " + bobsFemale + " female colleagues in total. All these mentioned persons around " +
				bob + " are colleagues of each other. The people in the circle around " + bob +
				" do not have other colleagues aside - with the only exception of Matilda. She is colleague of " + bob +
				" and she is also colleague of " + alice + ", being part of " + alice + "'s circle. How many female colleagues does Matilda have?"
		}
		m.string("task_type", taskType)
		m.object("difficulty", difficulty)
		return item{question, strconv.Itoa(answer)}, nil
	}, nil
}
