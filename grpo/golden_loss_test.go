package grpo

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/policy"
)

func testGoldenLoss(t *testing.T, c goldenObjective) {
	var config goldenConfig
	var want goldenOutputs
	c.decode(t, &config, &want)
	obj, r := config.build(), c.rows(config.MaskTruncated)
	s, err := Prepare(config.Advantage.build(), obj, r)
	require.NoError(t, err)
	for i, w := range want.Advantages {
		near(t, fmt.Sprintf("advantage %d", i), w, s.Sequence[i], tolerance64)
	}
	nearRows(t, "token advantages", want.TokenAdvantages, s.Advantages, tolerance64)
	nearRows(t, "aggregation weights", want.Aggregate, s.Aggregate, tolerance64)
	if want.Weights != nil {
		nearRows(t, "importance weights", want.Weights, s.Weights, tolerance64)
	}

	old := map[string][][]float64{"old": c.Inputs.Old, "behaviour": c.Inputs.Behaviour}[config.Ratio.Denominator]
	requireStats(t, want.Stats, obj, s, c.Inputs.New, old)
	denominator := old
	if old == nil {
		denominator = c.Inputs.New
	}
	nearRows(t, "ratio", want.Ratio, obj.withDefaults().ratios(difference(c.Inputs.New, denominator, s.Mask), s.Mask), tolerance64)

	batch := lossBatch{obj: obj, signal: s, new: c.Inputs.New, old: old}
	if want.KLLoss != nil {
		batch.ref = c.Inputs.Ref
	}
	if want.Entropy != nil {
		batch.entropy = c.Inputs.Entropy
	}
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		for _, dtype := range []dtypes.DType{dtypes.Float64, dtypes.Float32} {
			batch, tol := batch, tolerance64
			if dtype == dtypes.Float32 {
				batch, tol = batch.withGarbage(math.NaN()), tolerance32
			} else if b.Kind() != backend.Go {
				continue // compiling takes long, and float64 checks the formulae, not the backend
			}
			got := batch.run(t, b, dtype)
			near(t, "loss", want.Loss, got.loss, tol)
			near(t, "policy loss", want.PolicyLoss, got.policy, tol)
			nearRows(t, "token policy loss", want.TokenPolicyLoss, got.terms, tol)
			nearGradients(t, "gradient", want.GradNew, got.gradNew, tol)
			if want.KLLoss != nil {
				near(t, "KL", *want.KLLoss, got.kl, tol)
				nearRows(t, "token KL", want.TokenKL, got.klTerms, tol)
			}
			if want.Entropy != nil {
				near(t, "entropy", *want.Entropy, got.entropy, tol)
				nearGradients(t, "entropy gradient", want.GradEntropy, got.gradEntropy, tol)
			}
			for j, rows := range c.Inputs.MicroBatches {
				micro := batch.take(rows).run(t, b, dtype)
				near(t, fmt.Sprintf("loss of micro-batch %d", j), want.MicroLosses[j], micro.loss, tol)
				part := make([][]float64, len(rows))
				for k, i := range rows {
					part[k] = got.gradNew[i]
				}
				nearGradients(t, "gradient of a micro-batch", part, micro.gradNew, tol)
			}
		}
	})
}

func requireStats(t *testing.T, want map[string]float64, obj Objective, s Signal, newLogProbs, old [][]float64) {
	t.Helper()
	stats, err := obj.Stats(s, newLogProbs, old)
	require.NoError(t, err)
	raw, err := json.Marshal(stats)
	require.NoError(t, err)
	var got map[string]float64
	require.NoError(t, json.Unmarshal(raw, &got))
	for name, w := range want {
		require.Contains(t, got, name)
		near(t, name, w, got[name], tolerance64)
	}
}

// lossBatch is a batch as tests hand it to the loss.
type lossBatch struct {
	obj                    Objective
	signal                 Signal
	new, old, ref, entropy [][]float64
}

type lossResult struct {
	loss, policy, kl, entropy            float64
	terms, klTerms, gradNew, gradEntropy [][]float64
}

func pick[T any](x [][]T, rows []int) (out [][]T) {
	if x == nil {
		return nil
	}
	for _, i := range rows {
		out = append(out, x[i])
	}
	return out
}

