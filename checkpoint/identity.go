package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grouper-rl/grouper/policy/chat"
)

// Identity is what makes a run this run and no other. Everything except the changeable settings, the versions and the
// facts of the host must be the same whenever the run is opened again.
type Identity struct {
	Settings   map[string]any    `json:"settings"`             // any JSON; compared field by field
	Changeable []string          `json:"changeable,omitempty"` // paths of settings that may differ later, budgets: "updates", "config.updates"
	Seed       int64             `json:"seed"`                 // names all randomness of training
	Plan       Plan              `json:"plan"`
	Grader     Grader            `json:"grader"`
	Digests    map[string]string `json:"digests"` // of what the run starts from: "weights", "tokenizer", …
	Versions   map[string]string `json:"versions,omitempty"`
	Host       map[string]any    `json:"host,omitempty"`
	About      About             `json:"about,omitzero"`
	Bank       map[string][]byte `json:"-"` // the files of bank/, by name
}

// About describes a run to people. It is recorded and published with the run; nothing is computed from it or compared with it.
type About struct {
	Title       string   `json:"title,omitempty"`
	Task        string   `json:"task,omitempty"`        // what the policy learns, in a sentence
	BaseModel   string   `json:"base_model,omitempty"`  // what it was trained from: its name on the hub, or where it stands
	License     string   `json:"license,omitempty"`     // SPDX identifier, of the trained weights
	Limitations []string `json:"limitations,omitempty"` // what the record cannot say
}

// Plan says what every update and every evaluation of the run consists of. Recording refuses anything else, and
// verification counts it again.
type Plan struct {
	TasksPerUpdate int             `json:"tasks_per_update"`
	GroupSize      int             `json:"group_size"`          // completions of each task
	Lag            int             `json:"lag,omitempty"`       // completed updates between the weights that sample a group and those that it updates; 0: on-policy
	Staleness      string          `json:"staleness,omitempty"` // "" or "fixed": always Lag updates, "eager": at most Lag
	Evaluation     *EvaluationPlan `json:"evaluation,omitempty"`
}

// Values of [Plan.Staleness].
const (
	Fixed = "fixed" // the batch of update u is sampled by the weights of update max(0, u-1-Lag)
	Eager = "eager" // each of its groups is sampled by the weights of an update from max(0, u-1-Lag) to u-1
)

// EvaluationPlan is the part of a [Plan] that fixes the denominator of every accuracy.
type EvaluationPlan struct {
	Tasks    []string        `json:"tasks"` // ids, in bank order
	Seeds    []int64         `json:"seeds"`
	Every    int             `json:"every"`              // updates between evaluations, beginning with update 0
	Last     bool            `json:"last,omitempty"`     // the last update is evaluated, too, whatever its number
	Sampling json.RawMessage `json:"sampling,omitempty"` // the settings of every evaluation
}

// Scheduled says that the weights of an update are to be evaluated in a run that ends with the update last.
func (p EvaluationPlan) Scheduled(update, last int) bool {
	return p.Every > 0 && update%p.Every == 0 || p.Last && update == last
}

// Grader names what turned completions into rewards, so that it can be made again from the record alone.
type Grader struct {
	Source string          `json:"source"`           // "caesar_cipher"
	Config json.RawMessage `json:"config,omitempty"` // the source's and the grader's settings
	// Reasoning says how a completion's text is divided; only the answer is graded. nil: the text as it is.
	Reasoning *chat.Reasoning `json:"reasoning,omitempty"`
}

// RunFile is the content of run.json.
type RunFile struct {
	Format  int       `json:"format"`
	Created time.Time `json:"created"`
	Identity
	Parent *Parent           `json:"parent,omitempty"` // the run that this one was forked from
	Files  map[string]string `json:"bank"`             // SHA-256 of the files of bank/, by name
}

