package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/guard"
)

func (v *verifier) prepareGrader() {
	if v.opts.Grader == nil {
		v.note("REWARDS WERE NOT GRADED AGAIN: no grader was given")
		return
	}
	var err error
	if v.grader, err = v.opts.Grader(v.run.Grader); err != nil {
		v.find(Finding{File: "run.json", What: fmt.Sprintf("rewards cannot be graded again: grader %q: %v", v.run.Grader.Source, err)})
		v.grader = nil
	}
}

// lines reads a file of completions and grades each again. Where its bytes are not what they should be the digest is a
// finding already, and what can be read is checked all the same.
func (v *verifier) lines(ctx context.Context, f checkpoint.File) ([]checkpoint.Line, bool) {
	file, err := os.Open(v.path(f.Path))
	if err != nil {
		return nil, false // missing: found with the files
	}
	defer file.Close()
	lines, content, err := checkpoint.ReadLines(file)
	if err != nil {
		v.fails(f.Path, err)
		return nil, false
	}
	if len(lines) != f.Lines {
		v.find(Finding{File: f.Path, What: "completions", Expected: fmt.Sprint(f.Lines), Found: fmt.Sprint(len(lines))})
	}
	v.content[f.Path] = content
	for i := range lines {
		if ctx.Err() != nil {
			return nil, false
		}
		v.grade(ctx, f.Path, i+1, &lines[i])
	}
	return lines, true
}

func (v *verifier) grade(ctx context.Context, file string, n int, l *checkpoint.Line) {
	find := func(what, expected, found string) {
		v.find(Finding{File: file, Line: n, Task: l.Task, What: what, Expected: expected, Found: found})
	}
	if v.tasks == nil {
		return // the bank does not hold
	}
	task, ok := v.tasks[l.Task]
	if !ok {
		find("the bank has no such task", "", "")
		return
	}
	if v.grader == nil {
		return
	}
	answer := v.run.Grader.Reasoning.Answer(l.Text)
	score, err := guard.Await(ctx, "the grader", func() (envs.Score, error) {
		return v.grader.Grade(ctx, task, envs.Reply{Text: answer, Finished: l.Finish == "stop"})
	})
	if err != nil {
		find("grading again failed: "+err.Error(), "", "")
		return
	}
	if score.Reward != l.Reward {
		find("reward", fmt.Sprint(score.Reward), fmt.Sprint(l.Reward))
	}
	if score.Value != l.Value {
		find("value", fmt.Sprint(score.Value), fmt.Sprint(l.Value))
	}
	if !slices.Equal(score.Labels, l.Labels) {
		find("labels", fmt.Sprint(score.Labels), fmt.Sprint(l.Labels))
	}
}

// updates checks every update that was ever recorded, rolled back ones too.
func (v *verifier) updates(ctx context.Context) {
	held := map[string]bool{}
	if plan := v.run.Plan.Evaluation; plan != nil {
		for _, id := range plan.Tasks {
			held[id] = true
		}
	}
	updates, completions, segment := 0, 0, v.history.Inherited
	for i := range v.events {
		e := &v.events[i]
		if e.Kind == checkpoint.KindSegment {
			segment++
		}
		var u checkpoint.Update
		if e.Kind != checkpoint.KindUpdate || json.Unmarshal(e.Body, &u) != nil {
			continue // its form is checked with the history
		}
		updates++
		n, lines := v.update(ctx, place{"ledger.jsonl", e.Seq}, u, held)
		completions += n
		v.restored(segment, u, lines)
	}
	v.checked("rollouts: %d updates, %d rolled back; %d completions%s; tasks, samples, seeds and the metrics that follow from them",
		updates, updates-v.own(), completions, v.graded())
	v.inheritedUpdates(ctx, held)
}

// own counts the retained updates that this directory has.
func (v *verifier) own() (n int) {
	for _, u := range v.history.Updates {
		if u.Segment > v.history.Inherited {
			n++
		}
	}
	return n
}

// place is where an event stands: a file and a line of it, 0 if it is not known.
type place struct {
	file string
	line int
}

// update checks an update, which stands somewhere, and returns the number of its completions, and those that it trained on
// if they could be read. Tasks in held are not to be trained on.
func (v *verifier) update(ctx context.Context, at place, u checkpoint.Update, held map[string]bool) (int, []checkpoint.Line) {
	lines, ok := v.lines(ctx, u.Rollouts)
	if !ok {
		return 0, nil
	}
	var dropped []checkpoint.Line
	if u.Dropped != nil {
		if dropped, ok = v.lines(ctx, *u.Dropped); !ok {
			return 0, nil
		}
	}
	if err := v.run.Plan.CheckUpdate(u, v.run.Seed, lines, dropped); err != nil {
		v.fails(u.Rollouts.Path, err)
	}
	for _, id := range slices.Concat(u.Tasks, u.DroppedTasks) {
		if held[id] {
			v.find(Finding{File: u.Rollouts.Path, Task: id, What: "the update trains on a task that the run is evaluated on"})
		}
	}
	v.metrics(at, u, u.Figures(lines, v.run.Plan.GroupSize))
	return len(lines) + len(dropped), lines
}

func (v *verifier) graded() string {
	if v.grader == nil {
		return ""
	}
	return " graded again"
}

