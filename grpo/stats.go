package grpo

import "math"

// Stats describe what the objective did with a batch. They are over scored tokens, rejected ones included, unless they
// say otherwise; a batch without scored tokens has zeros.
type Stats struct {
	ClipFracLow       float64 `json:"clip_frac_low"`         // ratio below its bound and A < 0 (CISPO: any A)
	ClipFracHigh      float64 `json:"clip_frac_high"`        // ratio above its bound and A > 0 (CISPO: any A)
	ClipFrac          float64 `json:"clip_frac"`             // either
	ClipFracSeqMean   float64 `json:"clip_frac_seq_mean"`    // the mean over rows of the row's fraction
	DualClipFrac      float64 `json:"dual_clip_frac"`        //
	ApproxKLK1        float64 `json:"approx_kl_k1"`          // mean of old - new log-prob, nats
	ApproxKLK1SeqMean float64 `json:"approx_kl_k1_seq_mean"` // the mean over rows of the row's mean
	ApproxKLK3        float64 `json:"approx_kl_k3"`          // mean of r - 1 - log r, nats; r of the token, not clamped
	RatioMean         float64 `json:"ratio_mean"`            // of the ratio that the objective uses
	RatioMin          float64 `json:"ratio_min"`             //
	RatioMax          float64 `json:"ratio_max"`             //
	ESS               float64 `json:"ess"`                   // mean over rows of (Σr)²/(n·Σr²): effective share of the tokens

	// With a correction; drift is old - behaviour log-prob.
	WeightMean         float64 `json:"weight_mean"`           // of the weights used
	WeightMin          float64 `json:"weight_min"`            // without tokens that left the denominators
	WeightMax          float64 `json:"weight_max"`            // without tokens that left the denominators
	RawWeightMean      float64 `json:"raw_weight_mean"`       // before bounds, normalisation and rejection
	WeightChangedFrac  float64 `json:"weight_changed_frac"`   // fraction of weights that bounds or rejection changed; 0 with Normalize
	RejectedFrac       float64 `json:"rejected_frac"`         //
	RolloutLogPAbsDiff float64 `json:"rollout_logp_abs_diff"` // mean |drift|, nats
	RolloutKLK3        float64 `json:"rollout_kl_k3"`         // mean of exp(drift) - 1 - drift, nats
}

// Stats computes the statistics of a batch from its signal and the log-probs under the weights before the update and in the
// ratio's denominator (nil: the former, so that every ratio is 1).
func (o Objective) Stats(s Signal, newLogProbs, old [][]float64) (Stats, error) {
	o = o.withDefaults()
	if old == nil {
		old = newLogProbs
	}
	if err := firstError(checkLogProbs("new", newLogProbs, s.Mask), checkLogProbs("old", old, s.Mask)); err != nil {
		return Stats{}, err
	}
	logRatio := difference(newLogProbs, old, s.Mask)
	ratio := o.ratios(logRatio, s.Mask)
	low, high := o.bounds()
	below := func(i, t int) bool { return ratio[i][t] < low && (o.Surrogate == CISPO || s.Advantages[i][t] < 0) }
	above := func(i, t int) bool { return ratio[i][t] > high && (o.Surrogate == CISPO || s.Advantages[i][t] > 0) }
	dual := func(i, t int) bool {
		r, a := ratio[i][t], s.Advantages[i][t]
		return o.DualClip != 0 && a < 0 && max(-r*a, -min(max(r, low), high)*a) > -o.DualClip*a
	}
	k1 := func(i, t int) float64 { return -logRatio[i][t] }
	is := func(test func(i, t int) bool) func(i, t int) float64 {
		return func(i, t int) float64 {
			if test(i, t) {
				return 1
			}
			return 0
		}
	}
	clipped := is(func(i, t int) bool { return below(i, t) || above(i, t) })
	all := over(s.Mask)
	out := Stats{
		ClipFracLow: all.mean(is(below)), ClipFracHigh: all.mean(is(above)), ClipFrac: all.mean(clipped),
		ClipFracSeqMean: all.rowMean(clipped), DualClipFrac: all.mean(is(dual)),
		ApproxKLK1: all.mean(k1), ApproxKLK1SeqMean: all.rowMean(k1), ApproxKLK3: all.mean(excess(logRatio)),
		RatioMean: all.mean(entry(ratio)), ESS: all.ess(ratio),
	}
	out.RatioMin, out.RatioMax = all.span(entry(ratio))
	if s.Weights == nil {
		return out, nil
	}
	weights, raw, rejected := s.Weights, s.correction.raw, s.correction.rejected
	out.WeightMean, out.RawWeightMean = all.mean(entry(weights)), all.mean(entry(raw))
	if !o.Correction.Weights.Normalize {
		out.WeightChangedFrac = all.mean(is(func(i, t int) bool { return weights[i][t] != raw[i][t] }))
	}
	out.RejectedFrac = all.mean(is(func(i, t int) bool { return rejected[i][t] }))
	out.RolloutLogPAbsDiff = all.mean(func(i, t int) float64 { return math.Abs(s.drift[i][t]) })
	out.RolloutKLK3 = all.mean(excess(s.drift))
	out.WeightMin, out.WeightMax = over(s.correction.kept).span(entry(weights))
	return out, nil
}

