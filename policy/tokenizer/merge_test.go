package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// randomBPE is a model with random merges over a few characters, also over parts of characters, in any order of ranks and with
// several merges for one token: far worse than any that was trained.
func randomBPE(t *rapid.T) *bpe {
	m := &bpe{ids: map[string]int32{}, bytes: new([256]int32), unknown: None}
	var tokens []string
	for i := range m.bytes {
		m.bytes[i] = missing
	}
	for _, b := range []byte("ab é中丮😀") {
		if m.bytes[b] == missing {
			m.bytes[b] = int32(len(tokens))
			m.ids[string([]byte{b})] = int32(len(tokens))
			tokens = append(tokens, string([]byte{b}))
		}
	}
	type merging struct{ a, b, id int32 }
	var merges []merging
	for _, c := range []string{"é", "中", "丮"} { // characters are more likely to be tokens than chance would make them
		if rapid.Bool().Draw(t, "whole "+c) {
			for n := 2; n <= len(c); n++ {
				if _, ok := m.ids[c[:n]]; !ok {
					m.ids[c[:n]] = int32(len(tokens))
					tokens = append(tokens, c[:n])
				}
				merges = append(merges, merging{m.ids[c[:n-1]], m.ids[c[n-1:n]], m.ids[c[:n]]})
			}
		}
	}
	for range rapid.IntRange(0, 40).Draw(t, "merges") {
		a := int32(rapid.IntRange(0, len(tokens)-1).Draw(t, "left"))
		b := int32(rapid.IntRange(0, len(tokens)-1).Draw(t, "right"))
		text := tokens[a] + tokens[b]
		if len(text) > 12 {
			continue
		}
		if _, ok := m.ids[text]; !ok {
			m.ids[text] = int32(len(tokens))
			tokens = append(tokens, text)
		}
		merges = append(merges, merging{a, b, m.ids[text]})
	}
	if rapid.Bool().Draw(t, "shuffled") {
		merges = rapid.Permutation(merges).Draw(t, "order")
	}
	m.merges = newMergeTable(len(merges))
	m.seeds = newSeeds(len(tokens))
	for rank, x := range merges {
		m.merges.set(x.a, x.b, x.id, uint32(rank))
		m.seeds.add(x.a, x.b, []byte(tokens[x.a]), []byte(tokens[x.b]), uint32(rank))
	}
	return m
}

// mergeSlowly is the definition: look at all pairs, merge the leftmost of the lowest rank, begin again.
func mergeSlowly(m *bpe, piece string) []int32 {
	ids := m.plainSymbols(nil, piece)
	for {
		at, best := 0, noMerge
		for i := 1; i < len(ids); i++ {
			if v := m.merges.get(ids[i-1], ids[i]); v < best {
				at, best = i-1, v
			}
		}
		if best == noMerge {
			return ids
		}
		ids = slices.Replace(ids, at, at+2, best.id())
	}
}

// The shortcuts (characters taken whole, the heap for long pieces) must never change an id, whatever the vocabulary.
func TestMergeShortcuts(t *testing.T) {
	seeded := 0
	rapid.Check(t, func(t *rapid.T) {
		m := randomBPE(t)
		var s mergeScratch
		for range 4 {
			piece := strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", " ", "é", "中", "丮", "😀"}), 1, 24).Draw(t, "piece"), "")
			want := mergeSlowly(m, piece)
			if got := m.merge(piece, &s); !slices.Equal(got, want) {
				t.Fatalf("%q: %v, want %v", piece, got, want)
			}
			if len(m.symbols(nil, piece)) < len(piece) {
				seeded++
			}
			s.ids = m.plainSymbols(s.ids[:0], piece)
			s.next = s.next[:0]
			for i := 1; i < len(s.ids); i++ {
				s.next = append(s.next, m.merges.get(s.ids[i-1], s.ids[i]))
			}
			s.next = append(s.next, noMerge)
			if got := m.mergeByHeap(&s); !slices.Equal(got, want) {
				t.Fatalf("%q by heap: %v, want %v", piece, got, want)
			}
		}
	})
	if seeded == 0 {
		t.Error("no piece had a character taken whole")
	}
}
