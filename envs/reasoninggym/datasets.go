package reasoninggym

import (
	"strings"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// datasets is the one list of all datasets.
var datasets = []dataset{
	caesarCipher,
	isomorphicStrings,
}

type dataset interface {
	info() Info
	open(Config) (*Dataset, error)
}

// definition is how the file of a dataset describes it. C has the fields of upstream's config class but seed and size, with
// upstream's names as JSON names.
type definition[C interface{ validate() error }] struct {
	name        string
	category    string
	description string
	defaults    C
	// prepare does what upstream's dataset does when it is created. The config is valid.
	prepare func(config C) (generator, error)
	// score is upstream's score_answer; nil is that of the base class, substringScore.
	score scorer
}

// generator makes an item from a generator that is seeded with seed + index. It may panic with a python.Error.
type generator func(r *python.Random, index int) (item, error)

// item is upstream's item. Its metadata is a struct of what upstream has beside source_dataset and source_index.
type item struct {
	question, answer string
	metadata         any
}

// scorer gives an answer a number in [0,1], whatever the answer is.
type scorer func(task envs.Task, answer string) float64

// common are the settings of all datasets.
type common struct {
	Seed int64 `json:"seed"`
	Size int   `json:"size"`
}

var commonDefaults = common{Seed: 42, Size: 500}

func (d definition[C]) info() Info {
	return Info{d.name, d.category, d.description, encodeConfig(d.defaults, commonDefaults)}
}

func (d definition[C]) open(config Config) (*Dataset, error) {
	own, shared := d.defaults, commonDefaults
	err := decodeConfig(config, &own, &shared)
	if err == nil {
		err = check(own.validate(), atLeast("size", shared.Size, 1))
	}
	if err != nil {
		return nil, configError(d.name, err)
	}
	generate, err := d.prepare(own)
	if err != nil {
		return nil, configError(d.name, err)
	}
	score := d.score
	if score == nil {
		score = substringScore
	}
	return &Dataset{
		name:     d.name,
		config:   encodeConfig(own, shared),
		seed:     shared.Seed,
		size:     shared.Size,
		generate: generate,
		score:    score,
	}, nil
}

// substringScore is ProceduralDataset.score_answer of reasoning_gym/dataset.py: 1 for the oracle itself, for a text that
// contains it the oracle's share of the characters, else 0. An oracle that is empty never scores.
func substringScore(task envs.Task, answer string) float64 {
	switch {
	case answer == "" || !strings.Contains(answer, task.Answer):
		return 0
	case answer == task.Answer:
		return 1
	}
	return float64(utf8.RuneCountInString(task.Answer)) / float64(utf8.RuneCountInString(answer))
}
