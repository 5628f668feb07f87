// Package grpo trains a policy by group-relative policy optimisation (Shao et al. 2024, arXiv 2402.03300): it samples a group
// of completions for each task, grades them, compares each with its group, and takes one optimizer step on all of
// them. The loop stands in trainer.go.
package grpo

import (
	"fmt"
	"log/slog"

	"github.com/gomlx/compute/dtypes"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/eval"
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
// may grow).
type Config struct {
	Seed           int64       `json:"seed"`             // names all randomness of the run
	Updates        int         `json:"updates"`          // optimizer updates in all
	TasksPerUpdate int         `json:"tasks_per_update"` // groups in a batch
	GroupSize      int         `json:"group_size"`       // completions of each task, at least 2
	Advantage      Advantage   `json:"advantage"`
	Objective      Objective   `json:"objective"`
	OldLogProbs    OldLogProbs `json:"old_log_probs"`  // "": Behaviour
	MaskTruncated  bool        `json:"mask_truncated"` // leave truncated completions out of the loss; their reward still counts in the group
	MaxGradNorm    float64     `json:"max_grad_norm"`  // clip the global gradient norm to this; 0: no clipping
	MicroBatch     int         `json:"micro_batch"`    // completions computed at once, a divisor or multiple of GroupSize; 0: all
	Bucket         int         `json:"bucket"`         // prompts and completions are padded to multiples of this; 0: 16
	Compute        string      `json:"compute"`        // dtype of forward and backward: "float32" ("") or "bfloat16"; masters are always float32
	SaveEvery      int         `json:"save_every"`     // updates between checkpoints; 0: 10
	EvaluateEvery  int         `json:"evaluate_every"` // updates between evaluations, a multiple of SaveEvery; 0: SaveEvery
}

// WithDefaults fills in the values that stand for 0.
func (c Config) WithDefaults() Config {
	set := func(field *int, value int) {
		if *field == 0 {
			*field = value
		}
	}
	set(&c.Bucket, 16)
	set(&c.SaveEvery, 10)
	set(&c.EvaluateEvery, c.SaveEvery)
	set(&c.MicroBatch, c.TasksPerUpdate*c.GroupSize)
	if c.OldLogProbs == "" {
		c.OldLogProbs = Behaviour
	}
	if c.Compute == "" {
		c.Compute = "float32"
	}
	return c
}

// Validate names the first setting that cannot be used, its value and what is allowed.
func (c Config) Validate() error {
	bad := func(field string, value any, allowed string) error {
		return fmt.Errorf("grpo: %s is %v, allowed: %s", field, value, allowed)
	}
	c = c.WithDefaults()
	rows := c.TasksPerUpdate * c.GroupSize
	switch {
	case c.Updates < 0:
		return bad("Updates", c.Updates, "0 or more")
	case c.TasksPerUpdate < 1:
		return bad("TasksPerUpdate", c.TasksPerUpdate, "1 or more")
	case c.GroupSize < 2:
		return bad("GroupSize", c.GroupSize, "2 or more: a single completion has nothing to be compared with, its advantage is always 0")
	case c.OldLogProbs != Behaviour && c.OldLogProbs != Current:
		return bad("OldLogProbs", c.OldLogProbs, `"behaviour" or "current"`)
	case !(c.MaxGradNorm >= 0):
		return bad("MaxGradNorm", c.MaxGradNorm, "0 (off) or more")
	case c.MicroBatch < 1 || rows%c.MicroBatch != 0 || (c.MicroBatch%c.GroupSize != 0 && c.GroupSize%c.MicroBatch != 0):
		return bad("MicroBatch", c.MicroBatch, fmt.Sprintf("a divisor of TasksPerUpdate*GroupSize (%d) that divides GroupSize (%d) or is a multiple of it", rows, c.GroupSize))
	case c.Bucket < 1:
		return bad("Bucket", c.Bucket, "1 or more")
	case c.Compute != "float32" && c.Compute != "bfloat16":
		return bad("Compute", c.Compute, `"float32" or "bfloat16"`)
	case c.SaveEvery < 1:
		return bad("SaveEvery", c.SaveEvery, "1 or more")
	case c.EvaluateEvery < 1 || c.EvaluateEvery%c.SaveEvery != 0:
		return bad("EvaluateEvery", c.EvaluateEvery, fmt.Sprintf("a multiple of SaveEvery (%d)", c.SaveEvery))
	}
	if err := c.Advantage.Validate(); err != nil {
		return err
	}
	return c.Objective.Validate()
}

func (c Config) computeDType() dtypes.DType {
	if c.Compute == "bfloat16" {
		return dtypes.BFloat16
	}
	return dtypes.Float32
}

// Parts are what a trainer works with. Each can be the user's own.
type Parts struct {
	Backend   *backend.Backend
	Device    int // the training role's device number
	Policy    policy.Policy
	Weights   *policy.Weights // the base weights; the trainer takes a copy
	Optimizer optim.Optimizer
	Schedule  optim.Schedule // learning rate of each update, from 0
	Train     []envs.Task
	Sampler   rollout.Sampler   // engine (the rollout role), prompt format, grader and sampling settings
	Evaluator *eval.Evaluator   // nil: no evaluation
	Run       *checkpoint.Run   // nil: nothing is recorded
	Bank      map[string][]byte // the frozen bank's files, recorded with the run
	Grader    any               // settings of the grader, recorded so that a verifier can rebuild it
	Reference *policy.Weights   // weights of the KL term's reference policy; only with a KL coefficient
	Log       *slog.Logger      // nil: silent
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
	case len(p.Train) == 0:
		return fmt.Errorf("grpo: Parts.Train has no tasks")
	case p.Device < 0 || p.Device >= int(p.Backend.NumDevices()):
		return fmt.Errorf("grpo: Parts.Device is %d, the backend has devices 0 to %d", p.Device, p.Backend.NumDevices()-1)
	}
	seen := make(map[string]bool, len(p.Train))
	for _, task := range p.Train {
		if seen[task.ID] {
			return fmt.Errorf("grpo: Parts.Train has task %q twice", task.ID)
		}
		seen[task.ID] = true
	}
	if err := p.Optimizer.Validate(); err != nil {
		return err
	}
	if p.Evaluator != nil {
		if err := p.Evaluator.Validate(); err != nil {
			return err
		}
	}
	return p.Sampler.Sampling.Validate()
}
