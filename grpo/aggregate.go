package grpo

// Aggregation is how the terms of the scored tokens are added up: the loss is the sum of a[i,t]·x[i,t].
type Aggregation string

// Aggregations, with n_i the number of scored tokens of row i and S the number of rows.
const (
	SeqMeanTokenMean Aggregation = "seq_mean_token_mean" // a = 1/(S·n_i): the mean over rows of the mean over tokens (GRPO)
	TokenMean        Aggregation = "token_mean"          // a = 1/Σn: the mean over the tokens of the batch (DAPO, arXiv 2503.14476)
	ConstantLength   Aggregation = "constant"            // a = 1/(S·Length): no length bias (Dr. GRPO, arXiv 2503.20783)
	SeqMeanTokenSum  Aggregation = "seq_mean_token_sum"  // a = 1/S
	TokenSum         Aggregation = "sum"                 // a = 1
)

// aggregations give a for a scored token. Empty rows and batches have denominators of at least 1.
var aggregations = map[Aggregation]func(rowTokens, allTokens, rows, length float64) float64{
	SeqMeanTokenMean: func(rowTokens, _, rows, _ float64) float64 { return 1 / (rows * max(1, rowTokens)) },
	TokenMean:        func(_, allTokens, _, _ float64) float64 { return 1 / max(1, allTokens) },
	ConstantLength:   func(_, _, rows, length float64) float64 { return 1 / (rows * length) },
	SeqMeanTokenSum:  func(_, _, rows, _ float64) float64 { return 1 / rows },
	TokenSum:         func(_, _, _, _ float64) float64 { return 1 },
}

// aggregate gives a[i,t] for the whole batch, 0 where mask is false. A micro-batch takes its rows of it: with these
// denominators the losses of micro-batches add up to that of the batch.
func (o Objective) aggregate(mask [][]bool) [][]float64 {
	o = o.withDefaults()
	perRow, all, rows := make([]float64, len(mask)), 0.0, 0.0
	for i, row := range mask {
		perRow[i] = count(row)
		all += perRow[i]
		if perRow[i] > 0 || !o.SkipEmpty {
			rows++
		}
	}
	out := zeros(mask)
	for i, row := range mask {
		a := aggregations[o.Aggregation](perRow[i], all, max(1, rows), float64(o.Length))
		for t, scored := range row {
			if scored {
				out[i][t] = a
			}
		}
	}
	return out
}

func count(mask []bool) (n float64) {
	for _, scored := range mask {
		if scored {
			n++
		}
	}
	return n
}
