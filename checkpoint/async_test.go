package checkpoint_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/internal/testrun"
	"github.com/grouper-rl/grouper/verify"
)

// beginAs begins a run of program's identity after a change.
func beginAs(t *testing.T, r *checkpoint.Run, change func(*checkpoint.Identity)) *checkpoint.State {
	t.Helper()
	id, err := program.Identity()
	if err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(&id)
	}
	s, err := r.Begin(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func recordUpdate(t *testing.T, r *checkpoint.Run, n int) {
	t.Helper()
	u, lines := update(n, 5)
	if err := r.RecordUpdate(t.Context(), u, lines, nil); err != nil {
		t.Fatal(err)
	}
}

// holds checks a record whose completions no grader knows.
func holds(t *testing.T, dir string) {
	t.Helper()
	report, err := verify.Run(t.Context(), dir, verify.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		t.Errorf("the record does not hold: %v", f)
	}
}

// group is a whole group of a task in program's plan.
func group(task string, weights int, rewards ...float64) (lines []checkpoint.Line) {
	for i, reward := range rewards {
		lines = append(lines, checkpoint.Line{Task: task, Sample: i, Seed: 7, Weights: weights, Tokens: []int32{5},
			LogProbs: []float32{-1}, Filtered: []float32{-1}, Finish: "stop", Reward: reward, Labels: []string{}})
	}
	return lines
}

// Training would wait for the disk at every checkpoint if updates could not be recorded while its files are written; and a
// run that is stopped then must go on from that checkpoint all the same.
func TestCheckpointInTheBackground(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r := mustOpen(t, dir)
	beginAs(t, r, nil)
	recordUpdate(t, r, 1)
	writing, goOn := make(chan bool), make(chan bool)
	s := checkpoint.NewState(1)
	s.Tensors["slots"] = []checkpoint.Tensor{{Name: "m", DType: "U8", Shape: []int{1}, Data: func(emit func([]byte) error) error {
		close(writing)
		<-goOn
		return emit([]byte{9})
	}}}
	saved := make(chan error)
	go func() { saved <- r.SaveCheckpoint(t.Context(), s) }()
	<-writing
	recordUpdate(t, r, 2)
	recordUpdate(t, r, 3)
	closed := make(chan error)
	if n := len(r.History().Checkpoints); n != 0 {
		t.Errorf("%d checkpoints are recorded before they are written", n)
	}
	go func() { closed <- r.Close() }()
	close(goOn)
	if err := <-saved; err != nil {
		t.Fatal(err)
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	holds(t, dir)
	again := mustOpen(t, dir)
	if s := beginAs(t, again, nil); s.Update != 1 {
		t.Errorf("the run goes on from update %d, expected 1", s.Update)
	}
	if h := again.History(); h.RolledBack != (checkpoint.Work{Updates: 2, Responses: 12}) || h.Retained() != (checkpoint.Work{Updates: 1, Responses: 6}) {
		t.Errorf("%+v were rolled back, %+v are left", h.RolledBack, h.Retained())
	}
	holds(t, dir)
}

// A late checkpoint must not be taken for the newest, and one of weights that this segment never had must be refused.
func TestLateCheckpoint(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r := mustOpen(t, dir)
	beginAs(t, r, nil)
	for u := 1; u <= 3; u++ {
		recordUpdate(t, r, u)
	}
	save := func(r *checkpoint.Run, u int) error { return r.SaveCheckpoint(t.Context(), checkpoint.NewState(u)) }
	for _, u := range []int{3, 1, 2} {
		if err := save(r, u); err != nil {
			t.Fatal(err)
		}
	}
	if err := save(r, 4); err == nil || !strings.Contains(err.Error(), "the last update is 3") {
		t.Errorf("a checkpoint of an update to come: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = mustOpen(t, dir)
	if s := beginAs(t, r, nil); s.Update != 3 {
		t.Errorf("the run goes on from update %d, expected 3", s.Update)
	}
	if err := save(r, 2); err == nil || !strings.Contains(err.Error(), "this segment began at update 3") {
		t.Errorf("a checkpoint of another segment's update: %v", err)
	}
	holds(t, dir)
}

// Groups that wait for their update are lost work if a checkpoint does not give them back exactly as they were.
func TestReadyGroups(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r := mustOpen(t, dir)
	lag := func(id *checkpoint.Identity) { id.Plan.Lag = 1 }
	beginAs(t, r, lag)
	s := checkpoint.NewState(0)
	for name, c := range map[string]struct {
		ready []checkpoint.Line
		want  string
	}{
		"part of a group": {group("echo/0", 0, 1, 0), "2 completions, expected 1 × 3"},
		"two tasks":       {append(group("echo/0", 0, 1, 0), group("echo/1", 0, 1)...), "completion 3"},
		"weights to come": {group("echo/0", 1, 1, 0, 0), "weights of update 1, the plan allows those of 0 to 0"},
	} {
		s.Ready = c.ready
		if err := r.SaveCheckpoint(t.Context(), s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, expected one that says %q", name, err, c.want)
		}
	}
	want := append(group("echo/0", 0, 1, 0, 0), group("echo/1", 0, 1, 1, 1)...)
	s.Ready = want
	if err := r.SaveCheckpoint(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	holds(t, dir)
	if got := beginAs(t, mustOpen(t, dir), lag).Ready; !reflect.DeepEqual(got, want) {
		t.Errorf("restored %+v, saved %+v", got, want)
	}
	remove(t, filepath.Join(dir, "checkpoints/000000/ready.jsonl.zst"))
	if _, _, err := checkpoint.OpenState(filepath.Join(dir, "checkpoints/000000"), ""); err == nil || !strings.Contains(err.Error(), "ready.jsonl.zst") {
		t.Errorf("without its ready groups the checkpoint gave %v", err)
	}
}

// Which weights may sample which batch is what makes an asynchronous run reproducible, or at least bounded in its lag.
func TestLag(t *testing.T) {
	for _, c := range []struct {
		lag            int
		staleness      string
		update         int
		oldest, newest int
	}{
		{0, "", 1, 0, 0}, {0, "", 5, 4, 4}, {1, "", 1, 0, 0}, {1, checkpoint.Fixed, 2, 0, 0}, {1, "", 5, 3, 3}, {3, "", 5, 1, 1},
		{0, checkpoint.Eager, 5, 4, 4}, {1, checkpoint.Eager, 1, 0, 0}, {1, checkpoint.Eager, 5, 3, 4}, {3, checkpoint.Eager, 2, 0, 1},
	} {
		oldest, newest := checkpoint.Plan{Lag: c.lag, Staleness: c.staleness}.SampledBy(c.update)
		if oldest != c.oldest || newest != c.newest {
			t.Errorf("lag %d, %q: update %d by %d to %d, expected %d to %d", c.lag, c.staleness, c.update, oldest, newest, c.oldest, c.newest)
		}
	}
	type change = func(u *checkpoint.Update, l []checkpoint.Line)
	weights := func(u, first, second int, groups ...int) change {
		return func(event *checkpoint.Update, l []checkpoint.Line) {
			event.Weights, event.GroupWeights = u, groups
			for i := range l {
				l[i].Weights = first
				if i >= 3 {
					l[i].Weights = second
				}
			}
		}
	}
	for name, c := range map[string]struct {
		lag       int
		staleness string
		change    change
		want      string // "": it is right
	}{
		"on-policy":            {0, "", weights(2, 2, 2), ""},
		"stale":                {0, "", weights(1, 1, 1), "weights of update 1, the plan allows those of 2 to 2"},
		"lag":                  {1, "", weights(1, 1, 1), ""},
		"fresher than fixed":   {1, "", weights(2, 2, 2), "weights of update 2, the plan allows those of 1 to 1"},
		"eager":                {1, "eager", weights(2, 2, 2), ""},
		"eager, two":           {1, "eager", weights(1, 2, 1, 2, 1), ""},
		"eager, too old":       {1, "eager", weights(0, 0, 0), "weights of update 0, the plan allows those of 1 to 2"},
		"not the oldest":       {1, "eager", weights(2, 2, 1, 2, 1), "the oldest is said to be 2"},
		"not said":             {1, "eager", weights(1, 2, 1), "group 1 is of the weights of update 2, expected 1"},
		"said of others":       {1, "eager", weights(1, 2, 1, 1, 2), "group 1 is of the weights of update 2, expected 1"},
		"one group said":       {1, "eager", weights(1, 1, 1, 1), "2 groups and the weights of 1"},
		"all said, all equal":  {1, "eager", weights(1, 1, 1, 1, 1), "all those of update 1"},
		"two in a group":       {1, "eager", func(_ *checkpoint.Update, l []checkpoint.Line) { l[4].Weights = 1 }, "completion 5: it is of the weights of update 1, its group of those of update 2"},
		"segment to come":      {0, "", func(u *checkpoint.Update, _ []checkpoint.Line) { u.SampledIn = []int{1, 2} }, "sampled in segment 2, from which segment 1 does not go on"},
		"segments of a group":  {0, "", func(u *checkpoint.Update, _ []checkpoint.Line) { u.SampledIn = []int{1} }, "2 groups and the segments of 1"},
		"segments all current": {0, "", func(u *checkpoint.Update, _ []checkpoint.Line) { u.SampledIn = []int{1, 1} }, "which are all segment 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			r, err := checkpoint.OpenOn(dir, newFaulty(0, false), time.Now)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			beginAs(t, r, func(id *checkpoint.Identity) { id.Plan.Lag, id.Plan.Staleness = c.lag, c.staleness })
			for n := 1; n <= 3; n++ {
				u, lines := update(n, 5)
				switch oldest, _ := (checkpoint.Plan{Lag: c.lag, Staleness: c.staleness}).SampledBy(n); {
				case n == 3:
					c.change(&u, lines)
				default:
					weights(oldest, oldest, oldest)(&u, lines)
				}
				err = r.RecordUpdate(t.Context(), u, lines, nil)
				if n < 3 && err != nil {
					t.Fatal(err)
				}
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, expected one that says %q", err, c.want)
			}
		})
	}
}

// What a restored group was sampled in stays on record, and can be no segment that did not have its weights.
func TestRestoredGroups(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	lag := func(id *checkpoint.Identity) { id.Plan.Lag = 1 }
	r := mustOpen(t, dir)
	beginAs(t, r, lag)
	s := checkpoint.NewState(0)
	s.Ready = append(group("echo/0", 0, 0, 1, 0), group("echo/1", 0, 1, 0, 1)...)
	if err := r.SaveCheckpoint(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = mustOpen(t, dir)
	s = beginAs(t, r, lag)
	u := checkpoint.Update{Update: 1, Tasks: []string{"echo/0", "echo/1"}, SampledIn: []int{1, 1}}
	if err := r.RecordUpdate(t.Context(), u, s.Ready, nil); err != nil {
		t.Fatal(err)
	}
	for n := 2; n <= 3; n++ {
		u, lines := update(n, 5)
		u.Weights = n - 2
		for i := range lines {
			lines[i].Weights = n - 2
		}
		if n == 3 {
			u.SampledIn = []int{1, 2}
		}
		err := r.RecordUpdate(t.Context(), u, lines, nil)
		if n == 3 && (err == nil || !strings.Contains(err.Error(), "group 1 is said to be sampled in segment 1 by the weights of update 1, and segment 2 began at update 0")) {
			t.Errorf("a group of weights that segment 1 did not have: %v", err)
		}
	}
	holds(t, dir)
}

// A count of dropped groups that nobody can check is no count: they are on record, and really have no variance.
func TestDroppedGroups(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r := mustOpen(t, dir)
	beginAs(t, r, nil)
	flat := append(group("echo/2", 0, 0, 0, 0), group("echo/3", 0, 1, 1, 1)...)
	for name, c := range map[string]struct {
		tasks   []string
		dropped []checkpoint.Line
		want    string
	}{
		"with variance":    {[]string{"echo/2"}, group("echo/2", 0, 0, 1, 0), `dropped group 1 (task "echo/2") has rewards that are not all equal`},
		"not listed":       {[]string{"echo/2"}, flat, "dropped groups: 6 completions, expected 1 × 3"},
		"of another task":  {[]string{"echo/3", "echo/2"}, flat, `dropped groups: completion 1: task "echo/2", sample 0 where task "echo/3"`},
		"of other weights": {[]string{"echo/2"}, group("echo/2", 1, 0, 0, 0), "dropped groups: completion 1: it is of the weights of update 1"},
		"not there":        {[]string{"echo/2"}, nil, "dropped groups: 0 completions, expected 1 × 3"},
	} {
		u, lines := update(1, 5)
		u.DroppedTasks = c.tasks
		if err := r.RecordUpdate(t.Context(), u, lines, c.dropped); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, expected one that says %q", name, err, c.want)
		}
	}
	u, lines := update(1, 5)
	u.DroppedTasks = []string{"echo/2", "echo/3"}
	if err := r.RecordUpdate(t.Context(), u, lines, flat); err != nil {
		t.Fatal(err)
	}
	got := r.History().Updates[0].Dropped
	if got == nil || got.Path != "rollouts/000001.dropped.jsonl.zst" || got.Lines != 6 {
		t.Errorf("the file is %+v", got)
	}
	if h := r.History(); h.Retained() != (checkpoint.Work{Updates: 1, Responses: 6}) {
		t.Errorf("%+v count, dropped completions train nothing", h.Retained())
	}
}

// A clock that is set back must not make a record that looks edited.
func TestClockGoesBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	clock := func() time.Time { at = at.Add(-time.Minute); return at }
	r, err := checkpoint.OpenOn(dir, newFaulty(0, false), clock)
	if err != nil {
		t.Fatal(err)
	}
	if err := (testrun.Program{Updates: 2, Every: 1, Seed: 7}).Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	mentions(t, r.Notes(), "the clock is 1m0s behind the last event")
	if notes := strings.Count(fmt.Sprint(r.Notes()), "the clock"); notes != 1 {
		t.Errorf("it is said %d times", notes)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	verified(t, dir)
	rec, err := checkpoint.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range rec.Events[1:] {
		if e.Time.Before(rec.Events[i].Time) {
			t.Errorf("event %d is of %s, the one before it of %s", e.Seq, e.Time, rec.Events[i].Time)
		}
	}
	events := rec.Events
	events[1].Time = events[0].Time.Add(-time.Millisecond)
	if err := new(checkpoint.History).Follow(events); err == nil || !strings.Contains(err.Error(), "line 2: its time, ") {
		t.Errorf("an event before the one before it gave %v", err)
	}
}

// A trainer records updates while it writes checkpoints and evaluates: whatever comes in which order, the record must hold.
func TestConcurrentUse(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	r, err := checkpoint.OpenOn(dir, newFaulty(0, false), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	beginAs(t, r, nil)
	if err := r.Retain(checkpoint.Retention{Last: 2}); err != nil {
		t.Fatal(err)
	}
	var g errgroup.Group
	id, err := program.Identity()
	if err != nil {
		t.Fatal(err)
	}
	for n := range 13 {
		if n > 0 {
			recordUpdate(t, r, n)
		}
		g.Go(func() error { return r.SaveCheckpoint(t.Context(), checkpoint.NewState(n)) })
		g.Go(func() error {
			e, lines := evaluation(t, id)
			e.Update = n
			for i := range lines {
				lines[i].Weights = n
			}
			_, err := r.RecordEvaluation(t.Context(), e, lines)
			return err
		})
		g.Go(func() error {
			h := r.History()
			if h.Update() < n || r.Segment() != 1 || len(r.Notes()) > 0 {
				return fmt.Errorf("update %d, notes %q after update %d", h.Update(), r.Notes(), n)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(r.Finish(t.Context()), r.Close()); err != nil {
		t.Fatal(err)
	}
	holds(t, dir)
	h := read(t, dir).History
	if len(h.Updates) != 12 || len(h.Evaluations) != 13 || len(h.Checkpoints) != 13 || h.Checkpoints[12].Pruned || h.Checkpoints[11].Pruned || !h.Checkpoints[0].Pruned {
		t.Errorf("%d updates, %d evaluations, checkpoints %+v", len(h.Updates), len(h.Evaluations), h.Checkpoints)
	}
}
