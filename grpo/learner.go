package grpo

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/guard"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy"
)

// ErrNotFinite says that a loss, log-prob or gradient is NaN or infinite; the message names the first. The weights are
// as they were before the update.
var ErrNotFinite = errors.New("not finite")

// chunk is how many positions have logits at once.
const chunk = 4096

// learner holds the weights being trained with their optimizer state on the training device, and the compiled functions of
// an update: gradients of a micro-batch, added up, then one optimizer step.
type learner struct {
	cfg     Config
	backend *backend.Backend
	device  compute.DeviceNum
	policy  policy.Policy
	params  []policy.Param
	opt     optim.Optimizer
	kinds   []string // the optimizer's slots of a parameter
	temp    float64  // sampling temperature: log-probs are of the distribution that was sampled from
	rounded bool     // some parameter is stored in less than float32

	masters   []*tensors.Tensor // float32
	slots     []*tensors.Tensor
	published *policy.Weights   // rounded masters, made when asked for; unused unless rounded
	reference []*tensors.Tensor // weights of the KL term, in float32; nil: none

	gradients, forward, check, apply, round *backend.Func
}

func newLearner(cfg Config, parts Parts) (_ *learner, err error) {
	l := &learner{
		cfg: cfg, backend: parts.Backend, device: compute.DeviceNum(parts.Device), policy: parts.Policy,
		opt: parts.Optimizer, temp: parts.Sampler.Sampling.Temperature,
	}
	defer func() {
		if err != nil {
			l.close()
		}
	}()
	if err := guard.Call("Parts.Policy.Params", func() error { l.params = l.policy.Params(); return nil }); err != nil {
		return nil, err
	}
	if err := guard.Call("Parts.Optimizer.Slots", func() error { l.kinds = l.opt.Slots(); return nil }); err != nil {
		return nil, err
	}
	for _, p := range l.params {
		l.rounded = l.rounded || p.Shape.DType != dtypes.Float32
	}
	for _, f := range []struct {
		into **backend.Func
		name string
		fn   func(in []*graph.Node) []*graph.Node
	}{
		{&l.gradients, "gradients", l.buildGradients},
		{&l.forward, "log-probs", l.buildForward},
		{&l.check, "checking the optimizer step", l.buildCheck},
		{&l.apply, "optimizer step", l.buildApply},
		{&l.round, "rounding the masters", func(in []*graph.Node) []*graph.Node { return optim.Round(l.params, in) }},
	} {
		if *f.into, err = backend.Compile(l.backend, f.name, f.fn); err != nil {
			return nil, err
		}
	}
	if l.masters, err = l.float32Copy(parts.Weights); err != nil {
		return nil, fmt.Errorf("grpo: Parts.Weights: %w", err)
	}
	if parts.Reference != nil {
		if l.reference, err = l.float32Copy(parts.Reference); err != nil {
			return nil, fmt.Errorf("grpo: Parts.Reference: %w", err)
		}
	}
	l.slots = optim.NewSlots(l.opt, l.params)
	return l, nil
}

// float32Copy copies weights to the training device. The conversion from a stored dtype is exact.
func (l *learner) float32Copy(w *policy.Weights) ([]*tensors.Tensor, error) {
	if _, err := policy.NewWeights(w.Update, l.params, w.Tensors); err != nil {
		return nil, err
	}
	clone, err := w.Clone(l.backend.Raw(), l.device)
	if err != nil {
		return nil, err
	}
	if !l.rounded {
		return clone.Tensors, nil
	}
	defer clone.Free()
	convert, err := backend.Compile(l.backend, "widening the weights", func(in []*graph.Node) []*graph.Node {
		out := make([]*graph.Node, len(in))
		for i, x := range in {
			out[i] = graph.ConvertDType(x, dtypes.Float32)
		}
		return out
	})
	if err != nil {
		return nil, err
	}
	defer convert.Close()
	return convert.Call(l.device, clone.Tensors)
}

// weights are the present weights in the parameters' dtypes; they belong to the learner and last until the next update.
func (l *learner) weights(update int) (*policy.Weights, error) {
	if !l.rounded {
		return &policy.Weights{Update: update, Params: l.params, Tensors: l.masters}, nil
	}
	if l.published == nil {
		ts, err := l.round.Call(l.device, l.masters)
		if err != nil {
			return nil, err
		}
		l.published = &policy.Weights{Params: l.params, Tensors: ts}
	}
	l.published.Update = update
	return l.published, nil
}

func (l *learner) close() {
	for _, f := range []*backend.Func{l.gradients, l.forward, l.check, l.apply, l.round} {
		if f != nil {
			f.Close()
		}
	}
	l.unpublish()
	backend.Free(l.masters...)
	backend.Free(l.slots...)
	backend.Free(l.reference...)
}

func (l *learner) unpublish() {
	if l.published != nil {
		l.published.Free()
		l.published = nil
	}
}