// take is a micro-batch.
func (b lossBatch) take(rows []int) lossBatch {
	s := b.signal
	b.signal = Signal{Mask: pick(s.Mask, rows), Advantages: pick(s.Advantages, rows), Weights: pick(s.Weights, rows), Aggregate: pick(s.Aggregate, rows)}
	b.new, b.old, b.ref, b.entropy = pick(b.new, rows), pick(b.old, rows), pick(b.ref, rows), pick(b.entropy, rows)
	return b
}

// withGarbage puts values that must not matter where the mask is false.
func (b lossBatch) withGarbage(values ...float64) lossBatch {
	n := 0
	spoil := func(x [][]float64) [][]float64 {
		if x == nil {
			return nil
		}
		out := zeros(b.signal.Mask)
		for i, row := range b.signal.Mask {
			for t, scored := range row {
				if out[i][t] = x[i][t]; !scored {
					out[i][t] = values[n%len(values)]
					n++
				}
			}
		}
		return out
	}
	s := b.signal
	b.signal = Signal{Mask: s.Mask, Advantages: spoil(s.Advantages), Weights: spoil(s.Weights), Aggregate: spoil(s.Aggregate)}
	b.new, b.old, b.ref, b.entropy = spoil(b.new), spoil(b.old), spoil(b.ref), spoil(b.entropy)
	return b
}

func (b lossBatch) run(t *testing.T, on *backend.Backend, dtype dtypes.DType) (out lossResult) {
	t.Helper()
	if dtype == dtypes.Float64 {
		return runLoss[float64](t, on, b)
	}
	return runLoss[float32](t, on, b)
}

func runLoss[F float32 | float64](t *testing.T, on *backend.Backend, b lossBatch) (out lossResult) {
	t.Helper()
	rows, width := len(b.new), len(b.new[0])
	args := []any{tensors.FromFlatDataAndDimensions(flatten(b.signal.Mask, func(x bool) bool { return x }), rows, width)}
	var slots []**graph.Node
	var in LossInputs
	add := func(slot **graph.Node, x [][]float64) {
		if x != nil {
			slots = append(slots, slot)
			args = append(args, tensors.FromFlatDataAndDimensions(flatten(x, func(x float64) F { return F(x) }), rows, width))
		}
	}
	add(&in.New, b.new)
	add(&in.Old, b.old)
	add(&in.Ref, b.ref)
	add(&in.Entropy, b.entropy)
	add(&in.Advantages, b.signal.Advantages)
	add(&in.Weights, b.signal.Weights)
	add(&in.Aggregate, b.signal.Aggregate)
	f, err := backend.Compile(on, "loss", func(nodes []*graph.Node) []*graph.Node {
		in.Mask = nodes[0]
		for i, slot := range slots {
			*slot = nodes[1+i]
		}
		l := b.obj.Loss(in)
		obj := b.obj.withDefaults()
		results := []*graph.Node{l.Loss, l.Policy, obj.policyTerm(in)}
		results = append(results, graph.Gradient(l.Loss, in.New)...)
		if in.Ref != nil {
			results = append(results, l.KL, obj.klTerm(in))
		}
		if in.Entropy != nil {
			results = append(results, l.Entropy)
			results = append(results, graph.Gradient(l.Loss, in.Entropy)...)
		}
		return results
	})
	require.NoError(t, err)
	defer f.Close()
	results, err := f.Call(0, args...)
	require.NoError(t, err)
	defer backend.Free(results...)
	next := func() [][]float64 {
		x := results[0]
		results = results[1:]
		return unflatten[F](t, x)
	}
	scalar := func() float64 { return next()[0][0] }
	out.loss, out.policy, out.terms, out.gradNew = scalar(), scalar(), next(), next()
	if b.ref != nil {
		out.kl, out.klTerms = scalar(), next()
	}
	if b.entropy != nil {
		out.entropy, out.gradEntropy = scalar(), next()
	}
	return out
}

func flatten[X, Y any](x [][]X, convert func(X) Y) (out []Y) {
	for _, row := range x {
		for _, v := range row {
			out = append(out, convert(v))
		}
	}
	return out
}

