package python

import "math"

// lanes is how many generators are seeded at a time. Seeding is a chain of operations that each wait for the one before, so that a
// processor does several chains in little more time than one.
const lanes = 32

// Sequence makes the same generators as NewRandom, in a small part of the time where they are asked for by ascending seeds: it then
// seeds some ahead. The zero value is ready.
type Sequence struct {
	last   int64  // the seed that was asked for before
	first  int64  // the seed of the first generator
	unused uint32 // bit i is set while nobody has had the generator of first+i
	words  *laneWords
	random Random // that was returned last
}

// laneWords are the states of generators: word 0 of each, then word 1 of each, ….
type laneWords [stateSize * lanes]uint32

// Random is NewRandom(seed), to be used until the next call.
func (s *Sequence) Random(seed int64) *Random {
	const near = 4 // so that a few users may take turns
	follows := uint64(seed-s.last-1) < near
	s.last = seed
	if ahead := uint64(seed - s.first); ahead >= lanes || s.unused>>ahead&1 == 0 {
		if !follows || seed < 0 || seed > math.MaxUint32-lanes {
			s.random = *NewRandom(seed)
			return &s.random
		}
		if s.words == nil {
			s.words = new(laneWords)
		}
		s.words.seed(uint32(seed))
		s.first, s.unused = seed, math.MaxUint32
	}
	lane := seed - s.first
	s.unused &^= 1 << lane
	s.random = Random{state: s.words[lane:], step: lanes}
	return &s.random
}

// seed seeds generators by first, first+1, …, below 2^32: it is seedKey for all of them at once.
func (w *laneWords) seed(first uint32) {
	var seeds, last [lanes]uint32 // last are the words that the chains have come to
	for k := range lanes {
		seeds[k], last[k] = first+uint32(k), blank[0]
	}
	mixSeeds(w, &last, &seeds)
	for k := range lanes { // the chain goes on from the end to word 1
		last[k] = (w[lanes+k] ^ (last[k]^last[k]>>30)*seedFactor) + seeds[k]
		w[lanes+k] = last[k]
	}
	mixAgain(w, &last)
	for k := range lanes {
		w[lanes+k] = (w[lanes+k] ^ (last[k]^last[k]>>30)*againFactor) - 1
		w[k] = upperBit
	}
}

// mixSeedsPortably writes the words from 1 on as the first pass of seedKey leaves them.
func mixSeedsPortably(w *laneWords, last, seeds *[lanes]uint32) {
	for lane := 0; lane < lanes; lane += 4 {
		x := (*[4]uint32)(last[lane:])
		a, b, c, d := x[0], x[1], x[2], x[3]
		seed := seeds[lane]
		for i := 1; i < stateSize; i++ {
			start := blank[i]
			a = (start ^ (a^a>>30)*seedFactor) + seed
			b = (start ^ (b^b>>30)*seedFactor) + (seed + 1)
			c = (start ^ (c^c>>30)*seedFactor) + (seed + 2)
			d = (start ^ (d^d>>30)*seedFactor) + (seed + 3)
			*(*[4]uint32)(w[i*lanes+lane:]) = [4]uint32{a, b, c, d}
		}
		*x = [4]uint32{a, b, c, d}
	}
}

// mixAgainPortably changes the words from 2 on as the second pass of seedKey does.
func mixAgainPortably(w *laneWords, last *[lanes]uint32) {
	for lane := 0; lane < lanes; lane += 4 {
		x := (*[4]uint32)(last[lane:])
		a, b, c, d := x[0], x[1], x[2], x[3]
		for i := 2; i < stateSize; i++ {
			word, n := (*[4]uint32)(w[i*lanes+lane:]), uint32(i)
			a = (word[0] ^ (a^a>>30)*againFactor) - n
			b = (word[1] ^ (b^b>>30)*againFactor) - n
			c = (word[2] ^ (c^c>>30)*againFactor) - n
			d = (word[3] ^ (d^d>>30)*againFactor) - n
			*word = [4]uint32{a, b, c, d}
		}
		*x = [4]uint32{a, b, c, d}
	}
}
