package grpo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/eval"
	"github.com/grouper-rl/grouper/internal/testbackend"
	"github.com/grouper-rl/grouper/optim"
	"github.com/grouper-rl/grouper/policy/chat"
	"github.com/grouper-rl/grouper/policy/decoder"
	"github.com/grouper-rl/grouper/rollout"
	"github.com/grouper-rl/grouper/rollout/local"
	"github.com/grouper-rl/grouper/verify"
)

// letters is a tokenizer of ten letters; token 10 ends a completion.
type letters struct{}

const alphabet = "abcdefghij"

func (letters) Encode(text string) ([]int32, error) {
	var out []int32
	for _, c := range text {
		i := strings.IndexRune(alphabet, c)
		if i < 0 {
			return nil, fmt.Errorf("no token for %q", c)
		}
		out = append(out, int32(i))
	}
	return out, nil
}

func (letters) Decode(tokens []int32) (string, error) {
	var b strings.Builder
	for _, t := range tokens {
		if t < 0 || int(t) > len(alphabet) {
			b.WriteByte('?')
			continue
		}
		b.WriteString((alphabet + "$")[t : t+1])
	}
	return b.String(), nil
}

// echo rewards a finished completion that is the task's question.
type echo struct{}

func (echo) Grade(_ context.Context, task envs.Task, reply envs.Reply) (envs.Score, error) {
	if reply.Finished && reply.Text == task.Answer {
		return envs.Score{Reward: 1, Value: 1, Labels: []string{envs.Correct}}, nil
	}
	return envs.Score{Labels: []string{envs.Wrong}}, nil
}

// setup is a small run: to answer a letter with itself.
type setup struct {
	cfg   Config
	opt   optim.Optimizer
	lr    float64
	dtype dtypes.DType
	roles [3]int // devices of training, rollout and evaluation

	prompt         func(envs.Task) string              // nil: the question
	chat           *chat.Format                        // nil: no template
	grader         envs.Grader                         // nil: echo
	engine, judge  func(rollout.Engine) rollout.Engine // around those of training and evaluation; nil: as they are
	behind         bool                                // evaluations in the background
	blind          bool                                // no evaluation
	perCall, calls int                                 // calls 0: 2
	restore        *checkpoint.Restore
}

func small() setup {
	return setup{
		cfg: Config{Seed: 7, Updates: 6, TasksPerUpdate: 3, GroupSize: 4, Bucket: 4, SaveEvery: 2,
			Objective: Objective{ClipLow: .2, ClipHigh: .28}},
		opt: optim.AdamW{Beta1: .9, Beta2: .98, WeightDecay: .1}, lr: .02, dtype: dtypes.Float32,
	}
}

func letterBank(t testing.TB, train, validation int) *envs.Bank {
	t.Helper()
	var tasks []envs.Task
	for i := range train + validation {
		q := alphabet[i : i+1]
		tasks = append(tasks, envs.Task{ID: "letter/" + q, Question: q, Answer: q, Key: q})
	}
	bank, err := envs.FromTasks(envs.Origin{Name: "letters"}, tasks[:train], tasks[train:], nil)
	require.NoError(t, err)
	return bank
}

