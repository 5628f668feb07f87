package tokenizer

import "math/bits"

// merge is what becomes of a pair of neighbouring tokens: the rank in the upper half, the token in the lower. Lower ranks go
// first, so that merges compare like their ranks.
type merge uint64

const noMerge = ^merge(0)

func (m merge) id() int32    { return int32(m) }
func (m merge) rank() uint32 { return uint32(m >> 32) }

// mergeTable is a hash table with linear probing from pairs of tokens to merges.
type mergeTable struct {
	slots []mergeSlot
	shift uint // 64 - log2(len(slots))
}

type mergeSlot struct {
	pair  uint64
	value merge
}

// newMergeTable makes a table for n merges. A third of it or more stays empty, since most look-ups find nothing.
func newMergeTable(n int) mergeTable {
	log := max(bits.Len(uint(n+n/2)), 3)
	t := mergeTable{make([]mergeSlot, 1<<log), uint(64 - log)}
	for i := range t.slots {
		t.slots[i].value = noMerge
	}
	return t
}

func pair(a, b int32) uint64 { return uint64(uint32(a))<<32 | uint64(uint32(b)) }

func (t *mergeTable) slot(p uint64) *mergeSlot {
	mask := uint64(len(t.slots) - 1)
	for i := p * 0x9E3779B97F4A7C15 >> t.shift; ; i++ {
		s := &t.slots[i&mask]
		if s.pair == p || s.value == noMerge {
			return s
		}
	}
}

// set makes a pair merge into id. Of two merges of one pair the last one holds.
func (t *mergeTable) set(a, b, id int32, rank uint32) {
	p := pair(a, b)
	*t.slot(p) = mergeSlot{p, merge(rank)<<32 | merge(uint32(id))}
}

func (t *mergeTable) get(a, b int32) merge { return t.slot(pair(a, b)).value }
