package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/grouper-rl/grouper/policy/decoder"
)

// config is config.json as transformers 4 and 5 write it, for the supported model types. Pointers tell absent and null
// from zero.
type config struct {
	ModelType    string `json:"model_type"`
	Vocab        *int   `json:"vocab_size"`
	Hidden       *int   `json:"hidden_size"`
	Layers       *int   `json:"num_hidden_layers"`
	Heads        *int   `json:"num_attention_heads"`
	KVHeads      *int   `json:"num_key_value_heads"`
	HeadDim      *int   `json:"head_dim"`
	Intermediate *int   `json:"intermediate_size"`
	MaxPositions *int   `json:"max_position_embeddings"`

	NormEps       *float64 `json:"rms_norm_eps"`
	InitDeviation *float64 `json:"initializer_range"`
	Activation    *string  `json:"hidden_act"`
	Tied          *bool    `json:"tie_word_embeddings"`
	AttentionBias *bool    `json:"attention_bias"`
	MLPBias       *bool    `json:"mlp_bias"`

	RopeParameters json.RawMessage `json:"rope_parameters"` // transformers 5
	RopeScaling    json.RawMessage `json:"rope_scaling"`    // transformers 4
	RopeTheta      *float64        `json:"rope_theta"`
	PartialRotary  *float64        `json:"partial_rotary_factor"`

	LayerTypes       []string        `json:"layer_types"`
	UseSlidingWindow *bool           `json:"use_sliding_window"`
	Quantization     json.RawMessage `json:"quantization_config"`
}

type rope struct {
	Type          *string  `json:"rope_type"`
	OldType       *string  `json:"type"`
	Theta         *float64 `json:"rope_theta"`
	Factor        *float64 `json:"factor"`
	Original      *float64 `json:"original_max_position_embeddings"`
	LowFreq       *float64 `json:"low_freq_factor"`
	HighFreq      *float64 `json:"high_freq_factor"`
	BetaFast      *float64 `json:"beta_fast"`
	BetaSlow      *float64 `json:"beta_slow"`
	Attention     *float64 `json:"attention_factor"`
	PartialRotary *float64 `json:"partial_rotary_factor"`
	MScale        *float64 `json:"mscale"`
	MScaleAllDim  *float64 `json:"mscale_all_dim"`
	Truncate      *bool    `json:"truncate"`
}

// or is *p, or what transformers takes where the key is absent or null.
func or[T any](p *T, absent T) T {
	if p == nil {
		return absent
	}
	return *p
}

// parseConfig turns config.json into a decoder's configuration, without the dtype.
func parseConfig(data []byte) (decoder.Config, error) {
	var c config
	var d decoder.Config
	if err := json.Unmarshal(data, &c); err != nil {
		return d, err
	}
	unsupported := func(key string, value any, allowed string) error {
		return fmt.Errorf("%w: %s is %v, supported: %s", ErrUnsupported, key, value, allowed)
	}
	switch c.ModelType {
	case "llama":
		d.QKVBias, d.OutputBias, d.MLPBias = or(c.AttentionBias, false), or(c.AttentionBias, false), or(c.MLPBias, false)
	case "qwen2":
		d.QKVBias = true
	case "qwen3":
		d.QKNorm, d.QKVBias, d.OutputBias = true, or(c.AttentionBias, false), or(c.AttentionBias, false)
	default:
		return d, unsupported("model_type", fmt.Sprintf("%q", c.ModelType), "llama, qwen2, qwen3")
	}
	if act := or(c.Activation, "silu"); act != "silu" && act != "swish" {
		return d, unsupported("hidden_act", fmt.Sprintf("%q", act), "silu")
	}
	if i := slices.IndexFunc(c.LayerTypes, func(t string) bool { return t != "full_attention" }); i >= 0 {
		return d, unsupported(fmt.Sprintf("layer_types[%d]", i), fmt.Sprintf("%q", c.LayerTypes[i]), "full_attention")
	}
	if c.ModelType != "llama" && or(c.UseSlidingWindow, false) {
		return d, unsupported("use_sliding_window", true, "false")
	}
	if !isNull(c.Quantization) {
		return d, unsupported("quantization_config", string(c.Quantization), "none")
	}
	for _, f := range []struct {
		key  string
		from *int
		to   *int
	}{
		{"vocab_size", c.Vocab, &d.Vocab}, {"hidden_size", c.Hidden, &d.Hidden}, {"num_hidden_layers", c.Layers, &d.Layers},
		{"num_attention_heads", c.Heads, &d.Heads}, {"intermediate_size", c.Intermediate, &d.Intermediate},
		{"max_position_embeddings", c.MaxPositions, &d.MaxPositions},
	} {
		if f.from == nil {
			return d, fmt.Errorf("%s is missing", f.key)
		}
		*f.to = *f.from
	}
	if c.LayerTypes != nil && len(c.LayerTypes) != d.Layers {
		return d, fmt.Errorf("layer_types has %d entries, num_hidden_layers is %d", len(c.LayerTypes), d.Layers)
	}
	d.KVHeads, d.HeadDim = or(c.KVHeads, d.Heads), or(c.HeadDim, 0)
	if c.HeadDim == nil && d.Heads > 0 && d.Hidden%d.Heads != 0 {
		return d, fmt.Errorf("head_dim is missing and hidden_size %d is no multiple of num_attention_heads %d", d.Hidden, d.Heads)
	}
	if c.HeadDim != nil && d.HeadDim < 1 {
		return d, fmt.Errorf("head_dim is %d, allowed: 1 or more", d.HeadDim)
	}
	d.NormEps, d.InitDeviation, d.Tied = or(c.NormEps, 1e-6), or(c.InitDeviation, 0.02), or(c.Tied, false)
	var err error
	if d.Rope, err = c.rope(); err != nil {
		return d, err
	}
	return d, d.Validate()
}

