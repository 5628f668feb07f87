package grpo

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/golden"
)

// goldenObjective is a file of testdata/golden/grpo/objective; the README beside it has formulae and tolerances.
type goldenObjective struct {
	Kind, Name string
	Config     json.RawMessage
	Inputs     struct {
		GroupIDs      []any         `json:"group_ids"`
		Rewards       []*float64    `json:"rewards"`
		Mask          [][]int       `json:"mask"`
		Truncated     []int         `json:"truncated"`
		New           [][]float64   `json:"logp_new"`
		Old           [][]float64   `json:"logp_old"`
		Behaviour     [][]float64   `json:"logp_behaviour"`
		Ref           [][]float64   `json:"logp_ref"`
		Entropy       [][]float64   `json:"entropy"`
		MicroBatches  [][]int       `json:"micro_batches"`
		Lengths       []int         `json:"lengths"`
		Logits        [][][]float64 `json:"logits"`
		Tokens        [][]int32     `json:"tokens"`
		TemperatureIn float64       `json:"temperature"`
	}
	Outputs json.RawMessage
}

type goldenOutputs struct {
	Advantages      []float64          `json:"advantages"`
	TokenAdvantages [][]float64        `json:"token_advantages"`
	Ratio           [][]float64        `json:"ratio"`
	Weights         [][]float64        `json:"is_weight"`
	TokenPolicyLoss [][]float64        `json:"token_policy_loss"`
	TokenKL         [][]float64        `json:"token_kl"`
	Aggregate       [][]float64        `json:"agg_weights"`
	Loss            float64            `json:"loss"`
	PolicyLoss      float64            `json:"policy_loss"`
	KLLoss          *float64           `json:"kl_loss"`
	Entropy         *float64           `json:"entropy"`
	GradNew         [][]float64        `json:"grad_logp_new"`
	GradEntropy     [][]float64        `json:"grad_entropy"`
	MicroLosses     []float64          `json:"micro_losses"`
	Stats           map[string]float64 `json:"stats"`
	LogProbs        [][]float64        `json:"logp_new"`
	TokenEntropy    [][]float64        `json:"token_entropy"`
	GradLogits      [][][]float64      `json:"grad_logits"`
}

type goldenAdvantage struct {
	Baseline   Baseline
	Scale      Scale
	Ddof       *int
	Eps        float64
	TokenLevel TokenLevel `json:"token_level"`
	KLCoef     float64    `json:"kl_coef"`
	Gamma      float64
}

func (c goldenAdvantage) build() Advantage {
	a := Advantage{Baseline: c.Baseline, Scale: c.Scale, Biased: c.Ddof != nil && *c.Ddof == 0, Eps: c.Eps,
		TokenLevel: c.TokenLevel, KLCoef: c.KLCoef, Gamma: c.Gamma}
	if a.Eps == 0 {
		a.Eps = math.SmallestNonzeroFloat64 // 0 would mean the default
	}
	return a
}

type goldenConfig struct {
	Advantage goldenAdvantage
	Ratio     struct {
		Level       Level
		Denominator string
		LogClamp    float64 `json:"log_clamp"`
	}
	Surrogate struct {
		Type     Surrogate
		ClipLow  float64 `json:"clip_low"`
		ClipHigh float64 `json:"clip_high"`
		DualClip float64 `json:"dual_clip"`
	}
	Aggregation struct {
		Mode       Aggregation
		Length     int
		CountEmpty *bool `json:"count_empty"`
	}
	KL struct {
		Coef       float64
		Estimator  KLEstimator
		IsWeighted bool `json:"is_weighted"`
	}
	Entropy    struct{ Coef float64 }
	Correction struct {
		Weights struct {
			Mode           WeightMode
			Level          Level
			Low, High      float64
			BatchNormalize bool `json:"batch_normalize"`
		}
		Rejection struct {
			Level       Level
			Low, High   float64
			Denominator string
		}
	}
	MaskTruncated bool `json:"mask_truncated"`
}