// unflatten copies a tensor out as rows along its last axis.
func unflatten[F float32 | float64](t *testing.T, x *tensors.Tensor) [][]float64 {
	t.Helper()
	flat, err := tensors.CopyFlatData[F](x)
	require.NoError(t, err)
	width := 1
	if x.Rank() > 0 {
		width = x.Shape().Dim(-1)
	}
	out := make([][]float64, len(flat)/width)
	for i := range out {
		for _, v := range flat[i*width : (i+1)*width] {
			out[i] = append(out[i], float64(v))
		}
	}
	return out
}

// bare is a policy whose hidden states are its logits.
type bare struct {
	policy.Policy
}

func (bare) Logits(_ policy.Vars, hidden *graph.Node) *graph.Node { return hidden }

func testGoldenLogits(t *testing.T, c goldenObjective) {
	var config goldenConfig
	var want goldenOutputs
	c.decode(t, &config, &want)
	obj, r, in := config.build(), c.rows(config.MaskTruncated), c.Inputs
	s, err := Prepare(config.Advantage.build(), obj, r)
	require.NoError(t, err)
	for i, w := range want.Advantages {
		near(t, fmt.Sprintf("advantage %d", i), w, s.Sequence[i], tolerance64)
	}
	old := map[string][][]float64{"old": in.Old, "behaviour": in.Behaviour}[config.Ratio.Denominator]
	requireStats(t, want.Stats, obj, s, want.LogProbs, old)
	rows, width, vocab := len(in.Tokens), len(in.Tokens[0]), len(in.Logits[0][0])
	matrix := func(x [][]float64) *tensors.Tensor {
		return tensors.FromFlatDataAndDimensions(flatten(x, func(x float64) float32 { return float32(x) }), rows, width)
	}
	var logits []float32
	var gradients [][]float64
	for i, row := range in.Logits {
		logits = append(logits, flatten(row, func(x float64) float32 { return float32(x) })...)
		gradients = append(gradients, want.GradLogits[i]...)
	}
	args := func() []any {
		all := []any{
			tensors.FromFlatDataAndDimensions(logits, rows, width, vocab),
			tensors.FromFlatDataAndDimensions(flatten(in.Tokens, func(x int32) int32 { return x }), rows, width),
			tensors.FromFlatDataAndDimensions(flatten(s.Mask, func(x bool) bool { return x }), rows, width),
			matrix(s.Advantages), matrix(s.Aggregate),
		}
		if old != nil {
			all = append(all, matrix(old))
		}
		if want.KLLoss != nil {
			all = append(all, matrix(in.Ref))
		}
		return all
	}
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		for _, chunk := range []int{0, 3} {
			f, err := backend.Compile(b, "logits", func(x []*graph.Node) []*graph.Node {
				logp, entropy := LogProbs(bare{}, nil, x[0], x[1], in.TemperatureIn, chunk)
				inputs := LossInputs{New: logp, Entropy: entropy, Mask: x[2], Advantages: x[3], Aggregate: x[4]}
				rest := x[5:]
				if old != nil {
					inputs.Old, rest = rest[0], rest[1:]
				}
				if want.KLLoss != nil {
					inputs.Ref = rest[0]
				}
				l := obj.Loss(inputs)
				return []*graph.Node{l.Loss, l.Policy, l.Entropy, logp, entropy, graph.Gradient(l.Loss, x[0])[0]}
			})
			require.NoError(t, err)
			defer f.Close()
			out, err := f.Call(0, args()...)
			require.NoError(t, err)
			for i, w := range []float64{want.Loss, want.PolicyLoss, *want.Entropy} {
				near(t, []string{"loss", "policy loss", "entropy"}[i], w, unflatten[float32](t, out[i])[0][0], tolerance32)
			}
			nearRows(t, "log-probs", want.LogProbs, unflatten[float32](t, out[3]), tolerance32)
			nearRows(t, "token entropy", want.TokenEntropy, unflatten[float32](t, out[4]), tolerance32)
			nearGradients(t, "gradient", gradients, unflatten[float32](t, out[5]), tolerance32)
		}
	})
}
