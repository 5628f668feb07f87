// Package supervised trains a policy to continue prompts as examples do: how the examples' base models are made.
package supervised

import (
	"context"
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/grpo"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy"
)

// Example is a prompt with its completion.
type Example struct {
	Prompt, Completion []int32
	Targets            []int32   // what is to be predicted in place of Completion; nil: Completion
	Weights            []float32 // of each completion token in the loss; nil: 1
}

// Config of a training run in float32.
type Config struct {
	Backend   *backend.Backend
	Policy    policy.Policy
	Optimizer optim.Optimizer
	Schedule  optim.Schedule
	Steps     int
	MaxNorm   float64                  // of the gradient; 0: not clipped
	Batch     func(step int) []Example // the same number of examples each time
	Bucket    int                      // prompts and completions are padded to multiples of this
	Report    func(step int, loss float64)
}

// Train returns the weights after all steps; w is the start, of dtype float32.
func Train(ctx context.Context, c Config, w *policy.Weights) (*policy.Weights, error) {
	params := c.Policy.Params()
	n, slots := len(params), len(params)*len(c.Optimizer.Slots())
	step, err := backend.Compile(c.Backend, "supervised step", func(in []*graph.Node) []*graph.Node {
		masters, state, rest := in[:n], in[n:n+slots], in[n+slots:]
		prompts, pad, completions, targets, weights, scalars := rest[0], rest[1], rest[2], rest[3], rest[4], rest[5:]
		width := completions.Shape().Dim(1)
		hidden := policy.CompletionHidden(c.Policy, masters, policy.Groups{
			Prompts:     policy.Inputs{Tokens: prompts, Pad: pad},
			Completions: graph.Slice(completions, graph.AxisRange(), graph.AxisRange(0, width-1)),
		})
		logp, _ := grpo.LogProbs(c.Policy, masters, hidden, targets, 1, 0)
		loss := graph.Neg(graph.Div(graph.ReduceAllSum(graph.Mul(logp, weights)), graph.ReduceAllSum(weights)))
		next := optim.Apply(c.Optimizer, params, optim.State{Masters: masters, Slots: state}, graph.Gradient(loss, masters...), scalars, c.MaxNorm)
		return append(append(next.Masters, next.Slots...), loss)
	})
	if err != nil {
		return nil, err
	}
	defer step.Close()
	start, err := w.Clone(c.Backend.Raw(), 0)
	if err != nil {
		return nil, err
	}
	state := append(start.Tensors, optim.NewSlots(c.Optimizer, params)...)
	for k := range c.Steps {
		if err := ctx.Err(); err != nil {
			backend.Free(state...)
			return nil, err
		}
		in := batch(c.Batch(k), c.Bucket)
		args := []any{backend.Donate(state), in}
		for _, s := range c.Optimizer.Scalars(c.Schedule(k), k+1) {
			args = append(args, float32(s))
		}
		out, err := step.Call(0, args...)
		backend.Free(in...)
		if err != nil {
			return nil, fmt.Errorf("step %d: %w", k+1, err)
		}
		state = out[:n+slots]
		loss := float64(tensors.ToScalar[float32](out[n+slots]))
		backend.Free(out[n+slots])
		if c.Report != nil {
			c.Report(k+1, loss)
		}
	}
	backend.Free(state[n:]...)
	return policy.NewWeights(0, params, state[:n])
}

// batch lays examples out: prompts [B,P] padded on the left, padding [B], completions, targets and weights [B,C] padded on the right.
func batch(examples []Example, bucket int) []*tensors.Tensor {
	up := func(n int) int { return (n + bucket - 1) / bucket * bucket }
	p, c := 0, 0
	for _, e := range examples {
		p, c = max(p, up(len(e.Prompt))), max(c, up(len(e.Completion)))
	}
	b := len(examples)
	prompts, pad := make([]int32, b*p), make([]int32, b)
	completions, targets, weights := make([]int32, b*c), make([]int32, b*c), make([]float32, b*c)
	for i, e := range examples {
		pad[i] = int32(p - len(e.Prompt))
		copy(prompts[i*p+p-len(e.Prompt):], e.Prompt)
		copy(completions[i*c:], e.Completion)
		copy(targets[i*c:], e.Completion)
		if e.Targets != nil {
			copy(targets[i*c:], e.Targets)
		}
		for t := range e.Completion {
			weights[i*c+t] = 1
		}
		copy(weights[i*c:], e.Weights)
	}
	return []*tensors.Tensor{
		tensors.FromFlatDataAndDimensions(prompts, b, p), tensors.FromFlatDataAndDimensions(pad, b),
		tensors.FromFlatDataAndDimensions(completions, b, c), tensors.FromFlatDataAndDimensions(targets, b, c),
		tensors.FromFlatDataAndDimensions(weights, b, c),
	}
}

// Convert gives weights in the dtypes of other parameters of the same shapes, rounded to nearest even.
func Convert(b *backend.Backend, params []policy.Param, w *policy.Weights) (*policy.Weights, error) {
	round, err := backend.Compile(b, "converting weights", func(in []*graph.Node) []*graph.Node { return optim.Round(params, in) })
	if err != nil {
		return nil, err
	}
	defer round.Close()
	ts, err := round.Call(0, w.Tensors)
	if err != nil {
		return nil, err
	}
	return policy.NewWeights(w.Update, params, ts)
}
