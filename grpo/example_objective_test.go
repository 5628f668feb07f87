package grpo_test

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/grouper-rl/grouper/grpo"
)

// Two groups of four: the second learns nothing, because all its rewards are equal, and the reward of row 3 is unknown.
func ExampleAdvantage_Sequence() {
	rewards := []float64{1, 0, 0, math.NaN(), 1, 1, 1, 1}
	groups := []int{0, 0, 0, 0, 1, 1, 1, 1}
	for _, adv := range []grpo.Advantage{
		{},                    // GRPO
		{Scale: grpo.NoScale}, // Dr. GRPO
		{Baseline: grpo.LeaveOneOut, Scale: grpo.NoScale}, // RLOO
	} {
		a, err := adv.Sequence(rewards, groups)
		fmt.Printf("%.3f %v\n", a, err)
	}
	// Output:
	// [1.155 -0.577 -0.577 0.000 0.000 0.000 0.000 0.000] <nil>
	// [0.667 -0.333 -0.333 0.000 0.000 0.000 0.000 0.000] <nil>
	// [1.000 -0.500 -0.500 0.000 0.000 0.000 0.000 0.000] <nil>
}

// DAPO: asymmetric clipping and the mean over all tokens of the batch. The weights show that a long completion counts for
// more than a short one; with SeqMeanTokenMean they would count the same.
func ExamplePrepare() {
	dapo := grpo.Objective{ClipLow: 0.2, ClipHigh: 0.28, Aggregation: grpo.TokenMean}
	signal, err := grpo.Prepare(grpo.Advantage{}, dapo, grpo.Rows{
		Rewards: []float64{1, 0},
		Groups:  []int{0, 0},
		Mask:    [][]bool{{true, true, true}, {true}},
	})
	fmt.Printf("%.3f %.2f %v\n", signal.Advantages, signal.Aggregate, err)
	// Output: [[0.707 0.707 0.707] [-0.707]] [[0.25 0.25 0.25] [0.25]] <nil>
}

// A run's record shows every setting that acted, also those that the user left at 0.
func ExampleAdvantage_MarshalJSON() {
	record, err := json.Marshal(grpo.Advantage{Scale: grpo.NoScale})
	fmt.Println(string(record), err)
	// Output: {"baseline":"group_mean","scale":"none","biased":false,"eps":0.000001,"token_level":"broadcast","kl_coef":0,"gamma":1} <nil>
}