// learn does one update: step counts from 1.
func (l *learner) learn(ctx context.Context, b *batch, step int, lr float64) (*Metrics, error) {
	micros := b.split(l.cfg.MicroBatch, l.cfg.GroupSize, l.cfg.Bucket)
	rows, err := l.rows(b, micros)
	if err != nil {
		return nil, err
	}
	signal, err := Prepare(l.cfg.Advantage, l.cfg.Objective, rows)
	if err != nil {
		return nil, err
	}

	grads := l.zeros()
	defer func() { backend.Free(grads...) }()
	m := &Metrics{LearningRate: lr}
	logProbs, entropies := make([][]float64, len(b.rows)), make([][]float64, len(b.rows))
	for _, micro := range micros {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		in := append(micro.inputs(), micro.targets(l.cfg, signal, rows)...)
		out, err := l.gradients.Call(l.device, l.masters, backend.Donate(grads), in)
		backend.Free(in...)
		if err != nil {
			return nil, err
		}
		n := len(l.params)
		grads = out[:n]
		losses, err := flat(out[n])
		if err != nil {
			return nil, err
		}
		m.Loss += losses[0]
		m.PolicyLoss += losses[1]
		m.KLLoss += losses[2]
		if err := errors.Join(micro.unpack(out[n+1], b, logProbs), micro.unpack(out[n+2], b, entropies)); err != nil {
			return nil, err
		}
		backend.Free(out[n:]...)
	}
	if math.IsNaN(m.Loss) || math.IsInf(m.Loss, 0) {
		return nil, fmt.Errorf("%w: the loss is %v; an earlier step with too large a learning rate (now %g) does that", ErrNotFinite, m.Loss, lr)
	}
	old := rows.Old
	if l.cfg.OldLogProbs == Current {
		old = nil // the ratio is 1, also where the two computations of a log-prob round differently
	}
	if m.Stats, err = l.cfg.Objective.Stats(signal, logProbs, old); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotFinite, err)
	}
	m.describe(b, signal, logProbs, entropies)
	return m, l.optimize(ctx, &grads, step, lr, m)
}

// optimize applies the gradients, if every gradient and every weight and slot of the next state is finite.
func (l *learner) optimize(ctx context.Context, grads *[]*tensors.Tensor, step int, lr float64, m *Metrics) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var scalars []any
	err := guard.Call("Parts.Optimizer.Scalars", func() error {
		for _, s := range l.opt.Scalars(lr, step) {
			scalars = append(scalars, float32(s))
		}
		return nil
	})
	if err != nil {
		return err
	}
	found, err := l.check.Call(l.device, append([]any{l.masters, *grads, l.slots}, scalars...)...)
	if err != nil {
		return err
	}
	norms, err := flat(found[0])
	bad, badErr := flat(found[1])
	backend.Free(found...)
	if err := errors.Join(err, badErr); err != nil {
		return err
	}
	for i, norm := range norms {
		if math.IsNaN(norm) || math.IsInf(norm, 0) {
			return fmt.Errorf("%w: the gradient of %q has norm %v", ErrNotFinite, l.params[i].Name, norm)
		}
		m.GradNorm += norm * norm
	}
	m.GradNorm = math.Sqrt(m.GradNorm)
	if math.IsInf(float64(float32(m.GradNorm)), 0) {
		return fmt.Errorf("%w: the global gradient norm is %v", ErrNotFinite, m.GradNorm)
	}
	for i, count := range bad {
		if count != 0 {
			return fmt.Errorf("%w: the step would make %.0f weights or optimizer slots of %q NaN or infinite; the learning rate is %g", ErrNotFinite, count, l.params[i].Name, lr)
		}
	}

	args := append([]any{backend.Donate(l.masters), backend.Donate(*grads), backend.Donate(l.slots)}, scalars...)
	*grads = nil
	l.unpublish()
	out, err := l.apply.Call(l.device, args...)
	if err != nil {
		l.masters, l.slots = nil, nil
		return fmt.Errorf("%w: %w", errLost, err)
	}
	l.masters, l.slots = out[:len(l.params)], out[len(l.params):]
	return nil
}

// errLost marks a failure that took the weights in memory with it.
var errLost = errors.New("the optimizer step failed after its inputs were given away")

// rows lays the batch out for the objective, with the log-probs that it asks for.
func (l *learner) rows(b *batch, micros []micro) (Rows, error) {
	r := Rows{Rewards: b.rewards, Groups: b.group}
	for _, row := range b.rows {
		mask, behaviour := make([]bool, len(row.tokens)), make([]float64, len(row.tokens))
		for t := range row.tokens {
			mask[t], behaviour[t] = true, float64(row.behaviour[t])
		}
		r.Mask, r.Behaviour = append(r.Mask, mask), append(r.Behaviour, behaviour)
		r.Skip = append(r.Skip, l.cfg.MaskTruncated && row.truncated)
	}
	var err error
	if l.cfg.OldLogProbs == Behaviour {
		r.Old = r.Behaviour
	} else if l.cfg.Objective.Correction.on() || l.cfg.Advantage.KLCoef != 0 {
		if r.Old, err = l.logProbs(b, micros, l.masters); err != nil {
			return r, err
		}
	}
	if l.reference != nil {
		r.Ref, err = l.logProbs(b, micros, l.reference)
	}
	return r, err
}