// open makes the trainer of a run; dir "" records nothing.
func (s setup) open(t testing.TB, b *backend.Backend, dir string) (*Trainer, error) {
	t.Helper()
	d := tinyDecoder(t, s.dtype)
	w, err := d.Init(5)
	require.NoError(t, err)
	bank := letterBank(t, 5, 2)
	sampler := func(device int) rollout.Sampler {
		engine, err := local.New(b, d, local.Options{Device: compute.DeviceNum(device)})
		require.NoError(t, err)
		t.Cleanup(engine.Close)
		return rollout.Sampler{Engine: engine, Format: rollout.Format{Tokenizer: letters{}, Prompt: s.prompt, Chat: s.chat}, Grader: s.grader,
			Sampling: rollout.Sampling{Temperature: 1, TopP: 1, MaxTokens: 3, Stop: []int32{10}}}
	}
	if s.grader == nil {
		s.grader = echo{}
	}
	train := sampler(s.roles[1])
	evaluate := train
	if s.roles[2] != s.roles[1] || s.cfg.Lag > 0 || s.behind {
		evaluate = sampler(s.roles[2])
	}
	if s.engine != nil {
		train.Engine = s.engine(train.Engine)
	}
	if s.judge != nil {
		evaluate.Engine = s.judge(evaluate.Engine)
	}
	parts := Parts{Backend: b, Device: s.roles[0], Policy: d, Weights: w, Optimizer: s.opt, Schedule: optim.Constant(s.lr), Bank: bank,
		Sampler: train, PerCall: s.perCall, Calls: cmp.Or(s.calls, 2), Restore: s.restore, EvaluateBehind: s.behind,
		Evaluator: &eval.Evaluator{Sampler: evaluate, Tasks: bank.Validation, Seeds: []int64{17, 43}}}
	if s.blind {
		parts.Evaluator = nil
	}
	if dir != "" {
		run, err := checkpoint.Open(dir)
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { run.Close() })
		parts.Run = run
	}
	trainer, err := New(t.Context(), s.cfg, parts)
	if err != nil && parts.Run != nil {
		require.NoError(t, parts.Run.Close())
	}
	return trainer, err
}

// train runs to the end, or leaves the loop after a number of iterations.
func (s setup) train(t testing.TB, b *backend.Backend, dir string, iterations int) (seen []*Update) {
	t.Helper()
	trainer, err := s.open(t, b, dir)
	require.NoError(t, err)
	defer trainer.Close()
	defer func() {
		if trainer.parts.Run != nil {
			require.NoError(t, trainer.parts.Run.Close())
		}
	}()
	for u, err := range trainer.Updates(t.Context()) {
		require.NoError(t, err)
		seen = append(seen, u)
		if len(seen) == iterations {
			break
		}
	}
	return seen
}

func digest(t testing.TB, dir string) string { return digestOf(t, dir, nil) }

// digestOf is the logical digest of a run that was graded by g, or by echo.
func digestOf(t testing.TB, dir string, g envs.Grader) string {
	t.Helper()
	if g == nil {
		g = echo{}
	}
	report, err := verify.Run(t.Context(), dir, verify.Options{Grader: func(checkpoint.Grader) (envs.Grader, error) { return g, nil }})
	require.NoError(t, err)
	require.Empty(t, report.Findings)
	return report.Digest
}

// firstLetter rewards the right first letter, whatever follows.
type firstLetter struct{}

func (firstLetter) Grade(_ context.Context, task envs.Task, reply envs.Reply) (envs.Score, error) {
	if strings.HasPrefix(reply.Text, task.Answer) {
		return envs.Score{Reward: 1, Value: 1}, nil
	}
	return envs.Score{}, nil
}

// A policy must really learn: from 1 in 11 by chance to most completions right. Seed 7, 60 updates of 5 tasks × 32
// completions, threshold 0.9 on the training reward.
func TestLearnsToAnswer(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		s := small()
		s.cfg.Updates, s.cfg.GroupSize, s.cfg.TasksPerUpdate, s.cfg.SaveEvery = 60, 32, 5, 60
		s.grader, s.blind = firstLetter{}, true
		trainer, err := s.open(t, b, "")
		require.NoError(t, err)
		defer trainer.Close()
		var rewards []float64
		for u, err := range trainer.Updates(t.Context()) {
			require.NoError(t, err)
			rewards = append(rewards, u.Metrics.RewardMean)
			require.Less(t, u.Metrics.EngineGapMax, 1e-3, "engine and training agree on log-probs")
			require.InDelta(t, 1, u.Metrics.RatioMean, 1e-3)
		}
		t.Logf("reward %.3f to %.3f", rewards[0], rewards[59])
		require.Less(t, rewards[0], .3)
		require.Greater(t, rewards[59], .9)
	})
}

