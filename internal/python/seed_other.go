//go:build !amd64 || purego

package python

func mixSeeds(w *laneWords, last, seeds *[lanes]uint32) { mixSeedsPortably(w, last, seeds) }

func mixAgain(w *laneWords, last *[lanes]uint32) { mixAgainPortably(w, last) }
