//go:build amd64 && !purego

package python

import "golang.org/x/sys/cpu"

func mixSeeds(w *laneWords, last, seeds *[lanes]uint32) {
	if cpu.X86.HasAVX2 {
		mixSeedsAVX2(w, last, seeds, &blank)
	} else {
		mixSeedsPortably(w, last, seeds)
	}
}

func mixAgain(w *laneWords, last *[lanes]uint32) {
	if cpu.X86.HasAVX2 {
		mixAgainAVX2(w, last)
	} else {
		mixAgainPortably(w, last)
	}
}

//go:noescape
func mixSeedsAVX2(w *laneWords, last, seeds *[lanes]uint32, start *[stateSize]uint32)

//go:noescape
func mixAgainAVX2(w *laneWords, last *[lanes]uint32)
