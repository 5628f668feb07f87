package grpo

import (
	"encoding/json"
	"math"
	"time"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/rollout"
)

// Metrics are the numbers of one update that follow from its completions and weights; they are part of the run's logical
// content. Log-probs and entropies are in nats.
type Metrics struct {
	RewardMean   float64 `json:"reward_mean"`
	RewardStd    float64 `json:"reward_std"`    // over all completions of the batch, unbiased
	SolveAll     float64 `json:"solve_all"`     // share of groups in which every completion has reward 1
	SolveNone    float64 `json:"solve_none"`    // share of groups in which none has a reward above 0
	ZeroVariance float64 `json:"zero_variance"` // share of groups whose rewards are all equal: they teach nothing
	Truncated    float64 `json:"truncated"`     // share of completions stopped by a limit
	TokensMean   float64 `json:"tokens_mean"`   // completion length
	TokensMax    float64 `json:"tokens_max"`

	Tokens       float64 `json:"tokens"`        // completion tokens in all
	Scored       float64 `json:"tokens_scored"` // of them in the loss
	LearningRate float64 `json:"learning_rate"`
	Loss         float64 `json:"loss"`
	PolicyLoss   float64 `json:"policy_loss"`
	KLLoss       float64 `json:"kl_loss"`       // divergence from the reference, without its coefficient; 0 without one
	GradNorm     float64 `json:"grad_norm"`     // global L2 norm before clipping
	Entropy      float64 `json:"entropy"`       // mean over scored tokens, at the sampling temperature
	AdvantageAbs float64 `json:"advantage_abs"` // mean |advantage| over scored tokens
	EngineGap    float64 `json:"engine_gap"`    // mean |log-prob in training before the update - log-prob at sampling|
	EngineGapMax float64 `json:"engine_gap_max"`
	Lag          float64 `json:"lag"`            // completed updates between the weights that sampled and the weights that were updated, mean over groups
	Dropped      float64 `json:"groups_dropped"` // groups that were sampled and left out by dynamic sampling
	Stats
}

// describe fills in what follows from the log-probs and entropies that the update computed.
func (m *Metrics) describe(b *batch, s Signal, logProbs, entropies [][]float64) {
	for i, row := range s.Mask {
		for t, scored := range row {
			m.Tokens++
			if !scored {
				continue
			}
			m.Scored++
			m.Entropy += entropies[i][t]
			m.AdvantageAbs += math.Abs(s.Advantages[i][t])
			gap := math.Abs(logProbs[i][t] - float64(b.rows[i].behaviour[t]))
			m.EngineGap += gap
			m.EngineGapMax = max(m.EngineGapMax, gap)
		}
	}
	n := max(1, m.Scored)
	m.Entropy, m.AdvantageAbs, m.EngineGap = m.Entropy/n, m.AdvantageAbs/n, m.EngineGap/n
}

// count fills in what follows from the completions alone.
func (m *Metrics) count(lines []checkpoint.Line, groupSize int) {
	f := checkpoint.Figures(lines, groupSize)
	m.RewardMean, m.RewardStd, m.Truncated = f["reward_mean"], f["reward_std"], f["truncated"]
	m.SolveAll, m.SolveNone, m.ZeroVariance = f["solve_all"], f["solve_none"], f["zero_variance"]
	m.TokensMean, m.TokensMax = f["tokens_mean"], f["tokens_max"]
}

// Timing are facts of the host: seconds a phase, and completion tokens a second.
type Timing struct {
	Rollout         float64 `json:"rollout_seconds"` // sampling and grading; with lag only the wait for them
	Train           float64 `json:"train_seconds"`   // forward, backward, optimizer
	RolloutTokensPS float64 `json:"rollout_tokens_per_second"`
	TrainTokensPS   float64 `json:"train_tokens_per_second"`
}

// Update is what one step of the trainer did.
type Update struct {
	Update     int                    // the number of updates that the weights have now
	Metrics    *Metrics               // nil where only an evaluation was due
	Timing     Timing                 //
	Evaluation *checkpoint.Evaluation // where one was due
}

// lag fills in how old the weights were that sampled the groups.
func (m *Metrics) lag(update int, groups []rollout.Group) {
	for _, g := range groups {
		m.Lag += float64(update-1-g.Weights()) / float64(len(groups))
	}
}

// event is the update as the ledger has it; segment is the one that records it.
func (u *Update) event(made *rollout.Batch, segment int) (checkpoint.Update, error) {
	e := checkpoint.Update{Update: u.Update, Weights: u.Update - 1}
	mixed, carried := false, false
	for _, g := range made.Groups {
		e.Tasks = append(e.Tasks, g.Task.ID)
		e.GroupWeights = append(e.GroupWeights, g.Weights())
		e.SampledIn = append(e.SampledIn, g.Segment)
		e.Weights = min(e.Weights, g.Weights())
		mixed = mixed || g.Weights() != made.Groups[0].Weights()
		carried = carried || g.Segment != segment
	}
	for _, g := range made.Dropped {
		e.DroppedTasks = append(e.DroppedTasks, g.Task.ID)
	}
	if !mixed {
		e.GroupWeights = nil
	}
	if !carried {
		e.SampledIn = nil
	}
	var err error
	if e.Metrics, err = json.Marshal(u.Metrics); err != nil {
		return e, err
	}
	e.Timing, err = json.Marshal(u.Timing)
	return e, err
}

func since(start time.Time) float64 { return time.Since(start).Seconds() }
