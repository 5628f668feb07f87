package provenance

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
)

// facts states from the record what limits its results, then what the run's own description adds.
func facts(rec *checkpoint.Record, bank *envs.Bank) []Fact {
	run, h := &rec.Run, &rec.History
	out := []Fact{}
	say := func(name, format string, args ...any) { out = append(out, Fact{name, fmt.Sprintf(format, args...)}) }

	plan := run.Plan.Evaluation
	part := ""
	if plan != nil {
		part = partOf(plan.Tasks, bank)
	}
	switch n := len(h.Evaluations); {
	case n == 0:
		say("no_evaluation", "No evaluation was recorded: nothing is known about tasks that were not trained on.")
	case n == 1:
		say("evaluated_once", "The %d %s tasks were evaluated once.", len(plan.Tasks), part)
	default:
		say(part+"_seen", "The %d %s tasks were evaluated %d times during training: whoever chooses a checkpoint or a setting by them has looked at them.", len(plan.Tasks), part, n)
	}
	switch {
	case len(bank.Confirmation) == 0:
		say("no_confirmation", "There is no confirmation set: no tasks were kept back until the end.")
	case part != "confirmation":
		say("confirmation_unused", "The %d confirmation tasks were kept back, and this record has no evaluation of them.", len(bank.Confirmation))
	}
	if plan != nil && len(h.Evaluations) > 0 {
		last := h.Evaluations[len(h.Evaluations)-1]
		say("interval", "Accuracies are over %d tasks × %d seeds. The interval is a 95 %% Wilson score interval over all completions, as if they were independent; completions of one task are not.", len(plan.Tasks), len(plan.Seeds))
		if last.Truncated > 0 {
			say("truncated", "%d of %d completions of the last evaluation reached the token limit and count as failures.", last.Truncated, last.Scored)
		}
		if last.Update < h.Update() {
			say("last_not_evaluated", "The last %d updates were not evaluated.", h.Update()-last.Update)
		}
	}
	say("one_seed", "This is one run with one training seed (%d). Other seeds come out otherwise.", run.Seed)
	if run.Plan.Staleness == checkpoint.Eager {
		say("not_reproducible", "Groups were sampled by the newest weights that there were (lag at most %d), so the run cannot be repeated bit for bit.", run.Plan.Lag)
	}
	for _, name := range slices.Sorted(maps.Keys(changed(h.Segments))) {
		values := changed(h.Segments)[name]
		say("changed_"+name, "The segments of this run had different versions of %s: %s. Rounding may differ between them.", name, strings.Join(values, ", "))
	}
	if back := h.RolledBack; back.Updates > 0 {
		say("rolled_back", "%s of %s were rolled back: they are preserved, and count in nothing.", count(back.Updates, "update"), count(back.Responses, "response"))
	}
	if !h.Finished {
		say("not_finished", "The run is not finished: %s of its budget are done.", count(h.Update(), "update"))
	}
	for _, text := range run.About.Limitations {
		say("stated", "%s", text)
	}
	return out
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// partOf names the part of the bank that tasks are of.
func partOf(ids []string, bank *envs.Bank) string {
	for _, task := range bank.Confirmation {
		if slices.Contains(ids, task.ID) {
			return "confirmation"
		}
	}
	return "validation"
}

// changed lists what had more than one version over the segments.
func changed(segments []checkpoint.Segment) map[string][]string {
	out := map[string][]string{}
	for _, s := range segments {
		for name, version := range s.Versions {
			if !slices.Contains(out[name], version) {
				out[name] = append(out[name], version)
			}
		}
	}
	maps.DeleteFunc(out, func(_ string, versions []string) bool { return len(versions) < 2 })
	return out
}
