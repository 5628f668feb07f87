package grpo

import (
	"fmt"
	"math"
)

// Rows is a batch of completions as the objective sees it on the host: row i is one completion, and row i of a matrix has an
// entry for each of its tokens. Rows may have different lengths.
type Rows struct {
	Rewards []float64 // NaN: the completion could not be scored
	Groups  []int     // rows with the same id belong to one group
	Mask    [][]bool  // the tokens that are scored; where it is false no other matrix is read
	Skip    []bool    // rows that leave the loss although their reward counts in the group (truncated ones, if masked); nil: none

	// Log-probs of the tokens; nil where the objective does not ask for them.
	Old       [][]float64 // by the trainer, with the weights before the update: for a correction and ReinforcePP
	Behaviour [][]float64 // by the engine at sampling: for a correction
	Ref       [][]float64 // by the reference policy: for ReinforcePP
}

// Signal is all of a batch's loss that no gradient passes through, computed on the host in float64. Its matrices have the
// rows of [Rows] and are 0 (false) where Mask is false. A micro-batch takes its rows of them: denominators are those of the
// whole batch, so that losses and gradients of micro-batches add up.
type Signal struct {
	Sequence   []float64   // advantage of each completion; nil with ReinforcePP
	Advantages [][]float64 // advantage of each token
	Mask       [][]bool    // scored tokens of rows that are not skipped
	Weights    [][]float64 // factors of the policy term; nil without a correction
	Aggregate  [][]float64 // a[i,t]: the loss is the sum of a times each token's terms

	correction corrected
	drift      [][]float64 // Old - Behaviour, 0 where Mask is false; nil without a correction
}

// Prepare computes a batch's signal. An error names the row and token of a log-prob that is NaN or infinite.
func Prepare(adv Advantage, obj Objective, r Rows) (Signal, error) {
	if err := firstError(adv.Validate(), obj.Validate(), r.validate(adv, obj)); err != nil {
		return Signal{}, err
	}
	var s Signal
	var err error
	if adv.TokenLevel != ReinforcePP {
		if s.Sequence, err = adv.Sequence(r.Rewards, r.Groups); err != nil {
			return Signal{}, err
		}
	}
	if s.Advantages, err = adv.tokens(r); err != nil { // over all scored tokens, also those of skipped rows
		return Signal{}, err
	}
	s.Mask = falses(r.Mask)
	for i, row := range r.Mask {
		if r.Skip == nil || !r.Skip[i] {
			copy(s.Mask[i], row)
			continue
		}
		for t := range s.Advantages[i] {
			s.Advantages[i][t] = 0
		}
	}
	inTerms := s.Mask
	if obj.Correction.on() {
		s.drift = difference(r.Old, r.Behaviour, s.Mask)
		s.correction = obj.Correction.apply(s.drift, s.Mask)
		s.Weights, inTerms = s.correction.weights, s.correction.kept
	}
	s.Aggregate = obj.aggregate(inTerms)
	return s, nil
}

func (r Rows) validate(adv Advantage, obj Objective) error {
	n := len(r.Mask)
	returns := adv.TokenLevel == ReinforcePP
	switch {
	case n == 0:
		return fmt.Errorf("grpo: a batch without rows")
	case len(r.Rewards) != n:
		return fmt.Errorf("grpo: %d rewards for %d rows", len(r.Rewards), n)
	case len(r.Groups) != n && !returns:
		return fmt.Errorf("grpo: %d group ids for %d rows", len(r.Groups), n)
	case r.Skip != nil && len(r.Skip) != n:
		return fmt.Errorf("grpo: %d skip marks for %d rows", len(r.Skip), n)
	}
	for i, x := range r.Rewards {
		if math.IsInf(x, 0) {
			return fmt.Errorf("grpo: the reward of row %d is %v", i, x)
		}
	}
	needsKL := returns && adv.KLCoef != 0
	for _, m := range []struct {
		name   string
		needed bool
		rows   [][]float64
	}{
		{"old", needsKL || obj.Correction.on(), r.Old},
		{"behaviour", obj.Correction.on(), r.Behaviour},
		{"reference", needsKL, r.Ref},
	} {
		if !m.needed {
			continue
		}
		if err := checkLogProbs(m.name, m.rows, r.Mask); err != nil {
			return err
		}
	}
	return nil
}

// checkLogProbs names the first scored token without a finite log-prob.
func checkLogProbs(name string, rows [][]float64, mask [][]bool) error {
	if len(rows) != len(mask) {
		return fmt.Errorf("grpo: %s log-probs of %d rows, want %d", name, len(rows), len(mask))
	}
	for i, row := range rows {
		if len(row) != len(mask[i]) {
			return fmt.Errorf("grpo: %d %s log-probs in row %d, want %d", len(row), name, i, len(mask[i]))
		}
		for t, x := range row {
			if mask[i][t] && (math.IsNaN(x) || math.IsInf(x, 0)) {
				return fmt.Errorf("grpo: the %s log-prob of row %d, token %d is %v", name, i, t, x)
			}
		}
	}
	return nil
}

// difference is a - b where mask is true and 0 elsewhere.
func difference(a, b [][]float64, mask [][]bool) [][]float64 {
	out := zeros(mask)
	for i, row := range mask {
		for t, scored := range row {
			if scored {
				out[i][t] = a[i][t] - b[i][t]
			}
		}
	}
	return out
}

func zeros(mask [][]bool) [][]float64 {
	out := make([][]float64, len(mask))
	for i, row := range mask {
		out[i] = make([]float64, len(row))
	}
	return out
}

func falses(mask [][]bool) [][]bool {
	out := make([][]bool, len(mask))
	for i, row := range mask {
		out[i] = make([]bool, len(row))
	}
	return out
}
