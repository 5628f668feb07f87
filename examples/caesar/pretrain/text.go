package main

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"io"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/examples/caesar/internal/caesar"
	"github.com/grouper-rl/grouper/examples/internal/supervised"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// opticks is Isaac Newton's Opticks, fourth edition of 1730 (in the public domain; see NOTICE). It has none of the sentences that the tasks
// are made of, which a test checks.
//
//go:embed opticks.txt.gz
var opticks []byte

// words are the words of the text in upper case, without anything else.
func words() ([]string, error) {
	z, err := gzip.NewReader(bytes.NewReader(opticks))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, err
	}
	return strings.FieldsFunc(strings.ToUpper(string(text)), func(r rune) bool { return !strings.ContainsRune(caesar.Letters, r) }), nil
}

// source draws training examples.
type source struct {
	words    []string // of the text, in order
	distinct []string
	tok      *tokenizer.Char
	rand     *rand.Rand
}

// newSource gives the source of one stage, numbered from 1.
func newSource(seed uint64, stage int) (*source, error) {
	all, err := words()
	if err != nil {
		return nil, err
	}
	tok, err := caesar.Tokenizer()
	if err != nil {
		return nil, err
	}
	distinct := slices.Clone(all)
	slices.Sort(distinct)
	distinct = slices.DeleteFunc(slices.Compact(distinct), func(w string) bool { return len(w) == 1 && w != "A" && w != "I" && w != "O" })
	return &source{words: all, distinct: distinct, tok: tok, rand: rand.New(rand.NewPCG(seed, uint64(stage)))}, nil
}

// mixture says how examples differ from ordinary text.
type mixture struct {
	shuffled float64 // share of windows made of words drawn from all distinct words: rare words are learned, too
	invented float64 // share of words of random letters: names have to be spelled, not guessed
	wrong    float64 // share of target letters that are replaced by random ones: the model learns to be unsure
	first    float32 // weight of the first letter, which decides the rotation
}

// window draws 5 to 12 words.
func (s *source) window(m mixture) string {
	for {
		n := 5 + s.rand.IntN(8)
		start := s.rand.IntN(len(s.words) - n)
		window := slices.Clone(s.words[start : start+n])
		shuffle := s.rand.Float64() < m.shuffled
		for i := range window {
			if shuffle {
				window[i] = s.distinct[s.rand.IntN(len(s.distinct))]
			}
			if s.rand.Float64() < m.invented {
				window[i] = strings.Map(func(rune) rune { return s.letter() }, window[i])
			}
		}
		if text := strings.Join(window, " "); len(text) <= caesar.MaxText {
			return text
		}
	}
}

func (s *source) letter() rune { return rune(caesar.Letters[s.rand.IntN(26)]) }

// example draws a text and a rotation.
func (s *source) example(m mixture) supervised.Example {
	text, by := s.window(m), 1+s.rand.IntN(caesar.Rotations)
	cipher := strings.Map(func(r rune) rune {
		if r == ' ' {
			return r
		}
		return 'A' + (r-'A'+rune(by))%26
	}, text)
	encode := func(text string) []int32 {
		tokens, err := s.tok.Encode(text)
		if err != nil {
			panic(err) // made of the tokenizer's own characters
		}
		return tokens
	}
	e := supervised.Example{
		Prompt:     encode(caesar.Fill(caesar.Lead + cipher + caesar.Tail)),
		Completion: encode(caesar.Open + text + caesar.Close + caesar.EOS),
	}
	e.Targets = slices.Clone(e.Completion)
	for i, r := range text {
		if r != ' ' && s.rand.Float64() < m.wrong {
			e.Targets[1+i] = encode(string(s.letter()))[0]
		}
	}
	e.Weights = slices.Repeat([]float32{1}, len(e.Completion))
	e.Weights[1] = m.first
	return e
}

// batches draws batches of examples of similar length, so that little is spent on padding: eight batches at a time, sorted by
// length and handed out in random order.
func (s *source) batches(size int, m mixture) func(step int) []supervised.Example {
	var ready [][]supervised.Example
	return func(int) []supervised.Example {
		if len(ready) == 0 {
			all := make([]supervised.Example, 8*size)
			for i := range all {
				all[i] = s.example(m)
			}
			slices.SortStableFunc(all, func(a, b supervised.Example) int { return len(a.Completion) - len(b.Completion) })
			ready = slices.Collect(slices.Chunk(all, size))
			s.rand.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
		}
		next := ready[0]
		ready = ready[1:]
		return next
	}
}
