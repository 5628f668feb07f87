package grpo

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/grouper-rl/grouper/checkpoint"
)

// Metrics are the numbers of one update that follow from its completions and weights; they are part of the run's logical
// content. Rates that have no completions to speak of are 0.
type Metrics struct {
	RewardMean      float64 `json:"reward_mean"`
	RewardStd       float64 `json:"reward_std"`       // over all completions of the batch, unbiased
	SolveAll        float64 `json:"solve_all"`        // fraction of groups in which every completion has reward 1
	SolveNone       float64 `json:"solve_none"`       // fraction of groups in which none has a reward above 0
	ZeroVariance    float64 `json:"zero_variance"`    // fraction of groups whose rewards are all equal: they teach nothing
	Truncated       float64 `json:"truncated"`        // fraction of completions stopped by a limit
	TokensMean      float64 `json:"tokens_mean"`      // completion length
	TokensMax       float64 `json:"tokens_max"`       //
	Tokens          float64 `json:"tokens"`           // completion tokens trained on, in all
	LearningRate    float64 `json:"learning_rate"`    //
	Loss            float64 `json:"loss"`             //
	GradNorm        float64 `json:"grad_norm"`        // global L2 norm before clipping
	Entropy         float64 `json:"entropy"`          // nats a token, of the distribution at the sampling temperature
	RatioMean       float64 `json:"ratio_mean"`       //
	RatioMin        float64 `json:"ratio_min"`        //
	RatioMax        float64 `json:"ratio_max"`        //
	ClipFraction    float64 `json:"clip_fraction"`    // of tokens, either side
	ClipLow         float64 `json:"clip_low"`         // of tokens
	ClipHigh        float64 `json:"clip_high"`        // of tokens
	ApproxKL        float64 `json:"approx_kl"`        // k3 estimate of KL(old, new) before the update, nats a token
	RolloutLogPGap  float64 `json:"rollout_logp_gap"` // mean |log-prob in training - log-prob recorded at sampling|
	RolloutLogPGapX float64 `json:"rollout_logp_max"` // the largest such gap
	Lag             float64 `json:"lag"`              // completed updates between the weights that sampled and those that were updated
	AdvantageAbs    float64 `json:"advantage_abs"`    // mean |advantage|
}

// Timing are facts of the host: seconds a phase, and rates.
type Timing struct {
	Rollout         float64 `json:"rollout_seconds"`           // sampling and grading
	Train           float64 `json:"train_seconds"`             // forward, backward, optimizer
	Record          float64 `json:"record_seconds"`            // writing the update down
	Total           float64 `json:"seconds"`                   //
	RolloutTokensPS float64 `json:"rollout_tokens_per_second"` // completion tokens
	TrainTokensPS   float64 `json:"train_tokens_per_second"`   // completion tokens
}

// Update is what one step of the trainer did.
type Update struct {
	Update     int                    // the number of updates that the weights have now
	Metrics    *Metrics               // nil for update 0
	Timing     Timing                 //
	Evaluation *checkpoint.Evaluation // where one was due
}

// checkFinite names the first metric that is NaN or infinite.
func (m *Metrics) checkFinite() error {
	v := reflect.ValueOf(*m)
	for i := range v.NumField() {
		if x := v.Field(i).Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%w: %s is %v", ErrNotFinite, v.Type().Field(i).Tag.Get("json"), x)
		}
	}
	return nil
}

// rewardMetrics fills in what follows from the completions alone.
func (b *batch) rewardMetrics() Metrics {
	var m Metrics
	n := float64(len(b.rows))
	for i, r := range b.rows {
		m.RewardMean += b.rewards[i] / n
		m.TokensMean += float64(len(r.tokens)) / n
		m.TokensMax = max(m.TokensMax, float64(len(r.tokens)))
		if r.truncated {
			m.Truncated += 1 / n
		}
	}
	if n > 1 {
		for _, x := range b.rewards {
			m.RewardStd += (x - m.RewardMean) * (x - m.RewardMean) / (n - 1)
		}
		m.RewardStd = math.Sqrt(m.RewardStd)
	}
	share := 1 / float64(len(b.groups))
	for _, g := range b.groups {
		lowest, highest := math.Inf(1), math.Inf(-1)
		for _, s := range g.Scores {
			lowest, highest = min(lowest, s.Reward), max(highest, s.Reward)
		}
		if lowest >= 1 {
			m.SolveAll += share
		}
		if highest <= 0 {
			m.SolveNone += share
		}
		if lowest == highest {
			m.ZeroVariance += share
		}
	}
	return m
}

func since(start time.Time) float64 { return time.Since(start).Seconds() }
