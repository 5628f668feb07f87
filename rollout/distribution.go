package rollout

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Distribution is what a token is drawn from, in float64 on the host. It says what [Draw] must compute on a device.
type Distribution struct {
	Probs    []float64 // [V] after all filters, summing to 1; 0 for tokens that were dropped
	Filtered []float64 // [V] log of Probs, -Inf for tokens that were dropped
	Full     []float64 // [V] log_softmax(logits/T) before any filter; at temperature 0 T is read as 1
	Mass     float64   // probability under Full of the tokens that were kept
}

// NewDistribution applies temperature, top-k, top-p and min-p to the logits of one position. Filters act on tokens sorted
// by logit:
//
//   - [HF]: top-k, top-p, min-p, each on the softmax of what the one before kept; [VLLM]: min-p, top-k, top-p likewise.
//     Top-k drops what is strictly below the k-th largest, so ties there stay. Top-p goes up from the smallest
//     (ties: lower id first) and drops while the running sum is at most 1-p.
//   - [Joint]: all tests on the probabilities before any filter. Top-k keeps k tokens and top-p those with at most p before
//     them, going down from the largest (ties: lower id first).
//   - min-p keeps what has at least MinP times the probability of the likeliest token. One token always stays.
//
// Temperature 0 keeps the largest logit alone, of equals that with the lowest id. An empty slice, a logit that is not
// finite and a bad setting are errors.
func NewDistribution(logits []float64, s Sampling) (*Distribution, error) {
	s.MaxTokens = max(s.MaxTokens, 1) // says nothing about one position
	if err := s.Validate(); err != nil {
		return nil, err
	}
	if len(logits) == 0 {
		return nil, fmt.Errorf("no logits")
	}
	for i, l := range logits {
		if math.IsNaN(l) || math.IsInf(l, 0) {
			return nil, fmt.Errorf("the logit of token %d is %v", i, l)
		}
	}
	temperature := s.Temperature
	if temperature == 0 {
		temperature = 1
	}
	d := &Distribution{Full: make([]float64, len(logits)), Filtered: make([]float64, len(logits))}
	top, sum := slices.Max(logits), 0.0
	for i, l := range logits {
		d.Full[i] = (l - top) / temperature
		sum += math.Exp(d.Full[i])
	}
	probs := make([]float64, len(logits))
	for i := range d.Full {
		d.Full[i] -= math.Log(sum)
		probs[i] = math.Exp(d.Full[i])
	}
	keep := kept(logits, probs, s)
	d.Probs, d.Mass = renormalise(probs, keep)
	for i, l := range d.Full {
		d.Filtered[i] = math.Inf(-1)
		if keep[i] {
			d.Filtered[i] = l - math.Log(d.Mass)
		}
	}
	return d, nil
}

// Pick returns the smallest id whose cumulative probability, in ascending id order, exceeds u in [0,1). A u that rounding
// leaves above the whole sum picks the last token that was kept.
func (d *Distribution) Pick(u float64) int {
	sum, last := 0.0, 0
	for i, p := range d.Probs {
		if p == 0 {
			continue
		}
		sum += p
		last = i
		if sum > u {
			break
		}
	}
	return last
}

// kept says which tokens the filters keep; probs is the softmax of logits/T.
func kept(logits, probs []float64, s Sampling) []bool {
	down := make([]int, len(logits)) // ids from the largest logit to the smallest, equals by ascending id
	for i := range down {
		down[i] = i
	}
	slices.SortStableFunc(down, func(a, b int) int { return cmp.Compare(logits[b], logits[a]) })
	keep := slices.Repeat([]bool{true}, len(logits))
	topK := func() {
		if s.TopK == 0 || s.TopK >= len(down) {
			return
		}
		for rank, id := range down {
			ties := s.Order != Joint && logits[id] == logits[down[s.TopK-1]]
			keep[id] = keep[id] && (rank < s.TopK || ties)
		}
	}
	minP := func() {
		for id, p := range probs {
			keep[id] = keep[id] && p >= s.MinP*probs[down[0]]
		}
	}
	topP := func() {
		p := s.TopP
		if p == 0 || p == 1 {
			return
		}
		if s.Order == Joint {
			before := 0.0
			for _, id := range down {
				keep[id] = keep[id] && before <= p
				before += probs[id]
			}
			return
		}
		up := slices.Clone(down)
		slices.SortFunc(up, func(a, b int) int { return cmp.Or(cmp.Compare(logits[a], logits[b]), cmp.Compare(a, b)) })
		current, _ := renormalise(probs, keep)
		sum := 0.0
		for _, id := range up[:len(up)-1] {
			sum += current[id]
			keep[id] = keep[id] && sum > 1-p
		}
	}
	switch {
	case s.Temperature == 0:
		clear(keep)
		keep[down[0]] = true
	case s.Order == VLLM:
		minP()
		topK()
		topP()
	default:
		topK()
		topP()
		minP()
	}
	return keep
}

// renormalise returns the probabilities of the tokens that are kept, made to sum to 1, and what they summed to before.
func renormalise(probs []float64, keep []bool) (out []float64, mass float64) {
	for i, p := range probs {
		if keep[i] {
			mass += p
		}
	}
	out = make([]float64, len(probs))
	for i, p := range probs {
		if keep[i] {
			out[i] = p / mass
		}
	}
	return out, mass
}
