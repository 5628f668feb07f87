package tokenizer

import (
	"sync/atomic"
	"unicode/utf8"
)

// seeds says which characters of more than one byte may be taken as one token before any merging, because merging would come
// to that token anyway. It saves most of the work on text that is not ASCII, and changes no ids:
//
// Let merging the bytes of character c alone give the one token t, by merges of ranks up to r. Let no merge join tokens over the
// borders of c of which one has only a part of a character at the border. Then in any text the merges inside of c
// happen as they do alone. Let t itself take part in no merge of a rank up to r. Then no merge of t can come up earlier for t's
// being there from the beginning: while c is unfinished it has a merge of a lower rank, which goes first. So the other merges are
// the same and in the same order.
type seeds struct {
	found    []atomic.Int32 // by code point: the token + 1, or notSeed; 0: not looked at yet
	firstUse []uint32       // by token: the lowest rank of the merges that it takes part in
	// by the last byte before a border and the first one after it: whether some merge over it has a part of a character at the border
	unsafe [256][256 / 64]uint64
}

const notSeed = -1

// seedable bounds the code points that can be seeds.
const seedable = 0x10000

func newSeeds(tokens int) *seeds {
	s := &seeds{found: make([]atomic.Int32, seedable), firstUse: make([]uint32, tokens)}
	for i := range s.firstUse {
		s.firstUse[i] = ^uint32(0)
	}
	return s
}

// add takes note of a merge of two tokens that stand for these bytes.
func (s *seeds) add(a, b int32, left, right []byte, rank uint32) {
	s.firstUse[a] = min(s.firstUse[a], rank)
	s.firstUse[b] = min(s.firstUse[b], rank)
	if len(left) > 0 && len(right) > 0 && utf8.RuneStart(right[0]) && !(utf8.Valid(left) && utf8.Valid(right)) {
		s.unsafe[left[len(left)-1]][right[0]/64] |= 1 << (right[0] % 64)
	}
}

// safe says whether no merge over the border before piece[i] has a part of a character at the border.
func (s *seeds) safe(piece string, i int) bool {
	if i == 0 || i == len(piece) {
		return true
	}
	return s.unsafe[piece[i-1]][piece[i]/64]&(1<<(piece[i]%64)) == 0
}

// seeded is symbols with seeds. It fails for pieces that have bytes without a token, or are not UTF-8.
func (m *bpe) seeded(ids []int32, piece string) ([]int32, bool) {
	for i := 0; i < len(piece); {
		n := 1
		if piece[i] >= utf8.RuneSelf {
			var r rune
			if r, n = utf8.DecodeRuneInString(piece[i:]); n == 1 {
				return nil, false
			}
			if id := m.seed(r, piece[i:i+n]); id != missing && m.seeds.safe(piece, i) && m.seeds.safe(piece, i+n) {
				ids = append(ids, id)
				i += n
				continue
			}
		}
		for ; n > 0; n-- {
			id := m.bytes[piece[i]]
			if id == missing {
				return nil, false
			}
			ids = append(ids, id)
			i++
		}
	}
	return ids, true
}

// seed is the token of a character, whose bytes are text, or missing if it is no seed.
func (m *bpe) seed(r rune, text string) int32 {
	if r >= seedable {
		return missing
	}
	found := &m.seeds.found[r]
	switch v := found.Load(); v {
	case 0:
	case notSeed:
		return missing
	default:
		return v - 1
	}
	id := m.findSeed(text)
	if id == missing {
		found.Store(notSeed)
	} else {
		found.Store(id + 1)
	}
	return id
}

func (m *bpe) findSeed(text string) int32 {
	var ids [utf8.UTFMax]int32
	n := len(text)
	for i := range n {
		if ids[i] = m.bytes[text[i]]; ids[i] == missing {
			return missing
		}
	}
	highest := uint32(0)
	for ; n > 1; n-- {
		at, best := 0, noMerge
		for i := range n - 1 {
			if v := m.merges.get(ids[i], ids[i+1]); v < best {
				at, best = i, v
			}
		}
		if best == noMerge {
			return missing
		}
		highest = max(highest, best.rank())
		ids[at] = best.id()
		copy(ids[at+1:n], ids[at+2:n])
	}
	if m.seeds.firstUse[ids[0]] <= highest {
		return missing
	}
	return ids[0]
}
