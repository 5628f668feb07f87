// Package provenance makes provenance.json: one file that says what a run was, what came of it and which files prove it. All of it
// follows from the run directory's record, so the same record gives the same bytes, and [Check] says whether a file is still
// that of its record. schema.json, beside this source and in [Schema], describes the format.
package provenance

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
)

// Name is the file's name in a run directory.
const Name = "provenance.json"

// Format names the version of the format.
const Format = "grouper provenance 1"

// Schema is the JSON Schema (2020-12) of the format.
//
//go:embed schema.json
var Schema []byte

// Document is the content of provenance.json.
type Document struct {
	Format   string                     `json:"format"`
	Run      Run                        `json:"run"`
	About    checkpoint.About           `json:"about"`
	Seed     int64                      `json:"seed"`
	Settings map[string]json.RawMessage `json:"settings"` // by path: "config.objective.clip_low"; those that may change as they were at the end
	Plan     checkpoint.Plan            `json:"plan"`
	Digests  map[string]string          `json:"digests"` // of what the run started from: weights, prompts, template, …
	Bank     Bank                       `json:"bank"`
	Grader   checkpoint.Grader          `json:"grader"`
	Results  Results                    `json:"results"`
	Training Training                   `json:"training"`
	Segments []Segment                  `json:"segments"`
	Files    []checkpoint.File          `json:"files"` // every file of the record that an event or a manifest names, sorted; not the ledger, which Run names
	Facts    []Fact                     `json:"limitations"`
}

// Run names the record.
type Run struct {
	Start    string                `json:"start"`  // SHA-256 over run.json and the bank, see [checkpoint.RunFile.Start]
	Ledger   checkpoint.LedgerHead `json:"ledger"` // the last event: through its hash, everything that was recorded
	Created  time.Time             `json:"created"`
	Last     time.Time             `json:"last_event"`
	Finished bool                  `json:"finished"` // nothing was left to do
	Parent   *checkpoint.Parent    `json:"parent,omitempty"`
	Signers  []string              `json:"signers"` // public keys by which receipts are signed
}

// Bank is what was trained and evaluated on.
type Bank struct {
	Digest     string      `json:"digest"` // see [checkpoint.RunFile.BankDigest]
	Source     envs.Origin `json:"source"`
	DistinctBy string      `json:"distinct_by,omitempty"`
	Parts      []envs.Part `json:"parts"`
}

// Results are the evaluations that count.
type Results struct {
	Base        *Headline               `json:"base,omitempty"`  // of the weights that training began with
	Final       *Headline               `json:"final,omitempty"` // of the last weights that were evaluated
	Best        *Headline               `json:"best,omitempty"`  // the first with the highest accuracy: chosen by the evaluated tasks themselves
	Evaluations []checkpoint.Evaluation `json:"evaluations"`     // all
}

// Headline is an evaluation in a line.
type Headline struct {
	Update    int        `json:"update"`
	Accuracy  float64    `json:"accuracy"`
	Correct   int        `json:"correct"`
	Scored    int        `json:"scored"`
	Truncated int        `json:"truncated"`
	Interval  [2]float64 `json:"interval"` // 95 % Wilson score interval
}

// Training says how much was done.
type Training struct {
	Retained   checkpoint.Work `json:"retained"`        // what counts
	RolledBack checkpoint.Work `json:"rolled_back"`     // preserved and excluded
	Tokens     int64           `json:"tokens"`          // of the completions that count
	Dropped    int             `json:"dropped_groups"`  // sampled for updates that count, and left out for want of variance
	RewardMean *Span           `json:"reward_mean"`     // of the first and the last ten updates, of halves of a short run
	Weights    string          `json:"weights"`         // digest of the last checkpoint's weights, see [checkpoint.WeightsDigest]
	Checkpoint string          `json:"last_checkpoint"` // its folder
}

// Span is a number at the beginning and at the end.
type Span struct {
	First float64 `json:"first"`
	Last  float64 `json:"last"`
}

