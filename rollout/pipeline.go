package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/guard"
	"github.com/grouper-rl/grouper/policy"
)

// Staleness says which weights sample a batch that is made ahead of its training.
type Staleness string

const (
	// Fixed samples the batch of update u by the weights of update max(0, u-1-Lag), no others: the run is bit-reproducible
	// although sampling and training overlap.
	Fixed Staleness = "fixed"
	// Eager samples each group by the newest weights there are when it begins, of update max(0, u-1-Lag) to u-1. What they are
	// depends on the speed of the machine.
	Eager Staleness = "eager"
)

// Plan says what a [Pipeline] makes.
type Plan struct {
	Sampler   Sampler
	Seed      int64                 // the run's
	Task      func(n int) envs.Task // the n-th of the endless sequence of training tasks; called by one goroutine at a time
	Groups    int                   // in a batch
	GroupSize int                   // completions in a group
	Batches   int                   // in all; batch u is trained on by update u, from 1
	Segment   int                   // of the run; marks the groups
	Check     func(Group) error     // refuses a group that cannot be trained on; nil: none

	Lag       int       // completed updates between the weights that sample and the weights that are trained, at most
	Staleness Staleness // "": Fixed

	// MaxGroups switches dynamic sampling on: groups that Keep refuses are replaced by groups of the next tasks until the
	// batch is full or so many were sampled; then refused ones fill it up. 0: off, every group is kept.
	MaxGroups int
	Keep      func(Group) bool

	PerCall int // groups that one call of the engine samples; 0: all that are wanted at the moment
	Calls   int // of the engine at once; 0: 1
}

// Batch is what one update trains on.
type Batch struct {
	Number  int     // the update that it is for
	First   int     // tasks drawn before it
	Drawn   int     // tasks drawn with it
	Groups  []Group // in the order of their tasks
	Dropped []Group // sampled and left out
}

// Pipeline samples and grades batches in order, while earlier ones are trained on: at most Lag of them ahead. It works in the
// background from the first [Pipeline.Next] until [Pipeline.Close]. Its methods may be called concurrently.
type Pipeline struct {
	plan Plan

	mu       sync.Mutex
	changed  chan struct{}           // closed at every change that somebody may wait for
	weights  map[int]*policy.Weights // published and perhaps still needed
	newest   int                     // of weights; -1: none
	batches  []*batch                // begun and not consumed, in order; only the last may be incomplete
	consumed int                     // batches
	drawn    int                     // tasks drawn for consumed batches
	failed   error                   // what ended the work and is to be returned
	ended    error                   // what the last work ended with, when it was stopped too

	loading sync.Mutex // of weights into the engine
	loaded  int        // what is in the engine, as far as is known; -1: unknown

	working chan struct{} // closed when the present work has ended; nil: none
	stop    context.CancelFunc
}

// batch is a batch in the making.
type batch struct {
	number, first int
	groups        []*Group // of the tasks drawn so far, nil: pending
}

// NewPipeline begins after the state of a checkpoint; the zero State is the beginning of a run.
func NewPipeline(p Plan, at State) (*Pipeline, error) {
	setDefault(&p.Staleness, Fixed)
	setDefault(&p.Calls, 1)
	if err := p.validate(); err != nil {
		return nil, err
	}
	line := &Pipeline{plan: p, changed: make(chan struct{}), weights: map[int]*policy.Weights{}, newest: -1, loaded: -1}
	if err := line.restore(at); err != nil {
		return nil, err
	}
	return line, nil
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func (p Plan) validate() error {
	bad := func(field string, value any, allowed string) error {
		return fmt.Errorf("pipeline: %s is %v, allowed: %s", field, value, allowed)
	}
	switch {
	case p.Groups < 1:
		return bad("Groups", p.Groups, "1 or more")
	case p.GroupSize < 1:
		return bad("GroupSize", p.GroupSize, "1 or more")
	case p.Lag < 0:
		return bad("Lag", p.Lag, "0 or more")
	case p.Staleness != Fixed && p.Staleness != Eager:
		return bad("Staleness", fmt.Sprintf("%q", p.Staleness), "fixed, eager")
	case p.MaxGroups != 0 && (p.MaxGroups < p.Groups || p.Keep == nil):
		return bad("MaxGroups", p.MaxGroups, fmt.Sprintf("0 (off) or at least Groups (%d), with Keep", p.Groups))
	case p.PerCall < 0:
		return bad("PerCall", p.PerCall, "0 (all) or more")
	case p.Calls < 1:
		return bad("Calls", p.Calls, "0 (1) or more")
	case p.Task == nil:
		return bad("Task", "nil", "the sequence of tasks")
	}
	return p.Sampler.Retry.Validate()
}

// due is the oldest update whose weights may sample a batch.
func (p Plan) due(number int) int { return max(0, number-1-p.Lag) }

// Publish makes weights available to the batches that are due for them. With Lag 0 they are borrowed until their batch was
// returned; otherwise the pipeline keeps them, and they must not be changed or freed.
func (p *Pipeline) Publish(w *policy.Weights) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weights[w.Update] = w
	p.newest = max(p.newest, w.Update)
	p.forget()
	p.notify()
}