func (c goldenConfig) build() Objective {
	w, r := c.Correction.Weights, c.Correction.Rejection
	return Objective{
		Surrogate: c.Surrogate.Type, ClipLow: c.Surrogate.ClipLow, ClipHigh: c.Surrogate.ClipHigh, DualClip: c.Surrogate.DualClip,
		Ratio: c.Ratio.Level, LogClamp: c.Ratio.LogClamp,
		Aggregation: c.Aggregation.Mode, Length: c.Aggregation.Length,
		SkipEmpty: c.Aggregation.CountEmpty != nil && !*c.Aggregation.CountEmpty,
		KL:        KL{Coef: c.KL.Coef, Estimator: c.KL.Estimator, Weighted: c.KL.IsWeighted},
		Entropy:   c.Entropy.Coef,
		Correction: Correction{
			Weights:   ImportanceWeights{Mode: w.Mode, Level: w.Level, Low: w.Low, High: w.High, Normalize: w.BatchNormalize},
			Rejection: Rejection{Level: r.Level, Low: r.Low, High: r.High, Shrink: r.Denominator == "shrink"},
		},
	}
}

func (c goldenObjective) rows(maskTruncated bool) Rows {
	in := c.Inputs
	r := Rows{Groups: make([]int, len(in.GroupIDs)), Old: in.Old, Behaviour: in.Behaviour, Ref: in.Ref}
	ids := map[any]int{}
	for i, id := range in.GroupIDs {
		if _, seen := ids[id]; !seen {
			ids[id] = len(ids)
		}
		r.Groups[i] = ids[id]
	}
	for _, x := range in.Rewards {
		if x == nil {
			r.Rewards = append(r.Rewards, math.NaN())
		} else {
			r.Rewards = append(r.Rewards, *x)
		}
	}
	for _, row := range in.Mask {
		mask := make([]bool, len(row))
		for t, m := range row {
			mask[t] = m != 0
		}
		r.Mask = append(r.Mask, mask)
	}
	if maskTruncated {
		for _, x := range in.Truncated {
			r.Skip = append(r.Skip, x != 0)
		}
	}
	return r
}

// A user compares runs with those of TRL, verl and others by these formulae: every term has to be theirs.
func TestGoldenObjective(t *testing.T) {
	kinds := map[string]func(*testing.T, goldenObjective){
		"advantage": testGoldenAdvantage, "loss": testGoldenLoss, "logits": testGoldenLogits,
		"shaping": testGoldenShaping, "filter": testGoldenFilter,
	}
	ran, seen := map[string]int{}, map[string]bool{}
	for _, path := range golden.Glob(t, "grpo/objective/*.json") {
		data := golden.Read(t, path)
		if seen[string(data)] { // the repository's selection stands in $GROUPER_GOLDEN too
			continue
		}
		seen[string(data)] = true
		var c goldenObjective
		require.NoError(t, json.Unmarshal(data, &c), path)
		require.Contains(t, kinds, c.Kind, path)
		ran[c.Kind]++
		t.Run(golden.Name(t, path), func(t *testing.T) { kinds[c.Kind](t, c) })
	}
	t.Logf("cases: %v", ran)
}

func (c goldenObjective) decode(t *testing.T, config, outputs any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(c.Config, config))
	require.NoError(t, json.Unmarshal(c.Outputs, outputs))
}

// The README's tolerances.
const tolerance32, tolerance64 = 1e-5, 1e-10

func near(t *testing.T, what string, want, got, tolerance float64) {
	t.Helper()
	require.InDelta(t, want, got, tolerance*max(1, math.Abs(want)), what)
}

func nearRows(t *testing.T, what string, want, got [][]float64, tolerance float64) {
	t.Helper()
	require.Len(t, got, len(want), what)
	for i := range want {
		require.Len(t, got[i], len(want[i]), what)
		for k := range want[i] {
			if math.Abs(got[i][k]-want[i][k]) <= tolerance*max(1, math.Abs(want[i][k])) {
				continue
			}
			t.Fatalf("%s[%d][%d]: got %v, want %v", what, i, k, got[i][k], want[i][k])
		}
	}
}

