// Package optim holds update rules for the weights of a policy (Adam, AdamW, SGD), learning-rate schedules and clipping of
// the gradient. Rules are pure functions of graph nodes, so that a whole update is one compiled function; what
// changes from update to update (learning rate, bias corrections) is computed on the host in float64.
//
// Weights are updated in float32 whatever dtype they are stored in: an update of 1e-6 vanishes in bfloat16. [Round] turns
// the float32 masters into the stored weights.
package optim

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/policy"
)

// Optimizer is an update rule. Its state is kept for each parameter in named float32 slots of the parameter's
// dimensions, which start as zeros; it has no other state.
//
// Implementations marshal to JSON, so that a run can record its settings.
type Optimizer interface {
	// Validate names the first setting that cannot be used, its value and what is allowed.
	Validate() error
	// Slots names the state tensors of a parameter, in the order in which Step takes and returns them.
	Slots() []string
	// Scalars gives the numbers of one update that Step reads; step is 1 for the first update. Their count is fixed.
	Scalars(lr float64, step int) []float64
	// Step updates one parameter. It builds a graph: it must not look at values. What it returns has the shapes of what it was given.
	Step(in Input) (param *graph.Node, slots []*graph.Node)
}

// Input is what an update rule reads to update one parameter. All nodes are float32.
type Input struct {
	Param   *graph.Node
	Grad    *graph.Node   // of Param's shape
	Slots   []*graph.Node // of Param's shape, in the order of Optimizer.Slots
	Scalars []*graph.Node // scalars, in the order of Optimizer.Scalars
	Decay   bool          // whether weight decay applies to this parameter
}

// State is what an optimizer carries from update to update, as graph nodes.
type State struct {
	Masters []*graph.Node // float32 weights in parameter order
	Slots   []*graph.Node // parameter by parameter, each with its slots in the order of Optimizer.Slots
}

// NewSlots makes the slots of a fresh optimizer, in the order of [State]; the caller frees them.
func NewSlots(opt Optimizer, params []policy.Param) []*tensors.Tensor {
	var slots []*tensors.Tensor
	for _, p := range params {
		for range opt.Slots() {
			slots = append(slots, tensors.FromShape(shapes.Make(dtypes.Float32, p.Shape.Dimensions...)))
		}
	}
	return slots
}

// Apply builds the graph of one update of all parameters: clip the gradients to a global norm (maxNorm 0: do not), then
// Step for each. Whether the result is finite is for [Check] to say before.
func Apply(opt Optimizer, params []policy.Param, state State, grads, scalars []*graph.Node, maxNorm float64) State {
	grads, _, _ = ClipGlobalNorm(grads, maxNorm)
	return apply(opt, params, state, grads, scalars)
}

// Check builds the graph of what can go wrong in the update that [Apply] makes of the same inputs, without keeping its result. It is a
// function of its own, called before, since Apply may overwrite the state; and XLA's time to compile both in one, in which every
// weight depends on all others, grows with the square of the number of parameters (minutes for 270).
//
// norms is the norm of each gradient before clipping, float32 of shape [len(params)]; the global norm is the root of the sum of their
// squares. The first one that is NaN or infinite names the culprit (a gradient whose square overflows, above 1e19, counts as
// infinite). bad, of the same shape, counts the weights and slots of each parameter that would be NaN, infinite or within a factor
// of two of that, since two programs may round differently.
func Check(opt Optimizer, params []policy.Param, state State, grads, scalars []*graph.Node, maxNorm float64) (norms, bad *graph.Node) {
	grads, _, norms = ClipGlobalNorm(grads, maxNorm)
	next := apply(opt, params, state, grads, scalars)
	perParam := len(opt.Slots())
	counts := make([]*graph.Node, len(params))
	for i, master := range next.Masters {
		counts[i] = notFinite(master)
		for _, slot := range next.Slots[i*perParam : (i+1)*perParam] {
			counts[i] = graph.Add(counts[i], notFinite(slot))
		}
	}
	return norms, graph.Stack(counts, 0)
}

func apply(opt Optimizer, params []policy.Param, state State, grads, scalars []*graph.Node) (next State) {
	perParam := len(opt.Slots())
	if len(state.Masters) != len(params) || len(grads) != len(params) || len(state.Slots) != perParam*len(params) {
		panic(fmt.Errorf("optim: %d parameters (%d slots each) with %d masters, %d gradients, %d slots",
			len(params), perParam, len(state.Masters), len(grads), len(state.Slots)))
	}
	for i, p := range params {
		param, slots := opt.Step(Input{
			Param: state.Masters[i], Grad: grads[i], Slots: state.Slots[i*perParam : (i+1)*perParam],
			Scalars: scalars, Decay: p.Decay,
		})
		if err := checkStep(p, state.Masters[i], param, slots, perParam); err != nil {
			panic(err)
		}
		next.Masters, next.Slots = append(next.Masters, param), append(next.Slots, slots...)
	}
	return next
}

// checkStep says what a rule has made that cannot be the next state of a parameter.
func checkStep(p policy.Param, master, param *graph.Node, slots []*graph.Node, perParam int) error {
	if len(slots) != perParam {
		return fmt.Errorf("optim: Step gives %d slots of %q, the optimizer has %d", len(slots), p.Name, perParam)
	}
	for i, n := range append([]*graph.Node{param}, slots...) {
		what := "the parameter"
		if i > 0 {
			what = fmt.Sprintf("slot %d", i-1)
		}
		if n == nil {
			return fmt.Errorf("optim: Step gives no node for %s of %q", what, p.Name)
		}
		if !n.Shape().Equal(master.Shape()) {
			return fmt.Errorf("optim: Step gives %s of %q the shape %v, it has %v", what, p.Name, n.Shape(), master.Shape())
		}
	}
	return nil
}

// notFinite counts the elements of a float32 node that are NaN or beyond half the largest number.
func notFinite(x *graph.Node) *graph.Node {
	fine := graph.LessOrEqual(graph.Abs(x), graph.FillScalar(x.Graph(), x.Shape(), math.MaxFloat32/2)) // false for NaN
	return graph.ReduceAllSum(graph.Where(fine, graph.ZerosLike(x), graph.OnesLike(x)))
}

// Round gives the weights as they are stored: each master in its parameter's dtype, rounded to nearest, ties to even.
func Round(params []policy.Param, masters []*graph.Node) []*graph.Node {
	weights := make([]*graph.Node, len(masters))
	for i, m := range masters {
		weights[i] = graph.ConvertDType(m, params[i].Shape.DType)
	}
	return weights
}

func bad(rule, field string, value any, allowed string) error {
	return fmt.Errorf("optim: %s.%s is %v, allowed: %s", rule, field, value, allowed)
}
