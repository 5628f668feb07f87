package reasoninggym

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"strings"
)

//go:embed data/in_the_year_2889.txt.gz
var inTheYear2889 []byte

//go:embed data/words3to10.txt.gz
var words3to10 []byte

// text unpacks an embedded file.
func text(packed []byte) (string, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return "", err
	}
	data, err := io.ReadAll(z)
	return string(data), err
}

// wordList is a list of words in one text, so that the garbage collector need not look at each of them.
type wordList struct {
	text string   // a space between words
	ends []uint32 // where each word ends
}

func newWordList(words []string) wordList {
	w := wordList{text: strings.Join(words, " "), ends: make([]uint32, len(words))}
	end := 0
	for i, word := range words {
		end += len(word)
		w.ends[i] = uint32(end)
		end++
	}
	return w
}

func (w wordList) len() int { return len(w.ends) }

// words are those from one on, with spaces between.
func (w wordList) words(first, count int) string {
	start := uint32(0)
	if first > 0 {
		start = w.ends[first-1] + 1
	}
	return w.text[start:w.ends[first+count-1]]
}
