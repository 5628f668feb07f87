package decoder

import (
	"fmt"
	"math"
	"slices"

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

	// PerLayer says what differs between the layers; nil: nothing, all are as the zero Layer says.
	PerLayer  []Layer
	LocalRope Rope     // rotary positions of the layers that ask for it
	Experts   Experts  // of the layers that have experts
	DeltaNet  DeltaNet // of the layers that have it in place of attention

	Norms      NormPlacement // where a layer's norms stand; 0: before attention and MLP
	NormStyle  NormStyle     // how a norm's weights act; 0: as in Llama
	Activation Activation    // of the MLP; "": SiLU

	EmbeddingScale float64 // multiplies the embeddings; 0: 1
	AttentionScale float64 // multiplies the scores; 0: HeadDim^-1/2

	Tied          bool         // logits use the embedding's weights
	QKNorm        bool         // RMSNorm over each head of queries and keys, before the rotation
	WholeQKNorm   bool         // instead over all heads of queries, and of keys, together
	GatedOutput   bool         // attention's output is multiplied by the sigmoid of a gate, which Query gives beside the queries
	QKVBias       bool         // biases on the query, key and value projections
	OutputBias    bool         // bias on attention's output projection
	MLPBias       bool         // biases on the three MLP projections
	DType         dtypes.DType // of the stored weights: Float32 or BFloat16; 0: Float32
	InitDeviation float64      // standard deviation of initial weights; 0: 0.02

	Names  Names                   // of the tensors; nil: those that most models on the Hugging Face hub have
	DTypes map[string]dtypes.DType // of tensors that are not stored in DType, by name

	// QueryBlock is how many queries at a time attend to their keys. Only one block's scores exist at once, so memory grows
	// linearly with the sequence; in training that needs Rematerialize too. 0: 256.
	QueryBlock int
	// Rematerialize stores of each layer only its input, queries, keys, values and their mixture for the backward pass and
	// computes the rest again there: less memory, more time.
	Rematerialize bool
}

// Layer is what can differ from layer to layer.
type Layer struct {
	Window  int        // attention sees this many tokens, the query's own included; 0: all
	Rope    RopeChoice // 0: Config.Rope
	Experts bool       // Config.Experts in place of the MLP

	// Recurrent has Config.DeltaNet in place of attention. Window and Rope then mean nothing.
	Recurrent bool
}

// RopeChoice says which rotary positions a layer has.
type RopeChoice uint8

// Choices of rotary positions.
const (
	GlobalRope RopeChoice = iota // Config.Rope
	LocalRope                    // Config.LocalRope
	NoRope                       // queries and keys are not rotated
)

// Experts configures a mixture of experts: p = softmax over all experts of the router's outputs, of which the Chosen largest count;
// the output is the sum of these experts' MLPs times p.
//
// It is computed as one wide MLP, whose hidden units are weighted by p and by 0 for experts that were not chosen. That is exact and has
// fixed shapes on every backend, but takes Count/Chosen times the arithmetic of the chosen experts alone.
type Experts struct {
	Count        int  // number of experts
	Chosen       int  // experts of a token
	Intermediate int  // width of one expert
	Renormalize  bool // the chosen p are divided by their sum
}

// NormPlacement says where the norms of a layer stand.
type NormPlacement uint8

// Placements of norms.
const (
	NormsBefore NormPlacement = iota // x + f(norm(x)), as in Llama
	NormsAfter                       // x + norm(f(x)), as in OLMo 2
	NormsAround                      // x + norm(f(norm(x))), as in Gemma 3
)

// NormStyle says how RMSNorm's weights w act on x/rms(x), which is computed in float32.
type NormStyle uint8

// Styles of norms; they round differently in bfloat16.
const (
	NormLlama  NormStyle = iota // cast to the dtype of the computation, then times w
	NormOLMo                    // times w in float32, then cast
	NormOffset                  // times 1+w in float32, then cast, as in Gemma 3
)

// Activation names the non-linearity of the MLP, in Hugging Face's words.
type Activation string

// Activations.
const (
	SiLU     Activation = "silu"              // x sigmoid(x)
	GeluTanh Activation = "gelu_pytorch_tanh" // x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
)

// withDefaults fills in what zero values stand for, and clears what no layer asks for.
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
	if c.Rope.Partial == 0 {
		c.Rope.Partial = 1
	}
	if c.LocalRope.Type == "" && c.LocalRope != (Rope{}) {
		c.LocalRope.Type = RopeDefault
	}
	if c.LocalRope.Partial == 0 && c.LocalRope != (Rope{}) {
		c.LocalRope.Partial = 1
	}
	if !slices.ContainsFunc(c.PerLayer, func(l Layer) bool { return l != Layer{} }) && len(c.PerLayer) == c.Layers {
		c.PerLayer = nil
	}
	if !slices.ContainsFunc(c.PerLayer, func(l Layer) bool { return l.Rope == LocalRope }) {
		c.LocalRope = Rope{}
	}
	if !slices.ContainsFunc(c.PerLayer, func(l Layer) bool { return l.Experts }) {
		c.Experts = Experts{}
	}
	if !slices.ContainsFunc(c.PerLayer, func(l Layer) bool { return l.Recurrent }) {
		c.DeltaNet = DeltaNet{}
	}
	if c.Activation == "" {
		c.Activation = SiLU
	}
	if c.EmbeddingScale == 0 {
		c.EmbeddingScale = 1
	}
	if c.AttentionScale == 0 && c.HeadDim > 0 {
		c.AttentionScale = 1 / math.Sqrt(float64(c.HeadDim))
	}
	if c.Names == nil {
		c.Names = usualNames(c.Norms)
	}
	return c
}

