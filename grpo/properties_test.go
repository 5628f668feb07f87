package grpo

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/internal/testbackend"
)

var (
	allBaselines    = []Baseline{GroupMean, LeaveOneOut, BatchMean, NoBaseline}
	allScales       = []Scale{GroupStd, BatchStd, NoScale}
	allAggregations = []Aggregation{SeqMeanTokenMean, TokenMean, ConstantLength, SeqMeanTokenSum, TokenSum}
	allEstimators   = []KLEstimator{K1, K2, K3, K3Clamped, K1StraightThrough, K3StraightThrough}
)

// drawObjective draws any objective that Validate allows, with a KL term and an entropy bonus.
func drawObjective(t *rapid.T) Objective {
	o := Objective{
		Surrogate:   rapid.SampledFrom([]Surrogate{PPO, CISPO, Reinforce}).Draw(t, "surrogate"),
		Ratio:       rapid.SampledFrom([]Level{ByToken, BySequence}).Draw(t, "ratio"),
		LogClamp:    rapid.SampledFrom([]float64{0, 0.3}).Draw(t, "log clamp"),
		Aggregation: rapid.SampledFrom(allAggregations).Draw(t, "aggregation"),
		SkipEmpty:   rapid.Bool().Draw(t, "skip empty"),
		KL: KL{Coef: 0.1, Estimator: rapid.SampledFrom(allEstimators).Draw(t, "estimator"),
			Weighted: rapid.Bool().Draw(t, "weighted")},
		Entropy: 0.01,
		Correction: Correction{
			Weights: ImportanceWeights{
				Mode:  rapid.SampledFrom([]WeightMode{NoWeights, TruncateWeights, ClipWeights, MaskWeights, RawWeights}).Draw(t, "weights"),
				Level: rapid.SampledFrom([]Level{ByToken, BySequence, ByGeometricMean}).Draw(t, "weight level"),
				Low:   0.8, High: 1.3, Normalize: rapid.Bool().Draw(t, "normalize"),
			},
			Rejection: Rejection{
				Level: rapid.SampledFrom([]Level{"", ByToken, BySequence, ByGeometricMean}).Draw(t, "rejection"),
				Low:   0.7, High: 1.5, Shrink: rapid.Bool().Draw(t, "shrink"),
			},
		},
	}
	if o.Surrogate != Reinforce {
		o.ClipLow, o.ClipHigh = 0.2, rapid.SampledFrom([]float64{0, 0.28}).Draw(t, "clip high")
	}
	if o.Surrogate == PPO {
		o.DualClip = rapid.SampledFrom([]float64{0, 1.5}).Draw(t, "dual clip")
	}
	if o.Aggregation == ConstantLength {
		o.Length = 9
	}
	return o
}

// drawRows draws a rectangular batch with holes in its mask, empty rows, skipped rows and unscorable rewards.
func drawRows(t *rapid.T, n, width int) (r Rows, newLogProbs, entropy [][]float64) {
	matrix := func(name string, low, high float64) [][]float64 {
		x := make([][]float64, n)
		for i := range x {
			x[i] = rapid.SliceOfN(rapid.Float64Range(low, high), width, width).Draw(t, name)
		}
		return x
	}
	r.Old = matrix("old", -3, 0)
	near := func(name string) [][]float64 {
		x := matrix(name, -0.6, 0.6)
		for i := range x {
			for k := range x[i] {
				x[i][k] += r.Old[i][k]
			}
		}
		return x
	}
	r.Behaviour, r.Ref = near("behaviour"), near("ref")
	for range n {
		r.Rewards = append(r.Rewards, rapid.SampledFrom([]float64{0, 1, 0.5, math.NaN()}).Draw(t, "reward"))
		r.Groups = append(r.Groups, rapid.IntRange(0, 2).Draw(t, "group"))
		r.Skip = append(r.Skip, rapid.IntRange(0, 3).Draw(t, "skip") == 0)
		r.Mask = append(r.Mask, rapid.SliceOfN(rapid.Bool(), width, width).Draw(t, "mask"))
	}
	return r, near("new"), matrix("entropy", 0, 2)
}

