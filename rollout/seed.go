package rollout

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
)

// Seed names a completion: its randomness comes from here and from nowhere else.
type Seed [2]uint64

// NewSeed derives the seed of one completion from what names it: the run's seed, what the completion is for ("rollout",
// "evaluation", …), the update whose weights sample it, the task's id and the number of the sample in its group. It is the
// first 16 bytes of SHA-256, read as two big-endian words, over
//
//	"grouper seed 1\n" | runSeed | len(purpose) | purpose | update | len(task) | task | sample
//
// with every number as 8 big-endian bytes. The lengths make the encoding unambiguous.
func NewSeed(runSeed int64, purpose string, update int, task string, sample int) Seed {
	msg := []byte("grouper seed 1\n")
	number := func(n int64) { msg = binary.BigEndian.AppendUint64(msg, uint64(n)) }
	text := func(s string) { number(int64(len(s))); msg = append(msg, s...) }
	number(runSeed)
	text(purpose)
	number(int64(update))
	text(task)
	number(int64(sample))
	h := sha256.Sum256(msg)
	return Seed{binary.BigEndian.Uint64(h[:8]), binary.BigEndian.Uint64(h[8:16])}
}

// Uniform is the number in [0,1) that draws token t of the completion, a multiple of 2^-24. It is a function of seed and
// t alone: the upper 24 bits of the first word of Philox4x32-10 with key s[0] and counter (t, s[1]), low words first.
func (s Seed) Uniform(t int) float32 {
	n := uint64(t)
	key := [2]uint32{uint32(s[0]), uint32(s[0] >> 32)}
	counter := [4]uint32{uint32(n), uint32(n >> 32), uint32(s[1]), uint32(s[1] >> 32)}
	return float32(philox(key, counter)[0]>>8) * (1.0 / (1 << 24))
}

// philox is Philox4x32-10: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC11).
func philox(key [2]uint32, c [4]uint32) [4]uint32 {
	for range 10 {
		hi0, lo0 := bits.Mul32(0xD2511F53, c[0])
		hi1, lo1 := bits.Mul32(0xCD9E8D57, c[2])
		c = [4]uint32{hi1 ^ c[1] ^ key[0], lo1, hi0 ^ c[3] ^ key[1], lo0}
		key[0] += 0x9E3779B9
		key[1] += 0xBB67AE85
	}
	return c
}
