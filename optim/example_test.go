package optim_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy"
)

// Lion is the rule of Chen et al. (arXiv 2302.06675): it moves every weight by lr in the direction of a sign.
type Lion struct {
	Beta1 float64 `json:"beta1"`
	Beta2 float64 `json:"beta2"`
}

// Validate implements optim.Optimizer.
func (l Lion) Validate() error {
	if !(l.Beta1 > 0 && l.Beta1 < 1) || !(l.Beta2 > 0 && l.Beta2 < 1) {
		return errors.New("lion: Beta1 and Beta2 must lie between 0 and 1")
	}
	return nil
}

// Slots implements optim.Optimizer.
func (l Lion) Slots() []string { return []string{"m"} }

// Scalars implements optim.Optimizer.
func (l Lion) Scalars(lr float64, step int) []float64 { return []float64{lr} }

// Step implements optim.Optimizer.
func (l Lion) Step(in optim.Input) (*graph.Node, []*graph.Node) {
	mix := func(beta float64) *graph.Node {
		return graph.Add(graph.MulScalar(in.Slots[0], beta), graph.MulScalar(in.Grad, 1-beta))
	}
	move := graph.Mul(in.Scalars[0], graph.Sign(mix(l.Beta1)))
	return graph.Sub(in.Param, move), []*graph.Node{mix(l.Beta2)}
}

// A user's own update rule needs no registration: here it minimises (w-3)² with a learning rate that falls to 0.
func ExampleOptimizer() {
	b, err := backend.Open(context.Background(), "go")
	if err != nil {
		log.Fatal(err)
	}
	opt := Lion{Beta1: 0.9, Beta2: 0.99}
	schedule := optim.Linear(0.1, 200)
	params := []policy.Param{{Name: "w", Shape: shapes.Make(dtypes.Float32)}}
	step, err := backend.Compile(b, "step", func(in []*graph.Node) []*graph.Node {
		w, state := in[0], optim.State{Masters: in[:1], Slots: in[1:2]}
		loss := graph.Square(graph.AddScalar(w, -3))
		next := optim.Apply(opt, params, state, graph.Gradient(loss, w), in[2:], 1)
		return append(next.Masters, next.Slots...)
	})
	if err != nil {
		log.Fatal(err)
	}
	state := append([]*tensors.Tensor{tensors.FromValue(float32(0))}, optim.NewSlots(opt, params)...)
	for update := range 200 {
		lr := float32(opt.Scalars(schedule(update), update+1)[0])
		out, err := step.Call(0, backend.Donate(state), lr)
		if err != nil {
			log.Fatal(err)
		}
		state = out
	}
	fmt.Printf("w = %.2f\n", tensors.ToScalar[float32](state[0]))
	// Output: w = 3.00
}
