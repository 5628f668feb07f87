package grpo

import "math"

// Level is what a ratio of probabilities is taken over.
type Level string

// Levels. With d the difference of the log-probs of a token and n the scored tokens of its row:
const (
	ByToken         Level = "token"     // exp(d)
	BySequence      Level = "sequence"  // exp(Σd); as the level of the objective's own ratio exp(Σd/n), which is GSPO (arXiv 2507.18071)
	ByGeometricMean Level = "geometric" // exp(Σd/n)
)

// WeightMode is what becomes of an importance weight outside its bounds.
type WeightMode string

// Weight modes.
const (
	NoWeights       WeightMode = ""         // all weights are 1
	TruncateWeights WeightMode = "truncate" // min(weight, High) (truncated importance sampling)
	ClipWeights     WeightMode = "clip"     // to [Low, High]
	MaskWeights     WeightMode = "mask"     // 0 outside [Low, High], denominators unchanged (IcePop)
	RawWeights      WeightMode = "raw"      // as it is
)

// ImportanceWeights multiply the policy term by (probability under the trainer)/(probability at sampling), to make up for
// an engine that computes a little differently, or that had older weights. They are detached.
type ImportanceWeights struct {
	Mode      WeightMode `json:"mode"`      // "": off
	Level     Level      `json:"level"`     // "": ByToken
	Low       float64    `json:"low"`       // 0: no lower bound
	High      float64    `json:"high"`      // 0: no upper bound
	Normalize bool       `json:"normalize"` // divide by the mean weight: over scored tokens, or by rows at the other levels
}

// Rejection drops tokens or whole rows whose ratio of trainer to sampling probability lies outside [Low, High].
type Rejection struct {
	Level  Level   `json:"level"`  // "": off
	Low    float64 `json:"low"`    // 0: no lower bound
	High   float64 `json:"high"`   // 0: no upper bound
	Shrink bool    `json:"shrink"` // the tokens leave every term and its denominators; otherwise their policy term is 0 and the denominators stay
}

// Correction is for the difference between the probabilities that the engine sampled with and those that the trainer
// computes from the same tokens. It acts on the policy term only. The zero value is off.
type Correction struct {
	Weights   ImportanceWeights `json:"weights"`
	Rejection Rejection         `json:"rejection"`
}

func (c Correction) on() bool { return c.Weights.Mode != NoWeights || c.Rejection.Level != "" }

func (c Correction) withDefaults() Correction {
	setDefault(&c.Weights.Level, ByToken)
	return c
}

func (c Correction) validate() error {
	c = c.withDefaults()
	w, r := c.Weights, c.Rejection
	err := firstError(
		oneOf("Correction.Weights.Mode", w.Mode, NoWeights, TruncateWeights, ClipWeights, MaskWeights, RawWeights),
		oneOf("Correction.Weights.Level", w.Level, ByToken, BySequence, ByGeometricMean),
		inRange("Correction.Weights.Low", w.Low, 0, math.MaxFloat64),
		inRange("Correction.Weights.High", w.High, 0, math.MaxFloat64),
		oneOf("Correction.Rejection.Level", r.Level, "", ByToken, BySequence, ByGeometricMean),
		inRange("Correction.Rejection.Low", r.Low, 0, math.MaxFloat64),
		inRange("Correction.Rejection.High", r.High, 0, math.MaxFloat64),
	)
	switch {
	case err != nil:
		return err
	case w.High != 0 && w.Low > w.High:
		return badSetting("Correction.Weights.Low", w.Low, "at most High")
	case w.Mode == TruncateWeights && w.High == 0:
		return badSetting("Correction.Weights.High", w.High, "more than 0 with mode truncate")
	case (w.Mode == ClipWeights || w.Mode == MaskWeights) && w.Low == 0 && w.High == 0:
		return badSetting("Correction.Weights.High", w.High, "more than 0 (or Low more than 0) with modes clip and mask")
	case r.High != 0 && r.Low > r.High:
		return badSetting("Correction.Rejection.Low", r.Low, "at most High")
	case r.Level != "" && r.Low == 0 && r.High == 0:
		return badSetting("Correction.Rejection.High", r.High, "more than 0 (or Low more than 0)")
	}
	return nil
}

