package optim

import (
	"math"

	"github.com/gomlx/gomlx/core/graph"
)

// SGD is gradient descent with momentum as torch.optim.SGD has it:
//
//	g  += WeightDecay·p
//	buf = Momentum·buf + (1-Dampening)·g      (on the first update buf = g)
//	p  -= lr·buf, or with Nesterov lr·(g + Momentum·buf)
//
// Without momentum p -= lr·g and nothing is kept. The zero value is plain gradient descent.
type SGD struct {
	Momentum    float64 `json:"momentum"`
	Dampening   float64 `json:"dampening"`
	Nesterov    bool    `json:"nesterov"`
	WeightDecay float64 `json:"weight_decay"` // only for parameters that take part in decay
}

// Validate implements [Optimizer].
func (s SGD) Validate() error {
	switch {
	case !(s.Momentum >= 0 && s.Momentum < 1):
		return bad("SGD", "Momentum", s.Momentum, "0 (none) to below 1")
	case !(s.Dampening >= 0 && s.Dampening <= 1):
		return bad("SGD", "Dampening", s.Dampening, "0 to 1")
	case s.Nesterov && (s.Momentum == 0 || s.Dampening != 0):
		return bad("SGD", "Nesterov", true, "true only with Momentum above 0 and Dampening 0")
	case !(s.WeightDecay >= 0 && s.WeightDecay < math.Inf(1)):
		return bad("SGD", "WeightDecay", s.WeightDecay, "0 or more")
	}
	return nil
}

// Slots implements [Optimizer]: the momentum buffer, if there is momentum.
func (s SGD) Slots() []string {
	if s.Momentum == 0 {
		return nil
	}
	return []string{"momentum"}
}

// Scalars implements [Optimizer]: lr and the weight of the gradient in the buffer, 1 at first and then 1-Dampening.
func (s SGD) Scalars(lr float64, step int) []float64 {
	if step == 1 {
		return []float64{lr, 1}
	}
	return []float64{lr, 1 - s.Dampening}
}

// Step implements [Optimizer].
func (s SGD) Step(in Input) (param *graph.Node, slots []*graph.Node) {
	grad := in.Grad
	if in.Decay && s.WeightDecay != 0 {
		grad = graph.Add(grad, graph.MulScalar(in.Param, s.WeightDecay))
	}
	move := grad
	if s.Momentum != 0 {
		buf := graph.Add(graph.MulScalar(in.Slots[0], s.Momentum), graph.Mul(grad, in.Scalars[1]))
		slots = []*graph.Node{buf}
		move = buf
		if s.Nesterov {
			move = graph.Add(grad, graph.MulScalar(buf, s.Momentum))
		}
	}
	return graph.Sub(in.Param, graph.Mul(move, in.Scalars[0])), slots
}
