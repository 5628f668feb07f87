package rollout_test

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/rollout"
)

// goldenCase is one file of grpo/sampling.
type goldenCase struct {
	Kind, Name string
	Config     struct {
		Order       rollout.Order
		Temperature float64
		TopK        int     `json:"top_k"`
		TopP        float64 `json:"top_p"`
		MinP        float64 `json:"min_p"`
	}
	Inputs  struct{ Logits []float64 }
	Outputs struct {
		Kept     []int
		Probs    []float64
		Filtered []*float64 `json:"logp_filtered"`
		Full     []float64  `json:"logp_unfiltered"`
		Raw      []float64  `json:"logp_raw"`
		Mass     float64    `json:"surviving_mass"`
		Picks    []struct {
			U        float64
			Token    int
			Filtered float64 `json:"logp_filtered"`
			Full     float64 `json:"logp_unfiltered"`
		}
	}
}

func (c goldenCase) sampling() rollout.Sampling {
	return rollout.Sampling{
		Temperature: c.Config.Temperature, TopK: c.Config.TopK, TopP: c.Config.TopP, MinP: c.Config.MinP,
		Order: c.Config.Order, MaxTokens: 1,
	}
}

// eachGolden runs f on every sampling case that is there.
func eachGolden(t *testing.T, f func(t *testing.T, c goldenCase)) {
	ran := 0
	for _, path := range golden.Glob(t, "grpo/sampling/*.json") {
		t.Run(golden.Name(t, path), func(t *testing.T) {
			var c goldenCase
			require.NoError(t, json.Unmarshal(golden.Read(t, path), &c))
			require.Equal(t, "sampling", c.Kind)
			f(t, c)
			ran++
		})
	}
	t.Logf("%d sampling cases", ran)
	require.NotZero(t, ran)
}

// The reference must say what other systems' filters do, ties included, or log-probs under the filtered distribution mean
// something else than a user who compares with them thinks.
func TestDistributionGolden(t *testing.T) {
	eachGolden(t, func(t *testing.T, c goldenCase) {
		const tol = 1e-10
		d, err := rollout.NewDistribution(c.Inputs.Logits, c.sampling())
		require.NoError(t, err)
		raw, err := rollout.NewDistribution(c.Inputs.Logits, rollout.Sampling{Temperature: 1})
		require.NoError(t, err)
		require.InDelta(t, c.Outputs.Mass, d.Mass, tol)
		kept := []int{}
		for i := range c.Inputs.Logits {
			if d.Probs[i] > 0 {
				kept = append(kept, i)
			}
			require.InDelta(t, c.Outputs.Probs[i], d.Probs[i], tol)
			require.InDelta(t, c.Outputs.Full[i], d.Full[i], tol)
			require.InDelta(t, c.Outputs.Raw[i], raw.Full[i], tol)
			if want := c.Outputs.Filtered[i]; want != nil {
				require.InDelta(t, *want, d.Filtered[i], tol)
			} else {
				require.True(t, math.IsInf(d.Filtered[i], -1))
			}
		}
		require.Equal(t, c.Outputs.Kept, kept)
		for _, p := range c.Outputs.Picks {
			require.Equal(t, p.Token, d.Pick(p.U), p.U)
			require.InDelta(t, p.Filtered, d.Filtered[p.Token], tol)
		}
	})
}

// A broken policy must not sample silently.
func TestDistributionErrors(t *testing.T) {
	ok := rollout.Sampling{Temperature: 1}
	for _, c := range []struct {
		logits []float64
		s      rollout.Sampling
		want   string
	}{
		{nil, ok, "no logits"},
		{[]float64{0, math.NaN()}, ok, "token 1 is NaN"},
		{[]float64{math.Inf(1)}, ok, "token 0 is +Inf"},
		{[]float64{0}, rollout.Sampling{Temperature: -1}, "Temperature is -1"},
		{[]float64{0}, rollout.Sampling{Temperature: 1, TopP: 1.5}, "TopP is 1.5"},
		{[]float64{0}, rollout.Sampling{Temperature: 1, MinP: math.NaN()}, "MinP is NaN"},
		{[]float64{0}, rollout.Sampling{Temperature: 1, TopK: -1}, "TopK is -1"},
		{[]float64{0}, rollout.Sampling{Temperature: 1, Order: "gguf"}, "Order is gguf"},
	} {
		_, err := rollout.NewDistribution(c.logits, c.s)
		require.ErrorContains(t, err, c.want)
	}
}

func ExampleNewDistribution() {
	logits := []float64{math.Log(.4), math.Log(.3), math.Log(.2), math.Log(.1)}
	for _, order := range []rollout.Order{rollout.HF, rollout.Joint} {
		d, err := rollout.NewDistribution(logits, rollout.Sampling{Temperature: 1, TopK: 2, TopP: .5, Order: order})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s: %.2f, u = 0.9 draws token %d\n", order, d.Probs, d.Pick(.9))
	}
	// Output:
	// hf: [1.00 0.00 0.00 0.00], u = 0.9 draws token 0
	// joint: [0.57 0.43 0.00 0.00], u = 0.9 draws token 1
}
