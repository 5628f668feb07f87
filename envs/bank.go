package envs

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// ErrOverlap says that a task of one part of a bank is in another part, too.
var ErrOverlap = errors.New("the parts of the bank overlap")

// ErrBankChanged says that a bank's files are not what was frozen.
var ErrBankChanged = errors.New("bank changed")

// Bank is a set of tasks that does not change any more: what a run trains on, and what it is judged by. Freeze makes one
// from a source, FreezeParts from a source for each part, FromTasks from tasks of any kind, and OpenBank reads one. Treat it as
// read-only.
type Bank struct {
	Train        []Task // to train on
	Validation   []Task // to evaluate on during training
	Confirmation []Task // for a last evaluation; may be empty
	Manifest     Manifest
	files        map[string][]byte
}

// Origin names what made tasks, with what is needed to make it, and its scorer, again.
type Origin struct {
	Name   string          `json:"name"`             // "reasoning_gym/caesar_cipher"
	Config json.RawMessage `json:"config,omitempty"` // all settings
}

func (o Origin) compact() (Origin, error) {
	if len(o.Config) == 0 {
		return o, nil
	}
	config, err := compact(o.Config)
	if err != nil {
		return o, fmt.Errorf("envs: the config of %s is not JSON: %w", o.Name, err)
	}
	return Origin{o.Name, config}, nil
}

// Described is a Source that says how to make it again. Freeze puts the Origin into the manifest; of other sources the name.
type Described interface {
	Source
	Origin() Origin
}

// Manifest says what is in a bank, with the digests that show a change.
type Manifest struct {
	Format     int    `json:"format"`                // 1
	Source     Origin `json:"source"`                // of all tasks, or of the first part if each has its own
	DistinctBy string `json:"distinct_by,omitempty"` // what tasks were told apart by
	Walked     int    `json:"walked,omitempty"`      // items of the one source that were looked at
	Parts      []Part `json:"parts"`                 // train, validation, confirmation, as far as they have tasks
	// Digest is SHA-256 of the manifest without it, and by the other digests of the whole bank.
	Digest string `json:"digest"`
}

// FromSources says whether the bank was frozen from sources, which the manifest names, so that Bank.Again can make it again.
func (m Manifest) FromSources() bool {
	return m.Walked > 0 || len(m.Parts) > 0 && !slices.ContainsFunc(m.Parts, func(p Part) bool { return p.Source == nil })
}

// Part describes one file of a bank. Digests are SHA-256 in hexadecimal.
type Part struct {
	Name    string   `json:"name"`             // "train", "validation" or "confirmation"
	Source  *Origin  `json:"source,omitempty"` // what made its tasks, if each part has its own
	Walked  int      `json:"walked,omitempty"` // items of that source that were looked at
	File    string   `json:"file"`             // tasks as JSON, one a line
	Tasks   int      `json:"tasks"`            // lines in it
	SHA256  string   `json:"sha256"`           // of the file
	Content string   `json:"content"`          // of question NUL answer NUL of each task in order, to compare with other programs
	Lines   []string `json:"lines"`            // the first 16 digits for each line, to find a changed one
}

const manifestFile = "manifest.json"

var partNames = [3]string{"train", "validation", "confirmation"}

// FromTasks makes a bank of the user's own tasks. Each needs an ID of its own; parts must not overlap in the sense of
// Disjoint. The origin is for whoever wants to know how to score the tasks again.
func FromTasks(source Origin, train, validation, confirmation []Task) (*Bank, error) {
	return newBank(Manifest{Source: source}, train, validation, confirmation)
}

// Disjoint returns an error that wraps ErrOverlap if a question, a key or an ID is in two of three lists of tasks, and an
// error if an ID is in one list twice. A task without a key is told apart by its question alone.
func Disjoint(train, validation, confirmation []Task) error {
	type place struct {
		part int
		id   string
	}
	questions, keys, ids := map[string]place{}, map[string]place{}, map[string]place{}
	for part, tasks := range [3][]Task{train, validation, confirmation} {
		for _, t := range tasks {
			here := place{part, t.ID}
			for _, by := range []struct {
				what, value string
				first       map[string]place
			}{{"question", t.Question, questions}, {"key", t.Key, keys}, {"id", t.ID, ids}} {
				if by.what == "key" && by.value == "" {
					continue
				}
				there, found := by.first[by.value]
				switch {
				case !found:
					by.first[by.value] = here
				case there.part != part:
					return fmt.Errorf("envs: %w: %s task %s has the %s of %s task %s", ErrOverlap, partNames[part], t.ID, by.what, partNames[there.part], there.id)
				case by.what == "id":
					return fmt.Errorf("envs: %s has two tasks with the id %s", partNames[part], t.ID)
				}
			}
		}
	}
	return nil
}

