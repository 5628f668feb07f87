package grpo

import (
	"context"
	"fmt"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/policy"
)

// judging is an evaluation in the background.
type judging struct {
	update int
	done   chan error // gets one value
	result *checkpoint.Evaluation
	stop   context.CancelFunc
}

func (t *Trainer) evaluationDue() bool {
	scheduled := t.update%t.cfg.EvaluateEvery == 0 || t.update >= t.cfg.Updates
	return t.parts.Evaluator != nil && scheduled && t.scored < t.update
}

// evaluate evaluates the present weights and records the outcome.
func (t *Trainer) evaluate(ctx context.Context) (*checkpoint.Evaluation, error) {
	weights, err := t.Weights()
	if err != nil {
		return nil, err
	}
	e, err := t.judge(ctx, weights)
	if err == nil {
		t.scored = t.update
	}
	return e, err
}

func (t *Trainer) judge(ctx context.Context, weights *policy.Weights) (*checkpoint.Evaluation, error) {
	figures, lines, err := t.parts.Evaluator.Evaluate(ctx, weights)
	if err == nil && t.parts.Run != nil {
		figures, err = t.parts.Run.RecordEvaluation(ctx, figures, lines)
	}
	if err != nil {
		return nil, err
	}
	return &figures, nil
}

// evaluateBehind evaluates a copy of the present weights while training goes on.
func (t *Trainer) evaluateBehind(ctx context.Context) error {
	weights, err := t.Weights()
	if err == nil {
		weights, err = weights.Host()
	}
	if err != nil {
		return err
	}
	j := &judging{update: t.update, done: make(chan error, 1)}
	ctx, j.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		var err error
		j.result, err = t.judge(ctx, weights)
		j.done <- err
	}()
	t.judging, t.scored = j, t.update
	return nil
}

// judged returns the evaluation in the background if it has ended, or waits for it; nil if there is none or it is going on. One
// that failed is missing in the record, so this trainer must not go on.
func (t *Trainer) judged(ctx context.Context, wait bool) (*checkpoint.Evaluation, error) {
	j := t.judging
	if j == nil || !wait && len(j.done) == 0 {
		return nil, nil
	}
	select {
	case err := <-j.done:
		j.stop()
		t.judging = nil
		if err != nil {
			t.broken = fmt.Errorf("the evaluation in the background failed, and the run goes on from before it: %w", err)
			return nil, t.broken
		}
		return j.result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// abandon stops the evaluation in the background. Its outcome is kept if it has ended well.
func (t *Trainer) abandon() {
	if j := t.judging; j != nil {
		j.stop()
		_, err := t.judged(context.Background(), true)
		if err != nil {
			t.parts.Log.Warn("an evaluation was not finished", "update", j.update, "error", err)
		}
	}
}
