// Package reasoninggym makes the tasks of reasoning-gym (https://github.com/open-thought/reasoning-gym) and scores answers
// to them, without Python. A task is the same as upstream's, character for character, for the same dataset, config, seed
// and index, and an answer has the same score. Upstream here is revision 49b07130b3fcd12f2d064bba7c43869543a0e7e7 (PyPI
// release 0.1.25) on CPython 3.11 with PYTHONHASHSEED=0.
//
//	tasks, err := reasoninggym.New("caesar_cipher", reasoninggym.Config{"min_words": 5, "max_words": 12, "seed": 42})
//	bank, err := envs.Freeze(ctx, tasks, envs.Split{Train: 114, Validation: 50, DistinctBy: "clear_text"})
//
// Scorers read answers as data: nothing that a model wrote is ever evaluated. To add a dataset, write its file and name it in
// the list in datasets.go.
package reasoninggym

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// namespace stands before a dataset's name in Dataset.Name and in bank manifests.
const namespace = "reasoning_gym/"

// Config holds settings by upstream's field names. What it does not name has upstream's default, except seed, which is
// random there and 42 here.
//
//   - "seed": any int64; item i of seed s is item i-1 of seed s+1, but for its number
//   - "size": how many items there are said to be. Items beyond it can be made all the same.
type Config map[string]any

// Info describes a dataset.
type Info struct {
	Name        string          // "caesar_cipher"
	Category    string          // upstream's: "algorithmic", "arithmetic", "logic", …
	Description string          // what is asked for, in a sentence
	Defaults    json.RawMessage // all settings with their defaults, a JSON object
}

// Datasets lists what New can make, sorted by name.
func Datasets() []Info {
	var infos []Info
	for _, d := range datasets {
		infos = append(infos, d.info())
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos
}

// Dataset makes the tasks of one dataset with one config and scores answers to them. It is an envs.Source, an envs.Env and an
// envs.Described. It does not change and is safe for concurrent use.
type Dataset struct {
	name     string
	config   json.RawMessage // all fields
	seed     int64
	size     int
	generate generator
	score    scorer
}

var (
	_ envs.Described = (*Dataset)(nil)
	_ envs.Env       = (*Dataset)(nil)
)

// New returns a dataset by upstream's name. The error says what is allowed if there is no such dataset or field, or if a
// value has the wrong type or is out of range.
func New(name string, config Config) (*Dataset, error) {
	var names []string
	for _, d := range datasets {
		if d.info().Name == name {
			return d.open(config)
		}
		names = append(names, d.info().Name)
	}
	slices.Sort(names)
	return nil, fmt.Errorf("reasoninggym: there is no dataset %q, there are: %s", name, strings.Join(names, ", "))
}

// FromOrigin makes the dataset again that a bank's manifest names as its source, to score the bank's tasks.
func FromOrigin(origin envs.Origin) (*Dataset, error) {
	name, ok := strings.CutPrefix(origin.Name, namespace)
	if !ok {
		return nil, fmt.Errorf("reasoninggym: source %q is none of this package, whose names begin with %s", origin.Name, namespace)
	}
	var config Config
	if len(origin.Config) > 0 {
		d := json.NewDecoder(bytes.NewReader(origin.Config))
		d.UseNumber() // a seed may not fit a float64
		if err := d.Decode(&config); err != nil {
			return nil, fmt.Errorf("reasoninggym: the config of %s: %w", origin.Name, err)
		}
	}
	return New(name, config)
}

// Name is "reasoning_gym/" and the dataset's name.
func (d *Dataset) Name() string { return namespace + d.name }

// Origin is the name with all settings, including the defaults.
func (d *Dataset) Origin() envs.Origin {
	return envs.Origin{Name: d.Name(), Config: bytes.Clone(d.config)}
}

// Size is the setting "size".
func (d *Dataset) Size() int { return d.size }

// Task makes item index of the dataset, which may be beyond its size. The ID is "dataset/seed/index"; Metadata is upstream's.
func (d *Dataset) Task(ctx context.Context, index int) (task envs.Task, err error) {
	if err := ctx.Err(); err != nil {
		return task, err
	}
	if index < 0 {
		return task, fmt.Errorf("reasoninggym: index is %d, must be at least 0", index)
	}
	if d.seed > math.MaxInt64-int64(index) {
		return task, fmt.Errorf("reasoninggym: seed %d and index %d together are above 2^63-1", d.seed, index)
	}
	made, err := d.make(index)
	if err != nil {
		return task, fmt.Errorf("reasoninggym: item %d of %s with seed %d: %w", index, d.name, d.seed, err)
	}
	metadata, err := d.metadata(index, made.metadata)
	if err != nil {
		return task, err
	}
	return envs.Task{
		ID:       fmt.Sprintf("%s/%d/%d", d.name, d.seed, index),
		Question: made.question,
		Answer:   made.answer,
		Metadata: metadata,
	}, nil
}

// make turns what would be an exception in Python into an error.
func (d *Dataset) make(index int) (made item, err error) {
	defer python.Catch(&err)
	return d.generate(python.NewRandom(d.seed+int64(index)), index)
}

// metadata puts the two fields that all datasets share before a dataset's own.
func (d *Dataset) metadata(index int, own any) (json.RawMessage, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"source_dataset":%q,"source_index":%d,`, d.name, index)
	head := b.Len()
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(own); err != nil {
		return nil, fmt.Errorf("reasoninggym: the metadata of %s: %w", d.name, err)
	}
	data := b.Bytes()
	return append(data[:head], data[head+1:b.Len()-1]...), nil // without the brace and the newline
}

// Score returns upstream's score of an answer, in [0,1]. Every text has a score: the error is always nil.
func (d *Dataset) Score(_ context.Context, task envs.Task, answer string) (float64, error) {
	return d.score(task, answer), nil
}
