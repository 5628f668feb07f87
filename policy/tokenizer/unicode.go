package tokenizer

import (
	"sync"
	"unicode/utf8"
)

//go:generate go run ./internal/maketables ../../testdata/golden/tokenizers/hf_unicode.json.gz tables.go

// class is a set of properties of a character. They are those of the tables that the reference library was built with, which
// differ from those of package unicode.
type class uint8

const (
	letter  class = 1 << iota // \p{L}
	mark                      // \p{M}
	number                    // \p{N}
	numeric                   // Rust's char::is_numeric, a newer \p{N}
	space                     // \s, White_Space
	word                      // \w
	changes                   // normalisation form C may change it, or what stands before it
	joins                     // it may be reordered or composed with what stands before it
)

// classTable holds the classes of all code points in pages of 256; equal pages are stored once.
type classTable struct {
	page  [(utf8.MaxRune + 1) >> 8]uint16
	pages [][256]class
}

func (t *classTable) of(r rune) class { return t.pages[t.page[uint32(r)>>8]][uint8(r)] }

// at is the class of the character that begins at s[i], and its length. The text must be valid UTF-8.
func (t *classTable) at(s string, i int) (class, int) {
	if b := s[i]; b < utf8.RuneSelf {
		return t.pages[0][b], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	return t.of(r), n
}

// run is the end of the longest run of characters from i on of which each has one of the classes in want.
func (t *classTable) run(s string, i int, want class) int {
	ascii := &t.pages[0]
	for i < len(s) {
		if b := s[i]; b < utf8.RuneSelf {
			if ascii[b]&want == 0 {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if t.of(r)&want == 0 {
			return i
		}
		i += n
	}
	return i
}

// runWithout is like run for characters that have none of the classes in not.
func (t *classTable) runWithout(s string, i int, not class) int {
	ascii := &t.pages[0]
	for i < len(s) {
		if b := s[i]; b < utf8.RuneSelf {
			if ascii[b]&not != 0 {
				return i
			}
			i++
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if t.of(r)&not != 0 {
			return i
		}
		i += n
	}
	return i
}

// classes is made when the first tokenizer is.
var classes = sync.OnceValue(func() *classTable {
	all := make([]class, utf8.MaxRune+1)
	set := func(ranges []rune, c class) {
		for i := 0; i < len(ranges); i += 2 {
			for r := ranges[i]; r <= ranges[i+1]; r++ {
				all[r] |= c
			}
		}
	}
	set(letterRanges, letter|word)
	set(markRanges, mark|word)
	set(numberRanges, number)
	set(numericRanges, numeric)
	set(spaceRanges, space)
	set(wordRanges, word)
	for i := 0; i < len(combiningClasses); i += 2 {
		all[combiningClasses[i]] |= changes | joins
	}
	for i := 0; i < len(compositions); i += 3 {
		all[compositions[i+1]] |= changes | joins
	}
	set([]rune{jamoV, jamoV + jamoVs - 1, jamoT + 1, jamoT + jamoTs - 1}, changes|joins)
	composite := make(map[rune]bool, len(compositions)/3)
	for i := 0; i < len(compositions); i += 3 {
		composite[compositions[i+2]] = true
	}
	for i := 0; i < len(decompositions); i += 2 + int(decompositions[i+1]) {
		c, first := decompositions[i], decompositions[i+2]
		if !composite[c] {
			all[c] |= changes
		}
		if all[first]&joins != 0 {
			all[c] |= changes | joins
		}
	}
	t := &classTable{}
	known := map[[256]class]uint16{}
	for p := range t.page {
		content := [256]class(all[p<<8:])
		at, ok := known[content]
		if !ok {
			at = uint16(len(t.pages))
			known[content] = at
			t.pages = append(t.pages, content)
		}
		t.page[p] = at
	}
	return t
})
