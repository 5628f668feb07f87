package envs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"
)

// digits is a source whose item i asks for i modulo its value.
type digits int

func (d digits) Name() string { return fmt.Sprintf("digits/%d", int(d)) }
func (d digits) Origin() Origin {
	return Origin{"digits", json.RawMessage(fmt.Sprintf(`{ "modulus": %d }`, int(d)))}
}

func (d digits) Task(_ context.Context, i int) (Task, error) {
	if i == 1000 {
		return Task{}, errors.New("no more")
	}
	return Task{
		ID:       fmt.Sprintf("digits/%d", i),
		Question: fmt.Sprintf("item <%d>", i),
		Answer:   fmt.Sprint(i % int(d)),
		Metadata: json.RawMessage(fmt.Sprintf(`{"text": "t%d", "list": [1, %d]}`, i%int(d), i%int(d))),
	}, nil
}

func ids(tasks []Task) string {
	var b strings.Builder
	for _, t := range tasks {
		b.WriteString(strings.TrimPrefix(t.ID, "digits/") + " ")
	}
	return b.String()
}

func TestFreeze(t *testing.T) {
	for _, c := range []struct {
		split Split
		want  string
		key   string
	}{
		{Split{Train: 2, Validation: 1}, "0 1 | 2 | ", "item <0>"},
		{Split{Train: 2, Validation: 1, Confirmation: 2, DistinctBy: "answer"}, "0 1 | 2 | 3 4 ", "0"},
		{Split{Train: 1, Confirmation: 4, DistinctBy: "text", Limit: 5}, "0 | | 1 2 3 4 ", "t0"},
		{Split{Train: 5, DistinctBy: "list"}, "0 1 2 3 4 | | ", "[1,0]"},
	} {
		b, err := Freeze(t.Context(), digits(5), c.split)
		if err != nil {
			t.Fatal(err)
		}
		if got := ids(b.Train) + "| " + ids(b.Validation) + "| " + ids(b.Confirmation); got != c.want {
			t.Errorf("%+v: got %q, want %q", c.split, got, c.want)
		}
		if b.Train[0].Key != c.key {
			t.Errorf("%+v: key %q, want %q", c.split, b.Train[0].Key, c.key)
		}
		if b.Manifest.Source.Name != "digits" || string(b.Manifest.Source.Config) != `{"modulus":5}` {
			t.Errorf("source %s %s", b.Manifest.Source.Name, b.Manifest.Source.Config)
		}
	}
}

