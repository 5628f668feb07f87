package reasoninggym

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/internal/python"
)

// The letters that are left after some are used decide which letter is drawn next: in another order, all further tasks would differ.
func TestUnusedLetters(t *testing.T) {
	l := newLetters()
	all := python.NewSet[python.Char]()
	for c := python.Char('a'); c <= 'z'; c++ {
		all.Add(c)
	}
	rapid.Check(t, func(t *rapid.T) {
		used := rapid.SliceOfDistinct(rapid.Map(rapid.IntRange('a', 'z'), func(c int) python.Char { return python.Char(c) }), rapid.ID).Draw(t, "used")
		bits := uint32(0)
		for _, c := range used {
			bits |= 1 << (c - 'a')
		}
		want := all.Difference(python.NewSet(used...)).List()
		if got := l.unused(make([]python.Char, 26), bits); !slices.Equal(got, want) {
			t.Fatalf("without %v: %v, want %v", used, got, want)
		}
	})
}
