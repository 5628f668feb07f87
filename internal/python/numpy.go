package python

import (
	"math/big"
	"math/bits"
)

// Generator is numpy.random.Generator with PCG64, as numpy.random.default_rng makes it (numpy 2.4): O'Neill's PCG XSL RR 128/64,
// seeded by numpy's SeedSequence.
type Generator struct {
	high, low       uint64 // the state
	incHigh, incLow uint64
	half            uint32 // the upper half of a word of which the lower is used up
	hasHalf         bool
}

// The multiplier of the 128-bit congruential generator.
const (
	pcgHigh = 0x2360ed051fc65da4
	pcgLow  = 0x4385df649fccf645
)

// NewGenerator is numpy.random.default_rng(seed) for seed >= 0.
func NewGenerator(seed Int) *Generator {
	if seed.Sign() < 0 {
		raise("ValueError", "expected non-negative integer")
	}
	words := seedSequence(seed.value())
	g := &Generator{
		incHigh: words[2]<<1 | words[3]>>63,
		incLow:  words[3]<<1 | 1,
	}
	g.step()
	var carry uint64
	g.low, carry = bits.Add64(g.low, words[1], 0)
	g.high, _ = bits.Add64(g.high, words[0], carry)
	g.step()
	return g
}

func (g *Generator) step() {
	high, low := bits.Mul64(g.low, pcgLow)
	high += g.low*pcgHigh + g.high*pcgLow
	var carry uint64
	g.low, carry = bits.Add64(low, g.incLow, 0)
	g.high, _ = bits.Add64(high, g.incHigh, carry)
}

// Uint64 returns the next 64 bits.
func (g *Generator) Uint64() uint64 {
	g.step()
	return bits.RotateLeft64(g.high^g.low, -int(g.high>>58))
}

// uint32 returns 32 bits: the lower half of a new word, and its upper half the next time.
func (g *Generator) uint32() uint32 {
	if g.hasHalf {
		g.hasHalf = false
		return g.half
	}
	word := g.Uint64()
	g.half, g.hasHalf = uint32(word>>32), true
	return uint32(word)
}

// Float64 is random(): a number in [0,1).
func (g *Generator) Float64() float64 { return float64(g.Uint64()>>11) * (1.0 / (1 << 53)) }

// Integers is integers(low, high): a number in [low,high).
func (g *Generator) Integers(low, high int) int {
	if low >= high {
		raise("ValueError", "low >= high")
	}
	return int(uint64(low) + g.upTo(uint64(high)-uint64(low)-1))
}

// Choice is choice(range(n)).
func (g *Generator) Choice(n int) int {
	if n <= 0 {
		raise("ValueError", "a must be a positive integer unless no samples are taken")
	}
	return g.Integers(0, n)
}

// upTo draws from [0,last] by Lemire's method, of 32 bits where they are enough.
func (g *Generator) upTo(last uint64) uint64 {
	switch {
	case last == 0:
		return 0 // without a draw
	case last == 1<<32-1:
		return uint64(g.uint32())
	case last < 1<<32-1:
		n := uint32(last) + 1
		product := uint64(g.uint32()) * uint64(n)
		if uint32(product) < n {
			for bound := (1<<32 - 1 - uint32(last)) % n; uint32(product) < bound; {
				product = uint64(g.uint32()) * uint64(n)
			}
		}
		return product >> 32
	case last == 1<<64-1:
		return g.Uint64()
	}
	n := last + 1
	high, low := bits.Mul64(g.Uint64(), n)
	if low < n {
		for bound := (1<<64 - 1 - last) % n; low < bound; {
			high, low = bits.Mul64(g.Uint64(), n)
		}
	}
	return high
}

// ChoiceNoReplace is choice(n, size=k, replace=False): k different numbers below n, by Floyd's algorithm and a shuffle, or by
// shuffling the end of range(n) where k is a large part of many numbers.
func (g *Generator) ChoiceNoReplace(n, k int) []int {
	if k < 0 || k > n {
		raise("ValueError", "Cannot take a larger sample than population when replace is False")
	}
	if n > 10000 && k > n/50 {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		g.shuffle(all, max(n-k, 1))
		return all[n-k:]
	}
	chosen := make([]int, 0, k)
	taken := make(map[int]bool, k)
	for j := n - k; j < n; j++ {
		i := int(g.upTo(uint64(j)))
		if taken[i] {
			i = j
		}
		taken[i] = true
		chosen = append(chosen, i)
	}
	g.shuffle(chosen, 1)
	return chosen
}

// shuffle draws places for the elements from the last down to the first that it is given.
func (g *Generator) shuffle(list []int, first int) {
	for i := len(list) - 1; i >= first; i-- {
		j := int(g.upTo(uint64(i)))
		list[i], list[j] = list[j], list[i]
	}
}

// seedSequence is numpy.random.SeedSequence(entropy).generate_state(4, uint64).
func seedSequence(entropy *big.Int) [4]uint64 {
	const multA, multB, mixL, mixR = 0x931e8875, 0x58f38ded, 0xca01f9dd, 0x4973f715
	var words []uint32
	for bytes := entropy.Bytes(); len(bytes) > 0; {
		var word uint32
		cut := max(len(bytes)-4, 0)
		for _, b := range bytes[cut:] {
			word = word<<8 | uint32(b)
		}
		words, bytes = append(words, word), bytes[:cut]
	}
	hash := uint32(0x43b0d7e5)
	hashed := func(value uint32) uint32 {
		value ^= hash
		hash *= multA
		value *= hash
		return value ^ value>>16
	}
	mixed := func(x, y uint32) uint32 {
		result := mixL*x - mixR*y
		return result ^ result>>16
	}
	var pool [4]uint32
	for i := range pool {
		var word uint32
		if i < len(words) {
			word = words[i]
		}
		pool[i] = hashed(word)
	}
	for source := range pool {
		for i := range pool {
			if i != source {
				pool[i] = mixed(pool[i], hashed(pool[source]))
			}
		}
	}
	for i := len(pool); i < len(words); i++ {
		for j := range pool {
			pool[j] = mixed(pool[j], hashed(words[i]))
		}
	}
	hash = 0x8b51f9dd
	var state [4]uint64
	for i := range 2 * len(state) {
		value := pool[i%len(pool)] ^ hash
		hash *= multB
		value *= hash
		state[i/2] |= uint64(value^value>>16) << (i % 2 * 32)
	}
	return state
}
