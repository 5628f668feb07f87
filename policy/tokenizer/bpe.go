package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// BPE is a tokenizer that Hugging Face's tokenizer.json describes: byte-pair encoding of the pieces into which added tokens, a
// normalizer and a pre-tokenizer cut a text. It gives the ids of the tokenizers library (0.23). It is safe for
// concurrent use.
type BPE struct {
	raw        *addedSet // added tokens found in the text as it is
	normalized *addedSet // added tokens found in normalised text
	normalize  []func(string) string
	scanner    scanner
	model      *bpe
	decoder    decoder
	tokens     []token // by id
	added      map[string]int32

	before, after []int32 // what the post-processor puts around a text
	eos, bos, pad int32
}

var _ Tokenizer = (*BPE)(nil)

// Encode gives the ids of a text. Added tokens that stand in it are recognised, special or not; none are added. Text that is
// not valid UTF-8 is an error that names the byte.
func (t *BPE) Encode(text string) ([]int32, error) {
	return t.AppendEncode(make([]int32, 0, len(text)/3+8), text)
}

// AppendEncode appends the ids of a text to dst, which it returns unchanged if there is an error.
func (t *BPE) AppendEncode(dst []int32, text string) ([]int32, error) {
	if !utf8.ValidString(text) {
		at := 0
		for utf8.FullRuneInString(text[at:]) {
			r, n := utf8.DecodeRuneInString(text[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		return dst, fmt.Errorf("text to encode is not valid UTF-8 at byte %d", at)
	}
	s := t.model.borrow()
	defer t.model.giveBack(s)
	add := func(id int32) { dst = append(dst, id) }
	t.raw.cut(text, func(part string) {
		for _, n := range t.normalize {
			part = n(part)
		}
		t.normalized.cut(part, func(part string) {
			for i := 0; i < len(part); {
				end := t.scanner.next(part, i)
				dst = t.model.append(dst, part[i:end], s)
				i = end
			}
		}, add)
	}, add)
	return dst, nil
}

// EncodeSpecial is Encode with the tokens that the file's post-processor puts around a text, such as Llama 3's
// <|begin_of_text|>. Chat templates spell these tokens out: what they render is for Encode.
func (t *BPE) EncodeSpecial(text string) ([]int32, error) {
	ids, err := t.AppendEncode(append(make([]int32, 0, len(text)/3+8), t.before...), text)
	if err != nil {
		return nil, err
	}
	return append(ids, t.after...), nil
}

// VocabSize is one more than the highest id. Models may have more rows than that.
func (t *BPE) VocabSize() int { return len(t.tokens) }

// ID is the id of an added token given by its content, or of an entry of the vocabulary given by the normalised text that it
// stands for: " the" in byte-level vocabularies, "▁the" in those with byte fallback.
func (t *BPE) ID(token string) (int32, bool) {
	if id, ok := t.added[token]; ok {
		return id, true
	}
	id, ok := t.model.ids[token]
	return id, ok
}

// EOS is the id of eos_token in tokenizer_config.json.
func (t *BPE) EOS() int32 { return t.eos }

// BOS is the id of bos_token in tokenizer_config.json.
func (t *BPE) BOS() int32 { return t.bos }

// Pad is the id of pad_token in tokenizer_config.json.
func (t *BPE) Pad() int32 { return t.pad }

func (t *BPE) setRoles(config []byte) error {
	r, err := parseRoles(config)
	if err != nil {
		return err
	}
	for _, x := range []struct {
		field string
		token *role
		to    *int32
	}{{"eos_token", r.EOS, &t.eos}, {"bos_token", r.BOS, &t.bos}, {"pad_token", r.Pad, &t.pad}} {
		*x.to = None
		if x.token == nil {
			continue
		}
		id, ok := t.ID(string(*x.token))
		if !ok {
			return fmt.Errorf("%s: %s: %q is not a token of %s", ConfigFileName, x.field, *x.token, FileName)
		}
		*x.to = id
	}
	return nil
}