// MaxLayers is the largest number of layers.
const MaxLayers = 1 << 12

// maxDim bounds every size, so that products of two and positions in float32 stay exact.
const maxDim = 1 << 24

// maxWeights bounds the number of weights, so that a nonsensical configuration fails before memory is asked for.
const maxWeights = 1 << 40

// maxExperts bounds the number of experts in all layers together: each has three tensors.
const maxExperts = 1 << 16

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
		{"Vocab", d.Vocab, maxDim}, {"Hidden", d.Hidden, maxDim}, {"Layers", d.Layers, MaxLayers}, {"Heads", d.Heads, 1 << 16},
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
	if err := d.validateLayers(); err != nil {
		return err
	}
	if n := d.size(); n > maxWeights || math.IsNaN(n) {
		return fmt.Errorf("decoder config: about %.3g weights, allowed are %d", n, maxWeights)
	}
	return d.Rope.validate("Rope", d.HeadDim)
}

// validateLayers checks what layers can differ in.
func (c Config) validateLayers() error {
	bad := func(field string, value any, allowed string) error {
		return fmt.Errorf("decoder config: %s is %v, allowed: %s", field, value, allowed)
	}
	if n := len(c.PerLayer); n != 0 && n != c.Layers {
		return bad("PerLayer", fmt.Sprintf("of %d layers", n), fmt.Sprintf("none or Layers (%d)", c.Layers))
	}
	experts := 0
	for i, l := range c.PerLayer {
		at := fmt.Sprintf("PerLayer[%d].", i)
		switch {
		case l.Window < 0 || l.Window > maxDim:
			return bad(at+"Window", l.Window, fmt.Sprintf("0 (all tokens) to %d", maxDim))
		case l.Rope > NoRope:
			return bad(at+"Rope", l.Rope, "GlobalRope, LocalRope, NoRope")
		case l.Rope == LocalRope:
			if err := c.LocalRope.validate("LocalRope", c.HeadDim); err != nil {
				return err
			}
		}
		if l.Experts {
			experts++
		}
	}
	if slices.ContainsFunc(c.PerLayer, func(l Layer) bool { return l.Recurrent }) {
		if err := c.DeltaNet.validate(); err != nil {
			return err
		}
	}
	e := c.Experts
	switch {
	case experts > 0 && (e.Count < 1 || e.Count > maxExperts/experts):
		return bad("Experts.Count", e.Count, fmt.Sprintf("1 to %d in %d layers", maxExperts/experts, experts))
	case experts > 0 && (e.Chosen < 1 || e.Chosen > e.Count):
		return bad("Experts.Chosen", e.Chosen, fmt.Sprintf("1 to Experts.Count (%d)", e.Count))
	case experts > 0 && (e.Intermediate < 1 || e.Intermediate > maxDim):
		return bad("Experts.Intermediate", e.Intermediate, fmt.Sprintf("1 to %d", maxDim))
	case c.Norms > NormsAround:
		return bad("Norms", c.Norms, "NormsBefore, NormsAfter, NormsAround")
	case c.NormStyle > NormOffset:
		return bad("NormStyle", c.NormStyle, "NormLlama, NormOLMo, NormOffset")
	case c.Activation != SiLU && c.Activation != GeluTanh:
		return bad("Activation", fmt.Sprintf("%q", c.Activation), fmt.Sprintf("%q, %q", SiLU, GeluTanh))
	case c.QKNorm && c.WholeQKNorm:
		return bad("QKNorm", true, "false with WholeQKNorm")
	case !(c.EmbeddingScale > 0 && c.EmbeddingScale <= 1e6):
		return bad("EmbeddingScale", c.EmbeddingScale, "0 (which is 1) to 1e6")
	case !(c.AttentionScale > 0 && c.AttentionScale <= 1e3):
		return bad("AttentionScale", c.AttentionScale, "0 (which is HeadDim^-1/2) to 1e3")
	}
	for name, dtype := range c.DTypes {
		if dtype != dtypes.Float32 && dtype != dtypes.BFloat16 {
			return bad(fmt.Sprintf("DTypes[%q]", name), dtype, "Float32 or BFloat16")
		}
	}
	return nil
}

// size is about how many weights there are.
func (c Config) size() float64 {
	attention := 2*float64(c.Heads*c.HeadDim) + 2*float64(c.KVHeads*c.HeadDim)
	if c.GatedOutput {
		attention += float64(c.Heads * c.HeadDim)
	}
	n := 2 * float64(c.Vocab)
	for i := range c.Layers {
		mlp := 3 * float64(c.Intermediate)
		if len(c.PerLayer) > 0 && c.PerLayer[i].Experts {
			mlp = float64(c.Experts.Count) * (1 + 3*float64(c.Experts.Intermediate))
		}
		if len(c.PerLayer) > 0 && c.PerLayer[i].Recurrent {
			n += c.DeltaNet.size() + mlp
		} else {
			n += attention + mlp
		}
	}
	return n * float64(c.Hidden)
}
