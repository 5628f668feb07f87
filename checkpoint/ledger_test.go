package checkpoint_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/checkpoint"
)

// events draws a chain of events with arbitrary bodies.
func events(t *rapid.T) ([]checkpoint.Event, []byte) {
	var all []checkpoint.Event
	var file bytes.Buffer
	prev := ""
	for i := range rapid.IntRange(1, 6).Draw(t, "events") {
		at := time.UnixMilli(rapid.Int64Range(0, 4e12).Draw(t, "time"))
		body := rapid.MapOf(rapid.String(), rapid.OneOf(rapid.Float64Range(-1e9, 1e9).AsAny(), rapid.String().AsAny(), rapid.SliceOf(rapid.Int()).AsAny())).Draw(t, "body")
		e, err := checkpoint.NewEvent(i+1, at, rapid.String().Draw(t, "kind"), body, prev)
		if err != nil {
			t.Fatal(err)
		}
		prev = e.Hash
		all = append(all, e)
		file.Write(e.Line())
	}
	return all, file.Bytes()
}

// What was written must be read, to the byte, and each line must be the JSON that tools expect.
func TestLedgerRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, file := events(t)
		got, torn, err := checkpoint.ReadLedger(bytes.NewReader(file), "")
		if err != nil || len(torn) > 0 {
			t.Fatal(err, torn)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("read %+v, wrote %+v", got, want)
		}
		for line := range bytes.Lines(file) {
			var e checkpoint.Event
			if err := json.Unmarshal(line, &e); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A changed byte must never read as another ledger, and a cut must read as the whole lines before it.
func TestLedgerChanged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want, file := events(t)
		i := rapid.IntRange(0, len(file)-1).Draw(t, "place")
		cut, torn, err := checkpoint.ReadLedger(bytes.NewReader(file[:i]), "")
		if err != nil || !reflect.DeepEqual(cut, want[:len(cut)]) && len(cut) > 0 || bytes.Count(file[:i], []byte("\n")) != len(cut) {
			t.Fatalf("cut at %d: %v, %d events", i, err, len(cut))
		}
		if start := bytes.LastIndexByte(file[:i], '\n') + 1; !bytes.Equal(torn, file[start:i]) && len(torn)+i-start > 0 {
			t.Fatalf("cut at %d: torn is %q", i, torn)
		}
		changed := bytes.Clone(file)
		changed[i] ^= byte(1 << rapid.IntRange(0, 7).Draw(t, "bit"))
		got, torn, err := checkpoint.ReadLedger(bytes.NewReader(changed), "")
		if err == nil && len(torn) == 0 {
			t.Fatalf("changing byte %d to %q gives %d events and no error", i, changed[i], len(got))
		}
		var at *checkpoint.LedgerError
		if err != nil && (!errors.As(err, &at) || !errors.Is(err, checkpoint.ErrDamaged) || at.Line != len(got)+1) {
			t.Fatalf("the error is %v after %d events", err, len(got))
		}
	})
}

