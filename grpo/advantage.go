package grpo

import (
	"encoding/json"
	"fmt"
	"math"
)

// Baseline is what a completion's reward is compared with.
type Baseline string

// Baselines. A group with fewer than two scorable rewards, or with equal ones, has advantage exactly 0 under a group's
// baseline; so has a whole batch with equal rewards under BatchMean.
const (
	GroupMean   Baseline = "group_mean"    // the mean of its group (GRPO, arXiv 2402.03300)
	LeaveOneOut Baseline = "leave_one_out" // the mean of the others of its group (RLOO, arXiv 2402.14740)
	BatchMean   Baseline = "batch_mean"    // the mean of the batch
	NoBaseline  Baseline = "none"          // 0
)

// Scale is the standard deviation that advantages are divided by. Where it is that of equal rewards the advantage is
// exactly 0, whatever the baseline.
type Scale string

// Scales.
const (
	GroupStd Scale = "group_std" // of the group's rewards (GRPO)
	BatchStd Scale = "batch_std" // of the batch's rewards
	NoScale  Scale = "none"      // no division (Dr. GRPO, arXiv 2503.20783)
)

// TokenLevel says how a completion's advantage becomes one number a token.
type TokenLevel string

// Token levels. Whitening subtracts the mean over all scored tokens of the batch and divides by √(unbiased variance + 1e-8).
const (
	Broadcast   TokenLevel = "broadcast"    // the same for every token
	Whiten      TokenLevel = "whiten"       // the same for every token, then whitened
	ReinforcePP TokenLevel = "reinforce_pp" // returns of a token reward, whitened (REINFORCE++, arXiv 2501.03262); no baseline, no scale
)

// Advantage says how rewards become advantages. The zero value is GRPO's: (r - mean)/(std + 1e-6) within the group, with the
// unbiased std.
//
// A reward of NaN stands for a completion that could not be scored: it enters no statistic and its advantage is 0.
type Advantage struct {
	Baseline   Baseline   `json:"baseline"`    // "": GroupMean
	Scale      Scale      `json:"scale"`       // "": GroupStd
	Biased     bool       `json:"biased"`      // the std divides by n instead of n-1
	Eps        float64    `json:"eps"`         // added to the std; 0: 1e-6
	TokenLevel TokenLevel `json:"token_level"` // "": Broadcast
	KLCoef     float64    `json:"kl_coef"`     // ReinforcePP: a token's reward is -KLCoef·(old - ref) log-prob, the last scored one's also the completion's
	Gamma      float64    `json:"gamma"`       // ReinforcePP: discount from token to token; 0: 1
}

func (a Advantage) withDefaults() Advantage {
	setDefault(&a.Baseline, GroupMean)
	setDefault(&a.Scale, GroupStd)
	setDefault(&a.Eps, 1e-6)
	setDefault(&a.TokenLevel, Broadcast)
	setDefault(&a.Gamma, 1)
	return a
}

// MarshalJSON writes the settings with the values that stand for 0, so that a record says what acted.
func (a Advantage) MarshalJSON() ([]byte, error) {
	type plain Advantage
	return json.Marshal(plain(a.withDefaults()))
}

// Validate names the first setting that cannot be used, its value and what is allowed.
func (a Advantage) Validate() error {
	a = a.withDefaults()
	return firstError(
		oneOf("Advantage.Baseline", a.Baseline, GroupMean, LeaveOneOut, BatchMean, NoBaseline),
		oneOf("Advantage.Scale", a.Scale, GroupStd, BatchStd, NoScale),
		inRange("Advantage.Eps", a.Eps, 0, math.MaxFloat64),
		oneOf("Advantage.TokenLevel", a.TokenLevel, Broadcast, Whiten, ReinforcePP),
		inRange("Advantage.KLCoef", a.KLCoef, 0, math.MaxFloat64),
		inRange("Advantage.Gamma", a.Gamma, 0, 1),
	)
}

// Sequence gives one advantage a completion; groups[i] is the id of completion i's group. Groups may be uneven and their
// rows in any order. TokenLevel is not looked at.
func (a Advantage) Sequence(rewards []float64, groups []int) ([]float64, error) {
	if len(groups) != len(rewards) {
		return nil, fmt.Errorf("grpo: %d group ids for %d rewards", len(groups), len(rewards))
	}
	a = a.withDefaults()
	var all []float64
	members := map[int][]float64{}
	for i, r := range rewards {
		switch {
		case math.IsInf(r, 0):
			return nil, fmt.Errorf("grpo: the reward of row %d is %v", i, r)
		case scorable(r):
			all = append(all, r)
			members[groups[i]] = append(members[groups[i]], r)
		}
	}
	batch := a.spread(all)
	spreads := make(map[int]spread, len(members))
	for id, rs := range members {
		spreads[id] = a.spread(rs)
	}
	out := make([]float64, len(rewards))
	for i, r := range rewards {
		if scorable(r) {
			out[i] = baselines[a.Baseline](r, spreads[groups[i]], batch)
			out[i] = scales[a.Scale](out[i], a.Eps, spreads[groups[i]], batch)
		}
	}
	return out, nil
}