// variants are the kinds of runs that must be exact: both optimizers, with and without micro-batches, float32 and bfloat16 with masters,
// on-policy and with lag, batches sampled as a whole and group by group, with dynamic sampling.
var variants = map[string]func(*setup){
	"adamw": func(*setup) {},
	"sgd with momentum, micro-batches, bfloat16": func(s *setup) {
		s.opt, s.lr, s.cfg.MicroBatch, s.dtype = optim.SGD{Momentum: .9}, .5, 2, dtypes.BFloat16
	},
	"adamw, lag 1, evaluations in the background": func(s *setup) { s.cfg.Lag, s.behind = 1, true },
	"adamw, lag 1, bfloat16, group by group": func(s *setup) {
		s.cfg.Lag, s.dtype, s.perCall = 1, dtypes.BFloat16, 1
	},
	"sgd, lag 1, micro-batches": func(s *setup) {
		s.opt, s.lr, s.cfg.Lag, s.cfg.MicroBatch = optim.SGD{}, .5, 1, 4
	},
	"adamw, lag 2, dynamic sampling, group by group": func(s *setup) {
		s.cfg.Lag, s.cfg.MaxGroups, s.perCall, s.grader = 2, 5, 1, firstLetter{}
	},
}

// variantsOn are the variants that are tried on a backend: on XLA, where compiling takes most of the time, two that differ in everything.
func variantsOn(b *backend.Backend) []string {
	if b.Kind() == backend.Go {
		return slices.Sorted(maps.Keys(variants))
	}
	return []string{"adamw, lag 1, bfloat16, group by group", "sgd with momentum, micro-batches, bfloat16"}
}

func variant(name string) setup {
	s := small()
	variants[name](&s)
	return s
}

// Whoever stops a run, at whatever update, must be able to finish it to the same content as if it had never stopped.
func TestResumeIsExact(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		restarts := 6
		if b.Kind() != backend.Go {
			restarts = 2 // each compiles everything anew
		}
		for _, name := range variantsOn(b) {
			s := variant(name)
			whole := t.TempDir()
			s.train(t, b, whole, -1)
			want := digestOf(t, whole, s.grader)
			broken := t.TempDir()
			for n := range restarts {
				s.train(t, b, broken, 1+n%2)
			}
			s.train(t, b, broken, -1)
			require.Equal(t, want, digestOf(t, broken, s.grader), name)
			require.Empty(t, s.train(t, b, broken, -1), "nothing is left to do")
			require.Equal(t, want, digestOf(t, broken, s.grader), name)
		}
	})
}

// Training, rollout and evaluation may each have a device of their own, without changing anything that is recorded.
func TestRolesOnOtherDevices(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		s := small()
		if b.NumDevices() < 4 {
			_, err := local.New(b, tinyDecoder(t, s.dtype), local.Options{Device: 7})
			require.ErrorContains(t, err, "Device")
			t.Skipf("%d devices", b.NumDevices())
		}
		together := t.TempDir()
		s.train(t, b, together, -1)
		s.roles = [3]int{1, 2, 3}
		apart := t.TempDir()
		s.train(t, b, apart, -1)
		require.Equal(t, digest(t, together), digest(t, apart))
	})
}

// strict is a grader with a setting that it tells.
type strict struct {
	echo
	Strictness float64 `json:"strictness"`
}