func drawBatch(t *rapid.T, n, width int) lossBatch {
	obj := drawObjective(t)
	r, newLogProbs, entropy := drawRows(t, n, width)
	s, err := Prepare(Advantage{}, obj, r)
	if err != nil {
		t.Fatal(err)
	}
	return lossBatch{obj: obj, signal: s, new: newLogProbs, old: r.Old, ref: r.Ref, entropy: entropy}
}

// A group in which every completion got the same reward teaches nothing; rounding noise divided by its own std would.
func TestEqualRewardsHaveNoAdvantage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		adv := Advantage{
			Baseline: rapid.SampledFrom(allBaselines).Draw(t, "baseline"), Scale: rapid.SampledFrom(allScales).Draw(t, "scale"),
			Biased: rapid.Bool().Draw(t, "biased"), Eps: rapid.SampledFrom([]float64{0, 1e-12}).Draw(t, "eps"),
		}
		reward := rapid.Float64Range(-2, 2).Draw(t, "reward")
		equal := rapid.IntRange(1, 9).Draw(t, "equal rows")
		rewards, groups := []float64{3, -1, 0.5}, []int{7, 7, 7}
		for range equal {
			rewards, groups = append(rewards, reward), append(groups, 1)
		}
		got, err := adv.Sequence(rewards, groups)
		if err != nil {
			t.Fatal(err)
		}
		inGroup := adv.Baseline == GroupMean || adv.Baseline == LeaveOneOut || adv.Scale == GroupStd
		for i := range equal {
			if inGroup && got[3+i] != 0 {
				t.Fatalf("advantage %v", got[3+i])
			}
		}
		if got[0] == 0 {
			t.Fatal("the other group has lost its advantages")
		}
	})
}

// The order in which engines finish must not change what is learnt from a completion.
func TestPermutationOfRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		obj := drawObjective(t)
		r, _, _ := drawRows(t, 6, 4)
		adv := Advantage{Baseline: rapid.SampledFrom(allBaselines).Draw(t, "baseline"), Scale: rapid.SampledFrom(allScales).Draw(t, "scale"),
			TokenLevel: rapid.SampledFrom([]TokenLevel{Broadcast, Whiten, ReinforcePP}).Draw(t, "token level"), KLCoef: 0.1}
		order := rapid.Permutation([]int{0, 1, 2, 3, 4, 5}).Draw(t, "order")
		p := Rows{Mask: pick(r.Mask, order), Old: pick(r.Old, order), Behaviour: pick(r.Behaviour, order), Ref: pick(r.Ref, order)}
		for _, i := range order {
			p.Rewards, p.Groups, p.Skip = append(p.Rewards, r.Rewards[i]), append(p.Groups, r.Groups[i]), append(p.Skip, r.Skip[i])
		}
		a, err := Prepare(adv, obj, r)
		b, err2 := Prepare(adv, obj, p)
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		same := func(what string, want, got [][]float64) {
			for i := range want {
				for k := range want[i] {
					if math.Abs(want[i][k]-got[i][k]) > 1e-12*max(1, math.Abs(want[i][k])) {
						t.Fatalf("%s[%d][%d]: %v and %v", what, i, k, want[i][k], got[i][k])
					}
				}
			}
		}
		same("advantages", pick(a.Advantages, order), b.Advantages)
		same("weights", pick(a.Weights, order), b.Weights)
		same("aggregation", pick(a.Aggregate, order), b.Aggregate)
	})
}

// Micro-batches are a matter of memory: their losses and gradients must add up to those of the batch, for every objective.
func TestMicroBatchesAddUp(t *testing.T) {
	b := testbackend.Go(t)
	rapid.Check(t, func(rt *rapid.T) {
		batch := drawBatch(rt, 5, 3)
		cut := rapid.IntRange(1, 4).Draw(rt, "cut")
		rows := []int{0, 1, 2, 3, 4}
		whole := batch.run(t, b, dtypes.Float64)
		first, second := batch.take(rows[:cut]).run(t, b, dtypes.Float64), batch.take(rows[cut:]).run(t, b, dtypes.Float64)
		near(t, "loss", whole.loss, first.loss+second.loss, 1e-12)
		nearRows(t, "gradient", whole.gradNew, append(first.gradNew, second.gradNew...), 1e-12)
		nearRows(t, "entropy gradient", whole.gradEntropy, append(first.gradEntropy, second.gradEntropy...), 1e-12)
	})
}

