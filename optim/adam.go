package optim

import (
	"encoding/json"
	"math"

	"github.com/gomlx/gomlx/core/graph"
)

// Adam is Kingma and Ba's rule (arXiv 1412.6980), with t counting updates from 1:
//
//	g += WeightDecay·p
//	m  = Beta1·m + (1-Beta1)·g
//	v  = Beta2·v + (1-Beta2)·g²
//	p -= lr/(1-Beta1ᵗ) · m / (√v/√(1-Beta2ᵗ) + Eps)
//
// Weight decay is part of the gradient, as in torch.optim.Adam; [AdamW] decouples it. The zero value has the usual
// settings and no decay.
type Adam struct {
	Beta1       float64 `json:"beta1"`        // 0: 0.9
	Beta2       float64 `json:"beta2"`        // 0: 0.999
	Eps         float64 `json:"eps"`          // 0: 1e-8
	WeightDecay float64 `json:"weight_decay"` // only for parameters that take part in decay
}

func (a Adam) withDefaults() Adam {
	for _, d := range []struct {
		field *float64
		value float64
	}{{&a.Beta1, 0.9}, {&a.Beta2, 0.999}, {&a.Eps, 1e-8}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return a
}

// MarshalJSON writes the settings with the values that stand for 0.
func (a Adam) MarshalJSON() ([]byte, error) {
	type plain Adam
	return json.Marshal(plain(a.withDefaults()))
}

// Validate implements [Optimizer].
func (a Adam) Validate() error { return a.validate("Adam") }

func (a Adam) validate(rule string) error {
	a = a.withDefaults()
	switch {
	case !(a.Beta1 > 0 && a.Beta1 < 1):
		return bad(rule, "Beta1", a.Beta1, "0 (0.9) to below 1")
	case !(a.Beta2 > 0 && a.Beta2 < 1):
		return bad(rule, "Beta2", a.Beta2, "0 (0.999) to below 1")
	case !(a.Eps > 0 && a.Eps < math.Inf(1)):
		return bad(rule, "Eps", a.Eps, "0 (1e-8) or more")
	case !(a.WeightDecay >= 0 && a.WeightDecay < math.Inf(1)):
		return bad(rule, "WeightDecay", a.WeightDecay, "0 or more")
	}
	return nil
}

// Slots implements [Optimizer]: the running means of the gradient and of its square.
func (a Adam) Slots() []string { return []string{"m", "v"} }

// Scalars implements [Optimizer]: lr, lr/(1-Beta1ᵗ) and √(1-Beta2ᵗ).
func (a Adam) Scalars(lr float64, step int) []float64 {
	a = a.withDefaults()
	t := float64(step)
	return []float64{lr, lr / (1 - math.Pow(a.Beta1, t)), math.Sqrt(1 - math.Pow(a.Beta2, t))}
}

// Step implements [Optimizer].
func (a Adam) Step(in Input) (param *graph.Node, slots []*graph.Node) {
	grad := in.Grad
	if in.Decay && a.WeightDecay != 0 {
		grad = graph.Add(grad, graph.MulScalar(in.Param, a.WeightDecay))
	}
	move, slots := a.move(in, grad)
	return graph.Sub(in.Param, move), slots
}

// move is what Adam takes from the parameter for a gradient.
func (a Adam) move(in Input, grad *graph.Node) (move *graph.Node, slots []*graph.Node) {
	a = a.withDefaults()
	rate, correction := in.Scalars[1], in.Scalars[2]
	m := mix(in.Slots[0], a.Beta1, grad)
	v := mix(in.Slots[1], a.Beta2, graph.Square(grad))
	scale := graph.AddScalar(graph.Div(graph.Sqrt(v), correction), a.Eps)
	return graph.Mul(rate, graph.Div(m, scale)), []*graph.Node{m, v}
}

// mix is beta·mean + (1-beta)·x.
func mix(mean *graph.Node, beta float64, x *graph.Node) *graph.Node {
	return graph.Add(graph.MulScalar(mean, beta), graph.MulScalar(x, 1-beta))
}

// AdamW is [Adam] with decoupled weight decay (Loshchilov and Hutter, arXiv 1711.05101): the decay does not enter the
// moments, the parameter loses lr·WeightDecay·p beside Adam's step. Its fields are Adam's, with the same defaults.
type AdamW Adam

// MarshalJSON writes the settings with the values that stand for 0.
func (a AdamW) MarshalJSON() ([]byte, error) { return Adam(a).MarshalJSON() }

// Validate implements [Optimizer].
func (a AdamW) Validate() error { return Adam(a).validate("AdamW") }

// Slots implements [Optimizer]; they are Adam's.
func (a AdamW) Slots() []string { return Adam(a).Slots() }

// Scalars implements [Optimizer]; they are Adam's.
func (a AdamW) Scalars(lr float64, step int) []float64 { return Adam(a).Scalars(lr, step) }

// Step implements [Optimizer].
func (a AdamW) Step(in Input) (param *graph.Node, slots []*graph.Node) {
	move, slots := Adam(a).move(in, in.Grad)
	if in.Decay && a.WeightDecay != 0 {
		// Not p·(1-lr·WeightDecay): with lr 1e-6 that factor has no exact neighbour in float32.
		move = graph.Add(move, graph.Mul(graph.MulScalar(in.Scalars[0], a.WeightDecay), in.Param))
	}
	return graph.Sub(in.Param, move), slots
}
