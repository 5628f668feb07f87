package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/provenance"
)

// Card is the model card of a run: Markdown with the front matter that the Hugging Face hub reads. Everything in it follows from
// the record. It shows curves.png, which stands beside it.
func Card(d *provenance.Document) []byte {
	var b bytes.Buffer
	b.Write(frontMatter(d))
	section := func(title string) { fmt.Fprintf(&b, "\n## %s\n\n", title) }
	fmt.Fprintf(&b, "# %s\n\n", plain(title(d)))
	if d.About.Task != "" {
		fmt.Fprintf(&b, "%s\n\n", sentence(plain(d.About.Task)))
	}
	fmt.Fprintf(&b, "Trained from %s by group-relative policy optimisation (GRPO, arXiv 2402.03300) with verifiable rewards: %d updates on %d sampled responses.\n",
		baseModel(d), d.Training.Retained.Updates, d.Training.Retained.Responses)

	section("Results")
	b.WriteString(headlineTable(d))
	b.WriteString("\n![Training reward and validation accuracy](curves.png)\n")
	if len(d.Results.Evaluations) > 2 {
		b.WriteString("\nAll evaluations:\n\n")
		table(&b, tableHeader, func(row func(...string)) {
			for i := range d.Results.Evaluations {
				row(tableRow(&d.Results.Evaluations[i])...)
			}
		})
	}

	if string(d.Settings["policy"]) == `"hf.Model"` { // others have no folder that those programs read
		section("Use")
		b.WriteString(use)
	}
	section("Evaluation protocol")
	protocol(&b, d)
	section("Training")
	settings(&b, trainingSettings(d))
	b.WriteString("\nSettings that are off (0, empty or false) are left out; `run.json` has all.\n")
	section("Generation")
	settings(&b, pick(d.Settings, "sampling."))
	section("Lineage")
	lineage(&b, d)
	section("Limitations")
	for _, f := range d.Facts {
		fmt.Fprintf(&b, "- %s\n", plain(f.Text))
	}
	section("Licence")
	if d.About.License == "" {
		b.WriteString("Not stated by whoever ran it. The licence of the base model applies.\n")
	} else {
		fmt.Fprintf(&b, "%s\n", plain(d.About.License))
	}
	section("Provenance")
	provenanceOf(&b, d)
	return b.Bytes()
}

// use says how the folder that the card is exported with is loaded.
const use = "FOLDER is the folder of this card, or its name on the hub:\n\n" +
	"```python\n" +
	"from transformers import AutoModelForCausalLM, AutoTokenizer\n\n" +
	"tokenizer = AutoTokenizer.from_pretrained(\"FOLDER\")\n" +
	"model = AutoModelForCausalLM.from_pretrained(\"FOLDER\", dtype=\"auto\")\n" +
	"```\n\n" +
	"```sh\n" +
	"vllm serve FOLDER                                      # vLLM\n" +
	"python -m sglang.launch_server --model-path FOLDER     # SGLang\n" +
	"grouper export --verify FOLDER                         # every tensor as it was trained, every file as it was exported\n" +
	"```\n\n" +
	"In Go: `hf.Load(ctx, os.DirFS(\"FOLDER\"))` of `github.com/grouper-rl/grouper/policy/hf`.\n"

func title(d *provenance.Document) string {
	if strings.TrimSpace(d.About.Title) != "" {
		return d.About.Title
	}
	return fmt.Sprintf("%s by GRPO, seed %d", d.Bank.Source.Name, d.Seed)
}

func baseModel(d *provenance.Document) string {
	if d.About.BaseModel != "" {
		return plain(d.About.BaseModel)
	}
	return fmt.Sprintf("weights with digest `%s`", d.Digests["weights"])
}

