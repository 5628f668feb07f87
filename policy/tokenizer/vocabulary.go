package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// maxID bounds the ids of a vocabulary, since memory is set aside for all ids up to the highest.
const maxID = 1<<21 - 1

// alphabet maps the characters that byte-level vocabularies are spelled with to bytes: the printable ones of Latin-1 to
// themselves, and as many from U+0100 on to the other bytes in their order. -1 marks characters outside it.
var alphabet = func() (a [0x144]int16) {
	for i := range a {
		a[i] = -1
	}
	next := 0x100
	for b := range 0x100 {
		if '!' <= b && b <= '~' || 0xA1 <= b && b <= 0xFF && b != 0xAD {
			a[b] = int16(b)
		} else {
			a[next] = int16(b)
			next++
		}
	}
	return a
}()

// appendSpelled appends the bytes that a token of a byte-level vocabulary is spelled for. It fails for tokens that have
// characters outside the alphabet.
func appendSpelled(dst, token []byte) ([]byte, bool) {
	n := len(dst)
	for len(token) > 0 {
		r, size := rune(token[0]), 1
		if r >= utf8.RuneSelf {
			r, size = utf8.DecodeRune(token)
		}
		if int(r) >= len(alphabet) || alphabet[r] < 0 {
			return dst[:n], false
		}
		dst = append(dst, byte(alphabet[r]))
		token = token[size:]
	}
	return dst, true
}

// vocabularyBuilder is the vocabulary while it is read.
type vocabularyBuilder struct {
	byteLevel bool
	ids       map[string]int32 // the model's tokens by what they stand for; added tokens are not in it
	foreign   map[string]int32 // byte-level: those with characters outside the alphabet, which no text leads to
	added     map[string]int32
	entries   []vocabularyEntry // by id
}

type vocabularyEntry struct {
	text    string // what it stands for
	known   bool
	special bool
	model   bool // it is in ids
}

// vocabulary reads the model's vocabulary.
func (m *bpeModel) vocabulary(byteLevel bool) (*vocabularyBuilder, error) {
	const field = "model.vocab"
	v := &vocabularyBuilder{byteLevel: byteLevel, foreign: map[string]int32{}, added: map[string]int32{}}
	type entry struct {
		end     int // of its text in all
		id      int32
		foreign bool
	}
	var read []entry
	all := make([]byte, 0, len(m.Vocab))
	r := jsonWalker{data: m.Vocab}
	if !r.skip('{') {
		return nil, fieldError(field, "not an object of tokens and ids")
	}
	for more := !r.skip('}'); more; more = r.skip(',') {
		token := r.string()
		r.skip(':')
		id, err := r.id()
		if err != nil {
			return nil, fieldError(field, "token %q has id %w", token, err)
		}
		foreign := false
		all, foreign = v.decode(all, token)
		read = append(read, entry{len(all), id, foreign})
	}
	text := string(all)
	v.ids = make(map[string]int32, len(read))
	v.entries = make([]vocabularyEntry, 0, len(read))
	from := 0
	for _, e := range read {
		token := text[from:e.end]
		from = e.end
		if err := v.take(field, e.id, vocabularyEntry{text: token, model: !e.foreign}); err != nil {
			return nil, err
		}
		into := v.ids
		if e.foreign {
			into = v.foreign
		}
		if _, ok := into[token]; ok {
			return nil, fieldError(field, "token %q twice", token)
		}
		into[token] = e.id
	}
	return v, nil
}

// take gives an id to a token.
func (v *vocabularyBuilder) take(field string, id int32, token vocabularyEntry) error {
	if id < 0 || id > maxID {
		return fieldError(field, "token %q has id %d, allowed are 0 to %d", token.text, id, maxID)
	}
	if n := int(id) + 1; n > len(v.entries) {
		v.entries = slices.Grow(v.entries, n-len(v.entries))[:n]
	}
	e := &v.entries[id]
	if e.known {
		return fieldError(field, "token %q has id %d, which token %q has, too", token.text, id, e.text)
	}
	*e = token
	e.known = true
	return nil
}

