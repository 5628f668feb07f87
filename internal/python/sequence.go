package python

import (
	"math"
	"sync/atomic"
)

// lanes is how many generators are seeded at a time. Seeding is a chain of operations that each wait for the one before, so that a
// processor does several chains in little more time than one.
const lanes = 4

// Sequence makes the same generators as NewRandom, in less time where they are asked for by ascending seeds: it then seeds some
// ahead. The zero value is ready, and it is safe for concurrent use.
type Sequence struct {
	next  atomic.Int64 // the seed after the last one
	ahead atomic.Pointer[block]
}

// block holds generators of consecutive seeds, each to be given away once.
type block struct {
	first   int64
	randoms [lanes]Random
	taken   [lanes]atomic.Bool
}

// Random is NewRandom(seed).
func (s *Sequence) Random(seed int64) *Random {
	if b := s.ahead.Load(); b != nil && seed >= b.first && seed-b.first < lanes {
		if i := seed - b.first; b.taken[i].CompareAndSwap(false, true) {
			s.next.Store(seed + 1)
			return &b.randoms[i]
		}
	}
	if expected := s.next.Swap(seed + 1); expected != seed || seed < 0 || seed > math.MaxUint32-lanes {
		return NewRandom(seed)
	}
	b := &block{first: seed}
	seedLanes(&b.randoms, uint32(seed))
	b.taken[0].Store(true)
	s.ahead.Store(b)
	return &b.randoms[0]
}

// seedLanes seeds generators by first, first+1, …, below 2^32: it is seedKey for all of them at once, written out so that the last
// word of each stays in a register.
func seedLanes(r *[lanes]Random, first uint32) {
	a, b, c, d := &r[0].state, &r[1].state, &r[2].state, &r[3].state
	x := blank[0]
	y, z, w := x, x, x
	for i := 1; i < stateSize; i++ {
		x = (blank[i] ^ (x^x>>30)*1664525) + first
		y = (blank[i] ^ (y^y>>30)*1664525) + (first + 1)
		z = (blank[i] ^ (z^z>>30)*1664525) + (first + 2)
		w = (blank[i] ^ (w^w>>30)*1664525) + (first + 3)
		a[i], b[i], c[i], d[i] = x, y, z, w
	}
	x = (a[1] ^ (x^x>>30)*1664525) + first
	y = (b[1] ^ (y^y>>30)*1664525) + (first + 1)
	z = (c[1] ^ (z^z>>30)*1664525) + (first + 2)
	w = (d[1] ^ (w^w>>30)*1664525) + (first + 3)
	a[1], b[1], c[1], d[1] = x, y, z, w
	for i := 2; i < stateSize; i++ {
		x = (a[i] ^ (x^x>>30)*1566083941) - uint32(i)
		y = (b[i] ^ (y^y>>30)*1566083941) - uint32(i)
		z = (c[i] ^ (z^z>>30)*1566083941) - uint32(i)
		w = (d[i] ^ (w^w>>30)*1566083941) - uint32(i)
		a[i], b[i], c[i], d[i] = x, y, z, w
	}
	a[1] = (a[1] ^ (x^x>>30)*1566083941) - 1
	b[1] = (b[1] ^ (y^y>>30)*1566083941) - 1
	c[1] = (c[1] ^ (z^z>>30)*1566083941) - 1
	d[1] = (d[1] ^ (w^w>>30)*1566083941) - 1
	for i := range r {
		r[i].state[0] = upperBit
	}
}
