package grpo

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// lying changes what an engine returns.
type lying struct {
	rollout.Engine
	change func(c *rollout.Completion)
}

func (l *lying) Generate(ctx context.Context, reqs []rollout.Request, s rollout.Sampling) ([][]rollout.Completion, error) {
	out, err := l.Engine.Generate(ctx, reqs, s)
	if err == nil {
		l.change(&out[len(out)-1][1])
	}
	return out, err
}

// An engine that returns what cannot have been sampled must be found out by task and sample before anything is trained on it.
func TestLyingEngine(t *testing.T) {
	s, engine := small(), &lying{change: func(*rollout.Completion) {}}
	s.engine = func(honest rollout.Engine) rollout.Engine {
		engine.Engine = honest
		return engine
	}
	s.cfg.Lag = 1 // the evaluation has an engine of its own
	trainer, err := s.open(t, testbackend.Go(t), "")
	require.NoError(t, err)
	defer trainer.Close()
	_, err = trainer.Step(t.Context()) // the evaluation of update 0
	require.NoError(t, err)
	for want, change := range map[string]func(*rollout.Completion){
		"token 999, the vocabulary has 11": func(c *rollout.Completion) {
			c.Tokens = []int32{999}
			c.LogProbs, c.Filtered, c.Finish = []float32{-1}, []float32{-1}, rollout.Length
		},
		"no tokens":                  func(c *rollout.Completion) { c.Tokens = nil },
		"at most 3 were asked for":   func(c *rollout.Completion) { c.Tokens = make([]int32, 20) },
		"filtered":                   func(c *rollout.Completion) { c.Filtered = nil },
		"log-prob of token 0 is NaN": func(c *rollout.Completion) { c.LogProbs[0] = float32(math.NaN()) },
		"log-prob of token 0 is 5":   func(c *rollout.Completion) { c.LogProbs[0] = 5 },
		"finish reason":              func(c *rollout.Completion) { c.Finish = "weird" },
		"weights of update 7":        func(c *rollout.Completion) { c.Update = 7 },
	} {
		engine.change = change
		_, err := trainer.Step(t.Context())
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "sample 1", want)
	}
	engine.change = func(*rollout.Completion) {}
	_, err = trainer.Step(t.Context())
	require.NoError(t, err, "the trainer can go on")
}

// odd is a grader with a fault.
type odd func() (envs.Score, error)

func (o odd) Grade(context.Context, envs.Task, envs.Reply) (envs.Score, error) { return o() }

// So must a grader whose reward is no number that can be trained on, or that panics.
func TestOddGraders(t *testing.T) {
	s, changing := small(), &changing{}
	s.grader, s.blind = changing, true
	trainer, err := s.open(t, testbackend.Go(t), "")
	require.NoError(t, err)
	defer trainer.Close()
	for want, grader := range map[string]odd{
		"reward is NaN":    func() (envs.Score, error) { return envs.Score{Reward: math.NaN()}, nil },
		"reward is +Inf":   func() (envs.Score, error) { return envs.Score{Reward: math.Inf(1)}, nil },
		"reward is 1e+300": func() (envs.Score, error) { return envs.Score{Reward: 1e300}, nil },
		"value is NaN":     func() (envs.Score, error) { return envs.Score{Value: math.NaN()}, nil },
		"panicked: oops":   func() (envs.Score, error) { panic("oops") },
	} {
		changing.Grader = grader
		_, err := trainer.Step(t.Context())
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `task "letter/`)
	}
}

