package grpo

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/guard"
	"github.com/grouper-rl/grouper/rollout"
)

// identity is what must be the same whenever the run is opened again.
func (t *Trainer) identity() (checkpoint.Identity, error) {
	cfg, parts := t.cfg, t.parts
	weights, err := parts.Weights.Digest()
	if err != nil {
		return checkpoint.Identity{}, err
	}
	manifest := parts.Bank.Manifest
	prompts, err := t.promptsDigest()
	if err != nil {
		return checkpoint.Identity{}, err
	}
	optimizer, err := marshal("Parts.Optimizer", parts.Optimizer)
	if err != nil {
		return checkpoint.Identity{}, err
	}
	lr, err := parts.learningRate(1)
	if err != nil {
		return checkpoint.Identity{}, err
	}
	id := checkpoint.Identity{
		Settings: map[string]any{
			"config":        cfg,
			"updates":       cfg.Updates,
			"optimizer":     map[string]any{typeName(parts.Optimizer): optimizer},
			"learning_rate": lr,
			"sampling":      parts.Sampler.Sampling,
			"policy":        typeName(parts.Policy),
			"grader":        typeName(parts.Sampler.Grader),
		},
		Changeable: []string{"updates"},
		Seed:       cfg.Seed,
		Plan:       checkpoint.Plan{TasksPerUpdate: cfg.TasksPerUpdate, GroupSize: cfg.GroupSize, Lag: cfg.Lag},
		Grader: checkpoint.Grader{
			Source: manifest.Source.Name, Config: manifest.Source.Config, Reasoning: parts.Sampler.Format.Reasoning(),
		},
		Digests:  map[string]string{"weights": weights, "prompts": prompts},
		Versions: versions(parts.Backend.Kind()),
		Host: map[string]any{
			"backend": parts.Backend.Kind(), "os": runtime.GOOS, "arch": runtime.GOARCH, "cpus": runtime.NumCPU(),
		},
		About: parts.About,
		Bank:  parts.Bank.Files(),
	}
	if err := errors.Join(told(id.Settings, "policy_settings", "Parts.Policy", parts.Policy),
		told(id.Settings, "grader_settings", "Parts.Sampler.Grader", parts.Sampler.Grader)); err != nil {
		return id, err
	}
	if c := parts.Sampler.Format.Chat; c != nil {
		id.Settings["chat"], id.Digests["template"] = c, c.Digest()
	}
	if cfg.Lag > 0 {
		id.Plan.Staleness = string(cfg.Staleness)
	}
	if parts.PerCall != 0 {
		id.Settings["groups_per_call"] = parts.PerCall
	}
	if parts.Reference != nil {
		if id.Digests["reference"], err = parts.Reference.Digest(); err != nil {
			return id, err
		}
	}
	if e := parts.Evaluator; e != nil {
		plan := &checkpoint.EvaluationPlan{Seeds: e.SeedList(), Every: cfg.EvaluateEvery, Last: true}
		for _, task := range e.Tasks {
			plan.Tasks = append(plan.Tasks, task.ID)
		}
		if plan.Sampling, err = json.Marshal(e.Sampler.Sampling); err != nil {
			return id, err
		}
		id.Plan.Evaluation = plan
	}
	return id, nil
}

// promptsDigest names prompt form and tokenizer together: the SHA-256 of the prompt tokens of all training tasks.
func (t *Trainer) promptsDigest() (string, error) {
	h := sha256.New()
	if t.parts.Evaluator != nil {
		for _, task := range t.parts.Evaluator.Tasks { // not in the digest; that they fit is to be known now
			if _, err := t.encode(t.parts.Evaluator.Sampler.Format, task); err != nil {
				return "", err
			}
		}
	}
	for _, task := range t.parts.Bank.Train {
		prompt, err := t.encode(t.parts.Sampler.Format, task)
		if err != nil {
			return "", err
		}
		if err := binary.Write(h, binary.LittleEndian, append([]int32{int32(len(prompt))}, prompt...)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// encode gives a prompt that fits the policy.
func (t *Trainer) encode(f rollout.Format, task envs.Task) ([]int32, error) {
	prompt, err := f.Encode(task)
	if err != nil {
		return nil, err
	}
	if limit := t.parts.Policy.MaxPositions(); len(prompt) >= limit {
		return nil, fmt.Errorf("task %q: its prompt has %d tokens, the context has %d", task.ID, len(prompt), limit)
	}
	return prompt, nil
}

// told records the settings of a part that tells them: one that implements json.Marshaler, and gives something else than null.
func told(settings map[string]any, name, part string, v any) error {
	if _, ok := v.(json.Marshaler); !ok {
		return nil
	}
	data, err := marshal(part, v)
	if err == nil && string(data) != "null" {
		settings[name] = data
	}
	return err
}

// marshal gives the settings of a part as JSON.
func marshal(part string, v any) (data json.RawMessage, err error) {
	err = guard.Call(part+", as JSON,", func() (err error) { data, err = json.Marshal(v); return err })
	return data, err
}

// typeName is a type's name as it is written in Go, without a pointer's star: "optim.AdamW".
func typeName(v any) string { return strings.TrimPrefix(fmt.Sprintf("%T", v), "*") }

// versions lists what a run can go on with another of, but not bit for bit: the backend, Go, and the modules that compute.
func versions(backend string) map[string]string {
	out := map[string]string{"go": runtime.Version(), "backend": backend}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if strings.HasPrefix(m.Path, "github.com/gomlx/") {
				out[m.Path] = m.Version
			}
		}
	}
	return out
}
