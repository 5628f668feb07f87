package hf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/policy/decoder"
)

// family is one kind of model: which configurations are of it, what their keys mean, and how its tensors are called. A
// family has a file of its own, which calls define.
type family struct {
	modelTypes []string // model_type in config.json, or in its text_config
	wrappers   []string // model_type of a config.json whose text_config is of the family
	class      string   // transformers' class, which config.json names under architectures

	names decoder.Names // of the tensors
	// roots can stand in place of "model." at the start of names: in checkpoints of models that see images too.
	roots []string
	// towers begin the names of tensors that the text model does not use.
	towers []string

	// absent holds what transformers takes for keys that are not there. A key of a size that is not listed is required.
	absent map[string]any
	// read sets what the family has beyond the keys that all families share.
	read func(k *keys, d *decoder.Config)
	// write sets the keys that read reads, for a configuration of the family. It need not find out whether the configuration is one:
	// what it writes is read again and compared.
	write func(d decoder.Config, c map[string]any)
}

// families are all that are defined, in the order of their files' names.
var families []*family

// define adds a family.
func define(f family) *family {
	families = append(families, &f)
	return &f
}

// familyOf finds the family of a model type, in a text_config within wrapper or alone (wrapper "").
func familyOf(modelType, wrapper string) (*family, error) {
	var known []string
	for _, f := range families {
		if slices.Contains(f.modelTypes, modelType) && (wrapper == "" || slices.Contains(f.wrappers, wrapper)) {
			return f, nil
		}
		known = append(append(known, f.modelTypes...), f.wrappers...)
	}
	slices.Sort(known)
	what := fmt.Sprintf("%q", modelType)
	if wrapper != "" {
		what = fmt.Sprintf("%q with a text_config of type %q", wrapper, modelType)
	}
	return nil, fmt.Errorf("%w: model_type is %s, supported: %s", ErrUnsupported, what, strings.Join(slices.Compact(known), ", "))
}

// namesIn are the names of tensors in a checkpoint that has those: with the root that the embedding has there.
func (f *family) namesIn(has func(name string) bool) decoder.Names {
	for _, root := range f.roots {
		names := make(decoder.Names, len(f.names))
		for role, name := range f.names {
			if rest, ok := strings.CutPrefix(name, "model."); ok {
				name = root + rest
			} else if outer, ok := strings.CutSuffix(root, ".model."); ok { // the whole model is within another
				name = outer + "." + name
			}
			names[role] = name
		}
		if has(names[decoder.Embedding]) {
			return names
		}
	}
	return f.names
}

// isTower tells tensors that the text model does not use.
func (f *family) isTower(name string) bool {
	return slices.ContainsFunc(f.towers, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