// No file content may make reading panic, and what is read must be what would be written.
func FuzzReadLedger(f *testing.F) {
	e, err := checkpoint.NewEvent(1, time.UnixMilli(1e12), checkpoint.KindSegment, checkpoint.Segment{Segment: 1, Reason: "start"}, "00")
	if err != nil {
		f.Fatal(err)
	}
	next, err := checkpoint.NewEvent(2, time.UnixMilli(1e12), checkpoint.KindFinished, checkpoint.Finished{}, e.Hash)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(e.Line(), next.Line()...))
	f.Add(e.Line()[:50])
	f.Add([]byte("\n"))
	f.Add([]byte(`{"seq":1,"time":"2026-01-02T03:04:05.000Z","kind":"x","body":{},"prev":"","hash":""}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		events, torn, err := checkpoint.ReadLedger(bytes.NewReader(data), "")
		_ = new(checkpoint.History).Follow(events)
		if err != nil {
			return
		}
		var again []byte
		for _, e := range events {
			again = append(again, e.Line()...)
			_, _, _ = e.Names()
		}
		if !bytes.Equal(append(again, torn...), data) {
			t.Errorf("%q reads as %q", data, again)
		}
	})
}

func FuzzParseManifest(f *testing.F) {
	f.Add([]byte(`{"format":2,"update":3,"files":[],"groups":{}}`))
	f.Add([]byte(`{"format":9}`))
	f.Add([]byte("{\n  \"format\": 2,\n  \"update\": 0,\n  \"files\": [\n    {\n      \"name\": \"state.json\",\n      \"size\": 1,\n      \"sha256\": \"00\"\n    }\n  ],\n  \"groups\": {}\n}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := checkpoint.ParseManifest(data)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrDamaged) && !errors.Is(err, checkpoint.ErrFormat) {
				t.Errorf("the error %v is of no kind", err)
			}
			return
		}
		if again, err := m.Encode(); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%q reads as %q, %v", data, again, err)
		}
		for _, file := range m.Files {
			if filepath.Base(file.Name) != file.Name {
				t.Errorf("the manifest leads out of its folder: %q", file.Name)
			}
		}
	})
}

func FuzzReadLines(f *testing.F) {
	_, lines := update(1, 5)
	data, err := checkpoint.EncodeLines(lines)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		lines, content, err := checkpoint.ReadLines(bytes.NewReader(data))
		if err == nil && len(content) != 64 {
			t.Errorf("%d lines with content digest %q", len(lines), content)
		}
	})
}

// The format is a promise: these bytes were written by the first version and must read and hash the same for ever.
func TestFormatIsStable(t *testing.T) {
	e, err := checkpoint.NewEvent(1, time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), checkpoint.KindFinished, checkpoint.Finished{Update: 3}, "ab")
	if err != nil {
		t.Fatal(err)
	}
	// printf '%s' '{"seq":1,"time":"2026-01-02T03:04:05.678Z","kind":"finished","body":{"update":3},"prev":"ab"}' | sha256sum
	const want = `{"seq":1,"time":"2026-01-02T03:04:05.678Z","kind":"finished","body":{"update":3},"prev":"ab","hash":"b5e1fa1450ee9262e796026a94ae65e7248f569d79504b9b61ddac2ec715fbd2"}` + "\n"
	if got := string(e.Line()); got != want {
		t.Errorf("the line is\n%s", got)
	}
}

// Read must not disturb, or be disturbed by, a program that is writing.
func TestReadWhileOpen(t *testing.T) {
	dir := finished(t, program)
	r := mustOpen(t, dir)
	if rec, err := checkpoint.Read(dir); err != nil || rec.History.Update() != 4 || !rec.History.Finished || rec.Run.Seed != 7 {
		t.Errorf("%+v, %v", rec, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "ledger.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"seq":99`); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if rec, err := checkpoint.Read(dir); err != nil || string(rec.Torn) != `{"seq":99` {
		t.Errorf("an unfinished line: %+v, %v", rec, err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// A forger's events may say anything: following them must never panic, and what is taken must stay a trajectory.
func FuzzFollow(f *testing.F) {
	join := func(lines ...string) []byte { return []byte(strings.Join(lines, "\n")) }
	const (
		first  = `segment {"segment":1,"parent":0,"update":0,"reason":"start"}`
		one    = `update {"update":1,"weights_update":0,"tasks":["a","b"],"rollouts":{"path":"r","sha256":"","lines":6},"metrics":{}}`
		saved  = `checkpoint {"update":1,"path":"c","manifest":"m"}`
		second = `segment {"segment":2,"parent":1,"update":1,"checkpoint":"c","reason":"x"}`
		back   = `segment {"segment":3,"parent":1,"update":0,"reason":"x","rolled_back":{"updates":1,"responses":6}}`
		in     = `update {"update":2,"weights_update":0,"group_weights":[0,1],"tasks":["a","b"],"sampled_in":[1,2],"rollouts":{"path":"r","sha256":""},"metrics":{}}`
		newer  = `checkpoint {"update":2,"path":"d","manifest":"n"}`
		pruned = `pruned {"checkpoints":[{"update":1,"path":"c","manifest":"m"}]}`
	)
	f.Add(join(first, one, saved, second, in, newer, pruned, back, one))
	f.Add(join(first, one, saved, `evaluation {"update":1}`, `finished {"update":1}`, second, back))
	f.Add(join(first, one, strings.Replace(in, "[1,2]", "[-1,0]", 1)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var all []checkpoint.Event
		for i, line := range bytes.Split(data, []byte("\n")) {
			kind, body, _ := bytes.Cut(line, []byte(" "))
			all = append(all, checkpoint.Event{Seq: i + 1, Kind: string(kind), Body: body})
		}
		h := new(checkpoint.History)
		taken := len(all)
		if err := h.Follow(all); err != nil {
			var at *checkpoint.LedgerError
			if !errors.As(err, &at) {
				t.Fatalf("the error is %v", err)
			}
			taken = at.Line - 1
		}
		again := new(checkpoint.History)
		if err := again.Follow(all[:taken]); err != nil {
			t.Fatalf("without the event that was refused: %v", err)
		}
		for i, u := range again.Updates {
			if u.Update != i+1 || u.Segment < 1 || u.Segment > len(again.Segments) {
				t.Fatalf("update %d of segment %d stands at index %d", u.Update, u.Segment, i)
			}
		}
		for _, s := range again.Checkpoints {
			if s.Update > again.Update() {
				t.Fatalf("a checkpoint of update %d after update %d", s.Update, again.Update())
			}
		}
		if again.RolledBack.Updates < 0 || again.RolledBack.Responses < 0 && again.Retained().Responses >= 0 {
			t.Fatalf("%+v was rolled back", again.RolledBack)
		}
	})
}