var baselines = map[Baseline]func(r float64, group, batch spread) float64{
	GroupMean:   func(r float64, group, _ spread) float64 { return group.unlessFlat(r - group.mean) },
	LeaveOneOut: func(r float64, group, _ spread) float64 { return group.unlessFlat(r - (group.sum-r)/(group.n-1)) },
	BatchMean:   func(r float64, _, batch spread) float64 { return batch.unlessFlat(r - batch.mean) },
	NoBaseline:  func(r float64, _, _ spread) float64 { return r },
}

var scales = map[Scale]func(x, eps float64, group, batch spread) float64{
	GroupStd: func(x, eps float64, group, _ spread) float64 { return group.unlessFlat(x / (group.std + eps)) },
	BatchStd: func(x, eps float64, _, batch spread) float64 { return batch.unlessFlat(x / (batch.std + eps)) },
	NoScale:  func(x, _ float64, _, _ spread) float64 { return x },
}

// spread describes a set of rewards.
type spread struct {
	n, sum, mean, std float64
	flat              bool // fewer than two, or all equal: the computed std of equal numbers need not be 0
}

func (s spread) unlessFlat(x float64) float64 {
	if s.flat {
		return 0
	}
	return x
}

func (a Advantage) spread(xs []float64) spread {
	s := spread{n: float64(len(xs))}
	lowest, highest := math.Inf(1), math.Inf(-1)
	for _, x := range xs {
		s.sum += x
		lowest, highest = min(lowest, x), max(highest, x)
	}
	if s.flat = len(xs) < 2 || lowest == highest; s.flat {
		return s
	}
	s.mean = s.sum / s.n
	for _, x := range xs {
		s.std += (x - s.mean) * (x - s.mean)
	}
	if a.Biased {
		s.std = math.Sqrt(s.std / s.n)
	} else {
		s.std = math.Sqrt(s.std / (s.n - 1))
	}
	return s
}

func scorable(reward float64) bool { return !math.IsNaN(reward) }

// tokens gives the advantage of each token, 0 where mask is false.
func (a Advantage) tokens(r Rows) ([][]float64, error) {
	a = a.withDefaults()
	out := zeros(r.Mask)
	if a.TokenLevel == ReinforcePP {
		for i, row := range out {
			if scorable(r.Rewards[i]) {
				a.returns(row, i, r)
			}
		}
	} else {
		sequence, err := a.Sequence(r.Rewards, r.Groups)
		if err != nil {
			return nil, err
		}
		for i, row := range out {
			for t := range row {
				row[t] = sequence[i]
			}
		}
	}
	counts := func(i, t int) bool { return r.Mask[i][t] && scorable(r.Rewards[i]) }
	if a.TokenLevel != Broadcast {
		whiten(out, counts)
	}
	for i, row := range out {
		for t := range row {
			if !counts(i, t) {
				row[t] = 0
			}
		}
	}
	return out, nil
}

// returns writes row i's discounted sums of the token rewards to come; they run on over tokens that are not scored.
func (a Advantage) returns(out []float64, i int, r Rows) {
	sum, reward := 0.0, r.Rewards[i]
	for t := len(out) - 1; t >= 0; t-- {
		sum *= a.Gamma
		if r.Mask[i][t] {
			if a.KLCoef != 0 {
				sum -= a.KLCoef * (r.Old[i][t] - r.Ref[i][t])
			}
			sum += reward
			reward = 0 // only the last scored token has it
		}
		out[t] = sum
	}
}

// whiten shifts and scales all numbers so that those that count have mean 0 and unbiased variance 1.
func whiten(x [][]float64, counts func(i, t int) bool) {
	each := func(f func(v float64)) {
		for i, row := range x {
			for t, v := range row {
				if counts(i, t) {
					f(v)
				}
			}
		}
	}
	var n, mean, variance float64
	each(func(v float64) { n++; mean += v })
	if n == 0 {
		return
	}
	mean /= n
	each(func(v float64) { variance += (v - mean) * (v - mean) })
	variance /= max(1, n-1)
	for _, row := range x {
		for t := range row {
			row[t] = (row[t] - mean) / math.Sqrt(variance+1e-8)
		}
	}
}
