package tokenizer

import "math/bits"

// merge is what becomes of a pair of neighbouring tokens: the rank in the upper half, the token in the lower. Lower ranks go
// first, so that merges compare like their ranks.
type merge uint64

const noMerge = ^merge(0)

func (m merge) id() int32    { return int32(m) }
func (m merge) rank() uint32 { return uint32(m >> 32) }

// mergeTable is a hash table with linear probing from pairs of tokens to merges. Most look-ups find nothing, and most of these
// end at a bit set that is small enough for the processor's cache.
type mergeTable struct {
	slots  []mergeSlot
	filter []uint64 // bit i is set if the hash of some pair begins with i
	shift  uint     // 64 - log2(len(slots))
}

type mergeSlot struct {
	pair  uint64
	value merge
}

// filterBits is the logarithm of the number of the filter's bits for each slot.
const filterBits = 3

// newMergeTable makes a table for n merges. A third of it or more stays empty.
func newMergeTable(n int) mergeTable {
	log := max(bits.Len(uint(n+n/2)), 3)
	t := mergeTable{make([]mergeSlot, 1<<log), make([]uint64, 1<<(log+filterBits-6)), uint(64 - log)}
	for i := range t.slots {
		t.slots[i].value = noMerge
	}
	return t
}

func hashPair(a, b int32) (pair, hash uint64) {
	pair = uint64(uint32(a))<<32 | uint64(uint32(b))
	return pair, pair * 0x9E3779B97F4A7C15
}

// slot is where a pair is, or the empty slot where it would be.
func (t *mergeTable) slot(pair, hash uint64) *mergeSlot {
	mask := uint64(len(t.slots) - 1)
	for i := hash >> t.shift; ; i++ {
		s := &t.slots[i&mask]
		if s.pair == pair || s.value == noMerge {
			return s
		}
	}
}

// set makes a pair merge into id. Of two merges of one pair the last one holds.
func (t *mergeTable) set(a, b, id int32, rank uint32) {
	pair, hash := hashPair(a, b)
	*t.slot(pair, hash) = mergeSlot{pair, merge(rank)<<32 | merge(uint32(id))}
	bit := hash >> (t.shift - filterBits)
	t.filter[bit/64] |= 1 << (bit % 64)
}

func (t *mergeTable) get(a, b int32) merge {
	pair, hash := hashPair(a, b)
	bit := hash >> (t.shift - filterBits)
	if t.filter[bit/64]&(1<<(bit%64)) == 0 {
		return noMerge
	}
	return t.slot(pair, hash).value
}