// decode appends what a token of the file stands for to dst. Foreign tokens stand for themselves.
func (v *vocabularyBuilder) decode(dst, token []byte) (text []byte, foreign bool) {
	if v.byteLevel {
		if text, ok := appendSpelled(dst, token); ok {
			return text, false
		}
	}
	return append(dst, token...), v.byteLevel
}

// is says whether the model's token with this id stands for text.
func (v *vocabularyBuilder) is(id int32, text []byte) bool {
	return int(id) < len(v.entries) && v.entries[id].model && v.entries[id].text == string(text)
}

// find is the id of a token of the model by what decode gives for it.
func (v *vocabularyBuilder) find(text []byte, foreign bool) (int32, bool) {
	if foreign {
		id, ok := v.foreign[string(text)]
		return id, ok
	}
	id, ok := v.ids[string(text)]
	return id, ok
}

// addToken makes room for an added token, or marks the vocabulary's one. It decodes to its normalised content, as in release 0.23
// of the reference.
func (v *vocabularyBuilder) addToken(field, content, normalized string, id int32, special bool) error {
	if other, ok := v.added[content]; ok {
		return fieldError(field, "token %q twice, with ids %d and %d", content, other, id)
	}
	v.added[content] = id
	decoded, _ := v.decode(nil, []byte(normalized))
	entry := vocabularyEntry{text: string(decoded), known: true, special: special}
	if known, ok := v.find(v.decode(nil, []byte(content))); ok {
		if known != id {
			return fieldError(field, "token %q has id %d, in model.vocab it has id %d", content, id, known)
		}
		v.entries[id] = entry
		return nil
	}
	return v.take(field, id, entry)
}

// model reads the merges.
func (m *bpeModel) model(v *vocabularyBuilder) (*bpe, error) {
	b := &bpe{ids: v.ids, ignoreMerges: m.IgnoreMerges, unknown: None, fuseUnknown: m.FuseUnknown}
	for token := range v.ids {
		b.longest = max(b.longest, len(token))
	}
	b.whole = make([]atomic.Uint32, len(v.entries))
	complete := v.byteLevel
	if v.byteLevel {
		b.bytes = new([256]int32)
		for i := range b.bytes {
			id, ok := v.ids[string([]byte{byte(i)})]
			if !ok {
				id, complete = missing, false
			}
			b.bytes[i] = id
		}
		if m.ByteFallback && !complete {
			return nil, unsupported("model.byte_fallback", "with the pre_tokenizer ByteLevel and a vocabulary without all bytes")
		}
	} else if m.ByteFallback {
		b.fallback = new([256]int32)
		for i := range b.fallback {
			id, ok := v.ids[fmt.Sprintf("<0x%02X>", i)]
			if !ok {
				id = missing
			}
			b.fallback[i] = id
		}
	}
	if m.Unknown != nil && !complete {
		id, ok := v.find(v.decode(nil, []byte(*m.Unknown)))
		if !ok {
			return nil, fieldError("model.unk_token", "%q is not in the vocabulary", *m.Unknown)
		}
		b.unknown = id
	}
	return b, b.readMerges(m.Merges, v)
}

// tokens gives what decoding needs to know of each id.
func (v *vocabularyBuilder) tokens(d decoder) []token {
	tokens := make([]token, len(v.entries))
	for id, e := range v.entries {
		t := token{text: e.text, known: e.known, special: e.special}
		if !d.byteLevel {
			if b, ok := byteToken(e.text); ok {
				t.text, t.isByte = string([]byte{b}), true
			} else {
				t.text = strings.ReplaceAll(e.text, d.from, d.to)
			}
		}
		tokens[id] = t
	}
	return tokens
}