// A step that would overflow the weights must name a tensor, leave weights and optimizer as they were, and never reach a
// checkpoint: otherwise the run could not go on with a smaller learning rate, or at all.
func TestOverflowingStepChangesNothing(t *testing.T) {
	s := small()
	s.opt, s.lr = optim.AdamW{WeightDecay: 10}, 1e38
	s.cfg.TasksPerUpdate, s.cfg.GroupSize = 5, 16
	s.grader, s.blind = firstLetter{}, true
	dir := t.TempDir()
	trainer, err := s.open(t, testbackend.Go(t), dir)
	require.NoError(t, err)
	defer trainer.Close()
	before, err := trainer.Weights()
	require.NoError(t, err)
	want, err := before.Digest()
	require.NoError(t, err)
	var last error
	for _, err := range trainer.Updates(t.Context()) {
		last = err
	}
	require.ErrorIs(t, last, ErrNotFinite)
	require.ErrorContains(t, last, "the learning rate is 1e+38")
	require.ErrorContains(t, last, ".weight")
	after, err := trainer.Weights()
	require.NoError(t, err)
	got, err := after.Digest()
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = os.Stat(filepath.Join(dir, "checkpoints", "000001"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// What cannot work is refused before a run directory is bound to it.
func TestRefusedParts(t *testing.T) {
	for want, change := range map[string]func(*Parts){
		"Evaluator.Tasks": func(p *Parts) { p.Evaluator.Tasks = p.Bank.Train },
		"letter/f":        func(p *Parts) { p.Evaluator.Tasks = append(p.Evaluator.Tasks, p.Evaluator.Tasks[0]) },
		"Schedule":        func(p *Parts) { p.Schedule = optim.Constant(math.NaN()) },
		"learning rate":   func(p *Parts) { p.Schedule = optim.Constant(-1) },
		"Sampling.Stop":   func(p *Parts) { p.Sampler.Sampling.Stop = []int32{999} },
		"Stop is -1":      func(p *Parts) { p.Evaluator.Sampler.Sampling.Stop = []int32{-1} },
		"Temperature":     func(p *Parts) { p.Sampler.Sampling.Temperature = 0 },
		"Device":          func(p *Parts) { p.Device = 99 },
		"no training":     func(p *Parts) { p.Bank = &envs.Bank{} },
	} {
		trainer, err := small().open(t, testbackend.Go(t), "")
		require.NoError(t, err)
		parts := trainer.parts
		change(&parts)
		_, err = New(t.Context(), trainer.cfg, parts)
		require.ErrorContains(t, err, want)
		trainer.Close()
	}
}

// faulty is an optimizer, a policy and a schedule that do something else in one of their methods.
type faulty struct {
	optim.AdamW
	in string
	do func()
}

func (f faulty) maybe(method string) {
	if f.in == method {
		f.do()
	}
}

func (f faulty) Validate() error              { f.maybe("Validate"); return f.AdamW.Validate() }
func (f faulty) Slots() []string              { f.maybe("Slots"); return f.AdamW.Slots() }
func (f faulty) MarshalJSON() ([]byte, error) { f.maybe("MarshalJSON"); return []byte("{}"), nil }

func (f faulty) Scalars(lr float64, step int) []float64 {
	f.maybe("Scalars")
	return f.AdamW.Scalars(lr, step)
}

func (f faulty) Step(in optim.Input) (*graph.Node, []*graph.Node) {
	f.maybe("Step")
	param, slots := f.AdamW.Step(in)
	switch f.in {
	case "Step without a slot":
		return param, slots[1:]
	case "Step without a parameter":
		return nil, slots
	case "Step with a scalar":
		return graph.ReduceAllSum(param), slots
	}
	return param, slots
}

type faultyPolicy struct {
	policy.Policy
	faulty
}

func (f faultyPolicy) Params() []policy.Param { f.maybe("Params"); return f.Policy.Params() }
func (f faultyPolicy) VocabSize() int         { f.maybe("VocabSize"); return f.Policy.VocabSize() }
func (f faultyPolicy) MaxPositions() int      { f.maybe("MaxPositions"); return f.Policy.MaxPositions() }

func (f faultyPolicy) Hidden(w policy.Vars, in policy.Inputs) *graph.Node {
	f.maybe("Hidden")
	return f.Policy.Hidden(w, in)
}

// No fault of a part may end the program, or leave it without a word on which part and update it was; the weights stay as they were.
func TestFaultyParts(t *testing.T) {
	b := testbackend.Go(t)
	s := small()
	s.blind = true
	rate := func(bad float64) func(*Parts, faulty) {
		return func(p *Parts, _ faulty) {
			p.Schedule = func(done int) float64 {
				if done == 1 {
					return bad
				}
				return .02
			}
		}
	}
	optimizer := func(p *Parts, f faulty) { p.Optimizer = f }
	network := func(p *Parts, f faulty) { p.Policy = faultyPolicy{p.Policy, f} }
	for in, c := range map[string]struct {
		set  func(*Parts, faulty)
		want string
		at   int // the update; 0: New
	}{
		"Validate":                 {optimizer, "Parts.Optimizer.Validate panicked: oops", 0},
		"Slots":                    {optimizer, "Parts.Optimizer.Slots panicked: oops", 0},
		"MarshalJSON":              {optimizer, "Parts.Optimizer, as JSON, panicked: oops", 0},
		"Scalars":                  {optimizer, "update 1: Parts.Optimizer.Scalars panicked: oops", 1},
		"Step":                     {optimizer, "update 1: checking the optimizer step", 1},
		"Step without a slot":      {optimizer, "Step gives 1 slots of", 1},
		"Step without a parameter": {optimizer, "Step gives no node for the parameter of", 1},
		"Step with a scalar":       {optimizer, "Step gives the parameter of", 1},
		"Params":                   {network, "Parts.Policy.Params panicked: oops", 0},
		"VocabSize":                {network, "Parts.Policy.VocabSize panicked: oops", 0},
		"MaxPositions":             {network, "Parts.Policy.MaxPositions panicked: oops", 0},
		"Hidden":                   {network, "update 1: gradients", 1},
		"first rate": {func(p *Parts, f faulty) { p.Schedule = func(int) float64 { f.maybe("first rate"); return 1 } },
			"update 1: Parts.Schedule panicked: oops", 0},
		"later rate": {func(p *Parts, f faulty) {
			p.Schedule = func(done int) float64 {
				if done == 1 {
					f.do()
				}
				return .02
			}
		}, "update 2: Parts.Schedule panicked: oops", 2},
		"rate NaN":      {rate(math.NaN()), "update 2: grpo: Parts.Schedule's learning rate is NaN", 2},
		"rate +Inf":     {rate(math.Inf(1)), "update 2: grpo: Parts.Schedule's learning rate is +Inf", 2},
		"rate negative": {rate(-1), "update 2: grpo: Parts.Schedule's learning rate is -1", 2},
	} {
		t.Run(in, func(t *testing.T) {
			model, err := s.open(t, b, "") // for its parts
			require.NoError(t, err)
			defer model.Close()
			parts := model.parts
			c.set(&parts, faulty{AdamW: s.opt.(optim.AdamW), in: in, do: func() { panic("oops") }})
			parts.Run, err = checkpoint.Open(t.TempDir())
			require.NoError(t, err)
			defer parts.Run.Close()
			trainer, err := New(t.Context(), s.cfg, parts)
			if c.at == 0 {
				require.ErrorContains(t, err, c.want)
				return
			}
			require.NoError(t, err)
			defer trainer.Close()
			for range c.at - 1 {
				_, err := trainer.Step(t.Context())
				require.NoError(t, err)
			}
			before, err := trainer.Weights()
			require.NoError(t, err)
			want, err := before.Digest()
			require.NoError(t, err)
			_, err = trainer.Step(t.Context())
			require.ErrorContains(t, err, c.want)
			after, err := trainer.Weights()
			require.NoError(t, err)
			got, err := after.Digest()
			require.NoError(t, err)
			require.Equal(t, want, got)
		})
	}
}

// A validation prompt that does not fit, or has characters that the tokenizer does not know, must be found before the run begins, not at its
// first evaluation; the directory stays free for the corrected program.
func TestValidationPromptsAreCheckedFirst(t *testing.T) {
	for want, text := range map[string]string{
		"its prompt has 64 tokens, the context has 64": strings.Repeat("a", 64),
		"no token for 'é'":                             "é",
		"has no tokens":                                "",
	} {
		dir := t.TempDir()
		s := small()
		s.prompt = func(task envs.Task) string {
			if task.Question == "g" { // the second of two validation tasks
				return text
			}
			return task.Question
		}
		_, err := s.open(t, testbackend.Go(t), dir)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, `task "letter/g"`)
		require.NoFileExists(t, filepath.Join(dir, "run.json"))
	}
}

// A run that goes on with another backend is not bit for bit the same. The record has to say which one made what, and
// whoever goes on has to be told.
func TestBackendIsRecorded(t *testing.T) {
	dir := t.TempDir()
	b := testbackend.Go(t)
	trainer, err := small().open(t, b, dir)
	require.NoError(t, err)
	trainer.Close()
	id, err := trainer.identity()
	require.NoError(t, err)
	require.NoError(t, trainer.parts.Run.Close())
	record, err := checkpoint.Read(dir)
	require.NoError(t, err)
	require.Equal(t, b.Kind(), record.Run.Versions["backend"])
	require.Equal(t, b.Kind(), record.History.Segments[0].Versions["backend"])

	id.Versions["backend"] = "cuda"
	run, err := checkpoint.Open(dir)
	require.NoError(t, err)
	defer run.Close()
	_, err = run.Begin(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, run.Notes(), `the version of backend was "go" and is "cuda"`)
}

// A bucket wider than the context must not make every update compute padding that no sequence can fill.
func TestBucketWithinTheContext(t *testing.T) {
	s := small()
	s.cfg.Bucket = 100_000
	trainer, err := s.open(t, testbackend.Go(t), "")
	require.NoError(t, err)
	defer trainer.Close()
	_, err = trainer.Step(t.Context()) // the evaluation of update 0
	require.NoError(t, err)
	require.NoError(t, trainer.publish())
	made, err := trainer.rollout.Next(t.Context())
	require.NoError(t, err)
	batch := newBatch(made.Groups)
	for _, m := range batch.split(12, trainer.cfg.GroupSize, trainer.learner.cfg.Bucket) {
		require.LessOrEqual(t, max(m.promptWidth, m.width), trainer.parts.Policy.MaxPositions())
	}
}

// A finished or closed trainer must say so.
func TestFinishedAndClosed(t *testing.T) {
	s := small()
	s.cfg.Updates = 1
	trainer, err := s.open(t, testbackend.Go(t), "")
	require.NoError(t, err)
	for _, err := range trainer.Updates(t.Context()) {
		require.NoError(t, err)
	}
	_, err = trainer.Step(t.Context())
	require.ErrorIs(t, err, ErrFinished)
	trainer.Close()
	trainer.Close()
	_, err = trainer.Step(t.Context())
	require.ErrorIs(t, err, errClosed)
	_, err = trainer.Weights()
	require.ErrorIs(t, err, errClosed)
}

// Without any checkpoint that can be restored a run starts again from the base weights, at once, and comes out the same.
func TestNoWholeCheckpoint(t *testing.T) {
	b, s := testbackend.Go(t), small()
	whole, dir := t.TempDir(), t.TempDir()
	s.train(t, b, whole, -1)
	s.train(t, b, dir, -1)
	saved, err := filepath.Glob(filepath.Join(dir, "checkpoints", "0*"))
	require.NoError(t, err)
	require.NotEmpty(t, saved)
	for _, folder := range saved {
		require.NoError(t, os.Remove(filepath.Join(folder, "state.json")))
	}
	s.train(t, b, dir, -1)
	require.Equal(t, digest(t, whole), digest(t, dir))
}
