package tokenizer

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/internal/files"
)

// bpeFile is tokenizer.json.
type bpeFile struct {
	Version       *string      `json:"version"`
	AddedTokens   []addedToken `json:"added_tokens"`
	Normalizer    *component   `json:"normalizer"`
	PreTokenizer  *component   `json:"pre_tokenizer"`
	PostProcessor *component   `json:"post_processor"`
	Decoder       *component   `json:"decoder"`
	Model         *bpeModel    `json:"model"`
}

type bpeModel struct {
	Type         string          `json:"type"`
	Dropout      *float64        `json:"dropout"`
	Unknown      *string         `json:"unk_token"`
	Prefix       string          `json:"continuing_subword_prefix"`
	Suffix       string          `json:"end_of_word_suffix"`
	FuseUnknown  bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Vocab        json.RawMessage `json:"vocab"`  // walked by hand: encoding/json drops duplicate keys without a word
	Merges       json.RawMessage `json:"merges"` // a list of "a b" or of ["a", "b"]
}

// component is a normalizer, pre-tokenizer, post-processor or decoder; each type has some of the fields.
type component struct {
	Type           string       `json:"type"`
	Normalizers    []*component `json:"normalizers"`
	PreTokenizers  []*component `json:"pretokenizers"`
	Processors     []*component `json:"processors"`
	Decoders       []*component `json:"decoders"`
	Prepend        string       `json:"prepend"`
	Pattern        pattern      `json:"pattern"`
	Content        string       `json:"content"`
	Behavior       string       `json:"behavior"`
	Invert         bool         `json:"invert"`
	AddPrefixSpace *bool        `json:"add_prefix_space"`
	UseRegex       *bool        `json:"use_regex"`
	Individual     bool         `json:"individual_digits"`
	Start          int          `json:"start"`
	Stop           int          `json:"stop"`

	Single        []templatePiece        `json:"single"`
	SpecialTokens map[string]templateIDs `json:"special_tokens"`
}

type pattern struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// describe shows the pattern in an error.
func (p pattern) describe() string {
	switch {
	case p.Regex != nil:
		return fmt.Sprintf("Regex %q", *p.Regex)
	case p.String != nil:
		return fmt.Sprintf("String %q", *p.String)
	}
	return "none"
}

type templatePiece struct {
	SpecialToken *templateName `json:"SpecialToken"`
	Sequence     *templateName `json:"Sequence"`
}

type templateName struct {
	ID string `json:"id"`
}

type templateIDs struct {
	IDs []int32 `json:"ids"`
}

// ParseBPE is [Parse] for byte-pair encoding alone. It supports:
//
//   - the models' vocabularies and merges, ignore_merges, byte_fallback, unk_token and fuse_unk, but neither dropout nor
//     prefixes and suffixes of subwords;
//   - the normalizers NFC, Prepend and Replace of a string, and sequences of them;
//   - the pre-tokenizers of GPT-2 (ByteLevel), SmolLM (Digits, ByteLevel), Llama 3, Qwen2, Qwen3 and Qwen3.5 (Split by their
//     regular expression, ByteLevel), and none with byte fallback, as the Llama 2 and Gemma families have it;
//   - the decoders that go with them;
//   - TemplateProcessing of one text as post-processor, see [BPE.EncodeSpecial].
//
// Anything else is an error that wraps [ErrUnsupported] and shows what it is. Truncation and padding in the file are not
// applied; transformers sets them anew for each call, too.
func ParseBPE(file, config []byte) (*BPE, error) {
	f, err := decodeBPE(file)
	if err != nil {
		return nil, err
	}
	return f.tokenizer(config)
}

func decodeBPE(file []byte) (*bpeFile, error) {
	if !utf8.Valid(file) {
		return nil, fmt.Errorf("%s: not valid UTF-8", FileName)
	}
	var f bpeFile
	if err := json.Unmarshal(file, &f); err != nil {
		return nil, fileError(FileName, err)
	}
	if err := files.UniqueKeys(file, "vocab"); err != nil { // whose keys are looked at when it is read
		return nil, fmt.Errorf("%s: %w", FileName, err)
	}
	if f.Model == nil {
		return nil, fmt.Errorf("%s: model is missing", FileName)
	}
	return &f, nil
}