// plain is somebody's words as one line of Markdown that is nothing but text.
func plain(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	s = strings.NewReplacer(`\`, `\\`, "<", `\<`, "`", "\\`", "*", `\*`, "[", `\[`).Replace(s)
	if strings.HasPrefix(s, "#") || strings.HasPrefix(s, "-") || strings.HasPrefix(s, ">") {
		s = `\` + s
	}
	return s
}

func sentence(s string) string {
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// frontMatter is YAML; quoted as JSON, which is YAML.
func frontMatter(d *provenance.Document) []byte {
	var b bytes.Buffer
	b.WriteString("---\n")
	if d.About.License != "" {
		fmt.Fprintf(&b, "license: %s\n", strconv.Quote(d.About.License))
	}
	if d.About.BaseModel != "" {
		fmt.Fprintf(&b, "base_model: %s\n", strconv.Quote(d.About.BaseModel))
	}
	b.WriteString("tags: [grpo, reinforcement-learning, grouper]\n")
	if f := d.Results.Final; f != nil {
		name := strconv.Quote(d.Bank.Source.Name)
		fmt.Fprintf(&b, "model-index:\n  - name: %s\n    results:\n      - task:\n          type: text-generation\n        dataset:\n          name: %s\n          type: %s\n"+
			"        metrics:\n          - type: accuracy\n            value: %s\n", strconv.Quote(title(d)), name, name, number(f.Accuracy))
	}
	b.WriteString("---\n\n")
	return b.Bytes()
}

func headlineTable(d *provenance.Document) string {
	var b bytes.Buffer
	r := d.Results
	if r.Final == nil {
		return "No evaluation was recorded.\n"
	}
	table(&b, []string{"weights", "update", "accuracy", "correct / scored", "truncated", "95 % interval"}, func(row func(...string)) {
		line := func(name string, h *provenance.Headline) {
			if h != nil {
				row(name, strconv.Itoa(h.Update), percent(h.Accuracy), fmt.Sprintf("%d / %d", h.Correct, h.Scored), strconv.Itoa(h.Truncated),
					fmt.Sprintf("%.2f – %.2f %%", 100*h.Interval[0], 100*h.Interval[1]))
			}
		}
		line("base", r.Base)
		line("**final**", r.Final)
		if r.Best.Update != r.Final.Update && r.Best.Accuracy > r.Final.Accuracy {
			line("best on these tasks", r.Best)
		}
	})
	return b.String()
}

func protocol(b *bytes.Buffer, d *provenance.Document) {
	plan := d.Plan.Evaluation
	if plan == nil {
		b.WriteString("None: the run has no evaluation.\n")
		return
	}
	fmt.Fprintf(b, "%d held-out tasks of `%s` × %d fixed seeds (%s) = %d completions, before training and after every %d updates", len(plan.Tasks), d.Bank.Source.Name,
		len(plan.Seeds), list(plan.Seeds), len(plan.Tasks)*len(plan.Seeds), plan.Every)
	if plan.Last {
		b.WriteString(" and after the last")
	}
	b.WriteString(". The denominator is fixed before the run: completions that are truncated, or have no readable answer, count as failures. ")
	b.WriteString("A completion's randomness follows from its seed and its task alone, so all evaluations see the same random numbers. ")
	fmt.Fprintf(b, "Completions are scored by `%s`", d.Grader.Source)
	if config := strings.TrimSpace(string(d.Grader.Config)); config != "" && config != "null" {
		fmt.Fprintf(b, " with `%s`", compact(d.Grader.Config))
	}
	b.WriteString(".\n")
	if len(plan.Sampling) > 0 {
		fmt.Fprintf(b, "\nSampling in evaluations: `%s`\n", compact(plan.Sampling))
	}
}

func list(seeds []int64) string {
	out := make([]string, len(seeds))
	for i, s := range seeds {
		out[i] = strconv.FormatInt(s, 10)
	}
	return strings.Join(out, ", ")
}

// compact is JSON without white space; what is no JSON stays as it is.
func compact(v json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return string(v)
	}
	return b.String()
}

// setting is a line of a table of settings.
type setting struct{ name, value string }

func trainingSettings(d *provenance.Document) []setting {
	p, t := d.Plan, d.Training
	out := []setting{
		{"updates", strconv.Itoa(t.Retained.Updates)},
		{"tasks an update × completions a task", fmt.Sprintf("%d × %d", p.TasksPerUpdate, p.GroupSize)},
		{"responses consumed", strconv.Itoa(t.Retained.Responses)},
		{"completion tokens", strconv.FormatInt(t.Tokens, 10)},
		{"updates between sampling and training", lag(p)},
		{"training seed", strconv.FormatInt(d.Seed, 10)},
	}
	for _, part := range d.Bank.Parts {
		out = append(out, setting{part.Name + " tasks", strconv.Itoa(part.Tasks)})
	}
	if t.Dropped > 0 {
		out = append(out, setting{"groups sampled and left out (no variance)", strconv.Itoa(t.Dropped)})
	}
	if r := t.RewardMean; r != nil {
		out = append(out, setting{"mean reward, first → last updates (ten, or half of them)", fmt.Sprintf("%.3f → %.3f", r.First, r.Last)})
	}
	for _, name := range slices.Sorted(maps.Keys(d.Settings)) {
		if !strings.HasPrefix(name, "sampling.") && !strings.HasPrefix(name, "policy_settings.") && name != "updates" && !off(d.Settings[name]) {
			out = append(out, setting{"`" + name + "`", "`" + compact(d.Settings[name]) + "`"})
		}
	}
	return out
}

func lag(p checkpoint.Plan) string {
	switch {
	case p.Lag == 0:
		return "0 (on-policy)"
	case p.Staleness == checkpoint.Eager:
		return fmt.Sprintf("at most %d", p.Lag)
	}
	return fmt.Sprintf("always %d", p.Lag)
}

// off are values of settings that are not in use.
func off(v json.RawMessage) bool {
	return slices.Contains([]string{"0", "false", `""`, "null"}, string(v))
}

// pick are the settings below a path.
func pick(settings map[string]json.RawMessage, prefix string) (out []setting) {
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			out = append(out, setting{"`" + rest + "`", "`" + compact(settings[name]) + "`"})
		}
	}
	return out
}

func settings(b *bytes.Buffer, lines []setting) {
	table(b, []string{"setting", "value"}, func(row func(...string)) {
		for _, s := range lines {
			row(s.name, s.value)
		}
	})
}

func lineage(b *bytes.Buffer, d *provenance.Document) {
	table(b, []string{"segment", "goes on from", "why", "backend", "updates that count", "rolled back"}, func(row func(...string)) {
		for _, s := range d.Segments {
			from := "the base weights"
			if s.Parent > 0 {
				from = fmt.Sprintf("update %d of segment %d", s.Update, s.Parent)
			}
			row(strconv.Itoa(s.Segment), from, s.Reason, cmp.Or(s.Versions["backend"], "not recorded"), strconv.Itoa(s.Retained.Updates), strconv.Itoa(s.RolledBack.Updates))
		}
	})
	t := d.Training
	fmt.Fprintf(b, "\n%d updates and %d responses count; %d updates and %d responses are preserved and excluded.\n",
		t.Retained.Updates, t.Retained.Responses, t.RolledBack.Updates, t.RolledBack.Responses)
	if p := d.Run.Parent; p != nil {
		fmt.Fprintf(b, "\nThe run was forked from another after its update %d; that run's record begins with `%s`.\n", p.Update, p.Start)
	}
}

func provenanceOf(b *bytes.Buffer, d *provenance.Document) {
	lines := []setting{
		{"record begins with", "`" + d.Run.Start + "`"},
		{"last event", fmt.Sprintf("%d, `%s`", d.Run.Ledger.Seq, d.Run.Ledger.Hash)},
		{"bank", "`" + d.Bank.Digest + "`"},
		{"trained weights", "`" + d.Training.Weights + "` (`" + d.Training.Checkpoint + "`)"},
	}
	for _, name := range slices.Sorted(maps.Keys(d.Digests)) {
		label := name
		if name == "weights" {
			label = "base weights"
		}
		lines = append(lines, setting{label, "`" + d.Digests[name] + "`"})
	}
	for _, key := range d.Run.Signers {
		lines = append(lines, setting{"receipts signed by", "`" + key + "`"})
	}
	last := d.Segments[len(d.Segments)-1]
	for _, name := range slices.Sorted(maps.Keys(last.Versions)) {
		lines = append(lines, setting{name, last.Versions[name]})
	}
	table(b, []string{"what", "value"}, func(row func(...string)) {
		for _, s := range lines {
			row(s.name, s.value)
		}
	})
	fmt.Fprintf(b, "\n`provenance.json` has all of this for programs, with the SHA-256 of %d files. `grouper verify DIR` recomputes every hash, reward and figure from the run directory, offline.\n", len(d.Files))
}

// table writes a Markdown table. What would break a cell is escaped.
func table(b *bytes.Buffer, header []string, rows func(row func(...string))) {
	line := func(cells ...string) {
		for i, c := range cells {
			cells[i] = strings.NewReplacer(`\`, `\\`, "|", `\|`, "\n", " ").Replace(c)
		}
		fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
	}
	line(header...)
	fmt.Fprintf(b, "|%s\n", strings.Repeat("---|", len(header)))
	rows(line)
}