// Validate names the first field that cannot be used.
func (id Identity) Validate() error {
	bad := func(field string, value any, allowed string) error {
		return fmt.Errorf("checkpoint: Identity.%s is %v, allowed: %s", field, value, allowed)
	}
	p := id.Plan
	switch {
	case p.TasksPerUpdate < 1:
		return bad("Plan.TasksPerUpdate", p.TasksPerUpdate, "1 or more")
	case p.GroupSize < 1:
		return bad("Plan.GroupSize", p.GroupSize, "1 or more")
	case p.Lag < 0:
		return bad("Plan.Lag", p.Lag, "0 or more")
	case p.Staleness != "" && p.Staleness != Fixed && p.Staleness != Eager:
		return bad("Plan.Staleness", strconv.Quote(p.Staleness), `"fixed" or "eager"`)
	case id.Grader.Source == "":
		return bad("Grader.Source", `""`, "the name of what scored the completions")
	case len(id.Bank) == 0:
		return bad("Bank", "empty", "the frozen tasks")
	}
	if e := p.Evaluation; e != nil {
		switch {
		case len(e.Tasks) == 0:
			return bad("Plan.Evaluation.Tasks", "empty", "at least one task")
		case len(e.Seeds) == 0:
			return bad("Plan.Evaluation.Seeds", "empty", "at least one seed")
		case e.Every < 1:
			return bad("Plan.Evaluation.Every", e.Every, "1 or more")
		}
	}
	for name := range id.Bank {
		if name != filepath.Base(name) || strings.HasPrefix(name, ".") {
			return bad("Bank", fmt.Sprintf("a file %q", name), "plain file names")
		}
	}
	return nil
}

// newRunFile fixes an identity as it is written. Identities that are equal in JSON give equal files, times aside.
func newRunFile(id Identity, now time.Time) (*RunFile, error) {
	if err := id.Validate(); err != nil {
		return nil, err
	}
	f := &RunFile{Format: Format, Created: now.UTC().Truncate(time.Millisecond), Identity: id, Files: map[string]string{}}
	for name, data := range id.Bank {
		f.Files[name] = hexDigest(data)
	}
	// Through JSON and back, so that what is compared is what is stored.
	data, err := f.encode()
	if err != nil {
		return nil, fmt.Errorf("checkpoint: the run's identity: %w", err)
	}
	return parseRunFile(data)
}

func (f *RunFile) encode() ([]byte, error) {
	data, err := marshal(f)
	if err != nil {
		return nil, err
	}
	return indented(data), nil
}

func parseRunFile(data []byte) (*RunFile, error) {
	if err := checkFormat(data); err != nil {
		return nil, fmt.Errorf("run.json: %w", err)
	}
	var f RunFile
	if err := unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("%w: run.json: %w", ErrDamaged, err)
	}
	return &f, nil
}

// checkFormat refuses JSON that was written by another version, before its fields are looked at.
func checkFormat(data []byte) error {
	var v struct {
		Format *int `json:"format"`
	}
	switch err := json.Unmarshal(data, &v); {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	case v.Format == nil:
		return fmt.Errorf("%w: it has no format version", ErrDamaged)
	case *v.Format != Format:
		return fmt.Errorf("%w: it was written as format %d, this program reads format %d: go on with the version of Grouper that wrote it, or begin a new run in another directory",
			ErrFormat, *v.Format, Format)
	}
	return nil
}

// ReadRunFile reads run.json of a run directory; of another folder it returns [ErrNoRun], of one that is only just being made [ErrNotBegun].
func ReadRunFile(dir string) (*RunFile, error) {
	data, err := readRunFile(dir)
	if err != nil {
		return nil, err
	}
	return parseRunFile(data)
}

func readRunFile(dir string) ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(dir, runName))
	if !errors.Is(err, fs.ErrNotExist) {
		return data, err
	}
	ledger, ledgerErr := os.Stat(filepath.Join(dir, ledgerName))
	_, lockErr := os.Lstat(filepath.Join(dir, lockName))
	switch {
	case ledgerErr == nil && ledger.Size() > 0:
		return nil, fmt.Errorf("%w: it has %s and no %s: %w", ErrDamaged, ledgerName, runName, err)
	case ledgerErr == nil || lockErr == nil:
		return nil, fmt.Errorf("%w: it has no %s yet", ErrNotBegun, runName)
	}
	return nil, fmt.Errorf("%w: it has neither %s nor %s", ErrNoRun, runName, ledgerName)
}

