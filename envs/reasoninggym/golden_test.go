package reasoninggym

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/golden"
)

// goldenItem is an item line: what upstream makes of dataset, config, seed and index, and how it scores answers to it.
type goldenItem struct {
	Dataset  string
	Config   Config
	Seed     json.Number
	Index    int
	Question string
	Answer   string // "" where upstream has None
	Metadata json.RawMessage
	Unstable []string
	Scores   []struct {
		Answer *string
		Score  float64 // 0 where upstream raises
	}
}

// A task of this package stands for upstream's of the same name: whoever trains on one and evaluates on the other, or compares
// two papers, relies on every character and every score being the same.
func TestItemsGolden(t *testing.T) {
	items, answers := map[string]int{}, 0
	opened := map[string]*Dataset{} // by name and settings
	for _, path := range golden.Glob(t, "reasoninggym/*.jsonl") {
		for number, line := range golden.Lines(t, path) {
			var kind struct {
				Dataset string
				Index   *int // only items have one
			}
			unmarshal(t, line, &kind)
			if !known(kind.Dataset) || kind.Index == nil {
				continue
			}
			var want goldenItem
			unmarshal(t, line, &want)
			want.Config["seed"] = want.Seed
			key := want.Dataset + dumps(t, want.Config)
			d, err := opened[key], error(nil)
			if d == nil {
				if d, err = New(want.Dataset, want.Config); err != nil {
					t.Errorf("%s:%d: %v", golden.Name(t, path), number+1, err)
					continue
				}
				opened[key] = d
			}
			got, err := d.Task(t.Context(), want.Index)
			if err != nil {
				t.Errorf("%s:%d: %v", golden.Name(t, path), number+1, err)
				continue
			}
			for _, part := range []struct{ name, got, want string }{
				{"question", got.Question, want.Question},
				{"answer", got.Answer, want.Answer},
				{"metadata", canonical(t, got.Metadata), canonical(t, want.Metadata)},
			} {
				if part.got != part.want && !slices.Contains(want.Unstable, part.name) {
					t.Errorf("%s:%d: %s is\n%q, want\n%q", golden.Name(t, path), number+1, part.name, part.got, part.want)
				}
			}
			items[want.Dataset]++
			task := envs.Task{ID: got.ID, Question: want.Question, Answer: want.Answer, Metadata: want.Metadata}
			for _, s := range want.Scores {
				if s.Answer == nil { // no answer: the environment is not asked
					continue
				}
				score, err := d.Score(t.Context(), task, *s.Answer)
				if err != nil || math.Abs(score-s.Score) > 1e-9*s.Score {
					t.Errorf("%s:%d: answer %q scores %v (%v), want %v", golden.Name(t, path), number+1, *s.Answer, score, err, s.Score)
				}
				answers++
			}
		}
	}
	t.Logf("items %v, %d scored answers", items, answers)
	for _, d := range Names() {
		if items[d.Name] == 0 {
			t.Errorf("no item of %s was compared", d.Name)
		}
	}
}

// digests.jsonl has short hashes of many more items, to meet rare branches.
func TestDigestsGolden(t *testing.T) {
	items := 0
	for _, path := range golden.Glob(t, "reasoninggym/digests.jsonl") {
		for _, line := range golden.Lines(t, path) {
			var row struct {
				Dataset string
				Seed    int64
				Count   int
				Q, A, M string
			}
			unmarshal(t, line, &row)
			if !known(row.Dataset) {
				continue
			}
			d, err := New(row.Dataset, Config{"seed": row.Seed})
			if err != nil {
				t.Fatal(err)
			}
			for i := range row.Count {
				task, err := d.Task(t.Context(), i)
				if err != nil {
					t.Fatal(err)
				}
				answer := dumps(t, task.Answer)
				if task.Answer == "" && row.A[12*i:12*i+12] == hashOf("null") { // None upstream
					answer = "null"
				}
				for _, part := range []struct{ name, text, hashes string }{
					{"question", task.Question, row.Q},
					{"answer", answer, row.A},
					{"metadata", canonical(t, task.Metadata), row.M},
				} {
					if got, want := hashOf(part.text), part.hashes[12*i:12*i+12]; got != want && want != "------------" {
						t.Errorf("%s/%d/%d: the %s %q has hash %s, want %s", row.Dataset, row.Seed, i, part.name, part.text, got, want)
					}
				}
				items++
			}
		}
	}
	t.Logf("%d items", items)
	if items == 0 {
		t.Fatal("no case ran")
	}
}

// hashOf is the short hash of the digests.
func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:6])
}

// bankRow is a line of a bank file; "row" says which fields it has.
type bankRow struct {
	Row              string
	Dataset          string
	Config           Config
	Seed             int64
	Train, Val       int
	Found            int
	Walked           int    `json:"items_walked"`
	TrainSHA256      string `json:"train_sha256"`
	ValSHA256        string `json:"val_sha256"`
	Split            string
	Pos, Index       int
	Question, Answer string
	Solvable         bool
	TrainRange       [2]int `json:"train_range"`
	ValRange         [2]int `json:"val_range"`
	Plaintexts       []string
	Plaintext        json.RawMessage // "draws": the plaintexts' numbers
	Rotation         json.RawMessage // "draws": one for each item; "item": one
}

