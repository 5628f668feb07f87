package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// token is what decoding needs to know of an id.
type token struct {
	text    string // or bytes
	known   bool   // the vocabulary has the id
	special bool
	isByte  bool // a fallback token of one byte
}

// decoder is how tokens become text. Byte-level tokens are bytes, and all of them together are UTF-8. Otherwise tokens are
// text, apart from runs of byte tokens.
type decoder struct {
	byteLevel bool
	from, to  string // replaced in tokens
	strip     int    // how many of stripped are taken off the beginning of the whole text
	stripped  string
}

// Decode gives the text of ids, special tokens included. Ids that no token has are left out; negative ones are an error. Bytes
// that are not UTF-8 become U+FFFD: one for each maximal part of a character, or one for each byte in tokenizers with byte
// fallback, as Hugging Face's library does it.
func (t *BPE) Decode(ids []int32) (string, error) { return t.decode(ids, false) }

// DecodeSkipSpecial is Decode without the tokens that tokenizer.json marks as special. Added tokens that are not, such as
// Qwen3's <think>, stay.
func (t *BPE) DecodeSkipSpecial(ids []int32) (string, error) { return t.decode(ids, true) }

func (t *BPE) decode(ids []int32, skipSpecial bool) (string, error) {
	s := t.Stream(skipSpecial)
	s.done = make([]byte, 0, 5*len(ids))
	for i, id := range ids {
		if id < 0 {
			return "", fmt.Errorf("token %d at %d, allowed are 0 and above", id, i)
		}
		s.take(id)
	}
	s.end()
	return string(s.done), nil
}

// Stream decodes tokens one at a time and holds back what later tokens may still change: the beginning of a character, and, in
// tokenizers with byte fallback, a run of byte tokens. What Next and Flush return is together what Decode
// returns. A Stream is for one goroutine.
type Stream struct {
	t           *BPE
	skipSpecial bool
	strip       int
	held        []byte
	done        []byte // valid UTF-8 that was not yet returned
}

// Stream begins to decode a text. With skipSpecial special tokens are left out as by [BPE.DecodeSkipSpecial].
func (t *BPE) Stream(skipSpecial bool) *Stream {
	return &Stream{t: t, skipSpecial: skipSpecial, strip: t.decoder.strip}
}

// Next takes one token and returns the text that is certain now, often none. Ids that no token has are left out.
func (s *Stream) Next(id int32) string {
	s.take(id)
	return s.give()
}

// Flush ends the text and returns what was held back. The stream can then be used for another text.
func (s *Stream) Flush() string {
	s.end()
	s.strip = s.t.decoder.strip
	return s.give()
}

func (s *Stream) give() string {
	text := string(s.done)
	s.done = s.done[:0]
	return text
}

func (s *Stream) take(id int32) {
	if id < 0 || int(id) >= len(s.t.tokens) {
		return
	}
	t := &s.t.tokens[id]
	switch {
	case !t.known || t.special && s.skipSpecial:
	case s.t.decoder.byteLevel:
		s.held = append(s.held, t.text...)
		s.settle(false)
	case t.isByte:
		s.held = append(s.held, t.text...)
	default:
		s.settleRun()
		s.write(t.text)
	}
}

func (s *Stream) end() {
	if s.t.decoder.byteLevel {
		s.settle(true)
	} else {
		s.settleRun()
	}
}

// settle moves all but the beginning of a character from held to done.
func (s *Stream) settle(last bool) {
	b := s.held
	for len(b) > 0 {
		n := 0 // bytes of whole characters
		for n < len(b) {
			if b[n] < utf8.RuneSelf {
				n++
				continue
			}
			r, size := utf8.DecodeRune(b[n:])
			if r == utf8.RuneError && size == 1 {
				break
			}
			n += size
		}
		s.done = append(s.done, b[:n]...)
		if b = b[n:]; len(b) == 0 {
			break
		}
		n = maximalPart(b)
		if n == len(b) && !last && !utf8.FullRune(b) {
			break
		}
		s.done = append(s.done, "\uFFFD"...)
		b = b[n:]
	}
	s.held = append(s.held[:0], b...)
}

// maximalPart is the length of the longest beginning of b, which does not begin with a character, that a character can begin
// with; 1 if there is none (Unicode, section 3.9, Substitution of Maximal Subparts).
func maximalPart(b []byte) int {
	n := 1
	for n < len(b) && n < utf8.UTFMax && !utf8.FullRune(b[:n]) {
		n++
	}
	// The first n bytes are a whole character, or their last one is wrong, or there are no more.
	if n > 1 && utf8.FullRune(b[:n]) {
		n--
	}
	return n
}

// settleRun moves a run of byte tokens to done, as it is or as one U+FFFD a byte.
func (s *Stream) settleRun() {
	if len(s.held) == 0 {
		return
	}
	if utf8.Valid(s.held) {
		s.write(string(s.held))
	} else {
		s.write(strings.Repeat("\uFFFD", len(s.held)))
	}
	s.held = s.held[:0]
}

// write adds text to done, at the beginning without what the decoder strips.
func (s *Stream) write(text string) {
	for s.strip > 0 && text != "" {
		rest, ok := strings.CutPrefix(text, s.t.decoder.stripped)
		if !ok {
			s.strip = 0
			break
		}
		text = rest
		s.strip--
	}
	s.done = append(s.done, text...)
}

// Bytes are what a token adds to a text, before the decoder strips anything; byte-level tokens may be parts of characters. It is
// false for an id that no token has.
func (t *BPE) Bytes(id int32) ([]byte, bool) {
	if id < 0 || int(id) >= len(t.tokens) || !t.tokens[id].known {
		return nil, false
	}
	return []byte(t.tokens[id].text), true
}
