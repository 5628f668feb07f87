package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// added is an added token: text that is cut out before anything else and is one token.
type added struct {
	id                         int32
	text                       string // what is matched
	singleWord, lstrip, rstrip bool
}

// addedSet finds added tokens in a text.
type addedSet struct {
	classes *classTable
	tokens  []added     // by text; each text once
	first   [256][2]int // by first byte: where the tokens that begin with it stand in tokens
	only    int         // the only first byte there is, or -1
}

// newAddedSet makes a set. That two tokens match the same text is an error: which of them would be meant?
func newAddedSet(tokens []added) (*addedSet, error) {
	slices.SortFunc(tokens, func(a, b added) int { return strings.Compare(a.text, b.text) })
	s := &addedSet{classes: classes(), tokens: tokens, only: -1}
	for i, t := range tokens {
		switch {
		case t.text == "":
			return nil, fmt.Errorf("token %d is empty after normalisation", t.id)
		case i > 0 && t.text == tokens[i-1].text:
			return nil, fmt.Errorf("tokens %d and %d both match %q", tokens[i-1].id, t.id, t.text)
		}
		f := &s.first[t.text[0]]
		if f[1] == 0 {
			f[0] = i
		}
		f[1] = i + 1
	}
	if n := len(tokens); n > 0 && tokens[0].text[0] == tokens[n-1].text[0] {
		s.only = int(tokens[0].text[0])
	}
	return s, nil
}

// cut calls text for each stretch between added tokens and token for each of these, in the order in which they stand.
func (s *addedSet) cut(text string, stretch func(string), token func(id int32)) {
	done := 0 // text before it has been dealt with
	for at := 0; at < len(text); {
		t, start := s.find(text, at)
		if t == nil {
			break
		}
		end := start + len(t.text)
		at = end
		if t.singleWord && (s.wordBefore(text, start) || s.wordAfter(text, end)) {
			continue
		}
		if t.lstrip {
			if start < done {
				start = done
			} else {
				start = done + s.spaceBefore(text[done:start])
			}
		}
		if t.rstrip {
			end = s.classes.run(text, end, space)
		}
		if start >= end { // all of it was taken by the token before
			continue
		}
		if done < start {
			stretch(text[done:start])
		}
		token(t.id)
		// A token inside of white space that the one before it took gives the rest of that back.
		done = end
	}
	if done < len(text) {
		stretch(text[done:])
	}
}

// find is the first added token in text[at:] and its place, the longest of those that begin there.
func (s *addedSet) find(text string, at int) (*added, int) {
	if len(s.tokens) == 0 {
		return nil, 0
	}
	for ; at < len(text); at++ {
		if s.only >= 0 {
			skip := strings.IndexByte(text[at:], byte(s.only))
			if skip < 0 {
				break
			}
			at += skip
		}
		if f := s.first[text[at]]; f[1] > 0 {
			if t := longest(s.tokens[f[0]:f[1]], text[at:]); t != nil {
				return t, at
			}
		}
	}
	return nil, 0
}

// longest is the longest of the sorted tokens that text begins with. All of them begin with the text's first byte.
func longest(tokens []added, text string) *added {
	var found *added
	for n := 1; len(tokens) > 0; n++ {
		if len(tokens[0].text) == n { // it is the shortest of those that share the first n bytes
			found = &tokens[0]
			tokens = tokens[1:]
		}
		if n == len(text) {
			break
		}
		b := text[n]
		from, _ := slices.BinarySearchFunc(tokens, int(b), func(t added, b int) int { return int(t.text[n]) - b })
		to, _ := slices.BinarySearchFunc(tokens[from:], int(b)+1, func(t added, b int) int { return int(t.text[n]) - b })
		tokens = tokens[from : from+to]
	}
	return found
}

func (s *addedSet) wordBefore(text string, i int) bool {
	r, n := utf8.DecodeLastRuneInString(text[:i])
	return n > 0 && s.classes.of(r)&word != 0
}

func (s *addedSet) wordAfter(text string, i int) bool {
	r, n := utf8.DecodeRuneInString(text[i:])
	return n > 0 && s.classes.of(r)&word != 0
}

// spaceBefore is where the white space at the end of a text begins.
func (s *addedSet) spaceBefore(text string) int {
	i := len(text)
	for i > 0 {
		r, n := utf8.DecodeLastRuneInString(text[:i])
		if s.classes.of(r)&space == 0 {
			break
		}
		i -= n
	}
	return i
}
