package reasoninggym

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// CompositePart is a dataset of a Composite, upstream's DatasetSpec.
type CompositePart struct {
	Name   string  `json:"name"`   // of the dataset, which may be in a composite once
	Weight float64 `json:"weight"` // above 0; the share of the items is the share of the weights' sum
	Config Config  `json:"config"` // its own settings; without a seed it has the composite's plus 1, 2, … by its position, and its size and mode unless it names them
}

// CompositeConfig has the settings of composite.
type CompositeConfig struct {
	Datasets []CompositePart `json:"datasets"` // at least one
}

// Composite is CompositeDataset of reasoning_gym/composite.py: each item is one of a dataset that is drawn by weight, with that
// dataset's metadata, and is scored by it. It is a Dataset whose parts can change while it is used, and is safe for concurrent use.
// New makes one that does not change, for "composite".
type Composite struct {
	*Dataset

	mu       sync.RWMutex
	parts    []compositePart
	versions *Versions // or nil
}

type compositePart struct {
	dataset *Dataset
	weight  float64
	version int // 0 without versions
}

// NewComposite returns a composite of the datasets in config. In common, 0 and "" are the defaults as in Open. With versions,
// each dataset is registered there, now and whenever its config changes, and the metadata end with version_id and entry_id.
func NewComposite(config CompositeConfig, common Common, versions *Versions) (*Composite, error) {
	common.Size = cmp.Or(common.Size, compositeDefaults.Size)
	common.Mode = cmp.Or(common.Mode, compositeDefaults.Mode)
	return newComposite(config.Datasets, common, versions)
}

func newComposite(parts []CompositePart, common Common, versions *Versions) (*Composite, error) {
	c := &Composite{versions: versions}
	c.Dataset = &Dataset{name: compositeName, common: common, generate: c.item, score: c.scorePart}
	if err := check(common.validate(), c.addAll(parts)); err != nil {
		return nil, configError(compositeName, err)
	}
	c.config = c.settings()
	return c, nil
}

const compositeName = "composite"

var compositeDefaults = Common{Seed: 42, Size: 500, Mode: Upstream}

func (c *Composite) addAll(parts []CompositePart) error {
	if len(parts) == 0 {
		return errors.New("datasets is empty, must have at least one")
	}
	for _, p := range parts {
		if err := c.add(p); err != nil {
			return err
		}
	}
	return nil
}

// add needs the lock, or a composite that no one else has.
func (c *Composite) add(p CompositePart) error {
	if p.Name == compositeName { // upstream cannot score it
		return errors.New("datasets has a composite, must have other datasets only")
	}
	if c.index(p.Name) >= 0 {
		return fmt.Errorf("datasets has %s twice, must have each dataset once", p.Name)
	}
	if !(p.Weight > 0) || math.IsInf(p.Weight, 1) {
		return fmt.Errorf("weight of %s is %v, must be above 0", p.Name, p.Weight)
	}
	position := int64(len(c.parts) + 1)
	if c.common.Seed > math.MaxInt64-position {
		return fmt.Errorf("seed is %d, must be at most %d", c.common.Seed, math.MaxInt64-position)
	}
	config := Config{"seed": c.common.Seed + position, "size": c.common.Size, "mode": c.common.Mode}
	maps.Copy(config, p.Config)
	dataset, err := New(p.Name, config)
	if err != nil {
		return err
	}
	c.parts = append(c.parts, compositePart{dataset, p.Weight, c.register(dataset)})
	return nil
}

func (c *Composite) register(d *Dataset) int {
	if c.versions == nil {
		return 0
	}
	return c.versions.register(d)
}

func (c *Composite) index(name string) int {
	return slices.IndexFunc(c.parts, func(p compositePart) bool { return p.dataset.name == name })
}

// settings are the config with all settings of the parts, so that it makes the same composite wherever they stand.
func (c *Composite) settings() json.RawMessage {
	type part struct {
		Name   string          `json:"name"`
		Weight float64         `json:"weight"`
		Config json.RawMessage `json:"config"`
	}
	var own struct {
		Datasets []part `json:"datasets"`
	}
	for _, p := range c.parts {
		own.Datasets = append(own.Datasets, part{p.dataset.name, p.weight, p.dataset.config})
	}
	return encodeConfig(own, c.common)
}

// Origin is the name with all settings, as they are now.
func (c *Composite) Origin() envs.Origin {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return envs.Origin{Name: c.Name(), Config: c.settings()}
}