// Segment is one opening of the run.
type Segment struct {
	Segment    int               `json:"segment"`
	Parent     int               `json:"parent"`
	Update     int               `json:"update"`               // that it went on from
	Checkpoint string            `json:"checkpoint,omitempty"` // that was restored
	Reason     string            `json:"reason"`
	Retained   checkpoint.Work   `json:"retained"` // of what it did, what counts
	RolledBack checkpoint.Work   `json:"rolled_back"`
	Inherited  bool              `json:"inherited,omitempty"` // of the run that this one was forked from
	Versions   map[string]string `json:"versions,omitempty"`
	Host       map[string]any    `json:"host,omitempty"`
}

// Fact is something that a reader of the results should know, stated from the record.
type Fact struct {
	Name string `json:"name"` // a fixed word: "validation_seen", "no_confirmation", …
	Text string `json:"text"`
}

// Build reads a run directory and says what it proves. A ledger that does not hold is a [checkpoint.LedgerError]; the files
// that it names are not read, that is verification's part.
func Build(ctx context.Context, dir string) (*Document, error) {
	rec, err := checkpoint.Read(dir)
	if err != nil {
		return nil, fmt.Errorf("provenance: %w", err)
	}
	d, err := build(ctx, dir, rec)
	if err != nil {
		return nil, fmt.Errorf("provenance of %s: %w", dir, err)
	}
	return d, nil
}

func build(ctx context.Context, dir string, rec *checkpoint.Record) (*Document, error) {
	if len(rec.Events) == 0 {
		return nil, errors.New("nothing has been recorded yet")
	}
	run, h := &rec.Run, &rec.History
	last := rec.Events[len(rec.Events)-1]
	d := &Document{
		Format: Format, About: run.About, Seed: run.Seed, Plan: run.Plan, Digests: run.Digests, Grader: run.Grader,
		Run: Run{
			Start: rec.Events[0].Prev, Ledger: checkpoint.LedgerHead{Seq: last.Seq, Hash: last.Hash},
			Created: run.Created, Last: last.Time, Finished: h.Finished, Parent: run.Parent, Signers: []string{},
		},
		Settings: map[string]json.RawMessage{},
		Facts:    []Fact{},
	}
	fields, err := run.Fields()
	if err != nil {
		return nil, err
	}
	for name, value := range fields {
		if setting, ok := strings.CutPrefix(name, "settings."); ok {
			d.Settings[setting] = json.RawMessage(value)
		}
	}
	maps.Copy(d.Settings, h.Segments[len(h.Segments)-1].Settings)
	bank, err := envs.OpenBank(os.DirFS(filepath.Join(dir, "bank")))
	if err != nil {
		return nil, err
	}
	d.Bank = Bank{Digest: run.BankDigest(), Source: bank.Manifest.Source, DistinctBy: bank.Manifest.DistinctBy}
	for _, p := range bank.Manifest.Parts {
		p.Lines = nil
		d.Bank.Parts = append(d.Bank.Parts, p)
	}
	d.results(h)
	if err := d.training(h); err != nil {
		return nil, err
	}
	d.segments(rec)
	if d.Files, err = files(ctx, dir, rec); err != nil {
		return nil, err
	}
	d.Facts = facts(rec, bank)
	return d, nil
}

func (d *Document) results(h *checkpoint.History) {
	d.Results.Evaluations = []checkpoint.Evaluation{}
	for _, e := range h.Evaluations {
		d.Results.Evaluations = append(d.Results.Evaluations, e)
		line := &Headline{e.Update, e.Accuracy, e.Correct, e.Scored, e.Truncated, e.Interval}
		if e.Update == 0 {
			d.Results.Base = line
		}
		if best := d.Results.Best; best == nil || e.Accuracy > best.Accuracy {
			d.Results.Best = line
		}
		d.Results.Final = line
	}
}