// logProbs of the batch's completions under other weights.
func (l *learner) logProbs(b *batch, micros []micro, weights []*tensors.Tensor) ([][]float64, error) {
	rows := make([][]float64, len(b.rows))
	for _, micro := range micros {
		in := micro.inputs()
		out, err := l.forward.Call(l.device, weights, in)
		backend.Free(in...)
		if err != nil {
			return nil, err
		}
		err = micro.unpack(out[0], b, rows)
		backend.Free(out...)
		if err != nil {
			return nil, err
		}
	}
	return rows, nil
}

func (l *learner) zeros() []*tensors.Tensor {
	ts := make([]*tensors.Tensor, len(l.params))
	for i, p := range l.params {
		shape := p.Shape.Clone()
		shape.DType = dtypes.Float32
		ts[i] = tensors.FromShape(shape)
	}
	return ts
}

// vars are the weights as the policy computes with them: the stored ones, in the dtype of the computation. The casts are in the
// graph and gradients pass them in float32.
func (l *learner) vars(masters []*graph.Node) policy.Vars {
	vars := make(policy.Vars, len(masters))
	for i, m := range masters {
		compute := l.params[i].ComputeDType(l.cfg.computeDType())
		if stored := l.params[i].Shape.DType; compute == dtypes.Float32 && stored != dtypes.Float32 {
			rounded := graph.ConvertDType(graph.ConvertDType(m, stored), dtypes.Float32)
			m = graph.Add(m, graph.StopGradient(graph.Sub(rounded, m))) // its gradient is m's: not rounded
		}
		vars[i] = graph.ConvertDType(m, compute)
	}
	return vars
}

// completions builds the graph of the log-probs and entropies [B,C] of the completion tokens, given prompts, padding and
// completions.
func (l *learner) completions(masters, in []*graph.Node) (logp, entropy *graph.Node) {
	vars := l.vars(masters)
	completions := in[2]
	width := completions.Shape().Dim(1)
	hidden := policy.CompletionHidden(l.policy, vars, policy.Groups{
		Prompts:     policy.Inputs{Tokens: in[0], Pad: in[1]},
		Completions: graph.Slice(completions, graph.AxisRange(), graph.AxisRange(0, width-1)), // nothing follows the last token
	})
	return LogProbs(l.policy, vars, hidden, completions, l.temp, chunk)
}

func (l *learner) buildForward(in []*graph.Node) []*graph.Node {
	logp, _ := l.completions(in[:len(l.params)], in[len(l.params):])
	return []*graph.Node{logp}
}

// buildGradients: masters, sums of gradients, prompts, padding, completions, then what micro.targets lists.
func (l *learner) buildGradients(in []*graph.Node) []*graph.Node {
	n := len(l.params)
	masters, sums, tokens, targets := in[:n], in[n:2*n], in[2*n:2*n+3], in[2*n+3:]
	logp, entropy := l.completions(masters, tokens)
	loss := LossInputs{New: logp, Entropy: entropy, Mask: targets[0], Advantages: targets[1], Aggregate: targets[2]}
	rest := targets[3:]
	for _, optional := range l.cfg.optionalTargets(l.reference != nil) {
		*optional.node(&loss), rest = rest[0], rest[1:]
	}
	losses := l.cfg.Objective.Loss(loss)
	kl := losses.KL
	if kl == nil {
		kl = graph.ScalarZero(logp.Graph(), logp.DType())
	}
	out := make([]*graph.Node, n, n+3)
	for i, g := range graph.Gradient(losses.Loss, masters...) {
		out[i] = graph.Add(sums[i], g)
	}
	return append(out, graph.Stack([]*graph.Node{losses.Loss, losses.Policy, kl}, 0), logp, entropy)
}

// buildCheck: masters, gradients, slots, scalars; gives norms of the gradients, counts of weights and slots that would not be finite.
func (l *learner) buildCheck(in []*graph.Node) []*graph.Node {
	state, grads, scalars := l.stepInputs(in)
	norms, bad := optim.Check(l.opt, l.params, state, grads, scalars, l.cfg.MaxGradNorm)
	return []*graph.Node{norms, bad}
}

// buildApply: masters, gradients, slots, scalars; gives masters, slots.
func (l *learner) buildApply(in []*graph.Node) []*graph.Node {
	state, grads, scalars := l.stepInputs(in)
	next := optim.Apply(l.opt, l.params, state, grads, scalars, l.cfg.MaxGradNorm)
	return append(next.Masters, next.Slots...)
}

func (l *learner) stepInputs(in []*graph.Node) (state optim.State, grads, scalars []*graph.Node) {
	n, slots := len(l.params), len(l.params)*len(l.kinds)
	return optim.State{Masters: in[:n], Slots: in[2*n : 2*n+slots]}, in[n : 2*n], in[2*n+slots:]
}

// flat copies a float32 tensor to the host.
func flat(t *tensors.Tensor) ([]float64, error) {
	data, err := tensors.CopyFlatData[float32](t)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(data))
	for i, x := range data {
		out[i] = float64(x)
	}
	return out, nil
}