// fieldError is an error about a field of tokenizer.json.
func fieldError(field, format string, args ...any) error {
	return fmt.Errorf("%s: %s: %w", FileName, field, fmt.Errorf(format, args...))
}

// unsupported is an error about a field of tokenizer.json that is understood but not implemented.
func unsupported(field, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s: %s", ErrUnsupported, FileName, field, fmt.Sprintf(format, args...))
}

func (f *bpeFile) tokenizer(config []byte) (*BPE, error) {
	if f.Version != nil && *f.Version != "1.0" {
		return nil, unsupported("version", "%q, supported is \"1.0\"", *f.Version)
	}
	switch m := f.Model; {
	case m.Type != "BPE" && (m.Type != "" || m.Merges == nil): // GPT-2's file has no type
		return nil, unsupported("model.type", "%q, supported are BPE and the WordLevel files of character tokenizers", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, unsupported("model.dropout", "%v", *m.Dropout)
	case m.Prefix != "":
		return nil, unsupported("model.continuing_subword_prefix", "%q", m.Prefix)
	case m.Suffix != "":
		return nil, unsupported("model.end_of_word_suffix", "%q", m.Suffix)
	}
	t := &BPE{}
	var err error
	if t.normalize, err = f.Normalizer.normalizer("normalizer"); err != nil {
		return nil, err
	}
	if n := f.Normalizer.growth(); n > maxGrowth {
		return nil, unsupported("normalizer", "of text it makes up to %.4g times as much, supported: %d times", n, maxGrowth)
	}
	byteLevel := false
	if t.scanner, byteLevel, err = f.PreTokenizer.scanner(f.Normalizer); err != nil {
		return nil, err
	}
	if t.decoder, err = f.Decoder.decoder(byteLevel); err != nil {
		return nil, err
	}
	v, err := f.Model.vocabulary(byteLevel)
	if err != nil {
		return nil, err
	}
	if err := f.addTokens(t, v); err != nil {
		return nil, err
	}
	if t.model, err = f.Model.model(v); err != nil {
		return nil, err
	}
	t.tokens, t.added = v.tokens(t.decoder), v.added
	if t.before, t.after, err = f.PostProcessor.template(len(t.tokens)); err != nil {
		return nil, err
	}
	return t, t.setRoles(config)
}

// addTokens puts the added tokens into the vocabulary and prepares the search for them.
func (f *bpeFile) addTokens(t *BPE, v *vocabularyBuilder) (err error) {
	var raw, normalized []added
	for i, a := range f.AddedTokens {
		field := fmt.Sprintf("added_tokens[%d]", i)
		if a.Content == "" {
			return fieldError(field, "content is empty")
		}
		if len(a.Content) > maxAdded {
			return unsupported(field, "content of %d bytes, supported are %d", len(a.Content), maxAdded)
		}
		token := added{a.ID, a.Content, a.SingleWord, a.LStrip, a.RStrip}
		if a.Normalized {
			for _, n := range t.normalize {
				token.text = n(token.text)
			}
			normalized = append(normalized, token)
		} else {
			raw = append(raw, token)
		}
		if err := v.addToken(field, a.Content, token.text, a.ID, a.Special); err != nil {
			return err
		}
	}
	if t.raw, err = newAddedSet(raw); err != nil {
		return fieldError("added_tokens", "%w", err)
	}
	if t.normalized, err = newAddedSet(normalized); err != nil {
		return fieldError("added_tokens", "%w", err)
	}
	return nil
}

// normalizer gives the steps of normalisation.
func (c *component) normalizer(field string) ([]func(string) string, error) {
	if c == nil {
		return nil, nil
	}
	switch c.Type {
	case "Sequence":
		var all []func(string) string
		for i, n := range c.Normalizers {
			steps, err := n.normalizer(fmt.Sprintf("%s.normalizers[%d]", field, i))
			if err != nil {
				return nil, err
			}
			all = append(all, steps...)
		}
		return all, nil
	case "NFC":
		return []func(string) string{nfc}, nil
	case "Prepend":
		return []func(string) string{func(s string) string { return c.Prepend + s }}, nil
	case "Replace":
		if c.Pattern.String != nil && *c.Pattern.String != "" {
			return []func(string) string{func(s string) string { return strings.ReplaceAll(s, *c.Pattern.String, c.Content) }}, nil
		}
		return nil, unsupported(field, "Replace with pattern %s", c.Pattern.describe())
	}
	return nil, unsupported(field, "type %q", c.Type)
}

// Bounds of what a file can ask for; released ones stay far below. Steps that each double the text would fill any memory, and the search
// for added tokens may compare one that is nearly in the text at each place.
const (
	maxGrowth = 64   // times that normalisation lengthens a text, or the decoder a token
	maxAdded  = 1024 // bytes of an added token
)

// growth is how many times as long this normalizer makes a text at most.
func (c *component) growth() float64 {
	if c == nil {
		return 1
	}
	n := 1.0
	switch c.Type {
	case "Sequence":
		for _, step := range c.Normalizers {
			n *= step.growth()
		}
	case "NFC":
		n = 3
	case "Prepend":
		n = float64(1 + len(c.Prepend))
	case "Replace":
		if c.Pattern.String != nil {
			n = max(1, float64(len(c.Content))/float64(len(*c.Pattern.String)))
		}
	}
	return n
}

// scanner gives what cuts text into pieces, and whether the model sees bytes.
func (c *component) scanner(normalizer *component) (s scanner, byteLevel bool, err error) {
	const field = "pre_tokenizer"
	if c == nil {
		return whole{}, false, nil
	}
	steps := []*component{c}
	if c.Type == "Sequence" {
		steps = c.PreTokenizers
	}
	for i, step := range steps {
		switch {
		case step == nil:
			return nil, false, fieldError(field, "step %d of the Sequence is null", i)
		case step.Type == "ByteLevel" && (step.AddPrefixSpace == nil || *step.AddPrefixSpace):
			return nil, false, unsupported(field, "ByteLevel without add_prefix_space false")
		case step.Type == "Split" && step.Invert:
			return nil, false, unsupported(field, "Split with invert")
		}
	}
	is := func(types ...string) bool {
		if len(types) != len(steps) {
			return false
		}
		for i, want := range types {
			if steps[i].Type != want {
				return false
			}
		}
		return true
	}
	regex := func(c *component) bool { return c.UseRegex == nil || *c.UseRegex }
	switch {
	case is("ByteLevel") && regex(steps[0]):
		return scannerFor(gpt2Pattern), true, nil
	case is("Digits", "ByteLevel") && steps[0].Individual && regex(steps[1]):
		return &gpt2Scanner{classes(), numeric}, true, nil
	case is("Split", "ByteLevel") && !regex(steps[1]) && steps[0].Behavior == "Isolated" && steps[0].Pattern.Regex != nil:
		if s := scannerFor(*steps[0].Pattern.Regex); s != nil {
			return s, true, nil
		}
		return nil, false, unsupported(field, "Split with pattern %s", steps[0].Pattern.describe())
	case is("Split") && steps[0].Behavior == "MergedWithPrevious" && normalizer.removes(steps[0].Pattern.String):
		return whole{}, false, nil // Gemma: a split at spaces, of which the normalizer leaves none
	}
	var shown []string
	for _, step := range steps {
		shown = append(shown, step.describe())
	}
	return nil, false, unsupported(field, "%s", strings.Join(shown, ", then "))
}

// removes says whether this normalizer leaves no s, one character, in any text.
func (c *component) removes(s *string) bool {
	return c != nil && c.Type == "Replace" && s != nil && utf8.RuneCountInString(*s) == 1 &&
		c.Pattern.String != nil && *c.Pattern.String == *s && !strings.Contains(c.Content, *s)
}

// describe shows a pre-tokenizer in an error.
func (c *component) describe() string {
	switch c.Type {
	case "Split":
		return fmt.Sprintf("Split with pattern %s and behavior %q", c.Pattern.describe(), c.Behavior)
	case "Digits":
		return fmt.Sprintf("Digits with individual_digits %t", c.Individual)
	case "ByteLevel":
		return fmt.Sprintf("ByteLevel with use_regex %t", c.UseRegex == nil || *c.UseRegex)
	}
	return fmt.Sprintf("type %q", c.Type)
}

// decoder gives how tokens become text.
func (c *component) decoder(byteLevel bool) (decoder, error) {
	const field = "decoder"
	var d decoder
	steps := []*component{c}
	if c != nil && c.Type == "Sequence" {
		steps = c.Decoders
	}
	types := make([]string, len(steps))
	for i, s := range steps {
		if s == nil {
			return d, unsupported(field, "none")
		}
		types[i] = s.Type
		switch {
		case s.Type == "Replace" && (s.Pattern.String == nil || *s.Pattern.String == ""):
			return d, unsupported(field, "Replace with pattern %s", s.Pattern.describe())
		case s.Type == "Replace" && s.growth() > maxGrowth:
			return d, unsupported(field, "Replace with content of %d bytes", len(s.Content))
		case s.Type == "Replace":
			d.from, d.to = *s.Pattern.String, s.Content
		case s.Type == "Strip" && (s.Stop != 0 || s.Start < 0 || s.Start > 1<<10 || utf8.RuneCountInString(s.Content) != 1):
			return d, unsupported(field, "Strip of content %q, start %d, stop %d", s.Content, s.Start, s.Stop)
		case s.Type == "Strip":
			d.strip, d.stripped = s.Start, s.Content
		}
	}
	switch got := strings.Join(types, " "); {
	case got == "ByteLevel" && byteLevel:
		d.byteLevel = true
	case (got == "Replace ByteFallback Fuse" || got == "Replace ByteFallback Fuse Strip") && !byteLevel:
	default:
		return d, unsupported(field, "%q after this pre_tokenizer", got)
	}
	return d, nil
}

// template gives the ids that a post-processor puts before and after a text; rows is the number of ids.
func (c *component) template(rows int) (before, after []int32, err error) {
	const field = "post_processor"
	if c == nil || c.Type == "ByteLevel" { // which changes offsets only
		return nil, nil, nil
	}
	switch c.Type {
	case "Sequence":
		for _, p := range c.Processors {
			b, a, err := p.template(rows)
			if err != nil {
				return nil, nil, err
			}
			before, after = append(b, before...), append(after, a...)
		}
		return before, after, nil
	case "TemplateProcessing":
		texts := 0
		for i, piece := range c.Single {
			switch {
			case piece.Sequence != nil && piece.Sequence.ID == "A":
				texts++
			case piece.SpecialToken != nil:
				name := piece.SpecialToken.ID
				special, ok := c.SpecialTokens[name]
				if !ok {
					return nil, nil, fieldError(field, "single[%d] is token %q, which special_tokens does not have", i, name)
				}
				for _, id := range special.IDs {
					if id < 0 || int(id) >= rows {
						return nil, nil, fieldError(field, "special_tokens: id %d of token %q is not in the vocabulary", id, name)
					}
				}
				if texts == 0 {
					before = append(before, special.IDs...)
				} else {
					after = append(after, special.IDs...)
				}
			default:
				return nil, nil, fieldError(field, "single[%d] is neither a SpecialToken nor the Sequence A", i)
			}
		}
		if texts != 1 {
			return nil, nil, fieldError(field, "single has the text %d times, allowed is once", texts)
		}
		return before, after, nil
	}
	return nil, nil, unsupported(field, "type %q", c.Type)
}
