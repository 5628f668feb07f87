package python

import (
	"math"
	"sync"
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
			if got, want := *s.Random(seed), *NewRandom(seed); got != want {
				t.Fatalf("seed %d", seed)
			}
		}
	})
}

// Tasks are made from many goroutines: none may get a generator that another one draws from.
func TestSequenceConcurrently(t *testing.T) {
	var s Sequence
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for seed := range int64(2000) {
				if got, want := s.Random(seed).Uint32(), NewRandom(seed).Uint32(); got != want {
					t.Errorf("seed %d", seed)
				}
			}
		})
	}
	wait.Wait()
}

func BenchmarkSequence(b *testing.B) {
	var s Sequence
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		s.Random(i)
	}
}
