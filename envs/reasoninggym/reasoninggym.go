// Package reasoninggym makes the tasks of reasoning-gym (https://github.com/open-thought/reasoning-gym) and scores answers
// to them, without Python. A task is the same as upstream's, character for character, for the same dataset, config, seed
// and index, and an answer has the same score. Upstream here is revision 49b07130b3fcd12f2d064bba7c43869543a0e7e7 (PyPI
// release 0.1.25) on CPython 3.11 with PYTHONHASHSEED=0.
//
// A dataset is opened by upstream's names of its settings, or by its config struct:
//
//	tasks, err := reasoninggym.New("caesar_cipher", reasoninggym.Config{"min_words": 5, "max_words": 12, "seed": 42})
//
//	config := reasoninggym.Defaults[reasoninggym.CaesarCipherConfig]()
//	config.MinWords, config.MaxWords = 5, 12
//	tasks, err := reasoninggym.Open(config, reasoninggym.Common{Seed: 42})
//
// and is then a source of tasks and what scores answers:
//
//	bank, err := envs.Freeze(ctx, tasks, envs.Split{Train: 114, Validation: 50, DistinctBy: "clear_text"})
//
// which takes the parts of the bank from one seed, with no plaintext in two parts. Parts with seeds of their own are made by
// Dataset.Sources and envs.FreezeParts. Do not choose neighbouring seeds by hand: item i of seed s is item 0 of seed s+i.
//
// # Wrong answers and lenient scores
//
// Some of upstream's datasets have wrong answers, and many scorers give credit for more than the right answer. In Mode Upstream,
// the default, all of that is as upstream. In Mode Corrected it is not; Info.Faults lists what that changes. The mode is a
// setting, which is none of upstream's, so that a bank's manifest says it and whoever scores the bank again does as before:
//
//	tasks, err := reasoninggym.New("gcd", reasoninggym.Config{"mode": reasoninggym.Corrected})
//
// # Safety
//
// Scorers read answers as data: nothing that a model wrote is ever evaluated, and any text has a score in bounded time and memory.
// Settings with which upstream never ends are refused, or end with the context.
//
// # Adding a dataset
//
// Write its file, which has a definition (see chain_sum.go for a plain one), and name it in the list in datasets.go. The tests find
// its golden files by themselves. CONTRIBUTING.md in this folder goes through the steps.
package reasoninggym

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// namespace stands before a dataset's name in Dataset.Name and in bank manifests.
const namespace = "reasoning_gym/"

// ErrNoItem says that upstream makes no item of this number: it raises there. The error's text has Python's exception.
var ErrNoItem = errors.New("upstream raises for this item")

// Config holds settings by upstream's field names, and those of Common. What it does not name has upstream's default, except
// "seed", which is random there and 42 here, and "mode", which is Upstream.
type Config map[string]any

// Info describes a dataset.
type Info struct {
	Name        string          // "caesar_cipher"
	Category    string          // upstream's: "algorithmic", "arithmetic", "logic", …
	Description string          // what is asked for, in a sentence
	Defaults    json.RawMessage // all settings with their defaults, a JSON object
	Faults      []Fault         // what Mode Corrected does otherwise than Upstream
	Attributes  []Attribute     // of the curriculum
}

// Names lists what New can make, sorted by name, with category and description.
func Names() []Info {
	var infos []Info
	for _, d := range allDatasets() {
		infos = append(infos, d.info())
	}
	slices.SortFunc(infos, func(a, b Info) int { return strings.Compare(a.Name, b.Name) })
	return infos
}

// Dataset makes the tasks of one dataset with one config and scores answers to them. It is an envs.Source, an envs.Env and an
// envs.Described. It is safe for concurrent use, and makes tasks fastest in the order of their indices.
type Dataset struct {
	name     string
	config   json.RawMessage // all settings
	common   Common
	generate indexedGenerator
	score    scorer
	drafts   sync.Pool // of *draft
}

// draft is what it takes to make an item and can be used again for the next.
type draft struct {
	seeds    python.Sequence
	metadata object
	id       []byte
}

func (d *Dataset) draft() *draft {
	if used, ok := d.drafts.Get().(*draft); ok {
		return used
	}
	return new(draft)
}

var (
	_ envs.Described = (*Dataset)(nil)
	_ envs.Env       = (*Dataset)(nil)
)

// New returns a dataset by upstream's name. The error says what is allowed if there is no such dataset or field, or if a
// value has the wrong type or is out of range.
func New(name string, config Config) (*Dataset, error) {
	d, err := find(name)
	if err != nil {
		return nil, err
	}
	return d.open(config)
}

func find(name string) (dataset, error) {
	var names []string
	for _, d := range allDatasets() {
		if d.id() == name {
			return d, nil
		}
		names = append(names, d.id())
	}
	slices.Sort(names)
	return nil, fmt.Errorf("reasoninggym: there is no dataset %q, there are: %s", name, strings.Join(names, ", "))
}

