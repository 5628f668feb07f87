package hf

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/grouper-rl/grouper/internal/files"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// Generation is what a model's makers say about sampling from it: generation_config.json, and for special tokens that it
// lacks config.json. Sampling settings are 0 where nothing is said.
type Generation struct {
	EOS []int32 // tokens that end a completion
	BOS int32   // first token of a text; tokenizer.None: none
	Pad int32   // filler; tokenizer.None: none

	Temperature  float64
	TopK         int
	TopP         float64
	MinP         float64
	MaxNewTokens int
}

// generationFile is the part of generation_config.json and of config.json that is read here.
type generationFile struct {
	EOS          oneOrMany `json:"eos_token_id"`
	BOS          *int32    `json:"bos_token_id"`
	Pad          *int32    `json:"pad_token_id"`
	Temperature  float64   `json:"temperature"`
	TopK         int       `json:"top_k"`
	TopP         float64   `json:"top_p"`
	MinP         float64   `json:"min_p"`
	MaxNewTokens int       `json:"max_new_tokens"`
}

// oneOrMany reads an id, a list of ids or null.
type oneOrMany []int32

// UnmarshalJSON implements json.Unmarshaler.
func (o *oneOrMany) UnmarshalJSON(data []byte) error {
	var one *int32
	if json.Unmarshal(data, &one) == nil {
		*o = nil
		if one != nil {
			*o = oneOrMany{*one}
		}
		return nil
	}
	return json.Unmarshal(data, (*[]int32)(o))
}

// parseGeneration reads both files; the second may be nil.
func parseGeneration(configFile, file []byte) (Generation, error) {
	var model, f generationFile
	// The model's configuration may have keys of these names with other meanings; only its special tokens count.
	type special struct {
		EOS oneOrMany `json:"eos_token_id"`
		BOS *int32    `json:"bos_token_id"`
		Pad *int32    `json:"pad_token_id"`
	}
	var tokens struct {
		special
		Text special `json:"text_config"` // of a model within another
	}
	if err := json.Unmarshal(configFile, &tokens); err != nil {
		return Generation{}, fmt.Errorf("%s: %w", configName, err)
	}
	model.EOS, model.BOS, model.Pad = tokens.EOS, cmp.Or(tokens.BOS, tokens.Text.BOS), cmp.Or(tokens.Pad, tokens.Text.Pad)
	if len(model.EOS) == 0 {
		model.EOS = tokens.Text.EOS
	}
	if file != nil {
		if err := files.Unmarshal(file, &f); err != nil {
			return Generation{}, fmt.Errorf("%s: %w", generationName, err)
		}
	}
	if len(f.EOS) == 0 {
		f.EOS = model.EOS
	}
	if f.BOS == nil {
		f.BOS = model.BOS
	}
	if f.Pad == nil {
		f.Pad = model.Pad
	}
	return Generation{EOS: f.EOS, BOS: deref(f.BOS, tokenizer.None), Pad: deref(f.Pad, tokenizer.None), Temperature: f.Temperature,
		TopK: f.TopK, TopP: f.TopP, MinP: f.MinP, MaxNewTokens: f.MaxNewTokens}, nil
}

// write gives generation_config.json.
func (g Generation) write() ([]byte, error) {
	c := map[string]any{}
	g.addTokens(c)
	for key, v := range map[string]float64{"temperature": g.Temperature, "top_p": g.TopP, "min_p": g.MinP} {
		if v != 0 {
			c[key] = v
		}
	}
	for key, v := range map[string]int{"top_k": g.TopK, "max_new_tokens": g.MaxNewTokens} {
		if v != 0 {
			c[key] = v
		}
	}
	return encode(c)
}

// addTokens sets the special tokens' keys.
func (g Generation) addTokens(c map[string]any) {
	for key, id := range map[string]int32{"bos_token_id": g.BOS, "pad_token_id": g.Pad} {
		c[key] = nil
		if id != tokenizer.None {
			c[key] = id
		}
	}
	switch len(g.EOS) {
	case 0:
		c["eos_token_id"] = nil
	case 1:
		c["eos_token_id"] = g.EOS[0]
	default:
		c["eos_token_id"] = g.EOS
	}
}

// encode is JSON as transformers writes it: sorted keys, two spaces.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(v)
	return b.Bytes(), err
}
