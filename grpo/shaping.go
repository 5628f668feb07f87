package grpo

import "math"

// TruncatedRule says what becomes of the reward of a truncated completion.
type TruncatedRule string

// Rules for truncated completions.
const (
	KeepReward  TruncatedRule = ""      // nothing
	SetReward   TruncatedRule = "set"   // it is replaced by Value
	ScaleReward TruncatedRule = "scale" // it is multiplied by Value
)

// Overlong takes something from the reward of long completions (DAPO, arXiv 2503.14476): nothing up to MaxLen-Buffer tokens, then
// linearly more, Factor at MaxLen and beyond. The zero value is off.
type Overlong struct {
	MaxLen int     `json:"max_len"`
	Buffer int     `json:"buffer"` // 0: off
	Factor float64 `json:"factor"`
}

// Shaping turns recorded rewards into those that advantages are computed from. The zero value changes nothing.
type Shaping struct {
	Truncated TruncatedRule `json:"truncated"`
	Value     float64       `json:"value"`    // of the rule for truncated completions
	Overlong  Overlong      `json:"overlong"` // after that rule
}

// Validate names the first setting that cannot be used, its value and what is allowed.
func (s Shaping) Validate() error {
	err := firstError(
		oneOf("Shaping.Truncated", s.Truncated, KeepReward, SetReward, ScaleReward),
		inRange("Shaping.Value", s.Value, -math.MaxFloat64, math.MaxFloat64),
		inRange("Shaping.Overlong.Factor", s.Overlong.Factor, 0, math.MaxFloat64),
	)
	switch {
	case err != nil:
		return err
	case s.Overlong.Buffer < 0:
		return badSetting("Shaping.Overlong.Buffer", s.Overlong.Buffer, "0 (off) or more")
	case s.Overlong.Buffer > 0 && s.Overlong.MaxLen < s.Overlong.Buffer:
		return badSetting("Shaping.Overlong.MaxLen", s.Overlong.MaxLen, "Buffer or more")
	}
	return nil
}

// Apply returns shaped rewards; lengths are in completion tokens. A reward of NaN (unscorable) stays NaN.
func (s Shaping) Apply(rewards []float64, lengths []int, truncated []bool) []float64 {
	out := make([]float64, len(rewards))
	for i, r := range rewards {
		switch {
		case !scorable(r):
			out[i] = r
			continue
		case truncated[i] && s.Truncated == SetReward:
			r = s.Value
		case truncated[i] && s.Truncated == ScaleReward:
			r *= s.Value
		}
		if o := s.Overlong; o.Buffer > 0 {
			excess := min(max(lengths[i]-(o.MaxLen-o.Buffer), 0), o.Buffer)
			r -= o.Factor * float64(excess) / float64(o.Buffer)
		}
		out[i] = r
	}
	return out
}

// Filter drops groups that teach nothing (dynamic sampling, DAPO). A group stays if at least two of its rewards could be
// scored, their unbiased std is above MinStd, and their mean lies strictly between MeanLow and MeanHigh.
type Filter struct {
	MinStd   float64 `json:"min_std"`  // 0: 1e-8, above the rounding error of equal rewards
	MeanLow  float64 `json:"mean_low"` // both 0: any mean
	MeanHigh float64 `json:"mean_high"`
}

// Filtered is what a filter did. Fractions are of the groups.
type Filtered struct {
	Groups  []int   // group ids in the order of their first row
	Keep    []bool  // for each of Groups
	Rows    []int   // the rows of kept groups
	ZeroStd float64 // fewer than two scorable rewards, or a std of at most MinStd
	AllLow  float64 // every scorable reward is 0, and there is one
	AllHigh float64 // every scorable reward is 1, and there is one
}

// Validate names the first setting that cannot be used, its value and what is allowed.
func (f Filter) Validate() error {
	switch {
	case !(f.MinStd >= 0 && f.MinStd < math.Inf(1)):
		return badSetting("Filter.MinStd", f.MinStd, "0 (1e-8) or more")
	case !(f.MeanLow <= f.MeanHigh):
		return badSetting("Filter.MeanLow", f.MeanLow, "at most MeanHigh")
	}
	return nil
}

// Apply says which groups stay; groups[i] is the id of row i's group.
func (f Filter) Apply(rewards []float64, groups []int) Filtered {
	setDefault(&f.MinStd, 1e-8)
	var out Filtered
	members := map[int][]float64{}
	for i, id := range groups {
		if _, seen := members[id]; !seen {
			members[id] = nil
			out.Groups = append(out.Groups, id)
		}
		if scorable(rewards[i]) {
			members[id] = append(members[id], rewards[i])
		}
	}
	kept := map[int]bool{}
	var zeroStd, allLow, allHigh int
	for _, id := range out.Groups {
		rs := members[id]
		s := Advantage{}.spread(rs)
		keep := s.std > f.MinStd // 0 for fewer than two
		if !keep {
			zeroStd++
		}
		if f.MeanLow != 0 || f.MeanHigh != 0 {
			keep = keep && f.MeanLow < s.mean && s.mean < f.MeanHigh
		}
		kept[id], out.Keep = keep, append(out.Keep, keep)
		switch {
		case !s.flat || len(rs) == 0:
		case rs[0] == 0:
			allLow++
		case rs[0] == 1:
			allHigh++
		}
	}
	n := max(1, float64(len(out.Groups)))
	out.ZeroStd, out.AllLow, out.AllHigh = float64(zeroStd)/n, float64(allLow)/n, float64(allHigh)/n
	for i, id := range groups {
		if kept[id] {
			out.Rows = append(out.Rows, i)
		}
	}
	return out
}
