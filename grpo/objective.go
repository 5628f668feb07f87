package grpo

import (
	"encoding/json"
	"math"

	"github.com/gomlx/gomlx/core/graph"
)

// Surrogate is the policy term L of a token, from the ratio r of new to old probability and the advantage A.
type Surrogate string

// Surrogates. clip is to [1-ClipLow, 1+ClipHigh].
const (
	PPO       Surrogate = "ppo"       // max(-r·A, -clip(r)·A) (arXiv 1707.06347); where A < 0 at most -DualClip·A, if that is set (arXiv 1912.09729)
	CISPO     Surrogate = "cispo"     // -clip(r)·A·log p, no gradient through r (arXiv 2506.13585)
	Reinforce Surrogate = "reinforce" // -A·log p
)

// KLEstimator estimates the divergence of a token from the reference policy, with d = new - ref log-prob
// (http://joschu.net/blog/kl-approx.html).
type KLEstimator string

// Estimators. The straight-through ones have the named value and the gradient of K2.
const (
	K1                KLEstimator = "k1"         // d
	K2                KLEstimator = "k2"         // d²/2
	K3                KLEstimator = "k3"         // exp(-d) - 1 + d
	K3Clamped         KLEstimator = "k3_clamped" // K3 with d clamped to ±20 and the value to ±10, without gradient outside
	K1StraightThrough KLEstimator = "k1_straight_through"
	K3StraightThrough KLEstimator = "k3_straight_through"
)

// KL is the divergence term: Coef times the aggregated estimate. The zero value is off.
type KL struct {
	Coef      float64     `json:"coef"`
	Estimator KLEstimator `json:"estimator"` // "": K3
	Weighted  bool        `json:"weighted"`  // multiply by the token's ratio, both factors differentiated (arXiv 2512.02556)
}

// Objective is the loss of an update: the aggregated policy term + KL.Coef·KL - Entropy·entropy. The zero value is plain
// importance sampling by token, averaged as GRPO does, without KL and entropy; GRPO sets ClipLow and ClipHigh to 0.2, DAPO
// to 0.2 and 0.28.
type Objective struct {
	Surrogate   Surrogate   `json:"surrogate"`   // "": PPO
	ClipLow     float64     `json:"clip_low"`    // the ratio is clipped at 1-ClipLow; 0: not clipped below
	ClipHigh    float64     `json:"clip_high"`   // the ratio is clipped at 1+ClipHigh; 0: not clipped above
	DualClip    float64     `json:"dual_clip"`   // PPO: bound of the loss where A < 0, above 1; 0: off
	Ratio       Level       `json:"ratio"`       // ByToken ("") or BySequence
	LogClamp    float64     `json:"log_clamp"`   // log-ratios are clamped to ± this, without gradient outside; 0: off
	Aggregation Aggregation `json:"aggregation"` // "": SeqMeanTokenMean
	Length      int         `json:"length"`      // ConstantLength: its constant
	SkipEmpty   bool        `json:"skip_empty"`  // rows without scored tokens do not count as rows
	KL          KL          `json:"kl"`
	Entropy     float64     `json:"entropy"` // coefficient of the entropy bonus
	Correction  Correction  `json:"correction"`
}

func (o Objective) withDefaults() Objective {
	setDefault(&o.Surrogate, PPO)
	setDefault(&o.Ratio, ByToken)
	setDefault(&o.Aggregation, SeqMeanTokenMean)
	setDefault(&o.KL.Estimator, K3)
	return o
}

// MarshalJSON writes the settings with the values that stand for 0, so that a record says what acted.
func (o Objective) MarshalJSON() ([]byte, error) {
	type plain Objective
	return json.Marshal(plain(o.withDefaults()))
}

