package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
)

const receiptsFolder = "receipts"

// Receipt is the content of a file of receipts/: what was run and what came of it, in one file that can be kept, published
// and signed apart from the run directory. All of it follows from run.json, the ledger up to the event before, and the
// completions of an evaluation; verification makes it again from those. Segment, Ledger, RolledBack, Run.Changeable and
// Run.Versions depend on how often the run was interrupted, and on what programs; the rest an undisturbed run has, too.
type Receipt struct {
	Format  int        `json:"format"`
	Kind    string     `json:"kind"`    // of the event that names it: KindEvaluation, KindCheckpoint or KindFinished
	Update  int        `json:"update"`  // of the event
	Segment int        `json:"segment"` // that made it
	Ledger  LedgerHead `json:"ledger"`  // the event before: through its hash, everything that was recorded until then
	Run     ReceiptRun `json:"run"`

	Retained   Work `json:"retained"`    // what counted when it was made, of all updates that had been recorded
	RolledBack Work `json:"rolled_back"` // and what did not

	Evaluation  *Evaluation     `json:"evaluation,omitempty"`  // the event's body without host and receipt
	Completions []CompletionRef `json:"completions,omitempty"` // of the evaluation, in its order

	Checkpoint *Saved `json:"checkpoint,omitempty"` // the event's body without receipt
	Since      int    `json:"since,omitempty"`      // the update of the checkpoint before this one
	Rollouts   []File `json:"rollouts,omitempty"`   // completions of the updates after that, up to the checkpoint's, left out groups too
}

// LedgerHead names an event, and through it all events before.
type LedgerHead struct {
	Seq  int    `json:"seq"`
	Hash string `json:"hash"`
}

// ReceiptRun says in a [Receipt] what was run.
type ReceiptRun struct {
	Start      string                     `json:"start"`                // see [RunFile.Start]: names run.json and every file of the bank
	Bank       string                     `json:"bank"`                 // see [RunFile.BankDigest]
	Fields     map[string]json.RawMessage `json:"fields"`               // see [RunFile.Fields]: settings, seed, plan, grader, digests
	Changeable map[string]json.RawMessage `json:"changeable,omitempty"` // settings that may change, as they are in the segment
	Versions   map[string]string          `json:"versions,omitempty"`   // of the programs that run the segment
}

// CompletionRef names a completion of an evaluation with its outcome.
type CompletionRef struct {
	Task   string  `json:"task"`
	Sample int     `json:"sample"`
	Seed   int64   `json:"seed"`
	SHA256 string  `json:"sha256"` // see [Line.Digest]
	Finish string  `json:"finish"`
	Reward float64 `json:"reward"`
}

// Digest names a completion: the SHA-256, in hex, of its line as it is recorded, without the newline.
func (l Line) Digest() (string, error) {
	data, err := marshal(l)
	return hexDigest(data), err
}

// Refer lists the completions of an evaluation as its receipt does.
func Refer(lines []Line) ([]CompletionRef, error) {
	refs := make([]CompletionRef, len(lines))
	for i, l := range lines {
		digest, err := l.Digest()
		if err != nil {
			return nil, fmt.Errorf("completion %d: %w", i+1, err)
		}
		refs[i] = CompletionRef{l.Task, l.Sample, l.Seed, digest, l.Finish, l.Reward}
	}
	return refs, nil
}

// Encode gives the bytes of the receipt's file.
func (r *Receipt) Encode() ([]byte, error) {
	data, err := marshal(r)
	if err != nil {
		return nil, err
	}
	return indented(data), nil
}

// ParseReceipt reads a receipt's file as strictly as it is written.
func ParseReceipt(data []byte) (*Receipt, error) {
	if err := checkFormat(data); err != nil {
		return nil, err
	}
	var r Receipt
	if err := unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if again, err := r.Encode(); err != nil || !bytes.Equal(again, data) {
		return nil, fmt.Errorf("%w: it is not in the form in which it is written", ErrDamaged)
	}
	return &r, nil
}

// receiptOf begins the receipt of the event that comes next in a history.
func (f *RunFile) receiptOf(h *History, before LedgerHead, start, kind string, update int) (*Receipt, error) {
	fields, err := f.Fields()
	if err != nil {
		return nil, err
	}
	segment := h.Segments[len(h.Segments)-1]
	r := &Receipt{
		Format: Format, Kind: kind, Update: update, Segment: segment.Segment, Ledger: before,
		Run:      ReceiptRun{Start: start, Bank: f.BankDigest(), Fields: map[string]json.RawMessage{}, Changeable: segment.Settings, Versions: segment.Versions},
		Retained: h.Retained(), RolledBack: h.RolledBack,
	}
	for path, value := range fields {
		r.Run.Fields[path] = json.RawMessage(value)
	}
	return r, nil
}

// ofEvaluation fills in what the receipt of an evaluation says, but for the completions.
func (r *Receipt) ofEvaluation(e Evaluation) {
	e.Host, e.Receipt = nil, File{}
	r.Evaluation = &e
}