// newBank checks the tasks and completes the manifest, whose parts say no more than where they are from.
func newBank(m Manifest, parts ...[]Task) (*Bank, error) {
	b := &Bank{Manifest: m, files: map[string][]byte{}}
	b.Manifest.Format = 1
	b.Manifest.Parts = nil
	total := 0
	for i, tasks := range parts {
		if len(tasks) == 0 {
			continue
		}
		total += len(tasks)
		tasks = slices.Clone(tasks)
		file, part, err := encode(partNames[i], tasks)
		if err != nil {
			return nil, err
		}
		if k := slices.IndexFunc(m.Parts, func(p Part) bool { return p.Name == part.Name }); k >= 0 && m.Parts[k].Source != nil {
			origin, err := m.Parts[k].Source.compact()
			if err != nil {
				return nil, err
			}
			part.Source, part.Walked = &origin, m.Parts[k].Walked
		}
		*b.part(i) = tasks
		b.files[part.File] = file
		b.Manifest.Parts = append(b.Manifest.Parts, part)
	}
	if total == 0 {
		return nil, errors.New("envs: a bank needs at least one task")
	}
	if err := Disjoint(b.Train, b.Validation, b.Confirmation); err != nil {
		return nil, err
	}
	var err error
	if b.Manifest.Source, err = m.Source.compact(); err != nil {
		return nil, err
	}
	b.Manifest.Digest = ""
	unsigned, err := b.Manifest.encode()
	if err != nil {
		return nil, err
	}
	b.Manifest.Digest = digest(unsigned)
	b.files[manifestFile], err = b.Manifest.encode()
	return b, err
}

func (b *Bank) part(i int) *[]Task { return [3]*[]Task{&b.Train, &b.Validation, &b.Confirmation}[i] }

// Files returns the content of the bank's files by name: manifest.json and, for each part that has tasks, train.jsonl,
// validation.jsonl and confirmation.jsonl.
func (b *Bank) Files() map[string][]byte {
	files := maps.Clone(b.files)
	for name, data := range files {
		files[name] = bytes.Clone(data)
	}
	return files
}

// Digest is SHA-256, in hexadecimal, over everything in the bank: tasks, splits and source.
func (b *Bank) Digest() string { return b.Manifest.Digest }

// encode writes tasks as a file, and normalises their metadata to what reading the file gives.
func encode(name string, tasks []Task) ([]byte, Part, error) {
	part := Part{Name: name, File: name + ".jsonl", Tasks: len(tasks)}
	var file bytes.Buffer
	content := sha256.New()
	for i := range tasks {
		t := &tasks[i]
		if t.ID == "" {
			return nil, part, fmt.Errorf("envs: %s task %d has no id", name, i)
		}
		if !utf8.ValidString(t.ID + t.Question + t.Answer + t.Key + string(t.Metadata)) {
			return nil, part, fmt.Errorf("envs: %s task %q is not valid UTF-8", name, t.ID)
		}
		if len(t.Metadata) > 0 {
			metadata, err := compact(t.Metadata)
			if err != nil {
				return nil, part, fmt.Errorf("envs: the metadata of %s task %s is not JSON: %w", name, t.ID, err)
			}
			t.Metadata = metadata
		}
		fmt.Fprintf(content, "%s\x00%s\x00", t.Question, t.Answer)
		start := file.Len()
		line := json.NewEncoder(&file)
		line.SetEscapeHTML(false)
		if err := line.Encode(t); err != nil {
			return nil, part, fmt.Errorf("envs: %s task %s: %w", name, t.ID, err)
		}
		part.Lines = append(part.Lines, lineDigest(file.Bytes()[start:]))
	}
	part.SHA256 = digest(file.Bytes())
	part.Content = hex.EncodeToString(content.Sum(nil))
	return file.Bytes(), part, nil
}

func (m Manifest) encode() ([]byte, error) {
	var file bytes.Buffer
	e := json.NewEncoder(&file)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(m); err != nil {
		return nil, fmt.Errorf("envs: %s: %w", manifestFile, err)
	}
	return file.Bytes(), nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// lineDigest is the digest of a line with the newline at its end.
func lineDigest(line []byte) string { return digest(line)[:16] }

func compact(raw json.RawMessage) (json.RawMessage, error) {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
