// Package local samples completions on a device of this machine: an engine for any policy, with a key-value cache where
// the policy can go on from one.
package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// Options of an engine. The zero value is usable.
type Options struct {
	Device  compute.DeviceNum // the device that samples
	DType   dtypes.DType      // of the computation: Float32 or BFloat16; 0: Float32
	MaxRows int               // completions decoded together, which bounds memory; 0: 64
	Segment int               // tokens decoded between two looks at the host; 0: 16

	// FixedRows decodes MaxRows rows always, idle ones too, and only prompts of like width together. Matrix products of
	// different sizes round differently, so without it a completion's log-probs may change by about 1e-6 with what else is
	// in the call, and about once in a million tokens one falls on the other side of a border. With it they do not.
	FixedRows bool

	// Progress is called after each segment with the number of tokens that it sampled; nil: never. It must not call the engine.
	Progress func(tokens int)
}

// Validate names the first option that cannot be used.
func (o Options) Validate() error {
	bad := func(field string, value any, allowed string) error {
		return fmt.Errorf("local engine: %s is %v, allowed: %s", field, value, allowed)
	}
	switch {
	case o.Device < 0:
		return bad("Device", o.Device, "0 or more")
	case o.DType != dtypes.InvalidDType && o.DType != dtypes.Float32 && o.DType != dtypes.BFloat16:
		return bad("DType", o.DType, "Float32, BFloat16")
	case o.MaxRows < 0 || o.MaxRows > 1<<16:
		return bad("MaxRows", o.MaxRows, "0 (64) to 65536")
	case o.Segment < 0 || o.Segment > 1<<12:
		return bad("Segment", o.Segment, "0 (16) to 4096")
	}
	return nil
}

// ErrNoWeights is returned by Generate before the first Load.
var ErrNoWeights = errors.New("local engine: no weights were loaded")

// Engine samples on one device. It is safe for concurrent use; calls take turns.
//
// The same call with the same weights gives the same bits on the same backend and device kind.
type Engine struct {
	b       *backend.Backend
	policy  policy.Incremental
	opts    Options
	loop    bool          // the device runs whole segments
	prompts int           // computed together in the prefill
	turn    chan struct{} // holds a token while a call is at work
	weights *policy.Weights
	funcs   map[string]*backend.Func
}

var _ rollout.Engine = (*Engine)(nil)

// New makes an engine for a policy. A policy that is not [policy.Incremental] is computed anew over the whole sequence for
// each token. Close the engine when done.
func New(b *backend.Backend, p policy.Policy, o Options) (*Engine, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if n := b.NumDevices(); int(o.Device) >= n {
		return nil, fmt.Errorf("local engine: Device is %d, the backend has %d", o.Device, n)
	}
	if o.DType == dtypes.InvalidDType {
		o.DType = dtypes.Float32
	}
	if o.MaxRows == 0 {
		o.MaxRows = 64
	}
	if o.Segment == 0 {
		o.Segment = 16
	}
	incremental, ok := p.(policy.Incremental)
	if !ok {
		incremental = recompute{p}
	}
	loop := b.Supports(compute.OpTypeDynamicSlice) && b.Supports(compute.OpTypeDynamicUpdateSlice)
	prompts := 8
	if !loop {
		o.Segment, prompts = 1, 1 // a call costs little there
	}
	return &Engine{
		b: b, policy: incremental, opts: o, loop: loop, prompts: prompts,
		turn: make(chan struct{}, 1), funcs: map[string]*backend.Func{},
	}, nil
}

