package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"
)

// ErrNotChar is wrapped by [ParseChar]'s error for the file of another kind of tokenizer. It wraps [ErrUnsupported].
var ErrNotChar = fmt.Errorf("%w: not a character tokenizer", ErrUnsupported)

// tokenizerFile is the part of Hugging Face's tokenizer.json that a character tokenizer uses: every character is a word of a
// WordLevel vocabulary, and words are joined without spaces.
type tokenizerFile struct {
	Version       string         `json:"version"`
	Truncation    *struct{}      `json:"truncation"`
	Padding       *struct{}      `json:"padding"`
	AddedTokens   []addedToken   `json:"added_tokens"`
	Normalizer    *struct{}      `json:"normalizer"`
	PreTokenizer  map[string]any `json:"pre_tokenizer"`
	PostProcessor *struct{}      `json:"post_processor"`
	Decoder       map[string]any `json:"decoder"`
	Model         wordLevel      `json:"model"`
}

type addedToken struct {
	ID         int32  `json:"id"`
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

type wordLevel struct {
	Type  string     `json:"type"`
	Vocab vocabulary `json:"vocab"`
	Unk   string     `json:"unk_token"`
}

// vocabulary writes its tokens in the order of their ids.
type vocabulary map[string]int32

// MarshalJSON implements json.Marshaler.
func (v vocabulary) MarshalJSON() ([]byte, error) {
	byID := make([]string, len(v))
	for token, id := range v {
		byID[id] = token
	}
	b := []byte{'{'}
	for id, token := range byID {
		if id > 0 {
			b = append(b, ',')
		}
		key, err := encode(token, "")
		if err != nil {
			return nil, err
		}
		b = append(append(b, bytes.TrimSpace(key)...), fmt.Sprintf(":%d", id)...)
	}
	return append(b, '}'), nil
}

// configFile is tokenizer_config.json as [Char.Files] writes it.
type configFile struct {
	Class string  `json:"tokenizer_class"`
	EOS   *string `json:"eos_token"`
	BOS   *string `json:"bos_token"`
	Pad   *string `json:"pad_token"`
	Clean bool    `json:"clean_up_tokenization_spaces"`
}

// file splits text into characters; a WordLevel model then maps each to its id and refuses unknown ones, because the
// token named by unk_token, the empty one, does not exist.
func (t *Char) file() tokenizerFile {
	f := tokenizerFile{
		Version:      "1.0",
		AddedTokens:  []addedToken{},
		PreTokenizer: map[string]any{"type": "Split", "pattern": map[string]any{"Regex": `[\s\S]`}, "behavior": "Isolated", "invert": false},
		Decoder:      map[string]any{"type": "Fuse"},
		Model:        wordLevel{Type: "WordLevel", Vocab: vocabulary(t.ids)},
	}
	for i, s := range t.config.Special {
		f.AddedTokens = append(f.AddedTokens, addedToken{ID: int32(i), Content: s, Special: true})
	}
	return f
}

// Files gives tokenizer.json and tokenizer_config.json by name, as transformers' PreTrainedTokenizerFast reads them.
func (t *Char) Files() (map[string][]byte, error) {
	main, err := encode(t.file(), "  ")
	if err != nil {
		return nil, err
	}
	c := configFile{Class: "PreTrainedTokenizerFast"}
	for _, role := range []struct {
		token string
		to    **string
	}{{t.config.EOS, &c.EOS}, {t.config.BOS, &c.BOS}, {t.config.Pad, &c.Pad}} {
		if role.token != "" {
			*role.to = &role.token
		}
	}
	config, err := encode(c, "  ")
	if err != nil {
		return nil, err
	}
	return map[string][]byte{FileName: main, ConfigFileName: config}, nil
}

// ParseChar reads what [Char.Files] writes; config is tokenizer_config.json and may be nil. It returns an error that wraps
// [ErrNotChar] if the file describes a tokenizer of another kind.
func ParseChar(file, config []byte) (*Char, error) {
	var f tokenizerFile
	d := json.NewDecoder(bytes.NewReader(file))
	if err := d.Decode(&f); err != nil {
		// Files of other tokenizers have other types in the same places.
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, fmt.Errorf("%w: %s: %w", ErrNotChar, FileName, err)
		}
		return nil, fileError(FileName, err)
	}
	if f.Model.Type != "WordLevel" {
		return nil, fmt.Errorf("%w: %s: model.type %q", ErrNotChar, FileName, f.Model.Type)
	}
	c := CharConfig{Special: make([]string, 0, len(f.AddedTokens))}
	tokens := make([]string, len(f.Model.Vocab))
	for token, id := range f.Model.Vocab {
		if id < 0 || int(id) >= len(tokens) || tokens[id] != "" {
			return nil, fmt.Errorf("%s: token %q has id %d: ids must be 0 to %d, each once", FileName, token, id, len(tokens)-1)
		}
		tokens[id] = token
	}
	for i, s := range f.AddedTokens {
		if i >= len(tokens) || tokens[i] != s.Content {
			return nil, fmt.Errorf("%w: %s: added token %q is not token %d of the vocabulary", ErrNotChar, FileName, s.Content, i)
		}
		c.Special = append(c.Special, s.Content)
	}
	for id, token := range tokens[len(c.Special):] {
		if utf8.RuneCountInString(token) != 1 {
			return nil, fmt.Errorf("%w: %s: token %d, %q, is not one character", ErrNotChar, FileName, id+len(c.Special), token)
		}
		c.Alphabet += token
	}
	special, err := parseRoles(config)
	if err != nil {
		return nil, err
	}
	for _, role := range []struct {
		from *role
		to   *string
	}{{special.EOS, &c.EOS}, {special.BOS, &c.BOS}, {special.Pad, &c.Pad}} {
		if role.from != nil {
			*role.to = string(*role.from)
		}
	}
	t, err := NewChar(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", FileName, err)
	}
	// Anything that was not read above (a normalizer, another split, …) would change the ids.
	if !sameJSON(t.file(), file) {
		return nil, fmt.Errorf("%w: %s has settings that a character tokenizer does not have", ErrNotChar, FileName)
	}
	return t, nil
}

// sameJSON compares what a value encodes to with a file, formatting aside.
func sameJSON(v any, file []byte) bool {
	own, err := encode(v, "")
	if err != nil {
		return false
	}
	var a, b any
	if json.Unmarshal(own, &a) != nil || json.Unmarshal(file, &b) != nil {
		return false
	}
	return reflect.DeepEqual(a, b)
}

func encode(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	err := e.Encode(v)
	return b.Bytes(), err
}
