package python

import (
	"crypto/sha512"
	"encoding/binary"
	"math/big"
	"math/bits"
)

// Parameters of MT19937 (Matsumoto and Nishimura, 1998).
const (
	stateSize = 624
	shiftSize = 397
	matrixA   = 0x9908b0df
	upperBit  = 0x80000000
	lowerBits = 0x7fffffff

	// of the two passes of init_by_array
	seedFactor  = 1664525
	againFactor = 1566083941
)

// Random is random.Random of CPython 3.11: MT19937 and the draws made from it (Lib/random.py, Modules/_randommodule.c).
type Random struct {
	state []uint32 // word i of the 624 is state[i*step]
	step  int
	next  int // where the word is that the next draw replaces and returns
}

// Seed is what a Random can be seeded with: int of any size, float, str, bytes.
type Seed interface {
	int | int64 | *big.Int | float64 | string | []byte
}

// NewRandom returns random.Random(seed). As in Python, an integer and its negative give the same generator, and all bits
// of a seed count.
func NewRandom[S Seed](seed S) *Random {
	r := &Random{state: make([]uint32, stateSize), step: 1}
	switch s := any(seed).(type) {
	case int:
		r.seedInt(int64(s))
	case int64:
		r.seedInt(s)
	case *big.Int:
		r.seedBytes(s.Bytes())
	case float64:
		r.seedWord(uint64(HashFloat(s)))
	case string:
		r.seedText([]byte(s))
	case []byte:
		r.seedText(s)
	}
	return r
}

func (r *Random) seedInt(seed int64) {
	if seed < 0 {
		seed = -seed // the most negative number maps to itself, whose bits are its absolute value
	}
	r.seedWord(uint64(seed))
}

func (r *Random) seedWord(seed uint64) {
	if seed>>32 == 0 {
		r.seedKey([]uint32{uint32(seed)})
	} else {
		r.seedKey([]uint32{uint32(seed), uint32(seed >> 32)})
	}
}

// seedText seeds by the number whose big-endian bytes are the text and its SHA-512.
func (r *Random) seedText(text []byte) {
	sum := sha512.Sum512(text)
	r.seedBytes(append(text[:len(text):len(text)], sum[:]...))
}

// seedBytes seeds by a big-endian number without sign.
func (r *Random) seedBytes(number []byte) {
	for len(number) > 0 && number[0] == 0 {
		number = number[1:]
	}
	key := make([]uint32, max(1, (len(number)+3)/4))
	for i := range key {
		var word [4]byte
		end := len(number) - 4*i
		copy(word[4-min(4, end):], number[max(0, end-4):end])
		key[i] = binary.BigEndian.Uint32(word[:])
	}
	r.seedKey(key)
}

// blank is the state that init_by_array starts from: init_genrand(19650218).
var blank = func() (s [stateSize]uint32) {
	s[0] = 19650218
	for i := 1; i < stateSize; i++ {
		s[i] = 1812433253*(s[i-1]^s[i-1]>>30) + uint32(i)
	}
	return s
}()

// seedKey is init_by_array.
func (r *Random) seedKey(key []uint32) {
	mt := (*[stateSize]uint32)(r.state)
	*mt = blank
	// Each word depends on the one before: this chain is what a new generator costs, so only what must is in it.
	i, j, last := 1, 0, mt[0]
	for range max(stateSize, len(key)) {
		last = (mt[i] ^ (last^last>>30)*seedFactor) + (key[j] + uint32(j))
		mt[i] = last
		if i++; i == stateSize {
			mt[0] = last
			i = 1
		}
		if j++; j == len(key) {
			j = 0
		}
	}
	for range stateSize - 1 {
		last = (mt[i] ^ (last^last>>30)*againFactor) - uint32(i)
		mt[i] = last
		if i++; i == stateSize {
			mt[0] = last
			i = 1
		}
	}
	mt[0] = upperBit
}

// Uint32 returns the next 32 bits of the generator: getrandbits(32). Each word of the state is renewed when it is needed,
// which gives the same numbers as renewing all 624 at once and costs a fresh generator only what it draws.
func (r *Random) Uint32() uint32 {
	mt, i := r.state, r.next
	above, far, end := i+r.step, i+shiftSize*r.step, stateSize*r.step
	if above == end {
		above = 0
	}
	if far >= end {
		far -= end
	}
	y := mt[i]&upperBit | mt[above]&lowerBits
	y = mt[far] ^ y>>1 ^ -(y&1)&matrixA
	mt[i] = y
	r.next = above
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// Float64 is random(): a number in [0,1) with 53 random bits.
func (r *Random) Float64() float64 {
	a, b := r.Uint32()>>5, r.Uint32()>>6
	return float64(uint64(a)<<26+uint64(b)) * (1.0 / (1 << 53))
}

// Bits is getrandbits(k) for k from 0 to 64.
func (r *Random) Bits(k int) uint64 {
	switch {
	case k < 0 || k > 64:
		raise("ValueError", "number of bits is %d, must be 0 to 64", k)
	case k == 0:
		return 0
	case k <= 32:
		return uint64(r.Uint32() >> (32 - k))
	}
	low := uint64(r.Uint32())
	return uint64(r.Uint32()>>(64-k))<<32 | low
}

// BigBits is getrandbits(k) for any k >= 0.
func (r *Random) BigBits(k int) *big.Int {
	if k < 0 {
		raise("ValueError", "number of bits must be non-negative")
	}
	number := make([]byte, (k+31)/32*4)
	for end := len(number); end > 0; end, k = end-4, k-32 {
		binary.BigEndian.PutUint32(number[end-4:], r.Uint32()>>(32-min(k, 32)))
	}
	return new(big.Int).SetBytes(number)
}

// below is _randbelow(n) for n >= 1: bits.Len(n) bits, drawn again until they are less than n.
func (r *Random) below(n uint64) uint64 {
	if n>>32 == 0 {
		unneeded := bits.LeadingZeros32(uint32(n))
		for {
			if x := r.Uint32() >> unneeded; x < uint32(n) {
				return uint64(x)
			}
		}
	}
	k := bits.Len64(n)
	x := r.Bits(k)
	for x >= n {
		x = r.Bits(k)
	}
	return x
}

func (r *Random) bigBelow(n *big.Int) *big.Int {
	k := n.BitLen()
	x := r.BigBits(k)
	for x.Cmp(n) >= 0 {
		x = r.BigBits(k)
	}
	return x
}
