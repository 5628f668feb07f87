package reasoninggym

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/grouper-rl/grouper/envs"
)

// seedDistance is how far apart the seeds of a bank's parts are: more than the items that anyone walks.
const seedDistance = 1_000_000_000

// Sources returns three sources for envs.FreezeParts: the dataset itself to train on, and the same with its seed plus a billion and
// plus two billion to validate and to confirm with. Item i of seed s is item 0 of seed s+i, so that nearer seeds could have items in
// common; these have none, but datasets of few tasks may still make a task twice, which envs.FreezeParts refuses.
func (d *Dataset) Sources() (envs.Sources, error) {
	return sourcesOf(d, d.name, d.config)
}

// Sources is as that of a Dataset, with the parts and weights that the composite has now; the seeds of all parts are moved.
func (c *Composite) Sources() (envs.Sources, error) {
	return sourcesOf(c, c.name, c.Origin().Config)
}

func sourcesOf(train envs.Source, name string, config json.RawMessage) (envs.Sources, error) {
	validation, err := withSeedsMoved(name, config, seedDistance)
	if err != nil {
		return envs.Sources{}, err
	}
	confirmation, err := withSeedsMoved(name, config, 2*seedDistance)
	return envs.Sources{Train: train, Validation: validation, Confirmation: confirmation}, err
}

// withSeedsMoved makes a dataset with other seeds than its settings have, which are whole.
func withSeedsMoved(name string, settings json.RawMessage, by int64) (*Dataset, error) {
	config, err := readConfig(settings)
	if err != nil {
		return nil, configError(name, err)
	}
	if err := moveSeeds(config, by); err != nil {
		return nil, configError(name, err)
	}
	return New(name, config)
}

func moveSeeds(config Config, by int64) error {
	seed, err := config["seed"].(json.Number).Int64()
	if err != nil {
		return err
	}
	const highest = math.MaxInt64 - 3*seedDistance
	if seed < 0 || seed > highest { // Python's generators for -5 and 5 are the same
		return fmt.Errorf("seed is %d, must be 0 to %d for seeds that are far from it", seed, int64(highest))
	}
	config["seed"] = seed + by
	parts, _ := config["datasets"].([]any) // of a composite
	for _, part := range parts {
		if err := moveSeeds(part.(map[string]any)["config"].(map[string]any), by); err != nil {
			return fmt.Errorf("a part: %w", err)
		}
	}
	return nil
}
