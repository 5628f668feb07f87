package verify

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/grouper-rl/grouper/checkpoint"
)

// restored checks that the groups which an update is said to have from an earlier segment are those that the checkpoint held
// ready from which the update's segment went on.
func (v *verifier) restored(segment int, u checkpoint.Update, lines []checkpoint.Line) {
	size := v.run.Plan.GroupSize
	if len(u.SampledIn) == 0 || len(lines) != len(u.SampledIn)*size {
		return
	}
	from := v.history.Segments[segment-1].Checkpoint
	if from == "" {
		v.find(Finding{File: u.Rollouts.Path, What: fmt.Sprintf("update %d has groups from before segment %d, which began with the base weights", u.Update, segment)})
		return
	}
	if _, whole := v.saved[from]; !whole {
		v.note("%s is not there any more: that update %d had groups from it cannot be checked", from, u.Update)
		return
	}
	ready, err := v.readyGroups(from)
	if err != nil {
		v.fails(from+"/ready.jsonl.zst", err)
		return
	}
	for i, in := range u.SampledIn {
		if in == segment {
			continue
		}
		if text := groupText(lines[i*size:][:size]); !slices.Contains(ready, text) {
			v.find(Finding{File: u.Rollouts.Path, Line: i*size + 1, Task: u.Tasks[i],
				What: fmt.Sprintf("the group is said to be from segment %d and was not ready in %s", in, from)})
		}
	}
}

// readyGroups reads the groups that a checkpoint holds ready.
func (v *verifier) readyGroups(path string) ([]string, error) {
	f, err := os.Open(v.path(path + "/ready.jsonl.zst"))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines, _, err := checkpoint.ReadLines(f)
	if err != nil {
		return nil, err
	}
	var groups []string
	for group := range slices.Chunk(lines, v.run.Plan.GroupSize) {
		groups = append(groups, groupText(group))
	}
	return groups, nil
}

// groupText is the same for groups that are the same in everything.
func groupText(lines []checkpoint.Line) string {
	text, _ := json.Marshal(lines) // they come from JSON
	return string(text)
}