// ratios is what Objective.ratio builds a graph for.
func (o Objective) ratios(logRatio [][]float64, mask [][]bool) [][]float64 {
	clamped := zeros(mask)
	for i, row := range logRatio {
		for t, x := range row {
			if o.LogClamp != 0 {
				x = min(max(x, -o.LogClamp), o.LogClamp)
			}
			clamped[i][t] = x
		}
	}
	if o.Ratio == BySequence {
		return ratios(ByGeometricMean, clamped, mask)
	}
	return ratios(ByToken, clamped, mask)
}

func entry(x [][]float64) func(i, t int) float64 {
	return func(i, t int) float64 { return x[i][t] }
}

// excess is exp(x) - 1 - x, which is never negative.
func excess(x [][]float64) func(i, t int) float64 {
	return func(i, t int) float64 { return math.Exp(x[i][t]) - 1 - x[i][t] }
}

// over takes statistics of the tokens of a mask.
type over [][]bool

func (o over) each(f func(i, t int)) {
	for i, row := range o {
		for t, scored := range row {
			if scored {
				f(i, t)
			}
		}
	}
}

func (o over) mean(x func(i, t int) float64) float64 {
	sum, n := 0.0, 0.0
	o.each(func(i, t int) { sum += x(i, t); n++ })
	return sum / max(1, n)
}

// rowMean is the mean over rows of the mean over their tokens; empty rows count with 0.
func (o over) rowMean(x func(i, t int) float64) float64 {
	sum := 0.0
	for i, row := range o {
		rowSum := 0.0
		for t, scored := range row {
			if scored {
				rowSum += x(i, t)
			}
		}
		sum += rowSum / max(1, count(row))
	}
	return sum / max(1, float64(len(o)))
}

// span is the least and greatest value, 0 without any.
func (o over) span(x func(i, t int) float64) (low, high float64) {
	low, high = math.Inf(1), math.Inf(-1)
	o.each(func(i, t int) { low, high = min(low, x(i, t)), max(high, x(i, t)) })
	if low > high {
		return 0, 0
	}
	return low, high
}

// ess is the mean over rows of the effective sample size of their ratios as a share of their tokens; empty rows count with 0.
func (o over) ess(ratio [][]float64) float64 {
	sums, squares := make([]float64, len(o)), make([]float64, len(o))
	o.each(func(i, t int) { sums[i] += ratio[i][t]; squares[i] += ratio[i][t] * ratio[i][t] })
	total := 0.0
	for i, row := range o {
		total += sums[i] * sums[i] / (max(1, count(row)) * max(1e-8, squares[i]))
	}
	return total / max(1, float64(len(o)))
}