// Defaults returns a dataset's config struct with upstream's defaults.
func Defaults[C Settings]() C {
	d, _ := definitionOf[C]()
	return cloneSettings(d.defaults)
}

// Open returns the dataset whose config struct is given. In common, a Size of 0 is upstream's default and an empty Mode is
// Upstream; the Seed counts as it is. Errors are as those of New.
func Open[C Settings](config C, common Common) (*Dataset, error) {
	d, err := definitionOf[C]()
	if err != nil {
		return nil, err
	}
	if common.Size == 0 {
		common.Size = d.common().Size
	}
	if common.Mode == "" {
		common.Mode = Upstream
	}
	return d.make(cloneSettings(config), common)
}

func definitionOf[C Settings]() (definition[C], error) {
	for _, d := range datasets {
		if d, ok := d.(definition[C]); ok {
			return d, nil
		}
	}
	return definition[C]{}, fmt.Errorf("reasoninggym: there is no dataset with a config %T", *new(C)) // C is Settings itself
}

// FromOrigin makes the dataset again that a bank's manifest names as its source, to score the bank's tasks.
func FromOrigin(origin envs.Origin) (*Dataset, error) {
	name, ok := strings.CutPrefix(origin.Name, namespace)
	if !ok {
		return nil, fmt.Errorf("reasoninggym: source %q is none of this package, whose names begin with %s", origin.Name, namespace)
	}
	var config Config
	if len(origin.Config) > 0 {
		var err error
		if config, err = readConfig(origin.Config); err != nil {
			return nil, fmt.Errorf("reasoninggym: the config of %s: %w", origin.Name, err)
		}
	}
	return New(name, config)
}

func readConfig(data json.RawMessage) (config Config, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber() // a seed may not fit a float64
	err = d.Decode(&config)
	return config, err
}

// Name is "reasoning_gym/" and the dataset's name.
func (d *Dataset) Name() string { return namespace + d.name }

// Origin is the name with all settings, including the defaults.
func (d *Dataset) Origin() envs.Origin {
	return envs.Origin{Name: d.Name(), Config: bytes.Clone(d.config)}
}

// Size is the setting "size".
func (d *Dataset) Size() int { return d.common.Size }

// Task makes item index of the dataset, which may be beyond its size. The ID is "dataset/seed/index"; Metadata is upstream's.
// The error wraps ErrNoItem where upstream raises.
func (d *Dataset) Task(ctx context.Context, index int) (task envs.Task, err error) {
	if err := ctx.Err(); err != nil {
		return task, err
	}
	if index < 0 {
		return task, fmt.Errorf("reasoninggym: index is %d, must be at least 0", index)
	}
	if d.common.Seed > math.MaxInt64-int64(index) {
		return task, fmt.Errorf("reasoninggym: seed %d and index %d together are above 2^63-1", d.common.Seed, index)
	}
	w := d.draft()
	defer d.drafts.Put(w)
	made, err := d.make(ctx, index, w, &w.metadata)
	if err != nil {
		return task, fmt.Errorf("reasoninggym: item %d of %s with seed %d: %w", index, d.name, d.common.Seed, err)
	}
	w.id = append(append(w.id[:0], d.name...), '/')
	w.id = append(strconv.AppendInt(w.id, d.common.Seed, 10), '/')
	w.id = strconv.AppendInt(w.id, int64(index), 10)
	return envs.Task{
		ID:       string(w.id),
		Question: made.question,
		Answer:   made.answer,
		Metadata: bytes.Clone(append(w.metadata.data, '}')),
	}, nil
}

// make makes an item, writes its metadata, and turns what is an exception in Python into an error.
func (d *Dataset) make(ctx context.Context, index int, w *draft, metadata *object) (made item, err error) {
	defer noItem(&err)
	defer python.Catch(&err)
	metadata.data = metadata.data[:0]
	metadata.string("source_dataset", d.name)
	metadata.int("source_index", index)
	if d.common.Seed > math.MaxInt64-int64(index) { // only as a part of a composite
		sum := new(big.Int).SetInt64(d.common.Seed)
		return d.generate(ctx, python.NewRandom(sum.Add(sum, big.NewInt(int64(index)))), index, metadata)
	}
	return d.generate(ctx, w.seeds.Random(d.common.Seed+int64(index)), index, metadata)
}

// noItem makes an ErrNoItem of an exception.
func noItem(err *error) {
	if *err == nil {
		return
	}
	var raised python.Error
	if errors.As(*err, &raised) {
		*err = fmt.Errorf("%w: %w", ErrNoItem, raised)
	}
}

// Score returns the score of an answer in [0,1]: in Mode Upstream that of upstream, and 0 where upstream raises. Every text has a
// score. An error says that the task is none of this dataset.
func (d *Dataset) Score(_ context.Context, task envs.Task, answer string) (float64, error) {
	var score float64
	var err, raised error
	func() {
		defer python.Catch(&raised)
		score, err = d.score(task, answer)
	}()
	if raised != nil {
		return 0, nil
	}
	return score, err
}