func TestFreezeErrors(t *testing.T) {
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		split Split
		want  string
	}{
		{"nothing asked for", t.Context(), Split{}, "no task"},
		{"negative", t.Context(), Split{Train: 1, Validation: -1}, "Split.Validation is -1, must be at least 0"},
		{"negative limit", t.Context(), Split{Train: 1, Limit: -1}, "Split.Limit"},
		{"too few exist", t.Context(), Split{Train: 4, Validation: 2, DistinctBy: "answer", Limit: 900}, "5 tasks with a distinct answer among its first 900 items, 6 are wanted"},
		{"the source fails", t.Context(), Split{Train: 6, DistinctBy: "answer"}, "item 1000 of digits/5, after 5 distinct tasks: no more"},
		{"no such field", t.Context(), Split{Train: 1, DistinctBy: "plaintext"}, "DistinctBy may be question, answer, list, text"},
		{"stopped", stopped, Split{Train: 1}, "canceled"},
	} {
		_, err := Freeze(c.ctx, digits(5), c.split)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// odd and even are every second item of digits.
type (
	odd  struct{ digits }
	even struct{ digits }
)

func (o odd) Name() string    { return "odd" }
func (o odd) Origin() Origin  { return Origin{Name: "odd", Config: json.RawMessage(`{ "first": 1 }`)} }
func (e even) Name() string   { return "even" }
func (e even) Origin() Origin { return Origin{Name: "even"} }

func (o odd) Task(ctx context.Context, i int) (Task, error)  { return o.digits.Task(ctx, 2*i+1) }
func (e even) Task(ctx context.Context, i int) (Task, error) { return e.digits.Task(ctx, 2*i) }

func TestFreezeParts(t *testing.T) {
	from := Sources{Train: odd{900}, Confirmation: digits(900)}
	b, err := FreezeParts(t.Context(), from, Split{Train: 3, Confirmation: 1, DistinctBy: "text"})
	if err != nil {
		t.Fatal(err)
	}
	if got := ids(b.Train) + "| " + ids(b.Validation) + "| " + ids(b.Confirmation); got != "1 3 5 | | 0 " {
		t.Errorf("got %q", got)
	}
	m := b.Manifest
	if m.Source.Name != "odd" || m.Walked != 0 || m.DistinctBy != "text" || m.Parts[0].Source.Name != "odd" || m.Parts[0].Walked != 3 ||
		m.Parts[1].Source.Name != "digits" || string(m.Parts[1].Source.Config) != `{"modulus":900}` || m.Parts[1].Walked != 1 {
		t.Errorf("%+v, from %+v and %+v", m, m.Parts[0].Source, m.Parts[1].Source)
	}
	again, err := OpenBank(folder(b.Files()))
	if err != nil || !reflect.DeepEqual(again, b) {
		t.Errorf("read %+v (%v), wrote %+v", again, err, b)
	}
}

// Whoever checks a bank has only its files, and must get the same tasks from the sources that they name.
func TestAgain(t *testing.T) {
	split := Split{Train: 4, Validation: 2, DistinctBy: "answer"}
	one, err := Freeze(t.Context(), digits(900), split)
	if err != nil {
		t.Fatal(err)
	}
	each, err := FreezeParts(t.Context(), Sources{Train: odd{900}, Validation: even{900}}, split)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []*Bank{one, each} {
		read, err := OpenBank(folder(b.Files()))
		if err != nil {
			t.Fatal(err)
		}
		again, err := read.Again(t.Context(), func(o Origin) (Source, error) {
			return map[string]Source{"digits": digits(900), "odd": odd{900}, "even": even{900}}[o.Name], nil
		})
		if err != nil || again.Digest() != b.Digest() {
			t.Errorf("%+v came out as %+v, %v", b.Manifest, again, err)
		}
		unknown := errors.New("unknown")
		if _, err := read.Again(t.Context(), func(Origin) (Source, error) { return nil, unknown }); !errors.Is(err, unknown) {
			t.Error(err)
		}
	}
	given, err := FromTasks(Origin{}, []Task{{ID: "a"}}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := given.Again(t.Context(), nil); err == nil {
		t.Error("tasks that nothing made were made again")
	}
}

// An evaluation on tasks of training says nothing: whoever takes two sources must be told that they meet, and where.
func TestFreezePartsErrors(t *testing.T) {
	for _, c := range []struct {
		name  string
		from  Sources
		split Split
		want  string
	}{
		{"a question in two parts", Sources{Train: digits(900), Validation: odd{900}}, Split{Train: 2, Validation: 1}, "validation task digits/1 has the question of train task digits/1"},
		{"a key in two parts", Sources{Train: even{3}, Confirmation: odd{3}}, Split{Train: 2, Confirmation: 2, DistinctBy: "answer"}, "confirmation task digits/3 has the key of train task digits/0"},
		{"no source", Sources{Train: digits(4)}, Split{Train: 2, Validation: 2}, "Sources has none for validation"},
		{"too few exist", Sources{Train: digits(4), Validation: odd{4}}, Split{Train: 1, Validation: 3, DistinctBy: "answer", Limit: 9}, "validation: envs: odd has 2 tasks with a distinct answer among its first 9"},
		{"nothing asked for", Sources{}, Split{}, "no task"},
	} {
		_, err := FreezeParts(t.Context(), c.from, c.split)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
		if strings.Contains(c.name, "two parts") && !errors.Is(err, ErrOverlap) {
			t.Errorf("%v is not ErrOverlap", err)
		}
	}
}

func folder(files map[string][]byte) fs.FS {
	m := fstest.MapFS{}
	for name, data := range files {
		m[name] = &fstest.MapFile{Data: data}
	}
	return m
}

func frozen(t *testing.T) *Bank {
	t.Helper()
	b, err := Freeze(t.Context(), digits(9), Split{Train: 4, Validation: 3, DistinctBy: "answer"})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestOpenBank(t *testing.T) {
	b := frozen(t)
	files := b.Files()
	if len(files) != 3 { // no empty confirmation.jsonl
		t.Errorf("%d files", len(files))
	}
	again, err := OpenBank(folder(files))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again, b) {
		t.Errorf("read %s, wrote %s", again.Manifest.Digest, b.Manifest.Digest)
	}
	if b.Digest() == "" || again.Digest() != b.Digest() {
		t.Errorf("digest %q, wrote %q", again.Digest(), b.Digest())
	}
	files["train.jsonl"][0] = 'x'
	if b.Files()["train.jsonl"][0] == 'x' {
		t.Error("whoever got the files can change the bank")
	}
}

// If one byte of a bank could change unseen, a result would be for other tasks than it says.
func TestEveryByteOfABankCounts(t *testing.T) {
	files := frozen(t).Files()
	for name, data := range files {
		for i := range data {
			for _, bit := range []byte{1, 0x20} {
				data[i] ^= bit
				if _, err := OpenBank(folder(files)); !errors.Is(err, ErrBankChanged) {
					t.Errorf("%s, byte %d (%q): %v", name, i, data[i]^bit, err)
				}
				data[i] ^= bit
			}
		}
		for _, other := range [][]byte{nil, data[:len(data)-1], append(bytes.Clone(data), '\n'), append(bytes.Clone(data), data...)} {
			files[name] = other
			if _, err := OpenBank(folder(files)); !errors.Is(err, ErrBankChanged) {
				t.Errorf("%s with %d bytes for %d: %v", name, len(other), len(data), err)
			}
		}
		delete(files, name)
		if _, err := OpenBank(folder(files)); !errors.Is(err, ErrBankChanged) {
			t.Errorf("without %s: %v", name, err)
		}
		files[name] = data
	}
	files["confirmation.jsonl"] = files["train.jsonl"]
	if _, err := OpenBank(folder(files)); !errors.Is(err, ErrBankChanged) {
		t.Errorf("with a part more: %v", err)
	}
}

func TestOpenBankSaysWhatChanged(t *testing.T) {
	for _, c := range []struct{ file, old, new, want string }{
		{"validation.jsonl", "item <5>", "item <6>", "validation.jsonl: line 2 (task digits/5)"},
		{"train.jsonl", `{"id":"digits/2"`, `{"id":"digits/2`, "train.jsonl: line 3"},
		{"manifest.json", `"modulus": 9`, `"modulus": 8`, "manifest.json: it does not have the digest"},
		{"manifest.json", `"format": 1`, `"format": 2`, "format 2, this version reads 1"},
		{"manifest.json", `"format"`, `"formats"`, `unknown field "formats"`},
	} {
		files := frozen(t).Files()
		files[c.file] = bytes.Replace(files[c.file], []byte(c.old), []byte(c.new), 1)
		if _, err := OpenBank(folder(files)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

func TestDisjoint(t *testing.T) {
	a, b, c := Task{ID: "a", Question: "1", Key: "x"}, Task{ID: "b", Question: "2", Key: "y"}, Task{ID: "c", Question: "3"}
	for _, k := range []struct {
		name                            string
		train, validation, confirmation []Task
		want                            string
	}{
		{"apart", []Task{a}, []Task{b}, []Task{c}, ""},
		{"no keys", []Task{c, {ID: "d", Question: "4"}}, []Task{{ID: "e", Question: "5"}}, nil, ""},
		{"a question twice in training", []Task{c, {ID: "d", Question: "3"}}, nil, nil, ""},
		{"question", []Task{a}, []Task{{ID: "d", Question: "1"}}, nil, "validation task d has the question of train task a"},
		{"key", []Task{a}, []Task{b}, []Task{{ID: "d", Question: "4", Key: "y"}}, "confirmation task d has the key of validation task b"},
		{"id", []Task{a}, []Task{{ID: "a", Question: "2"}}, nil, "id"},
		{"id in one part", []Task{a, {ID: "a", Question: "2"}}, nil, nil, "two tasks with the id a"},
	} {
		err := Disjoint(k.train, k.validation, k.confirmation)
		if k.want == "" && err != nil || k.want != "" && (err == nil || !strings.Contains(err.Error(), k.want)) {
			t.Errorf("%s: got %v, want %q", k.name, err, k.want)
		}
		if k.name == "key" && !errors.Is(err, ErrOverlap) {
			t.Errorf("%v is not ErrOverlap", err)
		}
		if _, bankErr := FromTasks(Origin{}, k.train, k.validation, k.confirmation); (bankErr == nil) != (err == nil) {
			t.Errorf("%s: a bank gives %v", k.name, bankErr)
		}
	}
}

func TestFromTasksRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		task   Task
		origin Origin
	}{
		"no id":        {Task{Question: "q"}, Origin{}},
		"bad UTF-8":    {Task{ID: "a", Question: "\xff"}, Origin{}},
		"bad metadata": {Task{ID: "a", Metadata: json.RawMessage(`{"a"`)}, Origin{}},
		"bad config":   {Task{ID: "a"}, Origin{Name: "x", Config: json.RawMessage(`{"a"`)}},
	} {
		if _, err := FromTasks(c.origin, []Task{c.task}, nil, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := FromTasks(Origin{}, nil, nil, nil); err == nil {
		t.Error("a bank of nothing")
	}
}

// Any tasks that make a bank come back from its files as they were.
func TestBanksReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := 0
		part := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Task {
			n++
			task := Task{
				ID:       fmt.Sprint(n),
				Question: fmt.Sprint(n, rapid.String().Draw(t, "question")),
				Answer:   rapid.String().Draw(t, "answer"),
				Key:      rapid.SampledFrom([]string{"", fmt.Sprint(n)}).Draw(t, "key"),
			}
			if rapid.Bool().Draw(t, "has metadata") {
				var err error
				if task.Metadata, err = json.Marshal(rapid.SampledFrom([]any{nil, "<\u2028>", []string{rapid.String().Draw(t, "x")}}).Draw(t, "metadata")); err != nil {
					t.Fatal(err)
				}
			}
			return task
		}), 0, 4)
		train := append([]Task{{ID: "first"}}, part.Draw(t, "train")...)
		b, err := FromTasks(Origin{Name: "mine"}, train, part.Draw(t, "validation"), part.Draw(t, "confirmation"))
		if err != nil {
			t.Fatal(err)
		}
		again, err := OpenBank(folder(b.Files()))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := fmt.Sprintf("%+v", again), fmt.Sprintf("%+v", b); got != want {
			t.Fatalf("read %s, wrote %s", got, want)
		}
	})
}

func FuzzOpenBank(f *testing.F) {
	b, err := FromTasks(Origin{Name: "mine"}, []Task{{ID: "a", Question: "q", Metadata: json.RawMessage(`{}`)}}, nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	files := b.Files()
	f.Add(files["manifest.json"], files["train.jsonl"])
	f.Add([]byte(`{"format":1,"source":{"name":""},"parts":[{}],"digest":""}`), []byte("{}\n"))
	f.Fuzz(func(t *testing.T, manifest, train []byte) {
		files := map[string][]byte{"manifest.json": manifest, "train.jsonl": train}
		b, err := OpenBank(folder(files))
		if err != nil {
			return
		}
		if !reflect.DeepEqual(b.Files(), files) {
			t.Error("a bank was read that would be written otherwise")
		}
	})
}