// item draws a part and makes its item of the same index, with that part's metadata.
func (c *Composite) item(ctx context.Context, r *python.Random, index int, m *object) (item, error) {
	c.mu.RLock()
	odds := make([]float64, len(c.parts))
	for i, p := range c.parts {
		odds[i] = p.weight
	}
	part := python.WeightedChoices(r, c.parts, odds, 1)[0]
	c.mu.RUnlock()
	w := part.dataset.draft()
	defer part.dataset.drafts.Put(w)
	made, err := part.dataset.make(ctx, index, w, m)
	if err != nil {
		return item{}, fmt.Errorf("%s: %w", part.dataset.name, err)
	}
	if part.version > 0 {
		m.int("version_id", part.version)
		m.string("entry_id", strconv.Itoa(part.version)+"."+strconv.Itoa(index))
	}
	return made, nil
}

// scorePart scores by the part that the metadata name.
func (c *Composite) scorePart(task envs.Task, answer string) (float64, error) {
	for name, value := range metadataFields(task.Metadata) {
		if name != "source_dataset" {
			continue
		}
		c.mu.RLock()
		i := c.index(strings.Trim(string(value), "\" \t\n\r"))
		if i < 0 {
			c.mu.RUnlock()
			return 0, fmt.Errorf("reasoninggym: task %s is of %s, which is no part of the composite", task.ID, value)
		}
		score := c.parts[i].dataset.score
		c.mu.RUnlock()
		return score(task, answer)
	}
	return 0, fmt.Errorf("reasoninggym: the metadata of task %s have no source_dataset", task.ID)
}

// change runs a change of the parts, and names the composite in its error.
func (c *Composite) change(f func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := f(); err != nil {
		return configError(compositeName, err)
	}
	return nil
}

func (c *Composite) find(name string) (*compositePart, error) {
	i := c.index(name)
	if i < 0 {
		var names []string
		for _, p := range c.parts {
			names = append(names, p.dataset.name)
		}
		return nil, fmt.Errorf("it has no dataset %q, it has: %s", name, strings.Join(names, ", "))
	}
	return &c.parts[i], nil
}

// SetConfig changes settings of a part, upstream's update_dataset_config. The others stay.
func (c *Composite) SetConfig(name string, settings Config) error {
	return c.change(func() error {
		part, err := c.find(name)
		if err != nil {
			return err
		}
		config, err := readConfig(part.dataset.config)
		if err != nil {
			return err
		}
		maps.Copy(config, settings)
		dataset, err := New(name, config)
		if err != nil {
			return err
		}
		part.dataset, part.version = dataset, c.register(dataset)
		return nil
	})
}

// SetWeight changes the weight of a part, upstream's update_dataset_weight. Unlike at first, it may be 0, unless it is the only one above.
func (c *Composite) SetWeight(name string, weight float64) error {
	return c.change(func() error {
		if _, err := c.find(name); err != nil {
			return err
		}
		if !(weight >= 0) || math.IsInf(weight, 1) {
			return fmt.Errorf("weight of %s is %v, must be at least 0", name, weight)
		}
		parts := slices.Clone(c.parts)
		parts[c.index(name)].weight = weight
		return c.replace(parts)
	})
}

// replace refuses parts of which none can be drawn.
func (c *Composite) replace(parts []compositePart) error {
	if !slices.ContainsFunc(parts, func(p compositePart) bool { return p.weight > 0 }) {
		return errors.New("no weight is above 0, at least one must be")
	}
	c.parts = parts
	return nil
}

// Add adds a part, upstream's add_dataset.
func (c *Composite) Add(part CompositePart) error {
	return c.change(func() error { return c.add(part) })
}

// Remove removes a part, upstream's remove_dataset. The last one cannot be removed.
func (c *Composite) Remove(name string) error {
	return c.change(func() error {
		if _, err := c.find(name); err != nil {
			return err
		}
		i := c.index(name)
		return c.replace(slices.Delete(slices.Clone(c.parts), i, i+1))
	})
}

