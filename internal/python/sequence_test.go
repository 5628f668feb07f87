package python

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A generator that was seeded ahead must be the one that would have been seeded alone, whatever was asked for before and drawn from
// others.
func TestSequence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s Sequence
		seed := rapid.SampledFrom([]int64{0, 1, 42, -3, math.MaxUint32 - 40, math.MaxInt64 - 200}).Draw(t, "seed")
		for range 60 {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
			case 1:
				seed -= 2
			case 2:
				seed += 3
			default:
				seed++
			}
			got, want := s.Random(seed), NewRandom(seed)
			for i := range rapid.SampledFrom([]int{1, 100, 2000}).Draw(t, "draws") {
				if got, want := got.Uint32(), want.Uint32(); got != want {
					t.Fatalf("draw %d of seed %d is %d, want %d", i, seed, got, want)
				}
			}
		}
	})
}

// The same task must come from every machine, whatever its processor can do.
func TestLanes(t *testing.T) {
	var last, seeds [lanes]uint32
	for k := range lanes {
		seeds[k], last[k] = 12345+uint32(k), blank[0]
	}
	var words, portable laneWords
	portableLast := last
	mixSeeds(&words, &last, &seeds)
	mixSeedsPortably(&portable, &portableLast, &seeds)
	if words != portable || last != portableLast {
		t.Error("the first pass differs")
	}
	mixAgain(&words, &last)
	mixAgainPortably(&portable, &portableLast)
	if words != portable || last != portableLast {
		t.Error("the second pass differs")
	}
}

func BenchmarkSequence(b *testing.B) {
	var s Sequence
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		s.Random(i)
	}
}
