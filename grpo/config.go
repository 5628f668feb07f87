// Package grpo trains a policy by group-relative policy optimisation (Shao et al. 2024, arXiv 2402.03300): it samples a group
// of completions for each task, grades them, compares each with its group, and takes one optimizer step on all of
// them. The loop stands in trainer.go.
package grpo

import (
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/eval"
	"github.com/grouper-rl/grouper/internal/guard"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// OldLogProbs names the policy in the denominator of the ratio.
type OldLogProbs string

const (
	// Behaviour takes the log-probs that the engine recorded while it sampled.
	Behaviour OldLogProbs = "behaviour"
	// Current takes the log-probs of the weights being updated. With one update a batch the ratio is then exactly 1 and the
	// clip never acts, so this has to be asked for by name.
	Current OldLogProbs = "current"
)

// Config says what a run does. It is recorded in run.json, and a run can only be resumed with the same values (Updates
// may grow). What has a place of its own there stands nowhere else: the seed, and in the plan tasks, group size and evaluations.
type Config struct {
	Seed           int64             `json:"-"` // names all randomness of the run
	Updates        int               `json:"-"` // optimizer updates in all: a budget, recorded apart, that may grow
	TasksPerUpdate int               `json:"-"` // groups in a batch
	GroupSize      int               `json:"-"` // completions of each task, at least 2
	Advantage      Advantage         `json:"advantage"`
	Objective      Objective         `json:"objective"`
	OldLogProbs    OldLogProbs       `json:"old_log_probs"`  // "": Behaviour
	Lag            int               `json:"-"`              // completed updates between the weights that sample a group and those that it updates, at most; 0: on-policy
	Staleness      rollout.Staleness `json:"-"`              // which of the weights within the lag sample: rollout.Fixed ("") or rollout.Eager
	MaxGroups      int               `json:"max_groups"`     // dynamic sampling: groups whose rewards are all equal are replaced until so many were sampled for an update; 0: off
	MaskTruncated  bool              `json:"mask_truncated"` // leave truncated completions out of the loss; their reward still counts in the group
	MaxGradNorm    float64           `json:"max_grad_norm"`  // clip the global gradient norm to this; 0: no clipping
	MicroBatch     int               `json:"micro_batch"`    // completions computed at once, a divisor or multiple of GroupSize; 0: all
	Bucket         int               `json:"bucket"`         // prompts and completions are padded to multiples of this, at most the context; 0: 16
	Compute        string            `json:"compute"`        // dtype of forward and backward: "float32" ("") or "bfloat16"; masters are always float32
	SaveEvery      int               `json:"save_every"`     // updates between checkpoints; 0: 10. The last update is always saved
	EvaluateEvery  int               `json:"-"`              // updates between evaluations, a multiple of SaveEvery; 0: SaveEvery. The last update is always evaluated
}

// WithDefaults fills in the values that stand for 0.
func (c Config) WithDefaults() Config {
	setDefault(&c.Bucket, 16)
	setDefault(&c.SaveEvery, 10)
	setDefault(&c.EvaluateEvery, c.SaveEvery)
	setDefault(&c.MicroBatch, c.TasksPerUpdate*c.GroupSize)
	setDefault(&c.OldLogProbs, Behaviour)
	setDefault(&c.Staleness, rollout.Fixed)
	setDefault(&c.Compute, "float32")
	return c
}

// Validate names the first setting that cannot be used, its value and what is allowed.
func (c Config) Validate() error {
	c = c.WithDefaults()
	rows := c.TasksPerUpdate * c.GroupSize
	switch {
	case c.Updates < 0:
		return badSetting("Updates", c.Updates, "0 or more")
	case c.TasksPerUpdate < 1:
		return badSetting("TasksPerUpdate", c.TasksPerUpdate, "1 or more")
	case c.GroupSize < 2:
		return badSetting("GroupSize", c.GroupSize, "2 or more: a single completion has nothing to be compared with, its advantage is always 0")
	case c.OldLogProbs != Behaviour && c.OldLogProbs != Current:
		return badSetting("OldLogProbs", c.OldLogProbs, `"behaviour" or "current"`)
	case !(c.MaxGradNorm >= 0 && c.MaxGradNorm <= math.MaxFloat32):
		return badSetting("MaxGradNorm", c.MaxGradNorm, "0 (off) or more")
	case c.Lag < 0 || c.Lag > mostLag:
		return badSetting("Lag", c.Lag, fmt.Sprintf("0 to %d", mostLag))
	case c.Staleness != rollout.Fixed && c.Staleness != rollout.Eager:
		return badSetting("Staleness", fmt.Sprintf("%q", c.Staleness), `"fixed" or "eager"`)
	case c.MaxGroups != 0 && c.MaxGroups < c.TasksPerUpdate:
		return badSetting("MaxGroups", c.MaxGroups, fmt.Sprintf("0 (off), or at least TasksPerUpdate (%d)", c.TasksPerUpdate))
	case c.MicroBatch < 1 || rows%c.MicroBatch != 0 || (c.MicroBatch%c.GroupSize != 0 && c.GroupSize%c.MicroBatch != 0):
		return badSetting("MicroBatch", c.MicroBatch, fmt.Sprintf("a divisor of TasksPerUpdate*GroupSize (%d) that divides GroupSize (%d) or is a multiple of it", rows, c.GroupSize))
	case c.Bucket < 1:
		return badSetting("Bucket", c.Bucket, "1 or more")
	case c.Compute != "float32" && c.Compute != "bfloat16":
		return badSetting("Compute", c.Compute, `"float32" or "bfloat16"`)
	case c.SaveEvery < 1:
		return badSetting("SaveEvery", c.SaveEvery, "1 or more")
	case c.EvaluateEvery < 1 || c.EvaluateEvery%c.SaveEvery != 0:
		return badSetting("EvaluateEvery", c.EvaluateEvery, fmt.Sprintf("a multiple of SaveEvery (%d)", c.SaveEvery))
	}
	if err := c.Advantage.Validate(); err != nil {
		return err
	}
	return c.Objective.Validate()
}

// mostLag bounds the copies of weights that are kept.
const mostLag = 64

// computeDType is that of forward and backward.
func (c Config) computeDType() dtypes.DType {
	if c.Compute == "bfloat16" {
		return dtypes.BFloat16
	}
	return dtypes.Float32
}

// Parts are what a trainer works with. Each can be the user's own.
type Parts struct {
	Backend        *backend.Backend
	Device         int             // the training role's device number
	Policy         policy.Policy   //
	Weights        *policy.Weights // the base weights; the trainer takes a copy
	Reference      *policy.Weights // weights of the reference policy; only for a KL term
	Optimizer      optim.Optimizer
	Schedule       optim.Schedule      // learning rate of each update
	Bank           *envs.Bank          // its Train tasks are trained on
	Sampler        rollout.Sampler     // engine (the rollout role), prompt format, grader and sampling settings
	PerCall        int                 // groups that one call of the engine samples; 0: all of a batch. Another number may round log-probs otherwise
	Calls          int                 // calls of the engine at once, if PerCall is not 0; 0: 1
	Evaluator      *eval.Evaluator     // nil: no evaluation
	EvaluateBehind bool                // evaluate while training goes on; the evaluator needs an engine of its own
	Run            *checkpoint.Run     // nil: nothing is recorded
	Restore        *checkpoint.Restore // the checkpoint to go back to, which begins a branch; nil: the newest whole one
	About          checkpoint.About    // what people should know of the run; recorded once, with its beginning
	Log            *slog.Logger        // nil: silent
}

func (p Parts) validate(c Config) error {
	missing := func(name string) error { return fmt.Errorf("grpo: Parts.%s is missing", name) }
	switch {
	case p.Backend == nil:
		return missing("Backend")
	case p.Policy == nil:
		return missing("Policy")
	case p.Weights == nil:
		return missing("Weights")
	case p.Optimizer == nil:
		return missing("Optimizer")
	case p.Schedule == nil:
		return missing("Schedule")
	case p.Sampler.Engine == nil:
		return missing("Sampler.Engine")
	case p.Sampler.Format.Tokenizer == nil:
		return missing("Sampler.Format.Tokenizer")
	case p.Sampler.Grader == nil:
		return missing("Sampler.Grader")
	case p.Bank == nil || len(p.Bank.Train) == 0:
		return fmt.Errorf("grpo: Parts.Bank has no training tasks")
	case p.Device < 0 || p.Device >= p.Backend.NumDevices():
		return badSetting("Parts.Device", p.Device, fmt.Sprintf("0 to %d, the backend's devices", p.Backend.NumDevices()-1))
	case p.Sampler.Sampling.Temperature == 0:
		return badSetting("Parts.Sampler.Sampling.Temperature", 0, "more than 0: greedy completions of a task are all the same")
	case c.Objective.KL.Coef != 0 && p.Reference == nil:
		return missing("Reference")
	case c.Advantage.KLCoef != 0 && p.Reference == nil:
		return missing("Reference")
	}
	if err := firstError(guard.Call("Parts.Optimizer.Validate", p.Optimizer.Validate), p.Sampler.Sampling.Validate()); err != nil {
		return err
	}
	if _, err := p.learningRate(1); err != nil {
		return err
	}
	samplings := []rollout.Sampling{p.Sampler.Sampling}
	if e := p.Evaluator; e != nil {
		if err := e.Validate(); err != nil {
			return err
		}
		if (c.Lag > 0 || p.EvaluateBehind) && sameEngine(e.Sampler.Engine, p.Sampler.Engine) {
			return badSetting("Parts.Evaluator.Sampler.Engine", "the engine that samples for training", "with Lag or EvaluateBehind another one: they work at the same time")
		}
		samplings = append(samplings, e.Sampler.Sampling)
		if r, own := e.Sampler.Format.Reasoning(), p.Sampler.Format.Reasoning(); (r == nil) != (own == nil) || r != nil && *r != *own {
			return badSetting("Parts.Evaluator.Sampler.Format.Chat", "one that divides replies differently", "the markers of Parts.Sampler.Format.Chat: a run has one grader")
		}
		frozen := map[string]bool{}
		for _, task := range slices.Concat(p.Bank.Validation, p.Bank.Confirmation) {
			frozen[task.ID] = true
		}
		for _, task := range e.Tasks {
			if !frozen[task.ID] {
				return badSetting("Parts.Evaluator.Tasks", fmt.Sprintf("with task %q", task.ID), "tasks of the bank that are not trained on, each once")
			}
			frozen[task.ID] = false
		}
	}
	var vocab int
	if err := guard.Call("Parts.Policy.VocabSize", func() error { vocab = p.Policy.VocabSize(); return nil }); err != nil {
		return err
	}
	for _, s := range samplings {
		for _, token := range s.Stop {
			if token < 0 || int(token) >= vocab {
				return badSetting("Sampling.Stop", token, fmt.Sprintf("token ids below %d", vocab))
			}
		}
	}
	return nil
}

// learningRate is that of an update, from 1.
func (p Parts) learningRate(update int) (lr float64, err error) {
	err = guard.Call("Parts.Schedule", func() error { lr = p.Schedule(update - 1); return nil })
	if err == nil && !(lr >= 0 && lr <= math.MaxFloat32) {
		err = badSetting("Parts.Schedule's learning rate", lr, fmt.Sprintf("0 to %g", math.MaxFloat32))
	}
	if err != nil {
		return 0, fmt.Errorf("update %d: %w", update, err)
	}
	return lr, nil
}

func sameEngine(a, b rollout.Engine) bool {
	t := reflect.TypeOf(a)
	return t == reflect.TypeOf(b) && t.Comparable() && a == b
}