// Published says whether the weights of an update were published.
func (p *Pipeline) Published(update int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest >= update
}

// forget drops the weights that no batch will ask for again.
func (p *Pipeline) forget() {
	next := p.consumed + 1
	if n := len(p.batches); n > 0 {
		next = p.batches[n-1].number
		if p.batches[n-1].complete(p.plan) {
			next++
		}
	}
	for v := range p.weights {
		if p.plan.Staleness == Fixed && v < p.plan.due(next) || p.plan.Staleness == Eager && v < p.newest {
			delete(p.weights, v)
		}
	}
}

// notify wakes those who wait for a change.
func (p *Pipeline) notify() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Next waits for the batch after the last consumed one. It returns the same batch until [Pipeline.Consume]. After an error,
// the next call tries what failed again; what was complete is kept. A context that ends stops the work in hand.
func (p *Pipeline) Next(ctx context.Context) (*Batch, error) {
	for {
		p.mu.Lock()
		if len(p.batches) > 0 && p.batches[0].complete(p.plan) {
			b := p.batches[0].result(p.plan)
			p.start(ctx) // with the batches after it
			p.mu.Unlock()
			return b, nil
		}
		err := p.failed
		p.failed = nil
		if err == nil && p.consumed >= p.plan.Batches {
			err = fmt.Errorf("batch %d: the plan has %d", p.consumed+1, p.plan.Batches)
		}
		if err == nil {
			p.start(ctx)
		}
		changed := p.changed
		p.mu.Unlock()
		if err != nil {
			return nil, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err := p.end(); errors.Is(err, guard.ErrLeft) {
				return nil, fmt.Errorf("%w: %w", ctx.Err(), err)
			}
			return nil, ctx.Err()
		}
	}
}

// Consume says that the batch which Next returns has been trained on.
func (p *Pipeline) Consume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	b := p.batches[0].result(p.plan)
	p.consumed, p.drawn = b.Number, b.Drawn
	p.batches = p.batches[1:]
	p.forget()
	p.notify()
}

// Close stops the work in hand and waits until it has ended. What is complete is kept, and Next would begin again.
func (p *Pipeline) Close() { _ = p.end() }

// end is Close, and says what the work ended with.
func (p *Pipeline) end() error {
	p.mu.Lock()
	working, stop := p.working, p.stop
	p.mu.Unlock()
	if working == nil {
		return nil
	}
	stop()
	<-working
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ended
}

// start begins to work in the background unless that is being done, or there is an error to be returned first.
func (p *Pipeline) start(ctx context.Context) {
	if p.working != nil || p.failed != nil {
		return
	}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	working := make(chan struct{})
	p.working = working
	go func() {
		err := p.work(ctx)
		p.mu.Lock()
		p.ended = err
		if ctx.Err() == nil {
			p.failed = err
		}
		p.stop()
		p.working = nil
		p.notify()
		p.mu.Unlock()
		close(working)
	}()
}

// work makes batch after batch.
func (p *Pipeline) work(ctx context.Context) error {
	for {
		b, err := p.begin(ctx)
		if b == nil || err != nil {
			return err
		}
		for {
			p.mu.Lock()
			wanted := b.wanted(p.plan)
			jobs := p.plan.jobs(b)
			p.mu.Unlock()
			if len(wanted) == 0 {
				break
			}
			if err := p.sample(ctx, b, jobs, wanted); err != nil {
				return fmt.Errorf("sampling for update %d: %w", b.number, err)
			}
		}
		p.mu.Lock()
		p.forget()
		p.notify()
		p.mu.Unlock()
	}
}