// rope reads rope_parameters, or else rope_scaling and rope_theta.
func (c config) rope() (decoder.Rope, error) {
	key, raw := "rope_parameters", c.RopeParameters
	if isNull(raw) {
		key, raw = "rope_scaling", c.RopeScaling
	}
	var p rope
	if !isNull(raw) {
		if err := json.Unmarshal(raw, &p); err != nil {
			return decoder.Rope{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	r := decoder.Rope{Type: decoder.RopeType(or(p.Type, or(p.OldType, "default"))), Theta: or(p.Theta, or(c.RopeTheta, 10000))}
	if part := or(p.PartialRotary, or(c.PartialRotary, 1)); part != 1 {
		return r, fmt.Errorf("%w: partial_rotary_factor is %v, supported: 1", ErrUnsupported, part)
	}
	need := func(name string, from, to *float64) error {
		if from == nil {
			return fmt.Errorf("%s.%s is missing for %s", key, name, r.Type)
		}
		*to = *from
		return nil
	}
	if !slices.Contains([]decoder.RopeType{decoder.RopeDefault, decoder.RopeLinear, decoder.RopeLlama3, decoder.RopeYarn}, r.Type) {
		return r, fmt.Errorf("%w: %s.rope_type is %q, supported: default, linear, llama3, yarn", ErrUnsupported, key, r.Type)
	}
	if !isNull(raw) { // a key that is not known may change the frequencies
		strict := json.NewDecoder(bytes.NewReader(raw))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&rope{}); err != nil {
			return r, fmt.Errorf("%w: %s: %w", ErrUnsupported, key, err)
		}
	}
	original := or(p.Original, float64(or(c.MaxPositions, 0)))
	if original != math.Trunc(original) || math.Abs(original) > 1<<40 {
		return r, fmt.Errorf("%s.original_max_position_embeddings is %v, allowed: a whole number", key, original)
	}
	switch r.Type {
	case decoder.RopeLinear:
		return r, need("factor", p.Factor, &r.Factor)
	case decoder.RopeLlama3:
		r.Original = int(original)
		return r, errors.Join(need("factor", p.Factor, &r.Factor), need("low_freq_factor", p.LowFreq, &r.LowFreqFactor),
			need("high_freq_factor", p.HighFreq, &r.HighFreqFactor))
	case decoder.RopeYarn:
		if p.MScale != nil || p.MScaleAllDim != nil || !or(p.Truncate, true) {
			return r, fmt.Errorf("%w: %s has mscale, mscale_all_dim or truncate=false, supported: none of them", ErrUnsupported, key)
		}
		r.Original = int(original)
		r.BetaFast, r.BetaSlow, r.AttentionFactor = or(p.BetaFast, 32), or(p.BetaSlow, 1), or(p.Attention, 0)
		return r, need("factor", p.Factor, &r.Factor)
	}
	return r, nil
}

// isNull tells a JSON key that is absent or null.
func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

// writeConfig gives config.json as transformers 5 writes it, with the model type that has the decoder's features.
func writeConfig(d decoder.Config, g Generation) ([]byte, error) {
	c := map[string]any{
		"vocab_size": d.Vocab, "hidden_size": d.Hidden, "num_hidden_layers": d.Layers, "num_attention_heads": d.Heads,
		"num_key_value_heads": d.KVHeads, "head_dim": d.HeadDim, "intermediate_size": d.Intermediate,
		"max_position_embeddings": d.MaxPositions, "rms_norm_eps": d.NormEps, "initializer_range": d.InitDeviation,
		"hidden_act": "silu", "tie_word_embeddings": d.Tied, "attention_dropout": 0.0, "use_cache": true,
		"dtype": map[dtypes.DType]string{dtypes.Float32: "float32", dtypes.BFloat16: "bfloat16"}[d.DType],
	}
	kind := func(modelType, class string) { c["model_type"], c["architectures"] = modelType, []string{class} }
	switch {
	case d.QKNorm && d.QKVBias == d.OutputBias && !d.MLPBias:
		kind("qwen3", "Qwen3ForCausalLM")
		c["attention_bias"], c["use_sliding_window"] = d.QKVBias, false
	case !d.QKNorm && d.QKVBias && !d.OutputBias && !d.MLPBias:
		kind("qwen2", "Qwen2ForCausalLM")
		c["use_sliding_window"] = false
	case !d.QKNorm && d.QKVBias == d.OutputBias:
		kind("llama", "LlamaForCausalLM")
		c["attention_bias"], c["mlp_bias"] = d.QKVBias, d.MLPBias
	default:
		return nil, fmt.Errorf("%w: no model type of Hugging Face has QKNorm %v, QKVBias %v, OutputBias %v and MLPBias %v together",
			ErrUnsupported, d.QKNorm, d.QKVBias, d.OutputBias, d.MLPBias)
	}
	r := map[string]any{"rope_type": d.Rope.Type, "rope_theta": d.Rope.Theta}
	if d.Rope.Type != decoder.RopeDefault {
		r["factor"] = d.Rope.Factor
	}
	if d.Rope.Type == decoder.RopeLlama3 || d.Rope.Type == decoder.RopeYarn {
		r["original_max_position_embeddings"] = d.Rope.Original
	}
	for key, v := range map[string]float64{
		"low_freq_factor": d.Rope.LowFreqFactor, "high_freq_factor": d.Rope.HighFreqFactor,
		"beta_fast": d.Rope.BetaFast, "beta_slow": d.Rope.BetaSlow, "attention_factor": d.Rope.AttentionFactor,
	} {
		if v != 0 {
			r[key] = v
		}
	}
	c["rope_parameters"] = r
	g.addTokens(c)
	return encode(c)
}
