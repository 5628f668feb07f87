package hf

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/policy/decoder"
)

// keys reads the keys of a JSON object one by one. The first error stays; what is returned after it means nothing.
type keys struct {
	raw    map[string]json.RawMessage
	absent map[string]any // what keys that are not there stand for
	err    error
}

// fail records an error, unless there is one.
func (k *keys) fail(err error) {
	if k.err == nil {
		k.err = err
	}
}

// unsupported records that a key asks for something that is not implemented.
func (k *keys) unsupported(key string, value any, allowed string) {
	k.fail(fmt.Errorf("%w: %s is %v, supported: %s", ErrUnsupported, key, value, allowed))
}

// has tells whether a key is there, and not null.
func (k *keys) has(key string) bool { return !isNull(k.raw[key]) }

// isNull tells a JSON value that is absent or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// get reads a key, or what its absence stands for, or says that it has neither. A null is as good as absence, except that it does
// not stand for the absent value.
func get[T any](k *keys, key string) (v T, ok bool) {
	raw, there := k.raw[key]
	switch {
	case !there:
		v, ok = k.absent[key].(T)
	case string(raw) != "null":
		if err := json.Unmarshal(raw, &v); err != nil {
			k.fail(fmt.Errorf("%s: %w", key, err))
		}
		ok = true
	}
	return v, ok
}

// or reads a key, or gives a value in its place.
func or[T any](k *keys, key string, otherwise T) T {
	if v, ok := get[T](k, key); ok {
		return v
	}
	return otherwise
}

// need reads a key that must be there.
func need[T any](k *keys, key string) T {
	v, ok := get[T](k, key)
	if !ok {
		k.fail(fmt.Errorf("%s is missing", key))
	}
	return v
}

// none makes sure that a key asks for nothing: it is absent, null or false.
func (k *keys) none(names ...string) {
	for _, key := range names {
		if k.has(key) && string(k.raw[key]) != "false" {
			k.unsupported(key, string(k.raw[key]), "none")
		}
	}
}

// sameLayers makes sure that layer_types, if it is there, has one type for all layers.
func (k *keys) sameLayers(layers int, of string) {
	k.layerTypes(layers, func(int) string { return of }, of)
}

// layerTypes reads layer_types, or else derives them from the layer's number. Only the allowed ones are supported.
func (k *keys) layerTypes(layers int, derive func(i int) string, allowed ...string) []string {
	if layers < 0 || layers > decoder.MaxLayers { // the decoder's Validate says so
		return nil
	}
	types, ok := get[[]string](k, "layer_types")
	if !ok {
		for i := range layers {
			types = append(types, derive(i))
		}
	}
	if len(types) != layers {
		k.fail(fmt.Errorf("layer_types has %d entries, num_hidden_layers is %d", len(types), layers))
	}
	for i, t := range types {
		if !slices.Contains(allowed, t) {
			k.unsupported(fmt.Sprintf("layer_types[%d]", i), fmt.Sprintf("%q", t), strings.Join(allowed, ", "))
		}
	}
	return types
}