// ofCheckpoint fills in what the receipt of a checkpoint says.
func (r *Receipt) ofCheckpoint(s Saved, h *History) {
	s.Receipt = File{}
	r.Checkpoint = &s
	for _, c := range h.Checkpoints {
		if c.Update < s.Update {
			r.Since = max(r.Since, c.Update)
		}
	}
	for _, u := range h.Updates {
		if u.Update <= r.Since || u.Update > s.Update {
			continue
		}
		r.Rollouts = append(r.Rollouts, u.Rollouts)
		if u.Dropped != nil {
			r.Rollouts = append(r.Rollouts, *u.Dropped)
		}
	}
}

// Due is a receipt that a ledger calls for.
type Due struct {
	Seq     int     // of the event that names it
	Kind    string  // of the event
	File    File    // as the event names it; no path: it names none
	Signer  string  // the key that the event's segment signs with, see [KeyText]; "": none
	Receipt Receipt // what it must be, but for the completions of an evaluation: see [Refer]
}

// Receipts lists the receipts that a ledger calls for, from the history that it begins with (see [NewHistory]), which takes
// its events in. An error is a *[LedgerError], as of [History.Follow]; the receipts up to the event that it names come with it.
func Receipts(run *RunFile, h *History, events []Event) ([]Due, error) {
	var due []Due
	for i := range events {
		e := &events[i]
		d, err := dueOf(run, h, events[:i], e)
		if d != nil {
			due = append(due, *d)
		}
		if err == nil {
			err = h.add(e)
		}
		if err != nil {
			return due, &LedgerError{e.Seq, err.Error()}
		}
	}
	return due, nil
}

// dueOf makes the receipt that an event calls for; nil: none. The history is that of the events before it.
func dueOf(run *RunFile, h *History, before []Event, e *Event) (*Due, error) {
	var fill func(*Receipt)
	var file File
	var update int
	switch e.Kind {
	case KindEvaluation:
		var v Evaluation
		if err := unmarshal(e.Body, &v); err != nil {
			return nil, err
		}
		file, update, fill = v.Receipt, v.Update, func(r *Receipt) { r.ofEvaluation(v) }
	case KindCheckpoint:
		var s Saved
		if err := unmarshal(e.Body, &s); err != nil {
			return nil, err
		}
		file, update, fill = s.Receipt, s.Update, func(r *Receipt) { r.ofCheckpoint(s, h) }
	case KindFinished:
		var f Finished
		if err := unmarshal(e.Body, &f); err != nil {
			return nil, err
		}
		file, update, fill = f.Receipt, f.Update, func(*Receipt) {}
	default:
		return nil, nil
	}
	if len(before) == 0 || len(h.Segments) == 0 {
		return nil, fmt.Errorf("an event of kind %q before the first segment", e.Kind)
	}
	last := before[len(before)-1]
	r, err := run.receiptOf(h, LedgerHead{last.Seq, last.Hash}, before[0].Prev, e.Kind, update)
	if err != nil {
		return nil, err
	}
	fill(r)
	return &Due{Seq: e.Seq, Kind: e.Kind, File: file, Signer: h.Segments[len(h.Segments)-1].Signer, Receipt: *r}, nil
}

// receipt begins the receipt of the next event.
func (r *Run) receipt(kind string, update int) (*Receipt, error) {
	return r.file.receiptOf(r.history, LedgerHead{r.ledger.seq, r.ledger.prev}, r.ledger.first, kind, update)
}

// placeReceipt makes a receipt durable, and its signature where there is a key, and says what the event is to name.
func (r *Run) placeReceipt(receipt *Receipt) (File, error) {
	data, err := receipt.Encode()
	if err != nil {
		return File{}, err
	}
	var signature []byte
	if r.signer != nil {
		if signature, err = sign(r.signer, data); err != nil {
			return File{}, fmt.Errorf("the receipt's signature: %w", err)
		}
	}
	f := File{SHA256: hexDigest(data)}
	for stem := range r.stems(receiptsFolder+"/"+receipt.Kind+"-", receipt.Update) {
		f.Path = stem + ".json"
		if found, err := r.compare(f.Path, data); err != nil {
			return File{}, err
		} else if found == other {
			continue
		}
		// The signature comes first: a receipt that is there is a signed one.
		if done, err := r.placeSignature(f.Path+signatureExt, signature); err != nil {
			return File{}, err
		} else if !done {
			continue
		}
		if done, err := r.place(f.Path, data); err != nil {
			return File{}, err
		} else if done {
			break
		}
	}
	return f, nil
}

// placeSignature makes a signature durable; false: something else has the name. Without one, nothing may have it: a receipt
// must not stand beside another's signature.
func (r *Run) placeSignature(name string, signature []byte) (bool, error) {
	if signature != nil {
		return r.place(name, signature)
	}
	found, err := r.compare(name, nil)
	return found == absent, err
}
