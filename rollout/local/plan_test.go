package local

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// sized is a policy of which only the context is asked.
type sized struct{ policy.Incremental }

func (sized) MaxPositions() int { return 300 }

// A row that is planned twice or not at all would be sampled twice or be missing; a batch that is too large would not fit
// the device.
func TestPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &Engine{policy: sized{}, opts: Options{
			MaxRows: rapid.IntRange(1, 40).Draw(t, "rows"), FixedRows: rapid.Bool().Draw(t, "fixed"),
		}}
		reqs := make([]rollout.Request, rapid.IntRange(1, 12).Draw(t, "requests"))
		missing := map[[2]int]bool{}
		for i := range reqs {
			reqs[i].Prompt = make([]int32, rapid.IntRange(1, 299).Draw(t, "length"))
			reqs[i].Seeds = make([]rollout.Seed, rapid.IntRange(1, 50).Draw(t, "seeds"))
			for k := range reqs[i].Seeds {
				reqs[i].Seeds[k] = rollout.Seed{uint64(i), uint64(k)}
				missing[[2]int{i, k}] = true
			}
		}
		batches := e.plan(reqs, rollout.Sampling{MaxTokens: 100})
		in := map[int]map[int]bool{} // batches of a request
		for b, rows := range batches {
			require.NotEmpty(t, rows)
			require.LessOrEqual(t, len(rows), e.opts.MaxRows)
			for _, r := range rows {
				require.True(t, missing[[2]int{r.request, r.index}])
				delete(missing, [2]int{r.request, r.index})
				require.Equal(t, rollout.Seed{uint64(r.request), uint64(r.index)}, r.seed)
				require.Len(t, r.prompt, len(reqs[r.request].Prompt))
				require.Equal(t, min(100, 300-len(r.prompt)), r.limit)
				if e.opts.FixedRows {
					require.Equal(t, promptWidth(rows[0].prompt), promptWidth(r.prompt))
				}
				if in[r.request] == nil {
					in[r.request] = map[int]bool{}
				}
				in[r.request][b] = true
			}
		}
		require.Empty(t, missing)
		for i, r := range reqs {
			if len(r.Seeds) <= e.opts.MaxRows {
				require.Len(t, in[i], 1, "a group that fits is sampled together")
			}
		}
	})
}