func (v *verifier) metrics(at place, u checkpoint.Update, want map[string]float64) {
	var got map[string]float64
	if err := json.Unmarshal(u.Metrics, &got); err != nil {
		v.find(Finding{File: at.file, Line: at.line, What: "metrics: " + err.Error()})
		return
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if g, ok := got[key]; !ok || !near(g, want[key]) {
			v.find(Finding{File: at.file, Line: at.line, What: fmt.Sprintf("metric %s of update %d", key, u.Update), Expected: fmt.Sprint(want[key]), Found: fmt.Sprint(got[key])})
		}
	}
}

// near allows for processors that round a sum of products differently.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

// evaluations computes the figures of every evaluation that was ever recorded again.
func (v *verifier) evaluations(ctx context.Context) {
	v.inheritedEvaluations(ctx)
	evaluations, completions := 0, 0
	for i := range v.events {
		e := &v.events[i]
		var had checkpoint.Evaluation
		if e.Kind != checkpoint.KindEvaluation || json.Unmarshal(e.Body, &had) != nil {
			continue // its form is checked with the history
		}
		evaluations++
		lines, ok := v.lines(ctx, had.Completions)
		if !ok {
			continue
		}
		completions += len(lines)
		v.evaluation(place{"ledger.jsonl", e.Seq}, had, lines)
		v.sampled = append(v.sampled, fingerprints(had, lines))
		if refs, err := checkpoint.Refer(lines); err != nil {
			v.fails(had.Completions.Path, err)
		} else {
			v.refs[had.Completions.Path] = refs
		}
	}
	for _, e := range v.history.Evaluations {
		v.evaluated(e)
	}
	v.checked("evals: %d evaluations, %d completions%s, every figure computed again", evaluations, completions, v.graded())
}

func (v *verifier) evaluation(at place, had checkpoint.Evaluation, lines []checkpoint.Line) {
	if err := v.run.Plan.CheckEvaluation(had, lines); err != nil {
		v.fails(had.Completions.Path, err)
	}
	find := func(figure string, expected, found any) {
		v.find(Finding{File: at.file, Line: at.line, What: fmt.Sprintf("%s of the evaluation of update %d", figure, had.Update), Expected: short(expected), Found: short(found)})
	}
	if want := v.run.BankDigest(); had.Bank != want {
		find("bank", want, had.Bank)
	}
	plan := v.run.Plan.Evaluation
	if plan == nil {
		return
	}
	want, err := checkpoint.Summarize(lines, plan.Tasks, plan.Seeds)
	if err != nil {
		v.fails(had.Completions.Path, err)
		return
	}
	for _, n := range []struct {
		figure    string
		want, had float64
	}{
		{"accuracy", want.Accuracy, had.Accuracy},
		{"correct", float64(want.Correct), float64(had.Correct)},
		{"scored", float64(want.Scored), float64(had.Scored)},
		{"truncated", float64(want.Truncated), float64(had.Truncated)},
		{"interval, lower end", want.Interval[0], had.Interval[0]},
		{"interval, upper end", want.Interval[1], had.Interval[1]},
		{"mean_tokens", want.MeanTokens, had.MeanTokens},
	} {
		if !near(n.had, n.want) {
			find(n.figure, n.want, n.had)
		}
	}
	if !maps.EqualFunc(want.PassAtK, had.PassAtK, near) {
		find("pass_at_k", want.PassAtK, had.PassAtK)
	}
	if !maps.Equal(want.Labels, had.Labels) {
		find("labels", want.Labels, had.Labels)
	}
	if !slices.Equal(want.Tasks, had.Tasks) {
		find("tasks", want.Tasks, had.Tasks)
	}
}

// evaluated checks that a retained evaluation is of the weights that the run had: those of the checkpoint, or the base weights.
func (v *verifier) evaluated(e checkpoint.Evaluation) {
	check := func(source, digest string) {
		if digest != "" && digest != e.WeightsHash {
			v.find(Finding{File: e.Completions.Path, What: "weights of the evaluation against those of " + source, Expected: digest, Found: e.WeightsHash})
		}
	}
	for _, c := range v.history.Checkpoints {
		if c.Update == e.Update {
			check(c.Path, c.Weights)
		}
	}
	if e.Update == 0 {
		check("run.json", v.run.Digests["weights"])
	}
}

// schedule checks that no evaluation is left out between two that were made, and none at all of a finished run.
func (v *verifier) schedule() {
	plan := v.run.Plan.Evaluation
	if plan == nil {
		return
	}
	if plan.Every < 1 {
		v.find(Finding{File: "run.json", What: fmt.Sprintf("plan.evaluation.every is %d, allowed: 1 or more", plan.Every)})
	}
	newest, end := -1, -1 // of a run that goes on the end is not known
	for _, e := range v.history.Evaluations {
		newest = max(newest, e.Update)
	}
	if v.history.Finished {
		end = v.history.Update()
	}
	for u := range v.history.Update() + 1 {
		if _, ok := v.history.Evaluation(u); ok || !plan.Scheduled(u, end) {
			continue
		}
		switch {
		case u < newest:
			v.find(Finding{File: "ledger.jsonl", What: fmt.Sprintf("there is no evaluation of update %d, and there are later ones", u)})
		case v.history.Finished:
			v.find(Finding{File: "ledger.jsonl", What: fmt.Sprintf("the run is finished, and there is no evaluation of update %d", u)})
		default:
			v.note("the evaluation of update %d is still to come", u)
		}
	}
}