func (s strict) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"strictness":%g}`, s.Strictness), nil
}

func (s strict) Score(context.Context, envs.Task, string) (float64, error) { return 0, nil }

// Rewards of one run that mean two things are worth nothing: a grader of the same type with other settings is refused by name. One that tells none is
// recorded as it always was.
func TestGraderSettings(t *testing.T) {
	b := testbackend.Go(t)
	for _, grader := range []func(float64) envs.Grader{
		func(x float64) envs.Grader { return strict{Strictness: x} },
		func(x float64) envs.Grader { return envs.CompletedAnswer{Env: strict{Strictness: x}} },
	} {
		dir := t.TempDir()
		open := func(x float64) error {
			s := small()
			s.grader = grader(x)
			trainer, err := s.open(t, b, dir)
			if err == nil {
				trainer.Close()
				require.NoError(t, trainer.parts.Run.Close())
			}
			return err
		}
		require.NoError(t, open(.5))
		err := open(.25)
		require.ErrorIs(t, err, checkpoint.ErrOtherConfiguration)
		require.ErrorContains(t, err, "settings.grader_settings.strictness: had 0.5, now 0.25")
		require.NoError(t, open(.5))
	}
	for _, grader := range []envs.Grader{echo{}, envs.CompletedAnswer{}} {
		s := small()
		s.grader = grader
		trainer, err := s.open(t, b, "")
		require.NoError(t, err)
		id, err := trainer.identity()
		require.NoError(t, err)
		require.NotContains(t, id.Settings, "grader_settings")
		trainer.Close()
	}
}

// A finished run can be given a larger budget; other changed settings are refused by name.
func TestOtherSettings(t *testing.T) {
	b := testbackend.Go(t)
	dir := t.TempDir()
	s := small()
	s.cfg.Updates = 2
	s.train(t, b, dir, -1)

	for name, change := range map[string]func(*setup){
		"settings.config.objective.clip_low": func(s *setup) { s.cfg.Objective.ClipLow = .1 },
		"settings.learning_rate":             func(s *setup) { s.lr = .3 },
		"settings.optimizer":                 func(s *setup) { s.opt = optim.SGD{} },
		"seed":                               func(s *setup) { s.cfg.Seed = 8 },
		"plan.evaluation.every":              func(s *setup) { s.cfg.EvaluateEvery = 4 },
	} {
		other := small()
		change(&other)
		_, err := other.open(t, b, dir)
		require.ErrorIs(t, err, checkpoint.ErrOtherConfiguration, name)
		require.ErrorContains(t, err, name)
		last := name[strings.LastIndex(name, ".")+1:]
		require.LessOrEqual(t, strings.Count(err.Error(), last+": had "), 1, "what changed is named once: %v", err)
	}

	whole := t.TempDir()
	small().train(t, b, whole, -1)
	small().train(t, b, dir, -1)
	require.Equal(t, digest(t, whole), digest(t, dir))
}

// Whoever asks for five updates wants to know how good the model is after five. That evaluation does not make a run that is
// then given more updates another one.
func TestLastUpdateIsEvaluated(t *testing.T) {
	b, s := testbackend.Go(t), small()
	dir := t.TempDir()
	s.cfg.Updates = 5 // evaluated every two
	var evaluated []int
	for _, u := range s.train(t, b, dir, -1) {
		if u.Evaluation != nil {
			evaluated = append(evaluated, u.Evaluation.Update)
		}
	}
	require.Equal(t, []int{0, 2, 4, 5}, evaluated)
	require.FileExists(t, filepath.Join(dir, "evals", "000005.json"))
	require.DirExists(t, filepath.Join(dir, "checkpoints", "000005"))
	digest(t, dir) // it can be verified
	whole := t.TempDir()
	small().train(t, b, whole, -1)
	small().train(t, b, dir, -1)
	require.Equal(t, digest(t, whole), digest(t, dir))
}

// childEnv marks the process that a kill test starts and kills: the run directory. The others say what it runs on what.
const childEnv, childVariant, childBackend = "GROUPER_TEST_KILLED_RUN", "GROUPER_TEST_KILLED_VARIANT", "GROUPER_TEST_KILLED_BACKEND"

// TestKilledRun is not a test of its own: it is the process that the next one kills.
func TestKilledRun(t *testing.T) {
	dir := os.Getenv(childEnv)
	if dir == "" {
		t.Skip("runs as the child of TestKillAndResume")
	}
	b, err := backend.Open(t.Context(), os.Getenv(childBackend))
	require.NoError(t, err)
	variant(os.Getenv(childVariant)).train(t, b, dir, -1)
}

// Power may fail at any instant. A process is killed (SIGKILL) at seeded points: after a seeded number of changes to the run
// directory and a seeded pause. The run is then finished, and must be what an undisturbed one is, whatever was being
// sampled, trained or written.
func TestKillAndResume(t *testing.T) {
	testbackend.Each(t, func(t *testing.T, b *backend.Backend) {
		points := 4
		if b.Kind() != backend.Go || testing.Short() {
			points = 1
		}
		for n, name := range variantsOn(b) {
			t.Run(name, func(t *testing.T) { killAndResume(t, b, name, uint64(4*n), points) })
		}
	})
}

func killAndResume(t *testing.T, b *backend.Backend, name string, seed uint64, points int) {
	s := variant(name)
	whole := t.TempDir()
	s.train(t, b, whole, -1)
	want := digestOf(t, whole, s.grader)
	kills := 0
	for point := range points {
		r := rand.New(rand.NewPCG(2026, seed+uint64(point)))
		dir := t.TempDir()
		child := exec.Command(os.Args[0], "-test.run=^TestKilledRun$")
		child.Env = append(os.Environ(), childEnv+"="+dir, childVariant+"="+name, childBackend+"="+b.Kind())
		var output bytes.Buffer
		child.Stdout, child.Stderr = &output, &output
		require.NoError(t, child.Start())
		done := make(chan error, 1)
		go func() { done <- child.Wait() }()
		// 2 + 6 updates and 4 checkpoints and evaluations: about 30 states of the directory.
		after, pause := 1+r.IntN(28), time.Duration(r.IntN(3000))*time.Microsecond
		states := map[string]bool{}
		deadline := time.Now().Add(time.Minute)
		for len(states) < after && time.Now().Before(deadline) {
			states[listing(dir)] = true
			select {
			case err := <-done:
				require.NoError(t, err, output.String())
				done <- nil
				deadline = time.Now()
			default:
			}
		}
		time.Sleep(pause)
		_ = child.Process.Kill()
		if err := <-done; err != nil {
			kills++
		}
		t.Logf("point %d: %d states, ended by %v", point, len(states), child.ProcessState)
		s.train(t, b, dir, -1)
		require.Equal(t, want, digestOf(t, dir, s.grader), "point %d", point)
	}
	require.GreaterOrEqual(t, kills, points/2, "most points lie within the run")
}

// listing is the state of a directory as names and sizes.
func listing(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if info, err := e.Info(); err == nil {
				fmt.Fprintf(&b, "%s %d\n", path, info.Size())
			}
		}
		return nil
	})
	return b.String()
}

// The same weights in another network are another policy: a run does not go on with it.
func TestPolicySettings(t *testing.T) {
	b, dir := testbackend.Go(t), t.TempDir()
	s := small()
	s.cfg.Updates = 1
	s.train(t, b, dir, -1)
	first, err := s.open(t, b, "") // for its parts
	require.NoError(t, err)
	defer first.Close()
	parts := first.parts
	parts.Run, err = checkpoint.Open(dir)
	require.NoError(t, err)
	defer parts.Run.Close()
	config := tinyDecoder(t, s.dtype).Config()
	config.NormEps = .125
	parts.Policy, err = decoder.New(config)
	require.NoError(t, err)
	_, err = New(t.Context(), s.cfg, parts)
	require.ErrorIs(t, err, checkpoint.ErrOtherConfiguration)
	require.ErrorContains(t, err, "settings.policy_settings.NormEps: had")
	require.ErrorContains(t, err, "now 0.125")
}

// Whoever starts the program of a finished run again must find its directory as it was.
func TestFinishedRunAgain(t *testing.T) {
	b, dir := testbackend.Go(t), t.TempDir()
	s := small()
	s.cfg.Updates = 2
	s.train(t, b, dir, -1)
	ledger := filepath.Join(dir, "ledger.jsonl")
	before, err := os.ReadFile(ledger)
	require.NoError(t, err)
	files := listing(dir)
	require.Empty(t, s.train(t, b, dir, -1))
	require.Equal(t, files, listing(dir))
	after, err := os.ReadFile(ledger)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
}

// Cancelling keeps what is complete: the next trainer goes on from the last complete update, not from the last scheduled checkpoint.
func TestCancelKeepsWhatIsComplete(t *testing.T) {
	b := testbackend.Go(t)
	s := small()
	dir := t.TempDir()
	trainer, err := s.open(t, b, dir)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for u, err := range trainer.Updates(ctx) {
		if last = err; err == nil && u.Update == 3 {
			cancel()
		}
	}
	require.ErrorIs(t, last, context.Canceled)
	trainer.Close()
	require.NoError(t, trainer.parts.Run.Close())

	again, err := s.open(t, b, dir)
	require.NoError(t, err)
	require.Equal(t, 3, again.Done())
	again.Close()
}

// failing is a grader that cannot judge one task.
type failing struct{ echo }

func (f failing) Grade(ctx context.Context, task envs.Task, reply envs.Reply) (envs.Score, error) {
	if task.Question == "b" {
		return envs.Score{}, fmt.Errorf("the scorer is down")
	}
	return f.echo.Grade(ctx, task, reply)
}

// changing is a grader that a test exchanges.
type changing struct{ envs.Grader }

// A completion that cannot be graded must stop the run with its task and sample, and leave the run as it was.
func TestFailingGraderNamesTaskAndSample(t *testing.T) {
	b := testbackend.Go(t)
	s := small()
	s.cfg.TasksPerUpdate = 5
	grader := &changing{failing{}}
	s.grader = grader
	trainer, err := s.open(t, b, t.TempDir())
	require.NoError(t, err)
	defer trainer.Close()
	_, err = trainer.Step(t.Context()) // the evaluation of update 0
	require.NoError(t, err)
	_, err = trainer.Step(t.Context())
	require.ErrorContains(t, err, `task "letter/b", sample 0: the scorer is down`)
	grader.Grader = echo{}
	_, err = trainer.Step(t.Context())
	require.NoError(t, err, "the trainer can go on")
}

// Settings that cannot work are refused before anything is computed, by the name of the field.
func TestRefusedSettings(t *testing.T) {
	for field, change := range map[string]func(*Config){
		"GroupSize":          func(c *Config) { c.GroupSize = 1 },
		"TasksPerUpdate":     func(c *Config) { c.TasksPerUpdate = 0 },
		"MicroBatch":         func(c *Config) { c.MicroBatch = 5 },
		"OldLogProbs":        func(c *Config) { c.OldLogProbs = "recomputed" },
		"EvaluateEvery":      func(c *Config) { c.EvaluateEvery = 3 },
		"Compute":            func(c *Config) { c.Compute = "float16" },
		"Updates":            func(c *Config) { c.Updates = -1 },
		"MaxGradNorm":        func(c *Config) { c.MaxGradNorm = math.Inf(1) }, // which would be recorded in JSON
		"MaxGradNorm is NaN": func(c *Config) { c.MaxGradNorm = math.NaN() },
	} {
		s := small()
		change(&s.cfg)
		_, err := s.open(t, testbackend.Go(t), "")
		require.ErrorContains(t, err, field)
	}
}

// Every epoch visits each task once, in another order; the order depends on the seed alone.
func TestOrder(t *testing.T) {
	bank := letterBank(t, 8, 1)
	o := order{seed: 1, tasks: bank.Train, epoch: -1}
	var epochs []string
	for e := range 3 {
		ids := map[string]bool{}
		list := ""
		for i := range 8 {
			task := o.task(8*e + i)
			ids[task.ID] = true
			list += task.Question
		}
		require.Len(t, ids, 8)
		require.NotContains(t, epochs, list)
		epochs = append(epochs, list)
	}
	again := order{seed: 1, tasks: bank.Train, epoch: -1}
	require.Equal(t, epochs[2][3:4], again.task(19).Question)
}
