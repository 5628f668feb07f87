package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Experiment is what a server makes an experiment of: a composite dataset.
type Experiment struct {
	Size     int // upstream's size of the datasets whose config has none; tasks may have indices beyond it
	Seed     int64
	Datasets []Dataset // item i's dataset is drawn by weight; a dataset without a seed has Seed + 1, Seed + 2, … by its place
}

// Dataset is one of an Experiment's datasets.
type Dataset struct {
	Name   string         // upstream's: "caesar_cipher"
	Weight float64        // relative to the others'
	Config map[string]any // settings by upstream's names; what is not named has upstream's default
}

// Validate names the field that is wrong. The datasets' names and configs are for the server to judge.
func (e Experiment) Validate() error {
	if e.Size <= 0 {
		return fmt.Errorf("Experiment.Size is %d, must be at least 1", e.Size)
	}
	sum, seen := 0.0, map[string]bool{}
	for i, d := range e.Datasets {
		if !(d.Weight >= 0) {
			return fmt.Errorf("Experiment.Datasets[%d].Weight is %v, must be at least 0", i, d.Weight)
		}
		if seen[d.Name] {
			return fmt.Errorf("Experiment.Datasets[%d].Name is %q again, must be once", i, d.Name)
		}
		seen[d.Name] = true
		sum += d.Weight
	}
	if !(sum > 0) {
		return errors.New("Experiment.Datasets has no weight above 0, must have at least one")
	}
	return nil
}

// request is the body that creates the experiment. The order of the datasets decides their seeds, so it is no Go map.
func (e Experiment) request(name string) (json.RawMessage, error) {
	var datasets bytes.Buffer
	datasets.WriteByte('{')
	for i, d := range e.Datasets {
		config := d.Config
		if config == nil {
			config = map[string]any{}
		}
		key, err := json.Marshal(d.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(struct {
			Weight float64        `json:"weight"`
			Config map[string]any `json:"config"`
		}{d.Weight, config})
		if err != nil {
			return nil, fmt.Errorf("Experiment.Datasets[%d] (%s): %w", i, d.Name, err)
		}
		if i > 0 {
			datasets.WriteByte(',')
		}
		datasets.Write(key)
		datasets.WriteByte(':')
		datasets.Write(value)
	}
	datasets.WriteByte('}')
	return json.Marshal(struct {
		Name     string          `json:"name"`
		Size     int             `json:"size"`
		Seed     int64           `json:"seed"`
		Datasets json.RawMessage `json:"datasets"`
	}{name, e.Size, e.Seed, datasets.Bytes()})
}
