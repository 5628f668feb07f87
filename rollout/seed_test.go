package rollout

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The generator must be the published one, so that others can draw the same uniforms: known answers of Random123 1.14
// (kat_vectors, philox4x32-10).
func TestPhiloxKnownAnswers(t *testing.T) {
	const f = 0xffffffff
	for _, c := range []struct {
		key       [2]uint32
		ctr, want [4]uint32
	}{
		{[2]uint32{}, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{[2]uint32{f, f}, [4]uint32{f, f, f, f}, [4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{
			[2]uint32{0xa4093822, 0x299f31d0}, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1},
		},
	} {
		require.Equal(t, c.want, philox(c.key, c.ctr))
	}
}

// A seed names a completion for ever: a run resumed by a later version must draw the same tokens.
func TestSeedIsStable(t *testing.T) {
	s := NewSeed(17, "evaluation", 90, "caesar_cipher/12", 3)
	require.Equal(t, Seed{0xd0df5569cb1ba913, 0x0eb27da28223b893}, s) // worked out in Python
	for i, n := range map[int]float32{0: 6747671, 1: 15914315, 1 << 33: 7893149} {
		require.Equal(t, n/(1<<24), s.Uniform(i), i)
	}
}

// Two completions must never share their randomness because their names run into each other.
func TestSeedsDiffer(t *testing.T) {
	seen := map[Seed]string{}
	for _, run := range []int64{-1, 0, 1} {
		for _, purpose := range []string{"", "a", "ab", "rollout"} {
			for _, update := range []int{0, 1} {
				for _, task := range []string{"", "b", "bc", "\x00"} {
					for _, sample := range []int{0, 1, 2} {
						name := fmt.Sprintf("%d %q %d %q %d", run, purpose, update, task, sample)
						s := NewSeed(run, purpose, update, task, sample)
						require.Empty(t, seen[s], name)
						seen[s] = name
					}
				}
			}
		}
	}
	require.NotEqual(t, Seed{1, 2}.Uniform(0), Seed{1, 3}.Uniform(0), "the second word counts")
}

// Uniforms outside [0,1), of fewer bits or off the uniform law would bias every sample.
func TestUniform(t *testing.T) {
	const n, bins = 1 << 16, 64
	var count [bins]float64
	low := 0
	for i := range n {
		u := NewSeed(1, "test", 0, "", i/256).Uniform(i % 256)
		require.True(t, u >= 0 && u < 1)
		bits := float64(u) * (1 << 24)
		require.Equal(t, math.Trunc(bits), bits)
		low += int(bits) & 1
		count[int(u*bins)]++
	}
	chi := 0.0
	for _, c := range count {
		chi += (c - n/bins) * (c - n/bins) / (n / bins)
	}
	require.Less(t, chi, 103.4, "chi square, 63 degrees of freedom, p = 0.001")
	require.InDelta(t, n/2, low, 4*math.Sqrt(n)/2, "the lowest of the 24 bits is used")
}
