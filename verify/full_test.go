package verify_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/verify"
)

// words are tasks to say a word. Task i of an easy one has the word of its question with an exclamation mark.
type words struct{ easy int } // from this task on; 0: never

func (words) Name() string { return "echo" }

func (w words) Origin() envs.Origin { return envs.Origin{Name: "echo"} }

func (w words) Task(_ context.Context, i int) (envs.Task, error) {
	word := fmt.Sprintf("w%c", 'a'+i%20)
	task := envs.Task{ID: fmt.Sprintf("echo/%d", i), Question: "say " + word, Answer: word}
	if w.easy > 0 && i >= w.easy {
		task.Question += "!"
	}
	return task, nil
}

// Tasks that are easier than those of the source make a better accuracy, and the bank's own digests cannot tell. Whoever has the
// source can.
func TestBankMadeAgain(t *testing.T) {
	run := func(source words, distinct string) string {
		t.Helper()
		bank, err := envs.Freeze(t.Context(), source, envs.Split{Train: 8, Validation: 4, DistinctBy: distinct})
		if err != nil {
			t.Fatal(err)
		}
		p := program
		p.Bank = bank
		return write(t, p, 2)
	}
	full := options()
	full.Full = true
	full.Source = func(o envs.Origin) (envs.Source, error) {
		if o.Name != "echo" {
			return nil, errors.New("no such source")
		}
		return words{}, nil
	}
	honest := run(words{}, "answer")
	if report := checkWith(t, honest, full); !report.OK() || !strings.Contains(text(t, report), "bank: 12 tasks of echo made again, all the same") {
		t.Errorf("the bank was not made again:\n%s", text(t, report))
	}
	easier := run(words{easy: 9}, "answer")
	if report := check(t, easier); !report.OK() {
		t.Errorf("the bank's own digests hold:\n%s", text(t, report))
	}
	report := checkWith(t, easier, full)
	found(t, report, "bank/validation.jsonl", `line 2, task echo/9: question against the source's: expected "say wj", found "say wj!"`)

	// What cannot be made again is no lie, and must be said.
	for want, change := range map[string]func(*verify.Options){
		"the bank was not made again: nothing makes sources": func(o *verify.Options) { o.Source = nil },
		"the bank was not made again: no such source": func(o *verify.Options) {
			o.Source = func(envs.Origin) (envs.Source, error) { return nil, errors.New("no such source") }
		},
	} {
		opts := full
		change(&opts)
		if report := checkWith(t, honest, opts); !report.OK() || !strings.Contains(text(t, report), want) {
			t.Errorf("the report does not say %q:\n%s", want, text(t, report))
		}
	}
	if report := checkWith(t, write(t, program, 1), full); !report.OK() || !strings.Contains(text(t, report), "not frozen from a source") {
		t.Errorf("a bank of the user's own tasks:\n%s", text(t, report))
	}
	opts := full
	opts.Source = func(envs.Origin) (envs.Source, error) { return failing{}, nil }
	found(t, checkWith(t, honest, opts), "bank", "it cannot be made again from its source")
}

type failing struct{ words }

func (failing) Task(context.Context, int) (envs.Task, error) {
	return envs.Task{}, errors.New("there is no task")
}

// Masters and optimizer slots are what a resumed run goes on from. All of it is checked when that is asked for.
func TestEveryTensor(t *testing.T) {
	dir := write(t, program, 2)
	f := forger{t: t, dir: dir}
	f.tensors("checkpoints/000002", "slots", func(data []byte) { data[len(data)-1]++ })
	if report := check(t, dir); !report.OK() || !strings.Contains(text(t, report), "each of 4 tensors of the weights") {
		t.Errorf("the digests of the slots are not asked for:\n%s", text(t, report))
	}
	full := options()
	full.Full = true
	report := checkWith(t, dir, full)
	found(t, report, "checkpoints/000002", `tensor "m" of slots.safetensors: digest is`)
	if report := checkWith(t, write(t, program, 2), full); !report.OK() || !strings.Contains(text(t, report), "each of 6 tensors of all groups") {
		t.Errorf("a run that nobody touched:\n%s", text(t, report))
	}
}

// A run that was interrupted between a receipt and its event holds, and whoever verifies hears what is left over.
func TestReceiptWithoutEvent(t *testing.T) {
	p := program
	p.Key = testKey
	dir := write(t, p, 3)
	cutLedger(t, dir, 1)
	report := check(t, dir)
	if out := text(t, report); !report.OK() || !strings.Contains(out, "note: receipts/finished-000003.json is unfinished work") ||
		!strings.Contains(out, "note: receipts/finished-000003.json.sig is unfinished work") {
		t.Errorf("after a crash before the last event:\n%s", out)
	}
	f := forger{t: t, dir: dir}
	f.remove("receipts/finished-000003.json")
	if report := check(t, dir); !report.OK() {
		t.Errorf("after a crash before the last receipt:\n%s", text(t, report))
	}
	r, err := checkpoint.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	p.Updates = 4
	if err := p.Run(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := check(t, dir).Digest, check(t, write(t, p, 4)).Digest; got != want || got == "" {
		t.Errorf("the digest is %q, expected %q", got, want)
	}
}