// take waits for the engine's turn; the caller gives it back by receiving from e.turn.
func (e *Engine) take(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Load copies weights to the engine's device, in the dtype of the computation.
func (e *Engine) Load(ctx context.Context, w *policy.Weights) error {
	if err := e.take(ctx); err != nil {
		return err
	}
	defer func() { <-e.turn }()
	params := e.policy.Params()
	if len(w.Tensors) != len(params) {
		return fmt.Errorf("local engine: %d tensors for a policy of %d parameters", len(w.Tensors), len(params))
	}
	for i, p := range params {
		if !w.Tensors[i].Shape().Equal(p.Shape) {
			return fmt.Errorf("local engine: tensor %q has shape %v, the policy has %v", p.Name, w.Tensors[i].Shape(), p.Shape)
		}
	}
	mine, err := w.Clone(e.b.Raw(), e.opts.Device)
	if err != nil {
		return fmt.Errorf("local engine: %w", err)
	}
	if slices.ContainsFunc(params, func(p policy.Param) bool { return p.Shape.DType != p.ComputeDType(e.opts.DType) }) {
		cast, err := e.compiled("cast weights", func(in []*graph.Node) []*graph.Node {
			out := make([]*graph.Node, len(in))
			for i, x := range in {
				out[i] = graph.ConvertDType(x, params[i].ComputeDType(e.opts.DType))
			}
			return out
		})
		if err != nil {
			return err
		}
		stored := mine.Tensors
		mine.Tensors, err = cast.Call(e.opts.Device, stored)
		backend.Free(stored...)
		if err != nil {
			return err
		}
	}
	if e.weights != nil {
		e.weights.Free()
	}
	e.weights = mine
	return nil
}

// Close releases the weights and what was compiled. The engine must not be used afterwards.
func (e *Engine) Close() {
	e.turn <- struct{}{}
	defer func() { <-e.turn }()
	if e.weights != nil {
		e.weights.Free()
		e.weights = nil
	}
	for _, f := range e.funcs {
		f.Close()
	}
	e.funcs = nil
}

// Generate samples one completion for each seed of each request. A prompt must be shorter than the context. Logits that
// are not finite are an error that names request and sample.
func (e *Engine) Generate(ctx context.Context, reqs []rollout.Request, s rollout.Sampling) ([][]rollout.Completion, error) {
	if err := e.check(reqs, s); err != nil {
		return nil, err
	}
	if err := e.take(ctx); err != nil {
		return nil, err
	}
	defer func() { <-e.turn }()
	if e.weights == nil {
		return nil, ErrNoWeights
	}
	out := make([][]rollout.Completion, len(reqs))
	for i, r := range reqs {
		out[i] = make([]rollout.Completion, len(r.Seeds))
	}
	for _, rows := range e.plan(reqs, s) {
		if err := e.sample(ctx, rows, s); err != nil {
			return nil, err
		}
		for _, r := range rows {
			r.Update = e.weights.Update
			out[r.request][r.index] = r.Completion
		}
	}
	return out, nil
}

// check names the first request or setting that cannot be sampled.
func (e *Engine) check(reqs []rollout.Request, s rollout.Sampling) error {
	if err := s.Validate(); err != nil {
		return err
	}
	vocab, context := e.policy.VocabSize(), e.policy.MaxPositions()
	outside := func(tokens []int32) int {
		return slices.IndexFunc(tokens, func(t int32) bool { return t < 0 || int(t) >= vocab })
	}
	if i := outside(s.Stop); i >= 0 {
		return fmt.Errorf("sampling: Stop[%d] is %d, the vocabulary has %d tokens", i, s.Stop[i], vocab)
	}
	if len(reqs) == 0 {
		return errors.New("local engine: no requests")
	}
	for i, r := range reqs {
		bad := func(format string, args ...any) error {
			return &rollout.RequestError{Request: i, Sample: -1, Err: fmt.Errorf(format, args...)}
		}
		switch at := outside(r.Prompt); {
		case len(r.Seeds) == 0:
			return bad("it has no seeds")
		case len(r.Prompt) == 0:
			return bad("its prompt is empty")
		case len(r.Prompt) >= context:
			return bad("a prompt of %d tokens leaves no room in a context of %d", len(r.Prompt), context)
		case at >= 0:
			return bad("token %d of the prompt is %d, the vocabulary has %d", at, r.Prompt[at], vocab)
		}
	}
	return nil
}
