package grpo

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/rollout"
)

// order is the endless sequence of training tasks. Every epoch goes through the bank once, in an order of its own: sorted by
// a digest of the run's seed, the epoch and the task. It needs no state but the number of tasks drawn.
type order struct {
	seed  int64
	tasks []envs.Task

	epoch  int // of sorted; -1: none yet
	sorted []envs.Task
}

// task is the n-th task, from 0.
func (o *order) task(n int) envs.Task {
	if epoch := n / len(o.tasks); epoch != o.epoch {
		type keyed struct {
			key  [16]byte
			task envs.Task
		}
		all := make([]keyed, len(o.tasks))
		for i, task := range o.tasks {
			all[i].task = task
			for j, word := range rollout.NewSeed(o.seed, "order", epoch, task.ID, 0) {
				binary.BigEndian.PutUint64(all[i].key[8*j:], word)
			}
		}
		slices.SortFunc(all, func(a, b keyed) int { return bytes.Compare(a.key[:], b.key[:]) })
		o.epoch, o.sorted = epoch, make([]envs.Task, len(all))
		for i, k := range all {
			o.sorted[i] = k.task
		}
	}
	return o.sorted[n%len(o.tasks)]
}
