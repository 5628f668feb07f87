package reasoninggym

import (
	"context"
	"slices"

	"github.com/grouper-rl/grouper/internal/python"
)

// datasets is the one list of all datasets.
var datasets = []dataset{
	abSystem,
	aiw,
	baseConversion,
	basicArithmetic,
	bitwiseArithmetic,
	caesarCipher,
	chainSum,
	complexArithmetic,
	countdown,
	decimalChainSum,
	fractionSimplification,
	gcd,
	graphColor,
	isomorphicStrings,
	knightsKnaves,
	lcm,
	legCounting,
	letterCounting,
	maze,
	miniSudoku,
	numberSorting,
	propositionalLogic,
	quantumLock,
	shortestPath,
	simpleEquations,
	simpleGeometry,
	sokoban,
	spellBackward,
	tsumego,
	zebraPuzzles,
}

// allDatasets has composite, too, which is not in the list because its parts are.
func allDatasets() []dataset { return append(slices.Clip(datasets), compositeEntry{}) }

type dataset interface {
	id() string // the name
	info() Info
	open(Config) (*Dataset, error)
}

// Settings is the constraint of the config structs: CaesarCipherConfig, IsomorphicStringsConfig, ….
type Settings interface {
	// validate names the first field that is wrong, its value, and what is allowed.
	validate() error
}

// definition is how the file of a dataset describes it. C has the fields of upstream's config class but seed and size, with
// upstream's names as JSON names and in upstream's order.
type definition[C Settings] struct {
	name        string
	category    string // upstream's folder
	description string // what is asked for, in a sentence
	defaults    C
	size        int // upstream's default size if it is not 500

	// prepare does what upstream's dataset does when it is created. The config is valid, and its slices are the dataset's own.
	prepare func(config C) (generator, error)
	// prepareAt is there instead of prepare if items depend on more than a generator and the config, or if making one may
	// take so long that it must end with the context.
	prepareAt func(config C, common Common) (indexedGenerator, error)
	// score is upstream's score_answer. nil is that of the base class, substringScore.
	score scorer

	// What Mode Corrected uses instead, and what that changes. nil prepareCorrected is the generator of Upstream. Without a score
	// of its own, a dataset is corrected by equalScore.
	prepareCorrected func(config C) (generator, error)
	scoreCorrected   scorer
	faults           []Fault

	curriculum []Attribute
}

// generator makes an item from a Random that is seeded with seed + index, and appends its metadata to those that all items have, in
// upstream's order. Where upstream raises, it panics with a python.Error or returns one.
type generator func(r *python.Random, m *object) (item, error)

// indexedGenerator is a generator that is also told the index.
type indexedGenerator func(ctx context.Context, r *python.Random, index int, m *object) (item, error)

// item is upstream's item without its metadata. Where upstream's answer is None, it is "" and the metadata hold what a scorer needs.
type item struct{ question, answer string }

func (d definition[C]) common() Common {
	c := Common{Seed: 42, Size: 500, Mode: Upstream}
	if d.size > 0 {
		c.Size = d.size
	}
	return c
}

func (d definition[C]) id() string { return d.name }

func (d definition[C]) info() Info {
	return Info{
		Name:        d.name,
		Category:    d.category,
		Description: d.description,
		Defaults:    encodeConfig(d.defaults, d.common()),
		Faults:      d.allFaults(),
		Attributes:  slices.Clone(d.curriculum),
	}
}

// allFaults begins with the fault of the base class's scorer where that is used.
func (d definition[C]) allFaults() []Fault {
	if d.score != nil {
		return slices.Clone(d.faults)
	}
	return append([]Fault{substringFault}, d.faults...)
}

func (d definition[C]) open(config Config) (*Dataset, error) {
	own, common := cloneSettings(d.defaults), d.common()
	if err := decodeConfig(config, &own, &common); err != nil {
		return nil, configError(d.name, err)
	}
	return d.make(own, common)
}

// make checks the settings and prepares the dataset.
func (d definition[C]) make(own C, common Common) (*Dataset, error) {
	if err := check(own.validate(), common.validate()); err != nil {
		return nil, configError(d.name, err)
	}
	generate, err := d.generator(own, common)
	if err != nil {
		return nil, configError(d.name, err)
	}
	return &Dataset{
		name:     d.name,
		config:   encodeConfig(own, common),
		common:   common,
		generate: generate,
		score:    d.scorer(common.Mode),
	}, nil
}

func (d definition[C]) generator(own C, common Common) (indexedGenerator, error) {
	prepare := d.prepare
	if common.Mode == Corrected && d.prepareCorrected != nil {
		prepare = d.prepareCorrected
	}
	if prepare == nil {
		return d.prepareAt(own, common)
	}
	generate, err := prepare(own)
	return func(_ context.Context, r *python.Random, _ int, m *object) (item, error) { return generate(r, m) }, err
}

func (d definition[C]) scorer(mode Mode) scorer {
	switch {
	case mode == Upstream && d.score == nil:
		return substringScore
	case mode == Upstream:
		return d.score
	case d.scoreCorrected != nil:
		return d.scoreCorrected
	case d.score == nil:
		return equalScore
	}
	return d.score
}
