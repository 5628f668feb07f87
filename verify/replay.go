package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/grouper-rl/grouper/checkpoint"
)

// A completion of fewer tokens, or one whose log-probs are all the same number, may come out of two policies alike.
const replayTokens = 4

// sampled are the fingerprints of an evaluation's completions: of task, seed, tokens and log-probs.
type sampled struct {
	update  int
	weights string
	file    string
	of      map[[sha256.Size]byte]int // to the line, from 1
}

// replays finds evaluations whose completions are another's. Different weights give different log-probs, down to the last
// bit of some, so completions that two evaluations of different weights share were not sampled twice.
func (v *verifier) replays() {
	for i, now := range v.sampled {
		for _, before := range v.sampled[:i] {
			if before.weights == now.weights || len(now.of) == 0 {
				continue
			}
			shared, first := 0, math.MaxInt
			for print, line := range now.of {
				if _, ok := before.of[print]; ok {
					shared++
					first = min(first, line)
				}
			}
			if 2*shared <= len(now.of) {
				continue
			}
			v.find(Finding{File: now.file, Line: first, What: fmt.Sprintf(
				"the evaluation of update %d has %d completions with the same tokens and log-probs, bit for bit, as that of update %d (%s), whose weights are others: they are presented a second time",
				now.update, shared, before.update, before.file)})
			break
		}
	}
}

func fingerprints(e checkpoint.Evaluation, lines []checkpoint.Line) sampled {
	s := sampled{update: e.Update, weights: e.WeightsHash, file: e.Completions.Path, of: map[[sha256.Size]byte]int{}}
	for i, l := range lines {
		if len(l.Tokens) < replayTokens || !varies(l.LogProbs) {
			continue
		}
		h := sha256.New()
		fmt.Fprintf(h, "%q %d ", l.Task, l.Seed)
		// A hash takes whatever is written to it.
		_ = binary.Write(h, binary.LittleEndian, l.Tokens)
		_ = binary.Write(h, binary.LittleEndian, l.LogProbs)
		s.of[[sha256.Size]byte(h.Sum(nil))] = i + 1
	}
	return s
}

func varies(x []float32) bool {
	for _, v := range x {
		if v != x[0] {
			return true
		}
	}
	return false
}
