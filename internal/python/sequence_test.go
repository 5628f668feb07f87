package python

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A generator that was seeded ahead must be the one that would have been seeded alone, whatever was asked for before.
func TestSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sequence
		seed := rapid.SampledFrom([]int64{0, 1, 42, -3, math.MaxUint32 - 10, math.MaxInt64 - 20}).Draw(t, "seed")
		for range 40 {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
			case 1:
				seed -= 2
			case 2:
				seed += 3
			default:
				seed++
			}
			if seed > math.MaxInt64-10 {
				return
			}
			r := s.Random(seed)
			if *r != *NewRandom(seed) {
				t.Fatalf("seed %d", seed)
			}
			r.Uint32() // whoever asks for the seed again must not see that this one was used
		}
	})
}

func BenchmarkSequence(b *testing.B) {
	var s Sequence
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		s.Random(i)
	}
}