// nearGradients measures errors by the largest gradient of the case.
func nearGradients(t *testing.T, what string, want, got [][]float64, tolerance float64) {
	t.Helper()
	largest := 0.0
	for _, row := range want {
		for _, g := range row {
			largest = max(largest, math.Abs(g))
		}
	}
	for i := range want {
		for k := range want[i] {
			require.InDelta(t, want[i][k], got[i][k], tolerance*largest, "%s[%d][%d]", what, i, k)
		}
	}
}

func testGoldenAdvantage(t *testing.T, c goldenObjective) {
	var config goldenAdvantage
	var want goldenOutputs
	c.decode(t, &config, &want)
	adv, r := config.build(), c.rows(false)
	require.NoError(t, adv.Validate())
	if want.Advantages != nil {
		got, err := adv.Sequence(r.Rewards, r.Groups)
		require.NoError(t, err)
		for i, w := range want.Advantages {
			near(t, fmt.Sprintf("advantage %d", i), w, got[i], tolerance64)
			require.Equal(t, w == 0, got[i] == 0, "advantage %d is exactly 0: %v", i, got[i])
		}
	}
	if want.TokenAdvantages != nil {
		got, err := adv.tokens(r)
		require.NoError(t, err)
		nearRows(t, "token advantages", want.TokenAdvantages, got, tolerance64)
	}
}

func testGoldenShaping(t *testing.T, c goldenObjective) {
	var config struct {
		Truncated struct {
			Rule  TruncatedRule
			Value float64
		}
		Overlong struct {
			MaxLen int `json:"max_len"`
			Buffer int
			Factor float64
		}
	}
	var want struct{ Rewards []*float64 }
	c.decode(t, &config, &want)
	shaping := Shaping{
		Truncated: config.Truncated.Rule, Value: config.Truncated.Value,
		Overlong: Overlong{MaxLen: config.Overlong.MaxLen, Buffer: config.Overlong.Buffer, Factor: config.Overlong.Factor},
	}
	require.NoError(t, shaping.Validate())
	truncated := make([]bool, len(c.Inputs.Lengths))
	for i, x := range c.Inputs.Truncated {
		truncated[i] = x != 0
	}
	got := shaping.Apply(c.rows(false).Rewards, c.Inputs.Lengths, truncated)
	for i, w := range want.Rewards {
		if w == nil {
			require.True(t, math.IsNaN(got[i]), "reward %d stays unscorable", i)
		} else {
			near(t, fmt.Sprintf("reward %d", i), *w, got[i], tolerance64)
		}
	}
}

func testGoldenFilter(t *testing.T, c goldenObjective) {
	var config struct {
		MinStd    float64   `json:"min_std"`
		MeanRange []float64 `json:"mean_range"`
	}
	var want struct {
		Keep     []bool
		KeptRows []int    `json:"kept_rows"`
		ZeroStd  *float64 `json:"frac_zero_std"`
		AllLow   float64  `json:"frac_all_low"`
		AllHigh  float64  `json:"frac_all_high"`
	}
	c.decode(t, &config, &want)
	filter := Filter{MinStd: config.MinStd}
	if config.MeanRange != nil {
		filter.MeanLow, filter.MeanHigh = config.MeanRange[0], config.MeanRange[1]
	}
	require.NoError(t, filter.Validate())
	r := c.rows(false)
	got := filter.Apply(r.Rewards, r.Groups)
	require.Equal(t, want.Keep, got.Keep)
	require.ElementsMatch(t, want.KeptRows, got.Rows)
	near(t, "all low", want.AllLow, got.AllLow, tolerance64)
	near(t, "all high", want.AllHigh, got.AllHigh, tolerance64)
	if want.ZeroStd != nil {
		near(t, "zero std", *want.ZeroStd, got.ZeroStd, tolerance64)
	}
}