// Start is what the first event's prev must be, given the bytes of run.json: see the package documentation.
func (f *RunFile) Start(runJSON []byte) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "run.json %s\n", hexDigest(runJSON))
	for _, name := range slices.Sorted(maps.Keys(f.Files)) {
		fmt.Fprintf(&b, "bank/%s %s\n", name, f.Files[name])
	}
	return hexDigest(b.Bytes())
}

// BankDigest names the frozen tasks: the SHA-256 of lines "name digest\n", one for each file of the bank, sorted by name.
func (f *RunFile) BankDigest() string {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(f.Files)) {
		fmt.Fprintf(&b, "%s %s\n", name, f.Files[name])
	}
	return hexDigest(b.Bytes())
}

// Fields lists everything that must not change as paths and JSON values, nested settings by their path
// ("settings.objective.clip_low"). Logical digests are taken of it.
func (f *RunFile) Fields() (map[string]string, error) {
	all, err := f.fields()
	for path := range f.changeable(all) {
		delete(all, "settings."+path)
	}
	return all, err
}

func (f *RunFile) fields() (map[string]string, error) {
	data, err := marshal(map[string]any{
		"settings": f.Settings, "seed": f.Seed, "plan": f.Plan, "grader": f.Grader, "digests": f.Digests, "bank": f.Files,
	})
	if err != nil {
		return nil, err
	}
	var tree map[string]any
	if err := unmarshal(data, &tree); err != nil {
		return nil, err
	}
	fields := map[string]string{}
	return fields, flatten(fields, "", tree)
}

// changeable picks the settings that may differ out of all fields, by their paths in the settings.
func (f *RunFile) changeable(fields map[string]string) map[string]json.RawMessage {
	values := map[string]json.RawMessage{}
	for field, value := range fields {
		path, ok := strings.CutPrefix(field, "settings.")
		if ok && slices.ContainsFunc(f.Changeable, func(c string) bool { return path == c || strings.HasPrefix(path, c+".") }) {
			values[path] = json.RawMessage(value)
		}
	}
	return values
}

// plainKey needs no quotes in a path; the others get them, as in jq: bank."train.jsonl".
var plainKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// flatten stops at arrays and at empty objects: they are values.
func flatten(into map[string]string, path string, v any) error {
	if object, ok := v.(map[string]any); ok && len(object) > 0 {
		for key, value := range object {
			if !plainKey.MatchString(key) {
				key = strconv.Quote(key)
			}
			if err := flatten(into, strings.TrimPrefix(path+"."+key, "."), value); err != nil {
				return err
			}
		}
		return nil
	}
	data, err := marshal(v)
	into[path] = string(data)
	return err
}

// compare lists how another identity differs: "settings.lr: had 1e-06, now 2e-06".
func (f *RunFile) compare(now *RunFile) ([]string, error) {
	had, err := f.Fields()
	if err != nil {
		return nil, err
	}
	has, err := now.Fields()
	if err != nil {
		return nil, err
	}
	show := func(fields map[string]string, path string) string {
		v, ok := fields[path]
		if !ok {
			return "nothing"
		}
		if len(v) > 200 {
			return v[:200] + "…"
		}
		return v
	}
	both := maps.Clone(had)
	maps.Copy(both, has)
	var diff []string
	for _, path := range slices.Sorted(maps.Keys(both)) {
		h, inHad := had[path]
		n, inHas := has[path]
		if h != n || inHad != inHas {
			diff = append(diff, fmt.Sprintf("%s: had %s, now %s", path, show(had, path), show(has, path)))
		}
	}
	return diff, nil
}
