package grpo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/grouper-rl/grouper/eval"
	"github.com/grouper-rl/grouper/internal/guard"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// ErrFinished says that all configured updates are done.
var ErrFinished = errors.New("the run is finished")

// errClosed is what a closed trainer is broken by.
var errClosed = errors.New("the trainer is closed")

// Trainer trains a policy. Its methods must not be called concurrently.
type Trainer struct {
	cfg     Config
	parts   Parts
	learner *learner          // weights, optimizer state and the compiled update
	rollout *rollout.Pipeline // makes the batches, ahead of their training where Lag allows it
	order   order             // of the training tasks
	update  int               // updates done
	scored  int               // the update of the newest evaluation; -1: none
	saved   int               // the update of the newest checkpoint, which may still be being written; -1: none
	saving  *saving           // nil: no checkpoint is being written
	judging *judging          // nil: no evaluation is going on in the background
	broken  error             // a failure after which the weights in memory cannot be trusted
}

// New prepares a run: it checks the parts and, where the run directory holds a checkpoint of the same configuration, restores it.
// Close the trainer when done.
func New(ctx context.Context, cfg Config, parts Parts) (*Trainer, error) {
	cfg = cfg.WithDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if err := parts.validate(cfg); err != nil {
		return nil, err
	}
	var positions int
	if err := guard.Call("Parts.Policy.MaxPositions", func() error { positions = parts.Policy.MaxPositions(); return nil }); err != nil {
		return nil, err
	}
	cfg.Bucket = min(cfg.Bucket, positions) // more would only be padding
	if parts.Log == nil {
		parts.Log = slog.New(slog.DiscardHandler)
	}
	t := &Trainer{cfg: cfg, parts: parts, saved: -1, scored: -1, order: order{seed: cfg.Seed, tasks: parts.Bank.Train, epoch: -1}}
	var err error
	if t.learner, err = newLearner(cfg, parts); err != nil {
		return nil, err
	}
	if err := t.restore(ctx); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Updates trains until the configured number of updates is reached: one optimizer update an iteration, before them an
// iteration for update 0 or a restored update whose evaluation is due. Leave the loop or cancel the context whenever you
// like: what is complete is kept, and a new trainer on the same run directory goes on from there.
func (t *Trainer) Updates(ctx context.Context) iter.Seq2[*Update, error] {
	return func(yield func(*Update, error) bool) {
		for t.update < t.cfg.Updates || t.evaluationDue() {
			u, err := t.Step(ctx)
			if err != nil {
				yield(nil, errors.Join(err, t.keep(ctx)))
				return
			}
			if !yield(u, nil) {
				if err := t.keep(ctx); err != nil {
					t.parts.Log.Error("saving after an early end", "error", err)
				}
				return
			}
		}
		if err := t.finish(ctx); err != nil {
			yield(nil, err)
		}
	}
}

// Step brings the run one update further; where the evaluation of the present update is still due it does that instead. After the
// last update it returns [ErrFinished].
func (t *Trainer) Step(ctx context.Context) (*Update, error) {
	if t.broken != nil {
		return nil, fmt.Errorf("make a new trainer to go on from the last checkpoint: %w", t.broken)
	}
	if t.saved < 0 {
		if err := t.saveBehind(ctx); err != nil {
			return nil, err
		}
	}
	// An evaluation in the background is waited for before the next checkpoint: no run may go on from after one that is missing.
	if e, err := t.judged(ctx, t.saveDue(t.update+1)); e != nil || err != nil {
		return &Update{Update: t.update, Evaluation: e}, err
	}
	if t.evaluationDue() {
		evaluation, err := t.evaluate(ctx)
		return &Update{Update: t.update, Evaluation: evaluation}, err
	}
	if t.update >= t.cfg.Updates {
		return nil, fmt.Errorf("%w: %d updates", ErrFinished, t.update)
	}
	if t.saving != nil && len(t.saving.done) > 0 {
		if err := t.written(); err != nil {
			return nil, err
		}
	}
	u := &Update{Update: t.update + 1}
	lr, err := t.parts.learningRate(u.Update)
	if err != nil {
		return nil, err
	}
	if err := t.publish(); err != nil {
		return nil, err
	}
	start := time.Now()
	made, err := t.rollout.Next(ctx)
	if err != nil {
		return nil, fmt.Errorf("update %d: %w", u.Update, err)
	}
	u.Timing.Rollout = since(start)

	batch := newBatch(made.Groups)
	training := time.Now()
	u.Metrics, err = t.learner.learn(ctx, batch, t.update+1, lr)
	if errors.Is(err, errLost) {
		t.broken = err
	}
	if err != nil {
		return nil, fmt.Errorf("update %d: %w", u.Update, err)
	}
	u.Timing.Train = since(training)
	u.Timing.RolloutTokensPS = float64(batch.tokens) / u.Timing.Rollout
	u.Timing.TrainTokensPS = float64(batch.tokens) / u.Timing.Train
	t.update++
	t.rollout.Consume()

	if err := t.record(ctx, u, made); err != nil {
		t.broken = err // the weights in memory are ahead of the record
		return nil, fmt.Errorf("update %d: %w", u.Update, err)
	}
	if t.cfg.Lag > 0 { // sampling goes on while the rest is done
		if err := t.publish(); err != nil {
			return nil, err
		}
	}
	if t.saveDue(t.update) {
		if err := t.saveBehind(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case t.evaluationDue() && t.parts.EvaluateBehind && t.update < t.cfg.Updates:
		if err := t.evaluateBehind(ctx); err != nil {
			return nil, err
		}
	case t.evaluationDue():
		// The update is complete and recorded whatever happens to its evaluation: a run that goes on makes it up.
		if u.Evaluation, err = t.evaluate(ctx); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// publish lets the present weights sample the batches that are due for them. Without lag they are lent, as they do not change
// while they sample; with lag the pipeline gets a copy in host memory.
func (t *Trainer) publish() error {
	if t.rollout.Published(t.update) {
		return nil
	}
	weights, err := t.Weights()
	if err == nil && t.cfg.Lag > 0 {
		weights, err = weights.Host()
	}
	if err != nil {
		return err
	}
	t.rollout.Publish(weights)
	return nil
}

// plan is what the pipeline makes.
func (t *Trainer) plan() rollout.Plan {
	p := rollout.Plan{
		Sampler: t.parts.Sampler, Seed: t.cfg.Seed, Task: t.order.task, Groups: t.cfg.TasksPerUpdate, GroupSize: t.cfg.GroupSize,
		Check: trainable(t.parts.Policy), Batches: t.cfg.Updates, Lag: t.cfg.Lag, Staleness: t.cfg.Staleness, MaxGroups: t.cfg.MaxGroups, Keep: varied,
		PerCall: t.parts.PerCall, Calls: t.parts.Calls,
	}
	if t.parts.Run != nil {
		p.Segment = t.parts.Run.Segment()
	}
	return p
}

// varied says that a group has something to teach: its rewards are not all equal.
func varied(g rollout.Group) bool {
	rewards := make([]float64, len(g.Scores))
	for i, s := range g.Scores {
		rewards[i] = s.Reward
	}
	return Filter{}.Apply(rewards, make([]int, len(rewards))).Keep[0]
}

func (t *Trainer) saveDue(update int) bool {
	return update%t.cfg.SaveEvery == 0 || update >= t.cfg.Updates
}

// record writes an update down. It is not cut short: the weights have changed already.
func (t *Trainer) record(ctx context.Context, u *Update, made *rollout.Batch) error {
	seed := func(int) int64 { return t.cfg.Seed }
	lines, dropped := eval.Lines(made.Groups, seed), eval.Lines(made.Dropped, seed)
	u.Metrics.count(lines, t.cfg.GroupSize)
	u.Metrics.Dropped = float64(len(made.Dropped))
	u.Metrics.lag(u.Update, made.Groups)
	if t.parts.Run == nil {
		return nil
	}
	event, err := u.event(made, t.parts.Run.Segment())
	if err != nil {
		return err
	}
	return t.parts.Run.RecordUpdate(context.WithoutCancel(ctx), event, lines, dropped)
}

// keep saves what is complete before the trainer is left, whatever ended the loop. What came after an evaluation that is now
// missing is made again.
func (t *Trainer) keep(ctx context.Context) error {
	if ctx.Err() != nil {
		t.abandon()
	}
	if _, err := t.judged(context.WithoutCancel(ctx), true); err != nil || t.broken != nil {
		return errors.Join(err, t.written())
	}
	return t.Save(context.WithoutCancel(ctx))
}

func (t *Trainer) finish(ctx context.Context) error {
	if err := t.keep(ctx); err != nil || t.parts.Run == nil {
		return err
	}
	return t.parts.Run.Finish(ctx)
}

// Weights are the present weights in the dtypes of the policy's parameters. They stay valid until the next Step.
func (t *Trainer) Weights() (*policy.Weights, error) {
	if errors.Is(t.broken, errClosed) {
		return nil, t.broken
	}
	return t.learner.weights(t.update)
}

// Done is the number of updates done.
func (t *Trainer) Done() int { return t.update }

// Close ends sampling ahead and evaluations, waits for a checkpoint that is being written, and releases the device memory. The run directory
// stays open: it is the caller's.
func (t *Trainer) Close() {
	if errors.Is(t.broken, errClosed) {
		return
	}
	if t.rollout != nil {
		t.rollout.Close()
	}
	t.abandon()
	if err := t.written(); err != nil {
		t.parts.Log.Error("a checkpoint could not be written", "error", err)
	}
	t.learner.close()
	t.broken = errClosed
}
