package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// CharConfig describes a character tokenizer.
type CharConfig struct {
	Special  []string // special tokens, any strings; ids 0 … len(Special)-1
	Alphabet string   // the characters, each once; ids from len(Special) on
	EOS      string   // which special token ends a text; "": none
	BOS      string   // which special token begins one; "": none
	Pad      string   // which special token fills rows; "": none
}

// Validate names the first setting that cannot be used.
func (c CharConfig) Validate() error {
	if len(c.Special) == 0 && c.Alphabet == "" {
		return fmt.Errorf("character tokenizer: no tokens")
	}
	seen := map[string]bool{}
	for i, s := range c.Special {
		switch {
		case s == "":
			return fmt.Errorf("character tokenizer: Special[%d] is empty", i)
		case !utf8.ValidString(s):
			return fmt.Errorf("character tokenizer: Special[%d] is %q, which is not valid UTF-8", i, s)
		case seen[s]:
			return fmt.Errorf("character tokenizer: Special has %q twice", s)
		}
		seen[s] = true
	}
	if !utf8.ValidString(c.Alphabet) {
		return fmt.Errorf("character tokenizer: Alphabet is not valid UTF-8")
	}
	for _, r := range c.Alphabet {
		if seen[string(r)] {
			return fmt.Errorf("character tokenizer: %q stands twice in Alphabet and Special", r)
		}
		seen[string(r)] = true
	}
	for _, role := range []struct{ field, token string }{{"EOS", c.EOS}, {"BOS", c.BOS}, {"Pad", c.Pad}} {
		if role.token != "" && !slices.Contains(c.Special, role.token) {
			return fmt.Errorf("character tokenizer: %s is %q, allowed: one of Special %q", role.field, role.token, c.Special)
		}
	}
	return nil
}

// Char is a tokenizer for small models: one token a character, and special tokens.
type Char struct {
	config CharConfig
	tokens []string // by id
	ids    map[string]int32
	// special tokens by their first byte, longest first
	special map[byte][]string
}

var _ Tokenizer = (*Char)(nil)

// NewChar makes a character tokenizer.
func NewChar(c CharConfig) (*Char, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c.Special = slices.Clone(c.Special)
	t := &Char{config: c, ids: map[string]int32{}, special: map[byte][]string{}}
	t.tokens = append(t.tokens, c.Special...)
	for _, r := range c.Alphabet {
		t.tokens = append(t.tokens, string(r))
	}
	for i, s := range t.tokens {
		t.ids[s] = int32(i)
	}
	for _, s := range c.Special {
		t.special[s[0]] = append(t.special[s[0]], s)
	}
	for _, list := range t.special {
		slices.SortFunc(list, func(a, b string) int { return len(b) - len(a) })
	}
	return t, nil
}

// Config is what the tokenizer was made from.
func (t *Char) Config() CharConfig {
	c := t.config
	c.Special = slices.Clone(c.Special)
	return c
}

// Encode goes through the text from left to right and takes the longest special token that stands there, else the
// character. A character outside the alphabet is an error that names it and its place.
func (t *Char) Encode(text string) ([]int32, error) {
	ids := make([]int32, 0, len(text))
	for at := 0; at < len(text); {
		token := t.at(text[at:])
		id, ok := t.ids[token]
		if !ok {
			return nil, fmt.Errorf("character %q at byte %d is not in the tokenizer's alphabet", token, at)
		}
		ids = append(ids, id)
		at += len(token)
	}
	return ids, nil
}

// at is the text of the first token.
func (t *Char) at(text string) string {
	for _, s := range t.special[text[0]] {
		if strings.HasPrefix(text, s) {
			return s
		}
	}
	_, n := utf8.DecodeRuneInString(text)
	return text[:n]
}

// Decode joins the tokens' texts.
func (t *Char) Decode(ids []int32) (string, error) {
	var b strings.Builder
	for i, id := range ids {
		if id < 0 || int(id) >= len(t.tokens) {
			return "", fmt.Errorf("token %d at %d, the vocabulary has %d tokens", id, i, len(t.tokens))
		}
		b.WriteString(t.tokens[id])
	}
	return b.String(), nil
}

// VocabSize is the number of special tokens and characters.
func (t *Char) VocabSize() int { return len(t.tokens) }

// ID is the id of a special token or character.
func (t *Char) ID(token string) (int32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// EOS is the id of CharConfig.EOS.
func (t *Char) EOS() int32 { return t.role(t.config.EOS) }

// BOS is the id of CharConfig.BOS.
func (t *Char) BOS() int32 { return t.role(t.config.BOS) }

// Pad is the id of CharConfig.Pad.
func (t *Char) Pad() int32 { return t.role(t.config.Pad) }

func (t *Char) role(token string) int32 {
	if token == "" {
		return None
	}
	return t.ids[token]
}
