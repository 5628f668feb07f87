package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/grouper-rl/grouper/policy/decoder"
)

// rope is rope_parameters of transformers 5 or rope_scaling of transformers 4.
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

// deref is *p, or what transformers takes where the key is absent or null.
func deref[T any](p *T, absent T) T {
	if p == nil {
		return absent
	}
	return *p
}

// rope reads rope_parameters, or else rope_scaling and rope_theta.
func (k *keys) rope() decoder.Rope {
	theta := or(k, "rope_theta", 10000.0)
	if k.has("rope_parameters") {
		return k.ropeOf("rope_parameters", k.raw["rope_parameters"], theta)
	}
	return k.ropeOf("rope_scaling", k.raw["rope_scaling"], theta)
}

// ropeOf reads an object of rope parameters.
func (k *keys) ropeOf(key string, raw json.RawMessage, theta float64) decoder.Rope {
	r, err := parseRope(key, raw, theta, or(k, "partial_rotary_factor", 1.0), or(k, "max_position_embeddings", 0))
	if err != nil {
		k.fail(err)
	}
	if r.Partial != 1 {
		k.unsupported("partial_rotary_factor", r.Partial, "1")
	}
	return r
}

// parseRope reads rope parameters under a key; what they lack is taken from the arguments.
func parseRope(key string, raw json.RawMessage, theta, partial float64, positions int) (decoder.Rope, error) {
	var p rope
	if !isNull(raw) {
		if err := json.Unmarshal(raw, &p); err != nil {
			return decoder.Rope{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	r := decoder.Rope{Type: decoder.RopeType(deref(p.Type, deref(p.OldType, "default"))), Theta: deref(p.Theta, theta),
		Partial: deref(p.PartialRotary, partial)}
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
	original := deref(p.Original, float64(positions))
	if original != math.Trunc(original) || math.Abs(original) > 1<<40 {
		return r, fmt.Errorf("%s.original_max_position_embeddings is %v, allowed: a whole number", key, original)
	}
	need := func(name string, from, to *float64) error {
		if from == nil {
			return fmt.Errorf("%s.%s is missing for %s", key, name, r.Type)
		}
		*to = *from
		return nil
	}
	switch r.Type {
	case decoder.RopeLinear:
		return r, need("factor", p.Factor, &r.Factor)
	case decoder.RopeLlama3:
		r.Original = int(original)
		return r, errors.Join(need("factor", p.Factor, &r.Factor), need("low_freq_factor", p.LowFreq, &r.LowFreqFactor),
			need("high_freq_factor", p.HighFreq, &r.HighFreqFactor))
	case decoder.RopeYarn:
		if p.MScale != nil || p.MScaleAllDim != nil || !deref(p.Truncate, true) {
			return r, fmt.Errorf("%w: %s has mscale, mscale_all_dim or truncate=false, supported: none of them", ErrUnsupported, key)
		}
		r.Original = int(original)
		r.BetaFast, r.BetaSlow, r.AttentionFactor = deref(p.BetaFast, 32), deref(p.BetaSlow, 1), deref(p.Attention, 0)
		return r, need("factor", p.Factor, &r.Factor)
	}
	return r, nil
}

// writeRope gives rope_parameters.
func writeRope(r decoder.Rope) map[string]any {
	out := map[string]any{"rope_type": r.Type, "rope_theta": r.Theta}
	if r.Type != decoder.RopeDefault {
		out["factor"] = r.Factor
	}
	if r.Type == decoder.RopeLlama3 || r.Type == decoder.RopeYarn {
		out["original_max_position_embeddings"] = r.Original
	}
	for key, v := range map[string]float64{
		"low_freq_factor": r.LowFreqFactor, "high_freq_factor": r.HighFreqFactor,
		"beta_fast": r.BetaFast, "beta_slow": r.BetaSlow, "attention_factor": r.AttentionFactor,
	} {
		if v != 0 {
			out[key] = v
		}
	}
	return out
}