// The banks of the reference experiments: Freeze must give the same tasks in the same splits as upstream with the same walk.
func TestBanksGolden(t *testing.T) {
	banks, items := 0, 0
	for _, path := range golden.Glob(t, "reasoninggym/bank_*.jsonl") {
		var bank *envs.Bank
		var corpus []string
		for number, line := range golden.Lines(t, path) {
			where := fmt.Sprintf("%s:%d", golden.Name(t, path), number+1)
			var row bankRow
			unmarshal(t, line, &row)
			switch row.Row {
			case "corpus":
				corpus = row.Plaintexts
				sentences, err := caesarSentences(CaesarCipherConfig{".", 5, 12, 1, 25})
				if err != nil || !slices.Equal(sentences, corpus) {
					t.Errorf("%s: %d plaintexts (%v), want %d", where, len(sentences), err, len(corpus))
				}
			case "draws":
				var plaintext, rotation []int
				unmarshal(t, row.Plaintext, &plaintext)
				unmarshal(t, row.Rotation, &rotation)
				row.Dataset, row.Config = "caesar_cipher", Config{"min_words": 5, "max_words": 12}
				d := newDataset(t, row)
				for i := range plaintext {
					task, err := d.Task(t.Context(), i)
					if err != nil || task.Answer != corpus[plaintext[i]] || !strings.Contains(task.Question, rotate(task.Answer, rotation[i])) {
						t.Errorf("%s: item %d asks %q (%v)", where, i, task.Question, err)
					}
				}
			case "plain":
				d := newDataset(t, row)
				for _, part := range []struct {
					span [2]int
					sum  string
				}{{row.TrainRange, row.TrainSHA256}, {row.ValRange, row.ValSHA256}} {
					h := sha256.New()
					for i := part.span[0]; i < part.span[1]; i++ {
						task, err := d.Task(t.Context(), i)
						if err != nil {
							t.Fatal(err)
						}
						fmt.Fprintf(h, "%s\x00%s\x00", task.Question, task.Answer)
					}
					if got := hex.EncodeToString(h.Sum(nil)); got != part.sum {
						t.Errorf("%s: items %v have digest %s, want %s", where, part.span, got, part.sum)
					}
				}
			case "bank":
				by := "question"
				if row.Dataset == "caesar_cipher" {
					by = "clear_text"
				}
				var err error
				bank, err = envs.Freeze(t.Context(), newDataset(t, row), envs.Split{Train: row.Train, Validation: row.Val, DistinctBy: by})
				if err != nil {
					t.Fatalf("%s: %v", where, err)
				}
				if len(bank.Train)+len(bank.Validation) != row.Found || bank.Manifest.Walked != row.Walked {
					t.Errorf("%s: %d + %d tasks after %d items, want %d after %d", where, len(bank.Train), len(bank.Validation), bank.Manifest.Walked, row.Found, row.Walked)
				}
				for i, want := range []string{row.TrainSHA256, row.ValSHA256} {
					if got := bank.Manifest.Parts[i].Content; got != want {
						t.Errorf("%s: %s has digest %s, want %s", where, bank.Manifest.Parts[i].Name, got, want)
					}
				}
				banks++
			case "item":
				tasks := bank.Train
				if row.Split == "val" {
					tasks = bank.Validation
				}
				task := tasks[row.Pos]
				if !strings.HasSuffix(task.ID, fmt.Sprintf("/%d/%d", row.Seed, row.Index)) || task.Question != row.Question || task.Answer != row.Answer {
					t.Errorf("%s: task %s asks %q", where, task.ID, task.Question)
				}
				var m struct {
					Rotation json.RawMessage
					Solvable bool
				}
				unmarshal(t, task.Metadata, &m)
				if !bytes.Equal(m.Rotation, row.Rotation) || m.Solvable != row.Solvable {
					t.Errorf("%s: task %s: metadata %s", where, task.ID, task.Metadata)
				}
				items++
			}
		}
	}
	t.Logf("%d banks, %d items", banks, items)
	if banks == 0 || items == 0 {
		t.Fatal("no case ran")
	}
}

func newDataset(t *testing.T, row bankRow) *Dataset {
	t.Helper()
	config := Config{"seed": row.Seed}
	for k, v := range row.Config {
		config[k] = v
	}
	d, err := New(row.Dataset, config)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func known(name string) bool {
	return slices.ContainsFunc(Names(), func(i Info) bool { return i.Name == name })
}

func unmarshal(t *testing.T, data []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%.200s: %v", data, err)
	}
}

// canonical is JSON text as Python's json.dumps writes it with sorted keys, compact separators and ensure_ascii=False.
func canonical(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var v any
	unmarshal(t, raw, &v)
	return dumps(t, v)
}

// dumps is json.dumps(v, sort_keys=True, separators=(",", ":"), ensure_ascii=False) for what JSON can hold.
func dumps(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return strings.NewReplacer("\\u2028", "\u2028", "\\u2029", "\u2029").Replace(strings.TrimSuffix(b.String(), "\n"))
}