// byteToken reads a token like <0x0A>.
func byteToken(s string) (byte, bool) {
	if len(s) != 6 || s[:3] != "<0x" || s[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(s[3:5], 16, 8)
	return byte(b), err == nil
}

func (b *bpe) readMerges(data []byte, v *vocabularyBuilder) error {
	const field = "model.merges"
	r := jsonWalker{data: data}
	if !r.skip('[') {
		return fieldError(field, "not a list")
	}
	if v.byteLevel {
		b.seeds = newSeeds(len(v.entries))
	}
	type merging struct{ a, b, id int32 }
	list := make([]merging, 0, len(v.entries))
	var left, right, joined []byte // what the tokens stand for
	for more := !r.skip(']'); more; more = r.skip(',') {
		x, y, err := r.merge()
		if err != nil {
			return fieldError(field, "[%d] %w", len(list), err)
		}
		if x == nil {
			continue
		}
		var m merging
		var known [3]bool
		var foreign [3]bool
		left, foreign[0] = v.decode(left[:0], x)
		right, foreign[1] = v.decode(right[:0], y)
		joined = append(append(joined[:0], left...), right...)
		if foreign[0] || foreign[1] {
			joined = append(append(joined[:0], x...), y...)
			foreign[2] = true
		}
		m.a, known[0] = v.find(left, foreign[0])
		m.b, known[1] = v.find(right, foreign[1])
		// In most vocabularies the results of the merges follow one another, which saves a look-up.
		if n := len(list); n > 0 && !foreign[2] && v.is(list[n-1].id+1, joined) {
			m.id, known[2] = list[n-1].id+1, true
		} else {
			m.id, known[2] = v.find(joined, foreign[2])
		}
		if i := slices.Index(known[:], false); i >= 0 {
			absent := [][]byte{x, y, slices.Concat(x, y)}[i]
			return fieldError(field, "[%d], %q and %q: %q is not in model.vocab", len(list), x, y, absent)
		}
		if b.seeds != nil {
			b.seeds.add(m.a, m.b, left, right, uint32(len(list)))
		}
		list = append(list, m)
	}
	b.merges = newMergeTable(len(list))
	for rank, m := range list {
		b.merges.set(m.a, m.b, m.id, uint32(rank))
	}
	return nil
}

// jsonWalker goes through JSON that encoding/json has found valid.
type jsonWalker struct {
	data []byte
	i    int
}

func (w *jsonWalker) peek() byte {
	for w.i < len(w.data) {
		switch b := w.data[w.i]; b {
		case ' ', '\t', '\r', '\n':
			w.i++
		default:
			return b
		}
	}
	return 0
}

// skip passes b if it comes next.
func (w *jsonWalker) skip(b byte) bool {
	if w.peek() == b {
		w.i++
		return true
	}
	return false
}

// string is the string that comes next, nil if something else does. It may be part of the data.
func (w *jsonWalker) string() []byte {
	if w.peek() != '"' {
		return nil
	}
	from := w.i
	escaped := false
	for w.i++; w.data[w.i] != '"'; w.i++ {
		if w.data[w.i] == '\\' {
			escaped = true
			w.i++
		}
	}
	w.i++
	if !escaped {
		return w.data[from+1 : w.i-1 : w.i-1]
	}
	var s string
	if json.Unmarshal(w.data[from:w.i], &s) != nil {
		return nil
	}
	return append([]byte{}, s...)
}

// merge is the merge that comes next, as a pair of strings or as one with a space between. Both are nil for what was the first
// line of merges.txt.
func (w *jsonWalker) merge() (left, right []byte, err error) {
	if w.skip('[') {
		left = w.string()
		w.skip(',')
		right = w.string()
		if left == nil || right == nil || !w.skip(']') {
			return nil, nil, errors.New("is not a pair of strings")
		}
		return left, right, nil
	}
	s := w.string()
	if bytes.HasPrefix(s, []byte("#version")) {
		return nil, nil, nil
	}
	left, right, ok := bytes.Cut(s, []byte{' '})
	if !ok || bytes.IndexByte(right, ' ') >= 0 {
		return nil, nil, fmt.Errorf("is not two tokens with a space between: %q", s)
	}
	return left, right, nil
}

// id is the whole number that comes next.
func (w *jsonWalker) id() (int32, error) {
	w.peek()
	from := w.i
	for w.i < len(w.data) && w.data[w.i] != ',' && w.data[w.i] != '}' {
		w.i++
	}
	text := string(bytes.TrimSpace(w.data[from:w.i]))
	id, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%.40s, allowed are 0 to %d", text, maxID)
	}
	return int32(id), nil
}