// Padding and tool output stand in the same arrays as scored tokens: nothing there may reach loss or gradient.
func TestMaskedGarbage(t *testing.T) {
	b := testbackend.Go(t)
	rapid.Check(t, func(rt *rapid.T) {
		batch := drawBatch(rt, 4, 3)
		clean := batch.run(t, b, dtypes.Float32)
		dirty := batch.withGarbage(math.NaN(), math.Inf(1), math.Inf(-1), 1e30, -1e30).run(t, b, dtypes.Float32)
		require.Equal(t, clean, dirty)
		for i, row := range batch.signal.Mask {
			for k, scored := range row {
				if !scored {
					require.Zero(t, dirty.gradNew[i][k])
					require.Zero(t, dirty.gradEntropy[i][k])
				}
			}
		}
	})
}

// Gradients are those of the value, except where the objective says otherwise: central differences in float64 know nothing
// of the formulae.
func TestGradientsByDifferences(t *testing.T) {
	b := testbackend.Go(t)
	rapid.Check(t, func(rt *rapid.T) {
		batch := drawBatch(rt, 2, 2)
		switch {
		case batch.obj.KL.Estimator == K1StraightThrough, batch.obj.KL.Estimator == K3StraightThrough:
			rt.Skip("the gradient is not that of the value, by design")
		case batch.obj.Surrogate == CISPO:
			rt.Skip("the ratio has no gradient, by design")
		}
		const h = 1e-6
		got := batch.run(t, b, dtypes.Float64)
		i, k := rapid.IntRange(0, 1).Draw(rt, "row"), rapid.IntRange(0, 1).Draw(rt, "token")
		at := func(x float64) float64 {
			moved := batch
			moved.new = [][]float64{append([]float64(nil), batch.new[0]...), append([]float64(nil), batch.new[1]...)}
			moved.new[i][k] += x
			return moved.run(t, b, dtypes.Float64).loss
		}
		left, here, right := at(-h), got.loss, at(h)
		if math.Abs((right-here)-(here-left)) > 1e-10 {
			rt.Skip("a clip's corner lies between the points")
		}
		want := (right - left) / (2 * h)
		require.InDelta(t, want, got.gradNew[i][k], 1e-6*max(1, math.Abs(want)), "gradient [%d][%d]", i, k)
	})
}

// A NaN in a scored token has to come out as NaN, so that the trainer stops: comparisons with NaN are false, and a clip
// or a clamp written the wrong way round would quietly replace it by a bound.
func TestScoredNaNIsNotRepaired(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		objectives := []Objective{
			{ClipLow: 0.2, ClipHigh: 0.28, DualClip: 3, LogClamp: 20},
			{ClipLow: 0.2, ClipHigh: 0.28, LogClamp: 20, Ratio: BySequence},
			{Surrogate: CISPO, ClipHigh: 4, LogClamp: 20},
		}
		for _, estimator := range allEstimators {
			objectives = append(objectives, Objective{Surrogate: Reinforce, KL: KL{Coef: 0.1, Estimator: estimator}})
		}
		for _, obj := range objectives {
			for _, spoiled := range []string{"new", "old", "ref"} {
				if (spoiled == "ref") != (obj.KL.Coef != 0) && spoiled != "new" {
					continue // not an input of this objective
				}
				one := func(x float64) [][]float64 { return [][]float64{{x, -1}} }
				batch := lossBatch{obj: obj, new: one(-1), old: one(-1), signal: Signal{
					Mask: [][]bool{{true, true}}, Advantages: [][]float64{{-1, -1}}, Aggregate: [][]float64{{1, 1}},
				}}
				if obj.KL.Coef != 0 {
					batch.ref = one(-1)
				}
				switch spoiled {
				case "new":
					batch.new = one(math.NaN())
				case "old":
					batch.old = one(math.NaN())
				case "ref":
					batch.ref = one(math.NaN())
				}
				got := batch.run(t, b, dtypes.Float32)
				require.True(t, math.IsNaN(got.loss), "%s is NaN, loss is %v with %+v", spoiled, got.loss, obj)
			}
		}
	})
}