// ScoreByID scores an answer to the item with an entry_id, upstream's score_answer_with_id: by the dataset as it was then.
func (c *Composite) ScoreByID(ctx context.Context, entryID, answer string) (float64, error) {
	if c.versions == nil {
		return 0, fmt.Errorf("reasoninggym: composite: there are no versions to find entry %q by", entryID)
	}
	first, second, _ := strings.Cut(entryID, ".")
	version, err1 := strconv.Atoi(first)
	index, err2 := strconv.Atoi(second)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("reasoninggym: composite: entry is %q, must be version_id.index", entryID)
	}
	task, err := c.versions.Task(ctx, version, index)
	if err != nil {
		return 0, err
	}
	dataset, err := c.versions.Dataset(version)
	if err != nil {
		return 0, err
	}
	return dataset.Score(ctx, task, answer)
}

// Versions numbers the datasets that composites have had, from 1 on, upstream's DatasetVersionManager. The zero value is ready, and it
// is safe for concurrent use.
type Versions struct {
	mu       sync.Mutex
	last     int
	datasets map[int]*Dataset
}

func (v *Versions) register(d *Dataset) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.datasets == nil {
		v.datasets = map[int]*Dataset{}
	}
	v.last++
	v.datasets[v.last] = d
	return v.last
}

// Dataset returns the dataset of a version.
func (v *Versions) Dataset(version int) (*Dataset, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if d, ok := v.datasets[version]; ok {
		return d, nil
	}
	return nil, fmt.Errorf("reasoninggym: there is no dataset version %d", version)
}

// Task makes an item of a version.
func (v *Versions) Task(ctx context.Context, version, index int) (envs.Task, error) {
	d, err := v.Dataset(version)
	if err != nil {
		return envs.Task{}, err
	}
	return d.Task(ctx, index)
}

// Keep forgets all but the latest versions, upstream's cleanup_old_versions.
func (v *Versions) Keep(latest int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	versions := slices.Sorted(maps.Keys(v.datasets))
	for _, old := range versions[:max(0, len(versions)-max(0, latest))] {
		delete(v.datasets, old)
	}
}

// compositeEntry is composite among the datasets. It is none of the list there, which it looks its parts up in.
type compositeEntry struct{}

func (compositeEntry) id() string { return compositeName }

// defaultParts are ours: upstream has no default.
func defaultParts() []CompositePart {
	return []CompositePart{{Name: chainSum.name, Weight: 1}, {Name: legCounting.name, Weight: 1}}
}

func (e compositeEntry) info() Info {
	d, err := e.open(nil)
	if err != nil {
		panic(err) // the default parts are valid
	}
	return Info{
		Name:        compositeName,
		Category:    "other",
		Description: "Draw each task from one of several datasets, by weight.",
		Defaults:    d.config,
	}
}

func (compositeEntry) open(config Config) (*Dataset, error) {
	own, common := struct {
		Datasets any `json:"datasets"`
	}{defaultParts()}, compositeDefaults
	if err := decodeConfig(config, &own, &common); err != nil {
		return nil, configError(compositeName, err)
	}
	parts, err := readParts(own.Datasets)
	if err != nil {
		return nil, configError(compositeName, err)
	}
	c, err := newComposite(parts, common, nil)
	if err != nil {
		return nil, err
	}
	return c.Dataset, nil
}

// readParts takes a list of CompositeParts, or of maps with their fields.
func readParts(value any) ([]CompositePart, error) {
	if parts, ok := value.([]CompositePart); ok {
		return parts, nil
	}
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice {
		return nil, fmt.Errorf("datasets is %s, must be a list of objects with name, weight and config", shown(value))
	}
	var parts []CompositePart
	for i := range list.Len() {
		part, err := readPart(list.Index(i).Interface())
		if err != nil {
			return nil, fmt.Errorf("element %d of datasets: %w", i, err)
		}
		parts = append(parts, part)
	}
	return parts, nil
}

func readPart(value any) (part CompositePart, err error) {
	fields, ok := asConfig(value)
	if !ok {
		return part, fmt.Errorf("is %s, must be an object with name, weight and config", shown(value))
	}
	var own struct {
		Name   string  `json:"name"`
		Weight float64 `json:"weight"`
		Config any     `json:"config"`
	}
	if err := decodeConfig(fields, &own); err != nil {
		return part, err
	}
	part = CompositePart{Name: own.Name, Weight: own.Weight}
	if own.Config == nil {
		return part, nil
	}
	if part.Config, ok = asConfig(own.Config); !ok {
		return part, fmt.Errorf("config is %s, must be an object", shown(own.Config))
	}
	return part, nil
}

func asConfig(value any) (Config, bool) {
	switch v := value.(type) {
	case Config:
		return v, true
	case map[string]any:
		return v, true
	}
	return nil, false
}