// upper reads 0 as no bound.
func upper(bound float64) float64 {
	if bound == 0 {
		return math.Inf(1)
	}
	return bound
}

// bounded applies a mode to one weight.
var bounded = map[WeightMode]func(raw, low, high float64) float64{
	NoWeights:       func(raw, _, _ float64) float64 { return raw },
	TruncateWeights: func(raw, _, high float64) float64 { return min(raw, high) },
	ClipWeights:     func(raw, low, high float64) float64 { return min(max(raw, low), high) },
	MaskWeights: func(raw, low, high float64) float64 {
		if raw >= low && raw <= high {
			return raw
		}
		return 0
	},
	RawWeights: func(raw, _, _ float64) float64 { return raw },
}

// ratios gives exp of the log-ratios at a level, row by row. Log-ratios are 0 where mask is false, so are the results there.
func ratios(level Level, logRatio [][]float64, mask [][]bool) [][]float64 {
	out := zeros(mask)
	for i, row := range logRatio {
		sum := 0.0
		for _, d := range row {
			sum += d
		}
		if level == ByGeometricMean {
			sum /= max(1, count(mask[i]))
		}
		for t, scored := range mask[i] {
			switch {
			case !scored:
			case level == ByToken:
				out[i][t] = math.Exp(row[t])
			default:
				out[i][t] = math.Exp(sum)
			}
		}
	}
	return out
}

// corrected is what a correction makes of a batch.
type corrected struct {
	weights  [][]float64 // 0 where the mask is false
	raw      [][]float64 // the weights before bounds, normalisation and rejection; 0 where the mask is false
	rejected [][]bool
	kept     [][]bool // the mask of the terms and their denominators: without what was rejected, if that shrinks it
}

// apply computes the correction from d = log-prob under the trainer - log-prob at sampling, 0 where mask is false.
func (c Correction) apply(d [][]float64, mask [][]bool) corrected {
	c = c.withDefaults()
	out := corrected{weights: zeros(mask), raw: zeros(mask), rejected: falses(mask), kept: mask}
	w := c.Weights
	for i, row := range ratios(w.Level, d, mask) {
		for t, ratio := range row {
			if !mask[i][t] {
				continue
			}
			if w.Mode == NoWeights {
				ratio = 1
			}
			out.raw[i][t] = ratio
			out.weights[i][t] = bounded[w.Mode](ratio, w.Low, upper(w.High))
		}
	}
	if w.Normalize && w.Mode != NoWeights {
		normalize(w.Level, out.weights, mask)
	}
	r := c.Rejection
	if r.Level == "" {
		return out
	}
	if r.Shrink {
		out.kept = falses(mask)
	}
	for i, row := range ratios(r.Level, d, mask) {
		for t, ratio := range row {
			inside := ratio >= r.Low && ratio <= upper(r.High)
			out.rejected[i][t] = mask[i][t] && !inside
			switch {
			case r.Shrink:
				out.kept[i][t] = mask[i][t] && inside
			case !inside:
				out.weights[i][t] = 0
			}
		}
	}
	return out
}

// normalize divides by the mean weight: over scored tokens, or, at the other levels, over rows of the row's mean.
func normalize(level Level, weights [][]float64, mask [][]bool) {
	var sum, n float64
	for i, row := range weights {
		rowSum, rowN := 0.0, count(mask[i])
		for _, w := range row {
			rowSum += w
		}
		switch {
		case rowN == 0:
		case level == ByToken:
			sum, n = sum+rowSum, n+rowN
		default:
			sum, n = sum+rowSum/rowN, n+1
		}
	}
	if sum == 0 { // nothing is scored, or every weight is 0
		return
	}
	for _, row := range weights {
		for t := range row {
			row[t] /= sum / n
		}
	}
}