// begin waits until the next batch may be sampled, or goes on with one that is incomplete; nil when all are made.
func (p *Pipeline) begin(ctx context.Context) (*batch, error) {
	for {
		p.mu.Lock()
		next, first := p.consumed+1, p.drawn
		var unfinished *batch
		if n := len(p.batches); n > 0 {
			last := p.batches[n-1]
			if next = last.number; last.complete(p.plan) {
				next, first = next+1, first+p.drawnBy(p.batches)
			} else {
				unfinished = last
			}
		}
		ready, changed := p.newest >= p.plan.due(next), p.changed
		if ready && unfinished == nil && next <= p.plan.Batches {
			unfinished = &batch{number: next, first: first}
			p.batches = append(p.batches, unfinished)
		}
		p.loaded = -1 // somebody else may have used the engine since the last batch
		p.mu.Unlock()
		switch {
		case next > p.plan.Batches:
			return nil, nil
		case ready:
			return unfinished, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *Pipeline) drawnBy(batches []*batch) (n int) {
	for _, b := range batches {
		n += len(b.groups)
	}
	return n
}

// sample fills pending places of a batch.
func (p *Pipeline) sample(ctx context.Context, b *batch, jobs []Job, wanted []int) error {
	perCall := p.plan.PerCall
	setDefault(&perCall, len(wanted))
	calls, ctx := errgroup.WithContext(ctx)
	calls.SetLimit(p.plan.Calls)
	for part := range slices.Chunk(wanted, perCall) {
		calls.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := p.load(ctx, b.number); err != nil {
				return err
			}
			mine := make([]Job, len(part))
			for i, n := range part {
				mine[i] = jobs[n]
			}
			groups, err := p.plan.Sampler.Groups(ctx, mine)
			if err != nil {
				return err
			}
			for _, g := range groups {
				if err := p.plan.check(g, b.number); err != nil {
					return err
				}
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			for i, n := range part {
				groups[i].Segment = p.plan.Segment
				b.groups[n] = &groups[i]
			}
			return nil
		})
	}
	return calls.Wait()
}

// load gives the engine the weights that a batch is due for.
func (p *Pipeline) load(ctx context.Context, number int) error {
	p.loading.Lock()
	defer p.loading.Unlock()
	p.mu.Lock()
	v := p.newest
	if p.plan.Staleness == Fixed {
		v = p.plan.due(number)
	}
	w := p.weights[v]
	p.mu.Unlock()
	switch {
	case v == p.loaded:
		return nil
	case w == nil:
		return fmt.Errorf("the weights of update %d are not there", v)
	}
	p.loaded = -1
	if err := p.plan.Sampler.Load(ctx, w); err != nil {
		return err
	}
	p.loaded = v
	return nil
}

// check refuses a group that was sampled by other weights than the plan allows, or that cannot be trained on.
func (p Plan) check(g Group, number int) error {
	low, high := p.due(number), p.due(number)
	if p.Staleness == Eager {
		high = number - 1
	}
	for k, c := range g.Completions {
		switch {
		case c.Update < low || c.Update > high:
			return fmt.Errorf("task %q, sample %d: sampled by the weights of update %d, allowed: %d to %d", g.Task.ID, k, c.Update, low, high)
		case c.Update != g.Weights():
			return fmt.Errorf("task %q, sample %d: sampled by the weights of update %d, sample 0 by those of %d", g.Task.ID, k, c.Update, g.Weights())
		}
	}
	if p.Check != nil {
		return p.Check(g)
	}
	return nil
}

// jobs are those of all tasks that a batch has drawn. The seed of a completion names the batch, not the weights: it is the
// same with every lag.
func (p Plan) jobs(b *batch) []Job {
	jobs := make([]Job, len(b.groups))
	samples := map[string]int{} // a small bank may give a task more than once in a batch
	for i := range jobs {
		task := p.Task(b.first + i)
		jobs[i].Task = task
		for range p.GroupSize {
			jobs[i].Seeds = append(jobs[i].Seeds, NewSeed(p.Seed, "rollout", b.number-1, task.ID, samples[task.ID]))
			samples[task.ID]++
		}
	}
	return jobs
}

// wave is the number of tasks that a batch has to draw, given the first groups: those of earlier waves. The batch is full
// when that is no more than it has drawn.
func (b *batch) wave(p Plan) int {
	n := p.Groups
	for n <= len(b.groups) && p.MaxGroups > 0 {
		kept := 0
		for _, g := range b.groups[:n] {
			if g == nil {
				return n
			}
			if p.Keep(*g) {
				kept++
			}
		}
		more := min(p.MaxGroups-n, p.Groups-kept)
		if more <= 0 {
			break
		}
		n += more
	}
	return n
}

// wanted draws the tasks that the batch needs and lists those that are pending.
func (b *batch) wanted(p Plan) (pending []int) {
	b.groups = slices.Grow(b.groups, b.wave(p)-len(b.groups))
	for len(b.groups) < b.wave(p) {
		b.groups = append(b.groups, nil)
	}
	for i, g := range b.groups {
		if g == nil {
			pending = append(pending, i)
		}
	}
	return pending
}

// complete says that nothing is pending and nothing more has to be drawn.
func (b *batch) complete(p Plan) bool {
	return len(b.groups) > 0 && !slices.Contains(b.groups, nil) && b.wave(p) <= len(b.groups)
}

// result puts a complete batch together: the kept groups, filled up by the first refused ones, in the order of the tasks.
func (b *batch) result(p Plan) *Batch {
	out := &Batch{Number: b.number, First: b.first, Drawn: b.first + len(b.groups)}
	kept := make([]bool, len(b.groups))
	missing := p.Groups
	for i, g := range b.groups {
		if kept[i] = p.MaxGroups == 0 || p.Keep(*g); kept[i] {
			missing--
		}
	}
	for i, g := range b.groups {
		switch {
		case kept[i]:
			out.Groups = append(out.Groups, *g)
		case missing > 0:
			out.Groups = append(out.Groups, *g)
			missing--
		default:
			out.Dropped = append(out.Dropped, *g)
		}
	}
	return out
}
