package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
)

// A run that goes on with other settings would be neither the old run nor the new one: the user must see which setting differs.
func TestOtherConfiguration(t *testing.T) {
	dir := finished(t, program)
	before, err := os.ReadFile(filepath.Join(dir, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*checkpoint.Identity)
		want   string
	}{
		"setting": {func(id *checkpoint.Identity) { id.Settings["lr"] = 2e-6 }, "settings.lr: had 0.000001, now 0.000002"},
		"nested": {func(id *checkpoint.Identity) {
			id.Settings["objective"] = map[string]any{"clip_low": .2, "clip_high": .3}
		}, "settings.objective.clip_high: had 0.28, now 0.3"},
		"many": {func(id *checkpoint.Identity) {
			network := map[string]any{}
			for i := range 25 {
				network[fmt.Sprintf("w%02d", i)] = i
			}
			id.Settings["policy_settings"] = network
		}, "settings.policy_settings.w09: had nothing, now 9; and 15 more"},
		"new setting":       {func(id *checkpoint.Identity) { id.Settings["kl"] = nil }, "settings.kl: had nothing, now null"},
		"setting left out":  {func(id *checkpoint.Identity) { delete(id.Settings, "lr") }, "settings.lr: had 0.000001, now nothing"},
		"object for number": {func(id *checkpoint.Identity) { id.Settings["lr"] = map[string]any{"a.b": 1} }, `settings.lr."a.b": had nothing, now 1`},
		"seed":              {func(id *checkpoint.Identity) { id.Seed = 8 }, "seed: had 7, now 8"},
		"plan":              {func(id *checkpoint.Identity) { id.Plan.GroupSize = 4 }, "plan.group_size: had 3, now 4"},
		"evaluation":        {func(id *checkpoint.Identity) { id.Plan.Evaluation.Seeds = []int64{1} }, "plan.evaluation.seeds: had [17,43,101], now [1]"},
		"grader":            {func(id *checkpoint.Identity) { id.Grader.Config = json.RawMessage(`{"x": 1}`) }, "grader.config.x: had nothing, now 1"},
		"weights":           {func(id *checkpoint.Identity) { id.Digests["weights"] = "ab" }, "digests.weights: had"},
		"bank":              {func(id *checkpoint.Identity) { id.Bank["train.jsonl"] = []byte("{}") }, `bank."train.jsonl": had`},
		"bank file":         {func(id *checkpoint.Identity) { id.Bank["more.jsonl"] = []byte("{}") }, `bank."more.jsonl": had nothing`},
	} {
		t.Run(name, func(t *testing.T) {
			id, err := program.Identity()
			if err != nil {
				t.Fatal(err)
			}
			c.change(&id)
			_, err = mustOpen(t, dir).Begin(t.Context(), id)
			if !errors.Is(err, checkpoint.ErrOtherConfiguration) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, expected one that says %q", err, c.want)
			}
		})
	}
	after, err := os.ReadFile(filepath.Join(dir, "ledger.jsonl"))
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("a refused opening has changed the ledger: %v", err)
	}
}

// Budgets, versions and facts of the host are allowed to change; the user is told.
func TestWhatMayChange(t *testing.T) {
	dir := finished(t, program)
	id, err := program.Identity()
	if err != nil {
		t.Fatal(err)
	}
	id.Settings["updates"] = 6
	id.Versions["program"] = "2"
	id.Host["clock"] = 99
	r := mustOpen(t, dir)
	if err := r.SignWith(program.Key); err != nil {
		t.Fatal(err)
	}
	state, err := r.Begin(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if state.Update != 4 || r.Segment() != 2 {
		t.Errorf("update %d in segment %d", state.Update, r.Segment())
	}
	u, lines := update(5, 5)
	if err := r.RecordUpdate(t.Context(), u, lines, nil); err != nil { // and with it the segment
		t.Fatal(err)
	}
	mentions(t, r.Notes(), "updates was 4 and is 6")
	mentions(t, r.Notes(), `the version of program was "1" and is "2"`)
	segments := r.History().Segments
	if s := segments[1]; s.Parent != 1 || s.Update != 4 || s.Checkpoint != "checkpoints/000004" || s.Reason != "resume" || string(s.Settings["updates"]) != "6" {
		t.Errorf("the segment is %+v", s)
	}
}

// Identities that cannot make a verifiable run are refused with the field's name.
func TestIdentityValidate(t *testing.T) {
	for field, change := range map[string]func(*checkpoint.Identity){
		"Plan.TasksPerUpdate":   func(id *checkpoint.Identity) { id.Plan.TasksPerUpdate = 0 },
		"Plan.GroupSize":        func(id *checkpoint.Identity) { id.Plan.GroupSize = 0 },
		"Grader.Source":         func(id *checkpoint.Identity) { id.Grader.Source = "" },
		"Bank":                  func(id *checkpoint.Identity) { id.Bank = map[string][]byte{"../x": nil} },
		"Plan.Evaluation.Tasks": func(id *checkpoint.Identity) { id.Plan.Evaluation.Tasks = nil },
		"Plan.Evaluation.Seeds": func(id *checkpoint.Identity) { id.Plan.Evaluation.Seeds = nil },
		"Plan.Evaluation.Every": func(id *checkpoint.Identity) { id.Plan.Evaluation.Every = 0 },
	} {
		id, err := program.Identity()
		if err != nil {
			t.Fatal(err)
		}
		if err := id.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&id)
		if err := id.Validate(); err == nil || !strings.Contains(err.Error(), "Identity."+field+" is") {
			t.Errorf("%s: the error is %v", field, err)
		}
	}
}