// Validate names the first setting that cannot be used, its value and what is allowed.
func (o Objective) Validate() error {
	o = o.withDefaults()
	err := firstError(
		oneOf("Objective.Surrogate", o.Surrogate, PPO, CISPO, Reinforce),
		inRange("Objective.ClipLow", o.ClipLow, 0, 1),
		inRange("Objective.ClipHigh", o.ClipHigh, 0, math.MaxFloat64),
		inRange("Objective.DualClip", o.DualClip, 0, math.MaxFloat64),
		oneOf("Objective.Ratio", o.Ratio, ByToken, BySequence),
		inRange("Objective.LogClamp", o.LogClamp, 0, math.MaxFloat64),
		oneOf("Objective.Aggregation", o.Aggregation, SeqMeanTokenMean, TokenMean, ConstantLength, SeqMeanTokenSum, TokenSum),
		inRange("Objective.KL.Coef", o.KL.Coef, 0, math.MaxFloat64),
		oneOf("Objective.KL.Estimator", o.KL.Estimator, K1, K2, K3, K3Clamped, K1StraightThrough, K3StraightThrough),
		inRange("Objective.Entropy", o.Entropy, -math.MaxFloat64, math.MaxFloat64),
		o.Correction.validate(),
	)
	switch {
	case err != nil:
		return err
	case o.DualClip != 0 && (o.DualClip <= 1 || o.Surrogate != PPO):
		return badSetting("Objective.DualClip", o.DualClip, "0 (off), or more than 1 with surrogate ppo")
	case o.Surrogate == Reinforce && (o.ClipLow != 0 || o.ClipHigh != 0):
		return badSetting("Objective.ClipLow and ClipHigh", []float64{o.ClipLow, o.ClipHigh}, "0 with surrogate reinforce, which has no ratio")
	case o.Aggregation == ConstantLength && o.Length < 1:
		return badSetting("Objective.Length", o.Length, "1 or more with aggregation constant")
	case o.Aggregation != ConstantLength && o.Length != 0:
		return badSetting("Objective.Length", o.Length, "0 unless the aggregation is constant")
	}
	return nil
}

// bounds are those of the clip.
func (o Objective) bounds() (low, high float64) {
	low, high = math.Inf(-1), math.Inf(1)
	if o.ClipLow != 0 {
		low = 1 - o.ClipLow
	}
	if o.ClipHigh != 0 {
		high = 1 + o.ClipHigh
	}
	return low, high
}

// LossInputs are the nodes of the loss of a (micro-)batch. All are [N,T] of one float dtype, Mask is [N,T] bool. Whatever
// stands where Mask is false influences neither value nor gradient, NaN included.
type LossInputs struct {
	New        *graph.Node // log-probs under the weights being updated; the gradient passes through them
	Old        *graph.Node // log-probs in the ratio's denominator; nil: New without gradient, so that the ratio is exactly 1
	Ref        *graph.Node // log-probs of the reference policy; may be nil if KL.Coef is 0
	Entropy    *graph.Node // entropy of each token's distribution; may be nil if the objective's Entropy is 0
	Mask       *graph.Node // Signal.Mask
	Advantages *graph.Node // Signal.Advantages
	Weights    *graph.Node // Signal.Weights; nil: 1
	Aggregate  *graph.Node // Signal.Aggregate
}

// Losses are scalars. Policy, KL and Entropy are aggregated without their coefficients; KL and Entropy are nil where Ref
// and Entropy were.
type Losses struct {
	Loss, Policy, KL, Entropy *graph.Node
}

// Loss builds the graph of the objective. It is a pure function: all randomness and all state are in its inputs.
func (o Objective) Loss(in LossInputs) Losses {
	o = o.withDefaults()
	if o.KL.Coef != 0 && in.Ref == nil || o.Entropy != 0 && in.Entropy == nil {
		panic("grpo: a KL term needs reference log-probs, an entropy bonus entropies")
	}
	sum := func(x *graph.Node) *graph.Node {
		return graph.ReduceAllSum(graph.Mul(in.scored(in.Aggregate), x))
	}
	out := Losses{Policy: sum(o.policyTerm(in))}
	out.Loss = out.Policy
	if in.Ref != nil {
		out.KL = sum(o.klTerm(in))
	}
	if o.KL.Coef != 0 {
		out.Loss = graph.Add(out.Loss, graph.MulScalar(out.KL, o.KL.Coef))
	}
	if in.Entropy != nil {
		out.Entropy = sum(in.scored(in.Entropy))
	}
	if o.Entropy != 0 {
		out.Loss = graph.Sub(out.Loss, graph.MulScalar(out.Entropy, o.Entropy))
	}
	return out
}

// scored is x where Mask is true and 0 elsewhere. It selects: a product with 0 would keep NaN.
func (in LossInputs) scored(x *graph.Node) *graph.Node {
	return graph.Where(in.Mask, x, graph.ZerosLike(x))
}

func (in LossInputs) logRatio() *graph.Node {
	old := in.Old
	if old == nil {
		old = graph.StopGradient(in.New)
	}
	return in.scored(graph.Sub(in.New, old))
}

// policyTerm is the weighted surrogate of each token, 0 where Mask is false.
func (o Objective) policyTerm(in LossInputs) *graph.Node {
	term := surrogates[o.Surrogate](o, o.ratio(in), in.scored(in.Advantages), in.scored(in.New))
	if in.Weights != nil {
		term = graph.Mul(in.scored(in.Weights), term)
	}
	return in.scored(term)
}

