package hf

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/grouper-rl/grouper/internal/files"
	"github.com/grouper-rl/grouper/policy/decoder"
)

// activations are the supported ones by their names in config.json.
var activations = map[string]decoder.Activation{"silu": decoder.SiLU, "swish": decoder.SiLU, "gelu_pytorch_tanh": decoder.GeluTanh}

// parseConfig turns config.json, as transformers 4 and 5 write it, into a decoder's configuration, without dtypes.
func parseConfig(data []byte) (d decoder.Config, f *family, err error) {
	k := &keys{}
	if err := files.Unmarshal(data, &k.raw); err != nil {
		return d, nil, err
	}
	modelType, wrapper := or(k, "model_type", ""), ""
	if k.has("text_config") {
		outer := k
		k = &keys{raw: need[map[string]json.RawMessage](outer, "text_config")}
		if outer.err != nil {
			return d, nil, outer.err
		}
		modelType, wrapper = or(k, "model_type", modelType), modelType
		if tied, ok := outer.raw["tie_word_embeddings"]; ok { // the head belongs to the outer model
			k.raw["tie_word_embeddings"] = tied
		}
		if q, ok := outer.raw["quantization_config"]; ok {
			k.raw["quantization_config"] = q
		}
	}
	if k.err != nil {
		return d, nil, k.err
	}
	if f, err = familyOf(modelType, wrapper); err != nil {
		return d, nil, err
	}
	k.absent, d.Names = f.absent, f.names
	f.readShared(k, &d)
	if k.err == nil {
		f.read(k, &d)
	}
	if k.err != nil {
		return d, nil, k.err
	}
	return d, f, d.Validate()
}

// readShared reads the keys that all families have.
func (f *family) readShared(k *keys, d *decoder.Config) {
	k.none("quantization_config")
	d.Vocab, d.Hidden, d.Layers = need[int](k, "vocab_size"), need[int](k, "hidden_size"), need[int](k, "num_hidden_layers")
	d.Heads, d.Intermediate = need[int](k, "num_attention_heads"), need[int](k, "intermediate_size")
	d.MaxPositions = need[int](k, "max_position_embeddings")
	d.KVHeads = or(k, "num_key_value_heads", d.Heads)
	if head, ok := get[int](k, "head_dim"); ok {
		if d.HeadDim = head; head < 1 {
			k.fail(fmt.Errorf("head_dim is %d, allowed: 1 or more", head))
		}
	} else if d.Heads > 0 && d.Hidden%d.Heads != 0 {
		k.fail(fmt.Errorf("head_dim is missing and hidden_size %d is no multiple of num_attention_heads %d", d.Hidden, d.Heads))
	}
	d.NormEps, d.InitDeviation = or(k, "rms_norm_eps", 1e-6), or(k, "initializer_range", 0.02)
	d.Tied = or(k, "tie_word_embeddings", false)
	for _, key := range []string{"hidden_act", "hidden_activation"} {
		if name := or(k, key, ""); name != "" {
			var ok bool
			if d.Activation, ok = activations[name]; !ok {
				k.unsupported(key, fmt.Sprintf("%q", name), "silu, gelu_pytorch_tanh")
			}
		}
	}
}

// writeConfig gives config.json as transformers 5 writes it, with the model type that has the decoder's features.
func writeConfig(d decoder.Config, g Generation) ([]byte, error) {
	for _, f := range families {
		c := map[string]any{
			"vocab_size": d.Vocab, "hidden_size": d.Hidden, "num_hidden_layers": d.Layers, "num_attention_heads": d.Heads,
			"num_key_value_heads": d.KVHeads, "head_dim": d.HeadDim, "intermediate_size": d.Intermediate,
			"max_position_embeddings": d.MaxPositions, "rms_norm_eps": d.NormEps, "initializer_range": d.InitDeviation,
			"hidden_act": d.Activation, "tie_word_embeddings": d.Tied, "attention_dropout": 0.0, "use_cache": true,
			"rope_parameters": writeRope(d.Rope), "model_type": f.modelTypes[0], "architectures": []string{f.class},
			"dtype": map[dtypes.DType]string{dtypes.Float32: "float32", dtypes.BFloat16: "bfloat16"}[d.DType],
		}
		f.write(d, c)
		g.addTokens(c)
		data, err := encode(c)
		if err != nil {
			return nil, err
		}
		if again, _, err := parseConfig(data); err == nil && f.same(again, d) {
			return data, nil
		}
	}
	var known []string
	for _, f := range families {
		known = append(known, f.modelTypes...)
	}
	slices.Sort(known)
	return nil, fmt.Errorf("%w: no model type of Hugging Face has the features and tensor names of this decoder's configuration, supported: %v",
		ErrUnsupported, known)
}

// same tells whether a configuration that was read describes the same model as d, which has its defaults.
func (f *family) same(read, d decoder.Config) bool {
	// What config.json does not say.
	read.DType, read.DTypes, read.QueryBlock, read.Rematerialize = d.DType, d.DTypes, d.QueryBlock, d.Rematerialize
	m, err := decoder.New(read)
	return err == nil && reflect.DeepEqual(m.Config(), d)
}