// A token that the reference policy finds e^100 times as likely as the policy must cost 10 and pull at nothing; unclamped
// its exponential overflows, and 0 times that is NaN.
func TestClampsSurviveOverflow(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		batch := lossBatch{
			obj: Objective{ClipLow: 0.2, ClipHigh: 0.28, DualClip: 3, LogClamp: 20, KL: KL{Coef: 1, Estimator: K3Clamped}},
			new: [][]float64{{-100, -1}}, old: [][]float64{{-1, -100}}, ref: [][]float64{{-1, -100}},
			signal: Signal{Mask: [][]bool{{true, true}}, Advantages: [][]float64{{1, -1}}, Aggregate: [][]float64{{1, 1}}},
		}
		got := batch.run(t, b, dtypes.Float32)
		nearRows(t, "KL", [][]float64{{10, 10}}, got.klTerms, tolerance32)
		nearRows(t, "policy loss", [][]float64{{-math.Exp(-20), 3}}, got.terms, tolerance32)
		require.Equal(t, [][]float64{{0, 0}}, got.gradNew)
	})
}

// Reports of importance weights are about the tokens that are trained on: a rejected token's weight is not their extreme.
func TestStatsOfShrinkingRejection(t *testing.T) {
	obj := Objective{Correction: Correction{
		Weights:   ImportanceWeights{Mode: TruncateWeights, High: 2},
		Rejection: Rejection{Level: ByToken, Low: 0.5, High: 3, Shrink: true},
	}}
	logs := func(x ...float64) [][]float64 {
		for i := range x {
			x[i] = math.Log(x[i])
		}
		return [][]float64{x}
	}
	old, behaviour := logs(0.1, 0.4, 0.5, 0.9), logs(0.5, 0.4, 0.2, 0.1) // ratios 0.2, 1, 2.5, 9
	s, err := Prepare(Advantage{}, obj, Rows{Rewards: []float64{1}, Groups: []int{0}, Mask: [][]bool{{true, true, true, true}}, Old: old, Behaviour: behaviour})
	require.NoError(t, err)
	require.Equal(t, [][]float64{{0, 0.5, 0.5, 0}}, s.Aggregate, "the denominator is the two tokens that are left")
	stats, err := obj.Stats(s, old, nil)
	require.NoError(t, err)
	near(t, "least weight", 1, stats.WeightMin, 1e-12)
	near(t, "greatest weight", 2, stats.WeightMax, 1e-12)
	near(t, "mean weight", (0.2+1+2+2)/4, stats.WeightMean, 1e-12)
	near(t, "rejected", 0.5, stats.RejectedFrac, 1e-12)
	near(t, "changed", 0.5, stats.WeightChangedFrac, 1e-12)
}