// ratio is new/old probability of each token, or of each row (the geometric mean of its tokens) repeated along it.
func (o Objective) ratio(in LossInputs) *graph.Node {
	lr := in.logRatio()
	if o.LogClamp != 0 {
		outside := graph.GreaterThan(graph.Abs(lr), graph.ConstAs(lr, o.LogClamp))
		lr = graph.Where(outside, graph.StopGradient(graph.ClipScalar(lr, -o.LogClamp, o.LogClamp)), lr)
	}
	if o.Ratio == BySequence {
		n := graph.ReduceAndKeep(graph.ConvertDType(in.Mask, lr.DType()), graph.ReduceSum, -1)
		mean := graph.Div(graph.ReduceAndKeep(lr, graph.ReduceSum, -1), graph.MaxScalar(n, 1))
		lr = graph.BroadcastToShape(mean, lr.Shape())
	}
	return graph.Exp(lr)
}

// clip passes NaN on (Min and Max need not) and has no gradient.
func (o Objective) clip(ratio *graph.Node) *graph.Node {
	low, high := o.bounds()
	x := ratio
	if o.ClipLow != 0 {
		x = graph.Where(graph.LessThan(ratio, graph.ConstAs(ratio, low)), graph.FillScalar(x.Graph(), x.Shape(), low), x)
	}
	if o.ClipHigh != 0 {
		x = graph.Where(graph.GreaterThan(ratio, graph.ConstAs(ratio, high)), graph.FillScalar(x.Graph(), x.Shape(), high), x)
	}
	return graph.StopGradient(x)
}

var surrogates = map[Surrogate]func(o Objective, ratio, adv, logp *graph.Node) *graph.Node{
	PPO: func(o Objective, ratio, adv, _ *graph.Node) *graph.Node {
		loss, clipped := graph.Neg(graph.Mul(ratio, adv)), graph.Neg(graph.Mul(o.clip(ratio), adv))
		loss = graph.Where(graph.LessThan(loss, clipped), clipped, loss) // equal: inside the bounds, the gradient passes
		if o.DualClip != 0 {
			bound := graph.MulScalar(adv, -o.DualClip)
			hit := graph.LogicalAnd(graph.LessThan(adv, graph.ScalarZero(adv.Graph(), adv.DType())), graph.GreaterThan(loss, bound))
			loss = graph.Where(hit, bound, loss)
		}
		return loss
	},
	CISPO: func(o Objective, ratio, adv, logp *graph.Node) *graph.Node {
		return graph.Neg(graph.Mul(graph.Mul(o.clip(ratio), adv), logp))
	},
	Reinforce: func(_ Objective, _, adv, logp *graph.Node) *graph.Node {
		return graph.Neg(graph.Mul(adv, logp))
	},
}

// klTerm is the estimate of each token, 0 where Mask is false.
func (o Objective) klTerm(in LossInputs) *graph.Node {
	kl := estimators[o.KL.Estimator](in.scored(graph.Sub(in.New, in.Ref)))
	if o.KL.Weighted {
		kl = graph.Mul(graph.Exp(in.logRatio()), kl)
	}
	return in.scored(kl)
}

var estimators = map[KLEstimator]func(d *graph.Node) *graph.Node{
	K1:                func(d *graph.Node) *graph.Node { return d },
	K2:                k2,
	K3:                k3,
	K3Clamped:         k3Clamped,
	K1StraightThrough: func(d *graph.Node) *graph.Node { return straightThrough(d, k2(d)) },
	K3StraightThrough: func(d *graph.Node) *graph.Node { return straightThrough(k3(d), k2(d)) },
}

func k2(d *graph.Node) *graph.Node { return graph.MulScalar(graph.Square(d), 0.5) }

func k3(d *graph.Node) *graph.Node {
	return graph.Add(graph.MinusOne(graph.Exp(graph.Neg(d))), d)
}

// k3Clamped is 10 wherever it is clamped: at |d| = 20 the value is above 10 on both sides.
func k3Clamped(d *graph.Node) *graph.Node {
	limit := func(x *graph.Node, bound float64) *graph.Node { return graph.GreaterThan(x, graph.ConstAs(x, bound)) }
	far := limit(graph.Abs(d), 20)
	value := k3(graph.Where(far, graph.ZerosLike(d), d)) // exp must not overflow: its gradient would be NaN
	return graph.Where(graph.LogicalOr(far, limit(value, 10)), graph.FillScalar(d.Graph(), d.Shape(), 10), value)
}

func straightThrough(value, gradient *graph.Node) *graph.Node {
	return graph.Add(gradient, graph.StopGradient(graph.Sub(value, gradient)))
}
