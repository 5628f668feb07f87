// Package rescore grades the recorded completions of a run again, with another grader or a newer version of the same, and
// writes what it says beside the record. The record itself, with the rewards that training and accuracy used, stays as it is:
// nothing reads the labels of this package but people and their programs.
//
// # The folder
//
//	labels/NAME/labels.json                 the Manifest: what graded, which files, with digests of both sides
//	labels/NAME/rollouts/000031.jsonl.zst   a Label for each completion of rollouts/000031.jsonl.zst, in its order
//	labels/NAME/evals/000030.jsonl.zst      likewise
//
// A folder is written once, under a temporary name until it is whole. labels.json names the event that the ledger ended with, so
// it can be seen what a run that went on has more.
package rescore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/guard"
	"github.com/grouper-rl/grouper/policy/chat"
)

const (
	// Folder is where labels are in a run directory.
	Folder = "labels"
	// ManifestName is the name of a folder's Manifest.
	ManifestName = "labels.json"
)

// Format is the version of what this package writes.
const Format = 1

// Options say what grades.
type Options struct {
	Name    string            // of the folder below labels/: letters, digits, '.', '_' and '-'
	Grader  envs.Grader       // what grades
	Source  checkpoint.Grader // names the grader, with all its settings; its Reasoning divides replies
	Version string            // of the grader: "reasoning-gym 0.1.19", a commit, …
}

// Label is what a grader says of a recorded completion: a line of the files of labels/.
type Label struct {
	Task     string   `json:"task"`
	Sample   int      `json:"sample"`
	Seed     int64    `json:"seed"`
	SHA256   string   `json:"sha256"`   // of the completion, see checkpoint.Line.Digest
	Recorded float64  `json:"recorded"` // the reward in the record, which stands
	Reward   float64  `json:"reward"`   // what this grader would give
	Value    float64  `json:"value"`    // the environment's own score, by this grader
	Labels   []string `json:"labels,omitempty"`
}

// Manifest is the content of labels.json.
type Manifest struct {
	Format      int                   `json:"format"`
	Run         string                `json:"run"`    // see checkpoint.RunFile.Start
	Ledger      checkpoint.LedgerHead `json:"ledger"` // its last event then
	Grader      checkpoint.Grader     `json:"grader"`
	Version     string                `json:"version"`
	Completions int                   `json:"completions"`
	Differ      int                   `json:"differ"` // completions whose reward would be another
	Files       []Labelled            `json:"files"`  // in the order of the ledger
}

