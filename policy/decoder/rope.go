package decoder

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
)

// RopeType names how rotary frequencies are derived, in Hugging Face's words.
type RopeType string

// Rope types.
const (
	RopeDefault RopeType = "default" // theta^(-2i/d)
	RopeLinear  RopeType = "linear"  // all frequencies divided by Factor
	RopeLlama3  RopeType = "llama3"  // low frequencies divided by Factor, high ones kept, a ramp between
	RopeYarn    RopeType = "yarn"    // YaRN (arXiv 2309.00071): the same idea, and larger scores
)

// Rope configures rotary position embeddings. Halves are paired: of the d elements of a head that turn,
// element i turns with element i+d/2.
type Rope struct {
	Type     RopeType // "": RopeDefault
	Theta    float64  // base of the frequencies
	Factor   float64  // linear, llama3, yarn: how many times longer than in the first training
	Original int      // llama3, yarn: positions of the first training

	LowFreqFactor, HighFreqFactor float64 // llama3
	BetaFast, BetaSlow            float64 // yarn; 0: 32 and 1
	AttentionFactor               float64 // yarn: multiplies cos and sin; 0: 0.1 ln(Factor) + 1

	Partial float64 // share of each head that turns, from its first element on; 0: 1
}

func (r Rope) validate(name string, headDim int) error {
	bad := func(field string, value any, allowed string) error {
		return fmt.Errorf("decoder config: %s.%s is %v, allowed for %s: %s", name, field, value, r.Type, allowed)
	}
	if !(r.Theta > 1 && r.Theta <= 1e15) {
		return bad("Theta", r.Theta, "above 1, up to 1e15")
	}
	if !(r.Partial > 0 && r.Partial <= 1) || r.dim(headDim) < 2 || r.dim(headDim)%2 != 0 {
		return bad("Partial", r.Partial, fmt.Sprintf("above 0, up to 1, and an even number of the %d elements of a head", headDim))
	}
	switch r.Type {
	case RopeDefault:
		return nil
	case RopeLinear, RopeLlama3, RopeYarn:
	default:
		return fmt.Errorf("decoder config: %s.Type is %q, allowed: default, linear, llama3, yarn", name, r.Type)
	}
	if !(r.Factor >= 1 && r.Factor <= 1e6) {
		return bad("Factor", r.Factor, "1 to 1e6")
	}
	if r.Type != RopeLinear && (r.Original < 1 || r.Original > maxDim) {
		return bad("Original", r.Original, fmt.Sprintf("1 to %d", maxDim))
	}
	if r.Type == RopeLlama3 && !(r.LowFreqFactor > 0 && r.HighFreqFactor > r.LowFreqFactor && r.HighFreqFactor < 1e6) {
		return bad("LowFreqFactor, HighFreqFactor", []float64{r.LowFreqFactor, r.HighFreqFactor}, "0 < low < high")
	}
	if r.Type == RopeYarn {
		if !(r.BetaFast >= 0 && r.BetaSlow >= 0 && r.BetaFast < 1e6 && r.BetaSlow < 1e6) {
			return bad("BetaFast, BetaSlow", []float64{r.BetaFast, r.BetaSlow}, "0 (the default) or more")
		}
		if !(r.AttentionFactor >= 0 && r.AttentionFactor < 1e3) {
			return bad("AttentionFactor", r.AttentionFactor, "0 (the default) or more")
		}
	}
	return nil
}

// dim is how many elements of a head turn.
func (r Rope) dim(headDim int) int { return int(r.Partial * float64(headDim)) }

