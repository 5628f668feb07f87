package python

import (
	"math"
	"math/big"
	"math/bits"
	"unicode/utf8"
)

// modulus is the prime modulo which CPython hashes numbers (sys.hash_info.modulus).
const modulus = 1<<61 - 1

// notMinusOne keeps -1 free, which CPython uses to report errors.
func notMinusOne(h int64) int64 {
	if h == -1 {
		return -2
	}
	return h
}

// HashInt is hash(n).
func HashInt(n int) int64 { return notMinusOne(int64(n) % modulus) }

// HashBigInt is hash(n) for an integer of any size.
func HashBigInt(n *big.Int) int64 {
	return notMinusOne(new(big.Int).Rem(n, big.NewInt(modulus)).Int64())
}

// HashFloat is hash(f). That of NaN depends on the object in Python and is 0 here.
func HashFloat(f float64) int64 {
	switch {
	case math.IsNaN(f):
		return 0
	case math.IsInf(f, 0):
		return int64(math.Copysign(314159, f))
	}
	m, e := math.Frexp(f)
	// f = mantissa * 2^e, and a product with 2^e modulo 2^61-1 is a rotation of 61 bits.
	mantissa, sign := uint64(math.Abs(math.Ldexp(m, 53))), int64(1)
	if f < 0 {
		sign = -1
	}
	if e = (e - 53) % 61; e < 0 {
		e += 61
	}
	return notMinusOne(sign * int64((mantissa<<e&modulus|mantissa>>(61-e))%modulus))
}

// HashTuple is the hash of a tuple whose elements have the given hashes (xxHash, Objects/tupleobject.c).
func HashTuple(elements ...int64) int64 {
	const prime1, prime2, prime5 = 11400714785074694791, 14029467366897019727, 2870177450012600261
	acc := uint64(prime5)
	for _, h := range elements {
		acc = bits.RotateLeft64(acc+uint64(h)*prime2, 31) * prime1
	}
	acc += uint64(len(elements)) ^ (prime5 ^ 3527539)
	if acc == math.MaxUint64 {
		return 1546275796
	}
	return int64(acc)
}

// HashString is hash(s) with PYTHONHASHSEED=0: SipHash-1-3 with a zero key over the code points in CPython's compact
// storage, one, two or four bytes each as the largest needs.
func HashString(s string) int64 {
	if s == "" {
		return 0
	}
	var largest rune
	for _, c := range s {
		largest = max(largest, c)
	}
	width := bitsOf(largest)
	h := newSip()
	var word uint64
	filled := 0
	for _, c := range s {
		word |= uint64(c) << filled
		if filled += width; filled == 64 {
			h.block(word)
			word, filled = 0, 0
		}
	}
	return h.sum(word, utf8.RuneCountInString(s)*width/8)
}

// Char is a str of one character, for sets of letters. It hashes as the string does, and faster.
type Char rune

// Hash is hash(c).
func (c Char) Hash() int64 {
	if c >= 0 && int(c) < len(asciiHashes) {
		return asciiHashes[c]
	}
	return c.sipHash()
}

func (c Char) sipHash() int64 {
	h := newSip()
	return h.sum(uint64(c), bitsOf(rune(c))/8)
}

var asciiHashes = func() (hashes [utf8.RuneSelf]int64) {
	for c := range hashes {
		hashes[c] = Char(c).sipHash()
	}
	return hashes
}()

// bitsOf is the width of a character in a string whose largest character is c.
func bitsOf(c rune) int {
	switch {
	case c > 0xffff:
		return 32
	case c > 0xff:
		return 16
	}
	return 8
}

// sip is the state of SipHash (Aumasson and Bernstein, 2012).
type sip [4]uint64

func newSip() sip {
	return sip{0x736f6d6570736575, 0x646f72616e646f6d, 0x6c7967656e657261, 0x7465646279746573}
}

// sum ends the text with what is left of it, less than 8 bytes, and its length in bytes.
func (h *sip) sum(rest uint64, length int) int64 {
	h.block(rest | uint64(length)<<56)
	h[2] ^= 0xff
	h.round()
	h.round()
	h.round()
	return notMinusOne(int64(h[0] ^ h[1] ^ h[2] ^ h[3]))
}

func (h *sip) block(m uint64) {
	h[3] ^= m
	h.round()
	h[0] ^= m
}

func (h *sip) round() {
	v0, v1, v2, v3 := h[0], h[1], h[2], h[3]
	v0 += v1
	v1 = bits.RotateLeft64(v1, 13) ^ v0
	v0 = bits.RotateLeft64(v0, 32)
	v2 += v3
	v3 = bits.RotateLeft64(v3, 16) ^ v2
	v0 += v3
	v3 = bits.RotateLeft64(v3, 21) ^ v0
	v2 += v1
	v1 = bits.RotateLeft64(v1, 17) ^ v2
	v2 = bits.RotateLeft64(v2, 32)
	h[0], h[1], h[2], h[3] = v0, v1, v2, v3
}