// Labelled is a file of completions with the file of its labels.
type Labelled struct {
	Of     checkpoint.File `json:"of"`
	Labels checkpoint.File `json:"labels"` // its path is relative to labels.json
	Differ int             `json:"differ"`
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]*$`)

// Validate names the first option that cannot be used.
func (o Options) Validate() error {
	switch {
	case !plainName.MatchString(o.Name):
		return fmt.Errorf("rescore: Options.Name is %q, must be letters, digits, '.', '_' and '-', and not begin with '.'", o.Name)
	case o.Grader == nil:
		return errors.New("rescore: Options.Grader is nil")
	case o.Source.Source == "":
		return errors.New("rescore: Options.Source.Source is empty, must name the grader")
	case o.Version == "":
		return errors.New("rescore: Options.Version is empty, must say which version of the grader it is")
	}
	return nil
}

// Run grades every completion that the ledger of a run directory names: of updates, rolled back ones and left out groups too,
// and of evaluations. What the parents of a forked run have recorded is in their directories. The run may be going on. An error leaves no folder behind; a completion that could not be graded is one
// that names file, line and task. A name that is taken is an error that wraps [fs.ErrExist].
func Run(ctx context.Context, dir string, o Options) (*Manifest, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	m, err := run(ctx, dir, o)
	if err != nil {
		return nil, fmt.Errorf("rescore: %s: %w", dir, err)
	}
	return m, nil
}

func run(ctx context.Context, dir string, o Options) (*Manifest, error) {
	rec, err := checkpoint.Read(dir)
	if err != nil {
		return nil, err
	}
	if len(rec.Events) == 0 { // it was forked
		return nil, checkpoint.ErrNotBegun
	}
	w := &writer{dir: dir, grader: o.Grader, reasoning: o.Source.Reasoning, tasks: map[string]envs.Task{}}
	bank, err := envs.OpenBank(os.DirFS(filepath.Join(dir, "bank")))
	if err != nil {
		return nil, err
	}
	for _, part := range [][]envs.Task{bank.Train, bank.Validation, bank.Confirmation} {
		for _, task := range part {
			w.tasks[task.ID] = task
		}
	}
	if w.encoder, err = zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)); err != nil {
		return nil, err
	}
	defer w.encoder.Close()
	place := filepath.Join(dir, Folder, o.Name)
	if _, err := os.Lstat(place); err == nil {
		return nil, fmt.Errorf("%s/%s: %w: labels are written once, choose another name", Folder, o.Name, fs.ErrExist)
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		return nil, err
	}
	if w.to, err = os.MkdirTemp(filepath.Dir(place), ".tmp-"+o.Name+"-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(w.to) // it is gone where all went well

	last := rec.Events[len(rec.Events)-1]
	m := &Manifest{
		Format: Format, Run: rec.Events[0].Prev, Ledger: checkpoint.LedgerHead{Seq: last.Seq, Hash: last.Hash},
		Grader: o.Source, Version: o.Version, Files: []Labelled{},
	}
	for _, of := range completions(rec.Events) {
		f, err := w.label(ctx, of)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", of.Path, err)
		}
		m.Files = append(m.Files, f)
		m.Completions += of.Lines
		m.Differ += f.Differ
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := w.write(ManifestName, append(data, '\n')); err != nil {
		return nil, err
	}
	if err := os.Chmod(w.to, 0o755); err != nil { // a temporary folder is nobody else's
		return nil, err
	}
	if err := os.Rename(w.to, place); err != nil {
		return nil, err
	}
	return m, syncDir(filepath.Dir(place))
}

// completions lists the files of completions that events name, each once: work that was done again may be in the same file.
func completions(events []checkpoint.Event) []checkpoint.File {
	var files []checkpoint.File
	seen := map[string]bool{}
	for i := range events {
		if kind := events[i].Kind; kind != checkpoint.KindUpdate && kind != checkpoint.KindEvaluation {
			continue
		}
		named, _, err := events[i].Names()
		if err != nil {
			continue // the history was read with the ledger
		}
		for _, f := range named {
			if strings.HasSuffix(f.Path, ".jsonl.zst") && !seen[f.Path] {
				seen[f.Path] = true
				files = append(files, f)
			}
		}
	}
	return files
}

type writer struct {
	dir, to   string
	tasks     map[string]envs.Task
	grader    envs.Grader
	reasoning *chat.Reasoning
	encoder   *zstd.Encoder
}

// label grades a file.
func (w *writer) label(ctx context.Context, of checkpoint.File) (Labelled, error) {
	out := Labelled{Of: of}
	packed, err := os.ReadFile(filepath.Join(w.dir, filepath.FromSlash(of.Path)))
	if err != nil {
		return out, err
	}
	if got := hexDigest(packed); got != of.SHA256 {
		return out, fmt.Errorf("%w: SHA-256 is %s, the ledger says %s", checkpoint.ErrDamaged, got, of.SHA256)
	}
	lines, _, err := checkpoint.ReadLines(bytes.NewReader(packed))
	if err != nil {
		return out, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for i, l := range lines {
		label, err := w.grade(ctx, l)
		if err != nil {
			return out, fmt.Errorf("line %d, task %s: %w", i+1, l.Task, err)
		}
		if label.Reward != label.Recorded {
			out.Differ++
		}
		if err := enc.Encode(label); err != nil {
			return out, fmt.Errorf("line %d, task %s: %w", i+1, l.Task, err)
		}
	}
	data := w.encoder.EncodeAll(b.Bytes(), nil)
	out.Labels = checkpoint.File{Path: of.Path, SHA256: hexDigest(data), Lines: len(lines)}
	return out, w.write(of.Path, data)
}

func (w *writer) grade(ctx context.Context, l checkpoint.Line) (Label, error) {
	if err := ctx.Err(); err != nil {
		return Label{}, err
	}
	task, ok := w.tasks[l.Task]
	if !ok {
		return Label{}, errors.New("the bank has no such task")
	}
	digest, err := l.Digest()
	if err != nil {
		return Label{}, err
	}
	s, err := guard.Await(ctx, "the grader", func() (envs.Score, error) {
		return w.grader.Grade(ctx, task, envs.Reply{Text: w.reasoning.Answer(l.Text), Finished: l.Finish == "stop"})
	})
	if err != nil {
		return Label{}, err
	}
	return Label{
		Task: l.Task, Sample: l.Sample, Seed: l.Seed, SHA256: digest,
		Recorded: l.Reward, Reward: s.Reward, Value: s.Value, Labels: s.Labels,
	}, nil
}

// write makes a file of the folder durable.
func (w *writer) write(name string, data []byte) error {
	path := filepath.Join(w.to, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func hexDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
