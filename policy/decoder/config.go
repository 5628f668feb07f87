package decoder

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
)

// Config describes a decoder transformer. The zero value of a field means what its comment says.
type Config struct {
	Vocab        int     // number of token ids, V
	Hidden       int     // width of the residual stream, D
	Layers       int     // number of layers
	Heads        int     // query heads
	KVHeads      int     // key and value heads; divides Heads; 0: Heads
	HeadDim      int     // width of a head, even; 0: Hidden/Heads
	Intermediate int     // width of the gated MLP
	MaxPositions int     // longest sequence
	NormEps      float64 // added to the mean square in norms
	Rope         Rope    // rotary positions

	Tied          bool         // logits use the embedding's weights
	QKNorm        bool         // RMSNorm over each head of queries and keys, before the rotation
	QKVBias       bool         // biases on the query, key and value projections
	OutputBias    bool         // bias on attention's output projection
	MLPBias       bool         // biases on the three MLP projections
	DType         dtypes.DType // of the stored weights: Float32 or BFloat16; 0: Float32
	InitDeviation float64      // standard deviation of initial weights; 0: 0.02

	// QueryBlock is how many queries at a time attend to their keys. Only one block's scores exist at once, so memory grows
	// linearly with the sequence; in training that needs Rematerialize too. 0: 256.
	QueryBlock int
	// Rematerialize stores of each layer only its input, queries, keys, values and their mixture for the backward pass and
	// computes the rest again there: less memory, more time.
	Rematerialize bool
}

// withDefaults fills in what zero values stand for.
func (c Config) withDefaults() Config {
	if c.KVHeads == 0 {
		c.KVHeads = c.Heads
	}
	if c.HeadDim == 0 && c.Heads > 0 {
		c.HeadDim = c.Hidden / c.Heads
	}
	if c.DType == dtypes.InvalidDType {
		c.DType = dtypes.Float32
	}
	if c.InitDeviation == 0 {
		c.InitDeviation = 0.02
	}
	if c.QueryBlock == 0 {
		c.QueryBlock = 256
	}
	if c.Rope.Type == "" {
		c.Rope.Type = RopeDefault
	}
	return c
}

// maxDim bounds every size, so that products of two and positions in float32 stay exact.
const maxDim = 1 << 24

// maxWeights bounds the number of weights, so that a nonsensical configuration fails before memory is asked for.
const maxWeights = 1 << 40

// Validate names the first field that cannot be used, its value and what is allowed.
func (c Config) Validate() error {
	d := c.withDefaults()
	bad := func(field string, value any, allowed string) error {
		return fmt.Errorf("decoder config: %s is %v, allowed: %s", field, value, allowed)
	}
	for _, f := range []struct {
		name  string
		value int
		max   int
	}{
		{"Vocab", d.Vocab, maxDim}, {"Hidden", d.Hidden, maxDim}, {"Layers", d.Layers, 1 << 12}, {"Heads", d.Heads, 1 << 16},
		{"KVHeads", d.KVHeads, 1 << 16}, {"HeadDim", d.HeadDim, 1 << 16}, {"Intermediate", d.Intermediate, maxDim},
		{"MaxPositions", d.MaxPositions, maxDim}, {"QueryBlock", d.QueryBlock, maxDim},
	} {
		if f.value < 1 || f.value > f.max {
			return bad(f.name, f.value, fmt.Sprintf("1 to %d", f.max))
		}
	}
	switch {
	case d.Heads%d.KVHeads != 0:
		return bad("KVHeads", d.KVHeads, fmt.Sprintf("a divisor of Heads (%d)", d.Heads))
	case d.HeadDim%2 != 0:
		return bad("HeadDim", d.HeadDim, "an even number")
	case !(d.NormEps >= 0 && d.NormEps < 1):
		return bad("NormEps", d.NormEps, "0 to 1")
	case d.DType != dtypes.Float32 && d.DType != dtypes.BFloat16:
		return bad("DType", d.DType, "Float32 or BFloat16")
	case !(d.InitDeviation > 0 && d.InitDeviation <= 10):
		return bad("InitDeviation", d.InitDeviation, "above 0, up to 10")
	}
	perLayer := float64(d.Hidden) * (2*float64(d.Heads*d.HeadDim) + 2*float64(d.KVHeads*d.HeadDim) + 3*float64(d.Intermediate))
	if n := 2*float64(d.Vocab)*float64(d.Hidden) + float64(d.Layers)*perLayer; n > maxWeights || math.IsNaN(n) {
		return fmt.Errorf("decoder config: about %.3g weights, allowed are %d", n, maxWeights)
	}
	return d.Rope.validate()
}