// A setting that cannot work has to be refused before the run, by name.
func TestObjectiveValidate(t *testing.T) {
	for want, validate := range map[string]func() error{
		`Advantage.Baseline is "mean", allowed: ["group_mean"`: Advantage{Baseline: "mean"}.Validate,
		`Advantage.Scale is "std"`:                             Advantage{Scale: "std"}.Validate,
		`Advantage.Eps is -1`:                                  Advantage{Eps: -1}.Validate,
		`Advantage.TokenLevel is "all"`:                        Advantage{TokenLevel: "all"}.Validate,
		`Advantage.Gamma is 2`:                                 Advantage{Gamma: 2}.Validate,
		`Objective.Surrogate is "trpo"`:                        Objective{Surrogate: "trpo"}.Validate,
		`Objective.ClipLow is 1.5`:                             Objective{ClipLow: 1.5}.Validate,
		`Objective.ClipHigh is NaN`:                            Objective{ClipHigh: math.NaN()}.Validate,
		`Objective.DualClip is 1,`:                             Objective{DualClip: 1}.Validate,
		`Objective.DualClip is 3,`:                             Objective{Surrogate: CISPO, DualClip: 3}.Validate,
		`Objective.ClipLow and ClipHigh is [0.2 0]`:            Objective{Surrogate: Reinforce, ClipLow: 0.2}.Validate,
		`Objective.Ratio is "geometric"`:                       Objective{Ratio: ByGeometricMean}.Validate,
		`Objective.Aggregation is "mean"`:                      Objective{Aggregation: "mean"}.Validate,
		`Objective.Length is 0`:                                Objective{Aggregation: ConstantLength}.Validate,
		`Objective.Length is 8`:                                Objective{Length: 8}.Validate,
		`Objective.KL.Coef is -1`:                              Objective{KL: KL{Coef: -1}}.Validate,
		`Objective.KL.Estimator is "k4"`:                       Objective{KL: KL{Estimator: "k4"}}.Validate,
		`Correction.Weights.Mode is "tis"`:                     Objective{Correction: Correction{Weights: ImportanceWeights{Mode: "tis"}}}.Validate,
		`Correction.Weights.High is 0`:                         Objective{Correction: Correction{Weights: ImportanceWeights{Mode: TruncateWeights}}}.Validate,
		`Correction.Weights.Low is 3`:                          Objective{Correction: Correction{Weights: ImportanceWeights{Mode: ClipWeights, Low: 3, High: 2}}}.Validate,
		`Correction.Rejection.High is 0`:                       Objective{Correction: Correction{Rejection: Rejection{Level: ByToken}}}.Validate,
		`Shaping.Truncated is "drop"`:                          Shaping{Truncated: "drop"}.Validate,
		`Shaping.Overlong.MaxLen is 5`:                         Shaping{Overlong: Overlong{MaxLen: 5, Buffer: 6}}.Validate,
		`Filter.MinStd is -1`:                                  Filter{MinStd: -1}.Validate,
		`Filter.MeanLow is 1`:                                  Filter{MeanLow: 1, MeanHigh: 0.5}.Validate,
	} {
		require.ErrorContains(t, validate(), want)
	}
	for i, validate := range []func() error{
		Advantage{}.Validate, Objective{}.Validate, Shaping{}.Validate, Filter{}.Validate,
		Objective{ClipLow: 0.2, ClipHigh: 0.28, DualClip: 3, Aggregation: TokenMean}.Validate,
	} {
		require.NoError(t, validate(), fmt.Sprint(i))
	}
}

// A broken batch must be an error that says where, not a silent NaN in the weights.
func TestPrepareErrors(t *testing.T) {
	corrected := Objective{Correction: Correction{Weights: ImportanceWeights{Mode: RawWeights}}}
	good := func() Rows {
		return Rows{Rewards: []float64{0, 1}, Groups: []int{0, 0}, Mask: [][]bool{{true, false}, {true}},
			Old: [][]float64{{-1, math.NaN()}, {-1}}, Behaviour: [][]float64{{-1, 0}, {-1}}}
	}
	_, err := Prepare(Advantage{}, corrected, good())
	require.NoError(t, err, "a NaN that is not scored does not matter")
	for want, spoil := range map[string]func(*Rows){
		"a batch without rows":                             func(r *Rows) { *r = Rows{} },
		"1 rewards for 2 rows":                             func(r *Rows) { r.Rewards = r.Rewards[:1] },
		"3 group ids for 2 rows":                           func(r *Rows) { r.Groups = []int{0, 0, 0} },
		"1 skip marks for 2 rows":                          func(r *Rows) { r.Skip = []bool{true} },
		"the reward of row 1 is +Inf":                      func(r *Rows) { r.Rewards[1] = math.Inf(1) },
		"old log-probs of 0 rows, want 2":                  func(r *Rows) { r.Old = nil },
		"2 behaviour log-probs in row 1, want 1":           func(r *Rows) { r.Behaviour[1] = []float64{-1, -1} },
		"the behaviour log-prob of row 0, token 0 is -Inf": func(r *Rows) { r.Behaviour[0][0] = math.Inf(-1) },
	} {
		r := good()
		spoil(&r)
		_, err := Prepare(Advantage{}, corrected, r)
		require.ErrorContains(t, err, want)
	}
	_, err = Prepare(Advantage{TokenLevel: ReinforcePP, KLCoef: 0.1}, Objective{}, Rows{Rewards: []float64{1}, Mask: [][]bool{{true}}, Old: [][]float64{{0}}})
	require.ErrorContains(t, err, "reference log-probs of 0 rows")
}
