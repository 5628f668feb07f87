package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Kinds of events and the types of their bodies.
const (
	KindSegment    = "segment"    // Segment
	KindUpdate     = "update"     // Update
	KindCheckpoint = "checkpoint" // Saved
	KindEvaluation = "evaluation" // Evaluation
	KindPruned     = "pruned"     // Pruned
	KindFinished   = "finished"   // Finished
)

// Event is a line of ledger.jsonl. The package documentation says how it is written and hashed.
type Event struct {
	Seq  int             `json:"seq"`  // 1 for the first
	Time time.Time       `json:"time"` // UTC, milliseconds
	Kind string          `json:"kind"`
	Body json.RawMessage `json:"body"`
	Prev string          `json:"prev"`
	Hash string          `json:"hash"`
}

// LedgerError says which line of a ledger does not hold and why. It wraps [ErrDamaged].
type LedgerError struct {
	Line   int // from 1
	Reason string
}

func (e *LedgerError) Error() string {
	return fmt.Sprintf("ledger.jsonl, line %d: %s", e.Line, e.Reason)
}

func (e *LedgerError) Unwrap() error { return ErrDamaged }

// timeFormat has exactly one text for each instant.
const timeFormat = "2006-01-02T15:04:05.000Z"

// hashed is the text that the hash is taken of.
func (e *Event) hashed() []byte {
	b := append([]byte(nil), `{"seq":`...)
	b = strconv.AppendInt(b, int64(e.Seq), 10)
	b = append(b, `,"time":"`...)
	b = e.Time.UTC().AppendFormat(b, timeFormat)
	b = append(b, `","kind":`...)
	kind, _ := json.Marshal(e.Kind) // strings always marshal
	b = append(b, kind...)
	b = append(b, `,"body":`...)
	b = append(b, e.Body...)
	b = append(b, `,"prev":"`...)
	b = append(b, e.Prev...)
	return append(b, `"}`...)
}

// line is the event as a line of the ledger.
func (e *Event) line() []byte {
	b := e.hashed()
	b = append(b[:len(b)-1], `,"hash":"`...)
	b = append(b, e.Hash...)
	return append(b, '"', '}', '\n')
}

// Indented is the body as people read it. evals/NNNNNN.json holds exactly this of its event.
func (e *Event) Indented() []byte { return indented(e.Body) }

// Names lists the files that an event names with their digests; of a checkpoint, whose files its manifest names, it gives the body.
func (e *Event) Names() (files []File, saved *Saved, err error) {
	switch e.Kind {
	case KindUpdate:
		var u Update
		err = unmarshal(e.Body, &u)
		files = []File{u.Rollouts}
		if u.Dropped != nil {
			files = append(files, *u.Dropped)
		}
	case KindEvaluation:
		var v Evaluation
		err = unmarshal(e.Body, &v)
		files = []File{v.Completions, {Path: v.figures(), SHA256: hexDigest(e.Indented())}}
		files = v.Receipt.named(files)
	case KindCheckpoint:
		saved = &Saved{}
		err = unmarshal(e.Body, saved)
		files = saved.Receipt.named(nil)
	case KindFinished:
		var f Finished
		err = unmarshal(e.Body, &f)
		files = f.Receipt.named(nil)
	case KindSegment:
		var s Segment
		err = unmarshal(e.Body, &s)
		files = s.Unrecorded
		for _, p := range s.PassedOver {
			files = append(files, p.Files...)
		}
	}
	return files, saved, err
}

// newEvent makes the event that follows prev.
func newEvent(seq int, at time.Time, kind string, body any, prev string) (Event, error) {
	raw, err := marshal(body)
	if err != nil {
		return Event{}, err
	}
	e := Event{Seq: seq, Time: at.UTC().Truncate(time.Millisecond), Kind: kind, Body: raw, Prev: prev}
	e.Hash = hexDigest(e.hashed())
	return e, nil
}

// parseEvent reads one line, without its newline, as strictly as it is written.
func parseEvent(line []byte) (Event, error) {
	var e Event
	if err := unmarshal(line, &e); err != nil {
		return e, err
	}
	if len(e.Body) == 0 || e.Body[0] != '{' {
		return e, fmt.Errorf("its body is no object")
	}
	if want := hexDigest(e.hashed()); e.Hash != want {
		return e, fmt.Errorf("its hash is %s, its content has %s", e.Hash, want)
	}
	if !bytes.Equal(e.line(), append(line[:len(line):len(line)], '\n')) {
		return e, fmt.Errorf("it is not in the canonical form")
	}
	return e, nil
}

// ReadLedger reads events and checks their form, numbers and hash chain; start is the first event's prev (see
// [RunFile.Start]), "" to leave that to the caller. What stands behind the last newline is returned as torn: a crash during an append leaves
// such a rest. An error is a *[LedgerError], unless reading failed; the events before it are returned with it.
func ReadLedger(r io.Reader, start string) (events []Event, torn []byte, err error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, nil, err
	}
	prev := start
	for len(data) > 0 {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			return events, data, nil
		}
		n := len(events) + 1
		e, err := parseEvent(data[:end])
		switch {
		case err != nil:
			return events, nil, &LedgerError{n, err.Error()}
		case e.Seq != n:
			return events, nil, &LedgerError{n, fmt.Sprintf("it has number %d", e.Seq)}
		case e.Prev != prev && (n > 1 || start != ""):
			return events, nil, &LedgerError{n, fmt.Sprintf("it follows hash %s, what stands before it has %s", e.Prev, prev)}
		}
		events = append(events, e)
		prev = e.Hash
		data = data[end+1:]
	}
	return events, nil, nil
}

func hexDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// marshal is json.Marshal without the escaping for HTML.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// unmarshal reads exactly one JSON value, refusing unknown fields and anything behind it.
func unmarshal(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	dec.UseNumber()
	if err := dec.Decode(v); err != nil {
		return err
	}
	if rest := bytes.TrimLeft(data[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return fmt.Errorf("%d bytes behind the end of the JSON value", len(rest))
	}
	return nil
}

// indented is the form of JSON files that people read: two spaces, a newline at the end.
func indented(compact []byte) []byte {
	var b bytes.Buffer
	if err := json.Indent(&b, compact, "", "  "); err != nil {
		return compact // no JSON; whoever compares it will see that
	}
	b.WriteByte('\n')
	return b.Bytes()
}
