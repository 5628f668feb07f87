package tokenizer

import (
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// bpe is the model: byte-pair encoding of a piece of text.
type bpe struct {
	ids          map[string]int32 // the vocabulary by the text that a token stands for
	longest      int              // bytes of the longest of these texts
	merges       mergeTable
	ignoreMerges bool            // an entry of the vocabulary is one token even where no merges lead to it
	whole        []atomic.Uint32 // whether merging a token's text gives the token; see isWhole
	bytes        *[256]int32     // the tokens of single bytes; nil: symbols are characters
	fallback     *[256]int32     // tokens <0x00> … <0xFF> for characters that the vocabulary lacks; nil: there are none
	unknown      int32           // for other characters that it lacks; None: they vanish
	fuseUnknown  bool            // one unknown token for several such characters
	seeds        *seeds          // with bytes only
	scratch      sync.Pool       // of *mergeScratch
}

const missing int32 = -1 // no token in bytes or fallback

// append adds the tokens of a piece.
func (m *bpe) append(ids []int32, piece string, s *mergeScratch) []int32 {
	if len(piece) <= m.longest {
		if id, ok := m.ids[piece]; ok && (m.ignoreMerges || m.isWhole(id, piece, s)) {
			return append(ids, id)
		}
	}
	return append(ids, m.merge(piece, s)...)
}

// isWhole says whether merging the text of a token gives that token. What was found is kept: most pieces of a text are tokens.
func (m *bpe) isWhole(id int32, text string, s *mergeScratch) bool {
	const yes, no = 1, 2
	switch m.whole[id].Load() {
	case yes:
		return true
	case no:
		return false
	}
	got := m.merge(text, s)
	if len(got) == 1 && got[0] == id {
		m.whole[id].Store(yes)
		return true
	}
	m.whole[id].Store(no)
	return false
}

// merge gives the tokens of a piece; they stay valid until the scratch is used again.
func (m *bpe) merge(piece string, s *mergeScratch) []int32 {
	s.ids = m.symbols(s.ids[:0], piece)
	if len(s.ids) < 2 {
		return s.ids
	}
	s.next = s.next[:0]
	for i, b := range s.ids[1:] {
		s.next = append(s.next, m.merges.get(s.ids[i], b))
	}
	s.next = append(s.next, noMerge)
	if len(s.ids) <= heapFrom {
		return m.mergeByScan(s.ids, s.next)
	}
	return m.mergeByHeap(s)
}

// symbols appends what merging begins with: a token for each byte or character, or what stands in for one that has none.
func (m *bpe) symbols(ids []int32, piece string) []int32 {
	if m.seeds != nil {
		if out, ok := m.seeded(ids, piece); ok {
			return out
		}
	}
	return m.plainSymbols(ids, piece)
}

// plainSymbols is symbols without seeds.
func (m *bpe) plainSymbols(ids []int32, piece string) []int32 {
	unknown := false // one unknown token is still to be added, after any fallbacks that follow it (as the reference has it)
	for i, n := 0, 1; i < len(piece); i += n {
		id := missing
		if m.bytes != nil {
			id = m.bytes[piece[i]]
		} else {
			_, n = utf8.DecodeRuneInString(piece[i:])
			if known, ok := m.ids[piece[i:i+n]]; ok {
				id = known
			}
		}
		switch {
		case id != missing:
			if unknown {
				ids = append(ids, m.unknown)
				unknown = false
			}
			ids = append(ids, id)
		case m.hasFallback(piece[i : i+n]):
			for _, b := range []byte(piece[i : i+n]) {
				ids = append(ids, m.fallback[b])
			}
		case m.unknown != None:
			if unknown && !m.fuseUnknown {
				ids = append(ids, m.unknown)
			}
			unknown = true
		}
	}
	if unknown {
		ids = append(ids, m.unknown)
	}
	return ids
}

func (m *bpe) hasFallback(character string) bool {
	if m.fallback == nil {
		return false
	}
	for i := range len(character) {
		if m.fallback[character[i]] == missing {
			return false
		}
	}
	return true
}

// mergeScratch is memory that encoding one text needs.
type mergeScratch struct {
	ids          []int32
	next         []merge // by position: what this token and the one after it merge into
	before, then []int32 // for merging by heap: the neighbours' positions
	heap         []uint64
}

// scratchKept is the length of a piece up to which its memory is kept for later texts.
const scratchKept = 1 << 14

func (m *bpe) borrow() *mergeScratch {
	if s, ok := m.scratch.Get().(*mergeScratch); ok {
		return s
	}
	return &mergeScratch{}
}

func (m *bpe) giveBack(s *mergeScratch) {
	if cap(s.ids) <= scratchKept {
		m.scratch.Put(s)
	}
}

// heapFrom is the number of symbols from which on a heap is faster than looking at all pairs for each merge.
const heapFrom = 128

// mergeByScan merges the pair of the lowest rank, the leftmost of equals, until there is none.
func (m *bpe) mergeByScan(ids []int32, next []merge) []int32 {
	for {
		lowest := noMerge // with the position in the lower half, so that the search needs no branches
		for i, v := range next {
			lowest = min(lowest, v>>32<<32|merge(i))
		}
		at := int(uint32(lowest))
		if lowest.rank() == noMerge.rank() {
			return ids
		}
		ids[at] = next[at].id()
		ids = append(ids[:at+1], ids[at+2:]...)
		next = append(next[:at], next[at+1:]...)
		next[at] = noMerge
		if at+1 < len(ids) {
			next[at] = m.merges.get(ids[at], ids[at+1])
		}
		if at > 0 {
			next[at-1] = m.merges.get(ids[at-1], ids[at])
		}
	}
}

// mergeByHeap does the same with a heap of the pairs' ranks and positions. Pairs that a merge beside them has replaced
// stay in the heap until they come up.
func (m *bpe) mergeByHeap(s *mergeScratch) []int32 {
	n := int32(len(s.ids))
	s.before, s.then, s.heap = s.before[:0], s.then[:0], s.heap[:0]
	for i := range n {
		s.before, s.then = append(s.before, i-1), append(s.then, i+1)
		if s.next[i] != noMerge {
			s.heap = append(s.heap, uint64(s.next[i].rank())<<32|uint64(i))
		}
	}
	h := rankHeap(s.heap)
	h.init()
	update := func(i int32) {
		s.next[i] = noMerge
		if j := s.then[i]; j < n {
			if s.next[i] = m.merges.get(s.ids[i], s.ids[j]); s.next[i] != noMerge {
				h.push(uint64(s.next[i].rank())<<32 | uint64(i))
			}
		}
	}
	for len(h) > 0 {
		top := h.pop()
		i := int32(uint32(top))
		if v := s.next[i]; v == noMerge || uint64(v.rank()) != top>>32 {
			continue
		}
		s.ids[i] = s.next[i].id()
		gone := s.then[i]
		s.next[gone] = noMerge
		s.then[i] = s.then[gone]
		if s.then[i] < n {
			s.before[s.then[i]] = i
		}
		update(i)
		if s.before[i] >= 0 {
			update(s.before[i])
		}
	}
	s.heap = h[:0]
	out := s.ids[:0]
	for i := int32(0); i < n; i = s.then[i] {
		out = append(out, s.ids[i])
	}
	return out
}

// rankHeap is a binary heap with the smallest number on top.
type rankHeap []uint64

func (h rankHeap) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

func (h *rankHeap) push(v uint64) {
	*h = append(*h, v)
	a := *h
	i := len(a) - 1
	for i > 0 {
		up := (i - 1) / 2
		if a[up] <= v {
			break
		}
		a[i] = a[up]
		i = up
	}
	a[i] = v
}

func (h *rankHeap) pop() uint64 {
	a := *h
	top := a[0]
	a[0] = a[len(a)-1]
	*h = a[:len(a)-1]
	if len(*h) > 1 {
		h.down(0)
	}
	return top
}

func (h rankHeap) down(i int) {
	v := h[i]
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[child] >= v {
			break
		}
		h[i] = h[child]
		i = child
	}
	h[i] = v
}
