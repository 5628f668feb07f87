package grpo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"time"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/eval"
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
	learner *learner // weights, optimizer state and the compiled update
	update  int      // updates done
	drawn   int      // tasks drawn from the training order
	order   order
	saved   int   // the update of the newest checkpoint; -1: none
	scored  int   // the update of the newest evaluation; -1: none
	broken  error // a failure after which the weights in memory cannot be trusted
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
	cfg.Bucket = min(cfg.Bucket, parts.Policy.MaxPositions()) // more would only be padding
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
		if err := t.Save(ctx); err != nil {
			return nil, err
		}
	}
	if t.evaluationDue() {
		evaluation, err := t.evaluate(ctx)
		return &Update{Update: t.update, Evaluation: evaluation}, err
	}
	if t.update >= t.cfg.Updates {
		return nil, fmt.Errorf("%w: %d updates", ErrFinished, t.update)
	}
	u := &Update{Update: t.update + 1}
	lr := t.parts.Schedule(t.update)
	if !(lr >= 0 && lr <= math.MaxFloat32) {
		return nil, fmt.Errorf("update %d: the Schedule gives the learning rate %v, allowed: 0 or more", u.Update, lr)
	}
	start := time.Now()

	groups, err := t.sample(ctx)
	if err != nil {
		return nil, fmt.Errorf("update %d: %w", u.Update, err)
	}
	u.Timing.Rollout = since(start)

	batch, err := newBatch(groups, t.cfg.GroupSize, t.parts.Policy.MaxPositions(), t.parts.Policy.VocabSize())
	if err != nil {
		return nil, fmt.Errorf("update %d: %w", u.Update, err)
	}
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
	t.update, t.drawn = t.update+1, t.drawn+t.cfg.TasksPerUpdate

	if err := t.record(ctx, u, groups); err != nil {
		t.broken = err // the weights in memory are ahead of the record
		return nil, fmt.Errorf("update %d: %w", u.Update, err)
	}
	if t.update%t.cfg.SaveEvery == 0 || t.update == t.cfg.Updates {
		if err := t.Save(ctx); err != nil {
			return nil, err
		}
	}
	if t.evaluationDue() {
		// The update is complete and recorded whatever happens to its evaluation: a run that goes on makes it up.
		if u.Evaluation, err = t.evaluate(ctx); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// sample makes the groups of the next update with the present weights.
func (t *Trainer) sample(ctx context.Context) ([]rollout.Group, error) {
	weights, err := t.Weights()
	if err != nil {
		return nil, err
	}
	if err := t.parts.Sampler.Engine.Load(ctx, weights); err != nil {
		return nil, err
	}
	groups, err := t.parts.Sampler.Groups(ctx, t.jobs())
	for _, g := range groups {
		for k, c := range g.Completions {
			if c.Update != t.update {
				return nil, fmt.Errorf("task %q, sample %d: sampled by the weights of update %d, want %d", g.Task.ID, k, c.Update, t.update)
			}
		}
	}
	return groups, err
}

// jobs draws the tasks of the next update and names the seed of each completion.
func (t *Trainer) jobs() []rollout.Job {
	jobs := make([]rollout.Job, t.cfg.TasksPerUpdate)
	samples := map[string]int{} // a small bank may give a task more than once in an update
	for i := range jobs {
		task := t.order.task(t.drawn + i)
		jobs[i].Task = task
		for range t.cfg.GroupSize {
			jobs[i].Seeds = append(jobs[i].Seeds, rollout.NewSeed(t.cfg.Seed, "rollout", t.update, task.ID, samples[task.ID]))
			samples[task.ID]++
		}
	}
	return jobs
}

func (t *Trainer) evaluationDue() bool {
	scheduled := t.update%t.cfg.EvaluateEvery == 0 || t.update >= t.cfg.Updates
	return t.parts.Evaluator != nil && scheduled && t.scored < t.update
}

func (t *Trainer) evaluate(ctx context.Context) (*checkpoint.Evaluation, error) {
	weights, err := t.Weights()
	if err != nil {
		return nil, err
	}
	figures, lines, err := t.parts.Evaluator.Evaluate(ctx, weights)
	if err != nil {
		return nil, err
	}
	if t.parts.Run != nil {
		if figures, err = t.parts.Run.RecordEvaluation(ctx, figures, lines); err != nil {
			return nil, err
		}
	}
	t.scored = t.update
	return &figures, nil
}

// record writes an update down. It is not cut short: the weights have changed already.
func (t *Trainer) record(ctx context.Context, u *Update, groups []rollout.Group) error {
	lines := eval.Lines(groups, func(int) int64 { return t.cfg.Seed })
	u.Metrics.count(lines, t.cfg.GroupSize)
	if t.parts.Run == nil {
		return nil
	}
	event, err := u.event()
	if err != nil {
		return err
	}
	for _, g := range groups {
		event.Tasks = append(event.Tasks, g.Task.ID)
	}
	return t.parts.Run.RecordUpdate(context.WithoutCancel(ctx), event, lines, nil)
}

// keep saves what is complete before the trainer is left, whatever ended the loop.
func (t *Trainer) keep(ctx context.Context) error {
	if t.broken != nil || t.saved == t.update {
		return nil
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

// Close releases the device memory. The run directory stays open: it is the caller's.
func (t *Trainer) Close() {
	if !errors.Is(t.broken, errClosed) {
		t.learner.close()
		t.broken = errClosed
	}
}