// frequencies gives the angles per position of a head's pairs, and the factor of cos and sin.
func (r Rope) frequencies(headDim int) (freq []float32, scale float64) {
	headDim = r.dim(headDim)
	half := headDim / 2
	scale = 1
	ramp := func(int) float64 { return 1 } // 1: divided by Factor
	switch r.Type {
	case RopeDefault:
		ramp = func(int) float64 { return 0 }
	case RopeLlama3:
		ramp = func(i int) float64 {
			wavelength := 2 * math.Pi * math.Pow(r.Theta, float64(2*i)/float64(headDim))
			kept := (float64(r.Original)/wavelength - r.LowFreqFactor) / (r.HighFreqFactor - r.LowFreqFactor)
			return 1 - min(max(kept, 0), 1)
		}
	case RopeYarn:
		fast, slow := r.BetaFast, r.BetaSlow
		if fast == 0 {
			fast = 32
		}
		if slow == 0 {
			slow = 1
		}
		dim := func(rotations float64) float64 {
			return float64(headDim) * math.Log(float64(r.Original)/(rotations*2*math.Pi)) / (2 * math.Log(r.Theta))
		}
		lo, hi := max(math.Floor(dim(fast)), 0), min(math.Ceil(dim(slow)), float64(headDim-1))
		if lo == hi {
			hi += 0.001
		}
		ramp = func(i int) float64 { return min(max((float64(i)-lo)/(hi-lo), 0), 1) }
		if scale = r.AttentionFactor; scale == 0 {
			scale = 0.1*math.Log(r.Factor) + 1
		}
	}
	freq = make([]float32, half)
	for i := range freq {
		f := math.Pow(r.Theta, -float64(2*i)/float64(headDim))
		if g := ramp(i); g > 0 {
			f = g*f/r.Factor + (1-g)*f
		}
		freq[i] = float32(f)
	}
	return freq, scale
}

// rotation holds float32 tables [n,heads,d/2] of n tokens for a number of heads. They are written out for every head
// and shared by all layers: on the Go backend a broadcast costs more than the product that it feeds. The zero rotation
// turns nothing.
type rotation struct{ cos, sin *graph.Node }

// rotations are those of queries and of keys.
type rotations struct{ q, k rotation }

// rotations makes the tables that the layers ask for, for positions [n] (int32).
func (d *Decoder) rotations(positions *graph.Node) map[RopeChoice]rotations {
	out := map[RopeChoice]rotations{NoRope: {}}
	for i := range d.cfg.Layers {
		choice := d.at(i).Rope
		if _, ok := out[choice]; ok {
			continue
		}
		rope := d.cfg.Rope
		if choice == LocalRope {
			rope = d.cfg.LocalRope
		}
		cos, sin := rope.tables(positions, d.cfg.HeadDim)
		spread := func(heads int) rotation {
			wide := func(table *graph.Node) *graph.Node {
				n, half := table.Shape().Dim(0), table.Shape().Dim(1)
				return graph.BroadcastToDims(graph.Reshape(table, n, 1, half), n, heads, half)
			}
			return rotation{cos: wide(cos), sin: wide(sin)}
		}
		out[choice] = rotations{q: spread(d.cfg.Heads), k: spread(d.cfg.KVHeads)}
	}
	return out
}

// tables are cosines and sines [n,d/2] of the angles of positions [n].
func (r Rope) tables(positions *graph.Node, headDim int) (cos, sin *graph.Node) {
	freq, scale := r.frequencies(headDim)
	freqs := graph.Const(positions.Graph(), [][]float32{freq})
	angle := graph.Mul(graph.Reshape(graph.ConvertDType(positions, dtypes.Float32), -1, 1), freqs)
	cos, sin = graph.Cos(angle), graph.Sin(angle)
	if scale != 1 {
		cos, sin = graph.MulScalar(cos, scale), graph.MulScalar(sin, scale)
	}
	return cos, sin
}

// apply turns the heads of x [n,heads,HeadDim].
func (r rotation) apply(x *graph.Node) *graph.Node {
	if r.cos == nil {
		return x
	}
	half, dim := r.cos.Shape().Dim(2), x.Shape().Dim(2)
	f := graph.ConvertDType(x, dtypes.Float32)
	a, b := part(f, 2, 0, half), part(f, 2, half, 2*half)
	turned := []*graph.Node{
		graph.Sub(graph.Mul(a, r.cos), graph.Mul(b, r.sin)),
		graph.Add(graph.Mul(b, r.cos), graph.Mul(a, r.sin)),
	}
	if 2*half < dim {
		turned = append(turned, part(f, 2, 2*half, dim))
	}
	return graph.ConvertDType(graph.Concatenate(turned, 2), x.DType())
}