func (d *Document) training(h *checkpoint.History) error {
	t := &d.Training
	t.Retained, t.RolledBack = h.Retained(), h.RolledBack
	rewards := make([]float64, len(h.Updates))
	for i, u := range h.Updates {
		var m struct {
			Reward float64 `json:"reward_mean"`
			Tokens float64 `json:"tokens_mean"`
		}
		if err := json.Unmarshal(u.Metrics, &m); err != nil {
			return fmt.Errorf("metrics of update %d: %w", u.Update, err)
		}
		rewards[i] = m.Reward
		t.Tokens += int64(m.Tokens*float64(u.Rollouts.Lines) + .5)
		t.Dropped += len(u.DroppedTasks)
	}
	if n := min(10, len(rewards)/2); n > 0 {
		t.RewardMean = &Span{mean(rewards[:n]), mean(rewards[len(rewards)-n:])}
	}
	if n := len(h.Checkpoints); n > 0 {
		t.Weights, t.Checkpoint = h.Checkpoints[n-1].Weights, h.Checkpoints[n-1].Path
	}
	return nil
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

// segments says for each what it did and what of that counts.
func (d *Document) segments(rec *checkpoint.Record) {
	h := &rec.History
	retained, all := map[int]checkpoint.Work{}, map[int]checkpoint.Work{}
	add := func(to map[int]checkpoint.Work, u checkpoint.Update) {
		w := to[u.Segment]
		to[u.Segment] = checkpoint.Work{Updates: w.Updates + 1, Responses: w.Responses + u.Rollouts.Lines}
	}
	for _, u := range h.Updates {
		add(retained, u)
	}
	for u := range recorded(rec) {
		add(all, u)
	}
	for _, s := range h.Segments {
		r, a := retained[s.Segment], all[s.Segment]
		d.Segments = append(d.Segments, Segment{
			Segment: s.Segment, Parent: s.Parent, Update: s.Update, Checkpoint: s.Checkpoint, Reason: s.Reason,
			Retained: r, RolledBack: checkpoint.Work{Updates: a.Updates - r.Updates, Responses: a.Responses - r.Responses},
			Inherited: s.Segment <= h.Inherited, Versions: s.Versions, Host: s.Host,
		})
		if s.Signer != "" && !slices.Contains(d.Run.Signers, s.Signer) {
			d.Run.Signers = append(d.Run.Signers, s.Signer)
		}
	}
}

// recorded are all updates that were ever recorded, with their segments.
func recorded(rec *checkpoint.Record) func(func(checkpoint.Update) bool) {
	return func(yield func(checkpoint.Update) bool) {
		if rec.Parent != nil {
			for u := range recorded(rec.Parent) {
				if !yield(u) {
					return
				}
			}
		}
		segment := rec.History.Inherited
		for _, e := range rec.Events {
			switch e.Kind {
			case checkpoint.KindSegment:
				segment++
			case checkpoint.KindUpdate:
				var u checkpoint.Update
				if json.Unmarshal(e.Body, &u) != nil {
					continue // its form was checked with the history
				}
				u.Segment = segment
				if !yield(u) {
					return
				}
			}
		}
	}
}

// files lists what the events and the checkpoints' manifests name, as they name it.
func files(ctx context.Context, dir string, rec *checkpoint.Record) ([]checkpoint.File, error) {
	named := map[string]checkpoint.File{}
	run, err := os.ReadFile(filepath.Join(dir, "run.json"))
	if err != nil {
		return nil, err
	}
	named["run.json"] = checkpoint.File{Path: "run.json", SHA256: digest(run)}
	for name, digest := range rec.Run.Files {
		named["bank/"+name] = checkpoint.File{Path: "bank/" + name, SHA256: digest}
	}
	for i := range rec.Events {
		fs, _, err := rec.Events[i].Names()
		if err != nil {
			return nil, err
		}
		for _, f := range fs {
			named[f.Path] = f
		}
	}
	for _, c := range rec.History.Checkpoints {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if c.Pruned {
			continue
		}
		name := path.Join(c.Path, "manifest.json")
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
		if errors.Is(err, fs.ErrNotExist) && rec.Run.Parent != nil {
			continue // it is the parent's
		}
		if err != nil {
			return nil, err
		}
		if got := digest(data); got != c.Manifest {
			return nil, fmt.Errorf("%w: %s: SHA-256 is %s, the ledger says %s", checkpoint.ErrDamaged, name, got, c.Manifest)
		}
		m, err := checkpoint.ParseManifest(data)
		if err != nil {
			return nil, err
		}
		named[name] = checkpoint.File{Path: name, SHA256: c.Manifest}
		for _, f := range m.Files {
			named[path.Join(c.Path, f.Name)] = checkpoint.File{Path: path.Join(c.Path, f.Name), SHA256: f.SHA256}
		}
	}
	out := make([]checkpoint.File, 0, len(named))
	for _, name := range slices.Sorted(maps.Keys(named)) {
		out = append(out, named[name])
	}
	return out, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Encode gives the bytes of the file.
func (d *Document) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(d)
	return b.Bytes(), err
}

// Write makes provenance.json of a run directory, or makes it anew, and returns what it says.
func Write(ctx context.Context, dir string) (*Document, error) {
	d, err := Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	data, err := d.Encode()
	if err != nil {
		return nil, fmt.Errorf("provenance of %s: %w", dir, err)
	}
	if err := renameio.WriteFile(filepath.Join(dir, Name), data, 0o644); err != nil {
		return nil, fmt.Errorf("provenance: writing %s: %w", filepath.Join(dir, Name), err)
	}
	return d, nil
}

// ErrOld says that provenance.json was made of the record as it was earlier; the message says of which event.
var ErrOld = errors.New("it is older than the record")

// Check compares a run directory's provenance.json with what its record says: nil if they agree or there is none, [ErrOld] if events
// have been recorded since, another error naming the first field that differs.
func Check(ctx context.Context, dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, Name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var had Document
	if err := json.Unmarshal(data, &had); err != nil {
		return err
	}
	rec, err := checkpoint.Read(dir)
	if err != nil {
		return err
	}
	if n := had.Run.Ledger.Seq; n > 0 && n < len(rec.Events) && rec.Events[n-1].Hash == had.Run.Ledger.Hash {
		return fmt.Errorf("%w: it was made after event %d of %d", ErrOld, n, len(rec.Events))
	}
	d, err := build(ctx, dir, rec)
	if err != nil {
		return err
	}
	want, err := d.Encode()
	if err != nil || bytes.Equal(want, data) {
		return err
	}
	var a, b map[string]any
	if err := errors.Join(json.Unmarshal(want, &a), json.Unmarshal(data, &b)); err != nil {
		return err
	}
	where, expected, found := difference("", a, b)
	if where == "" {
		return errors.New("it is not in the form in which it is written")
	}
	return fmt.Errorf("%s: expected %s, found %s", where, expected, found)
}

// difference is the first place in which two JSON values differ.
func difference(at string, a, b any) (where, expected, found string) {
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			keys := slices.Collect(maps.Keys(x))
			for key := range y {
				if _, both := x[key]; !both {
					keys = append(keys, key)
				}
			}
			slices.Sort(keys)
			for _, key := range keys {
				if where, expected, found = difference(strings.TrimPrefix(at+"."+key, "."), x[key], y[key]); where != "" {
					return where, expected, found
				}
			}
			return "", "", ""
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			for i := range x {
				if where, expected, found = difference(fmt.Sprintf("%s[%d]", at, i), x[i], y[i]); where != "" {
					return where, expected, found
				}
			}
			return "", "", ""
		}
	}
	p, errA := json.Marshal(a)
	q, errB := json.Marshal(b)
	if errA == nil && errB == nil && bytes.Equal(p, q) {
		return "", "", ""
	}
	short := func(s []byte) string {
		if len(s) > 120 {
			return string(s[:120]) + "…"
		}
		return string(s)
	}
	return at, short(p), short(q)
}
