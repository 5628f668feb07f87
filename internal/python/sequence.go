package python

import "math"

// lanes is how many generators are seeded at a time. Seeding is a chain of operations that each wait for the one before, so that a
// processor does several chains in little more time than one.
const lanes = 8

// Sequence makes the same generators as NewRandom, in a fourth of the time where they are asked for by ascending seeds: it then
// seeds some ahead. The zero value is ready.
type Sequence struct {
	last    int64 // the seed that was asked for before
	first   int64 // the seed of the first generator
	unused  uint8 // bit i is set while nobody has the generator of first+i
	randoms [lanes]Random
}

// Random is NewRandom(seed), to be used until the next call.
func (s *Sequence) Random(seed int64) *Random {
	follows := uint64(seed-s.last-1) < lanes
	s.last = seed
	i := seed - s.first
	switch {
	case uint64(i) < lanes && s.unused>>i&1 == 1:
		s.unused &^= 1 << i
		return &s.randoms[i]
	case follows && seed >= 0 && seed <= math.MaxUint32-lanes:
		s.first, s.unused = seed, 1<<lanes-2
		seedLanes(&s.randoms, uint32(seed))
	default:
		s.unused = 0
		s.randoms[0].seedInt(seed)
	}
	return &s.randoms[0]
}

// seedLanes seeds generators by first, first+1, …, below 2^32: it is seedKey for all of them at once, written out so that the last
// word of each stays in a register.
func seedLanes(r *[lanes]Random, first uint32) {
	a := blank[0]
	b, c, d, e, f, g, h := a, a, a, a, a, a, a
	for i := 1; i < stateSize; i++ {
		start := blank[i]
		a = (start ^ (a^a>>30)*1664525) + first
		b = (start ^ (b^b>>30)*1664525) + (first + 1)
		c = (start ^ (c^c>>30)*1664525) + (first + 2)
		d = (start ^ (d^d>>30)*1664525) + (first + 3)
		e = (start ^ (e^e>>30)*1664525) + (first + 4)
		f = (start ^ (f^f>>30)*1664525) + (first + 5)
		g = (start ^ (g^g>>30)*1664525) + (first + 6)
		h = (start ^ (h^h>>30)*1664525) + (first + 7)
		r[0].state[i], r[1].state[i], r[2].state[i], r[3].state[i] = a, b, c, d
		r[4].state[i], r[5].state[i], r[6].state[i], r[7].state[i] = e, f, g, h
	}
	last := [lanes]uint32{a, b, c, d, e, f, g, h}
	for k := range r { // the chain goes on from the end to word 1
		last[k] = (r[k].state[1] ^ (last[k]^last[k]>>30)*1664525) + (first + uint32(k))
		r[k].state[1] = last[k]
	}
	a, b, c, d, e, f, g, h = last[0], last[1], last[2], last[3], last[4], last[5], last[6], last[7]
	for i := 2; i < stateSize; i++ {
		n := uint32(i)
		a = (r[0].state[i] ^ (a^a>>30)*1566083941) - n
		b = (r[1].state[i] ^ (b^b>>30)*1566083941) - n
		c = (r[2].state[i] ^ (c^c>>30)*1566083941) - n
		d = (r[3].state[i] ^ (d^d>>30)*1566083941) - n
		e = (r[4].state[i] ^ (e^e>>30)*1566083941) - n
		f = (r[5].state[i] ^ (f^f>>30)*1566083941) - n
		g = (r[6].state[i] ^ (g^g>>30)*1566083941) - n
		h = (r[7].state[i] ^ (h^h>>30)*1566083941) - n
		r[0].state[i], r[1].state[i], r[2].state[i], r[3].state[i] = a, b, c, d
		r[4].state[i], r[5].state[i], r[6].state[i], r[7].state[i] = e, f, g, h
	}
	last = [lanes]uint32{a, b, c, d, e, f, g, h}
	for k := range r {
		r[k].state[1] = (r[k].state[1] ^ (last[k]^last[k]>>30)*1566083941) - 1
		r[k].state[0] = upperBit
		r[k].next = 0
	}
}
