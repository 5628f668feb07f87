package verify

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/checkpoint"
)

const signatureExt = ".sig"

// receipts makes every receipt again from the record, compares it with the file, and checks the signatures. What is signed
// cannot be made again by whoever lacks the key, and each receipt pins all events before it.
func (v *verifier) receipts() {
	kinds, signed := map[string]int{}, map[string]int{}
	for i := range v.due {
		d := &v.due[i]
		if d.File.Path == "" {
			v.find(Finding{File: "ledger.jsonl", Line: d.Seq, What: fmt.Sprintf("the event of kind %q names no receipt", d.Kind)})
			continue
		}
		kinds[d.Kind]++
		data, err := os.ReadFile(v.path(d.File.Path))
		if err != nil {
			continue // found with the files
		}
		v.receipt(d, data)
		if v.signature(d, data) {
			signed[d.Signer]++
		}
	}
	v.checked("receipts: %d of evaluations, %d of checkpoints, %d of ends, as they follow from the record", kinds[checkpoint.KindEvaluation], kinds[checkpoint.KindCheckpoint], kinds[checkpoint.KindFinished])
	v.signers(signed)
}

// receipt compares a receipt's file with what the record calls for.
func (v *verifier) receipt(d *checkpoint.Due, data []byte) {
	want := d.Receipt
	if d.Kind == checkpoint.KindEvaluation {
		refs, ok := v.refs[want.Evaluation.Completions.Path]
		if !ok {
			return // the completions cannot be read, which is a finding
		}
		want.Completions = refs
	}
	again, err := want.Encode()
	if err != nil {
		v.fails(d.File.Path, err)
		return
	}
	if bytes.Equal(again, data) {
		return
	}
	var w, g any
	if err := decode(again, &w); err != nil {
		v.fails(d.File.Path, err)
		return
	}
	if err := decode(data, &g); err != nil {
		v.fails(d.File.Path, err)
		return
	}
	said := 0
	differences("", w, g, func(path, expected, found string) {
		if said++; said > maxDifferences {
			return
		}
		v.find(Finding{File: d.File.Path, Task: taskAt(path, want.Completions), What: path + " against the record", Expected: expected, Found: found})
	})
	switch {
	case said == 0:
		v.find(Finding{File: d.File.Path, What: "it is not in the form in which receipts are written"})
	case said > maxDifferences:
		v.find(Finding{File: d.File.Path, What: fmt.Sprintf("it differs from the record in %d more places", said-maxDifferences)})
	}
}

// maxDifferences are told of one receipt.
const maxDifferences = 5

func decode(data []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	return dec.Decode(v)
}

// differences tells where two JSON values differ: "evaluation.accuracy", "completions[3].reward".
func differences(path string, want, got any, tell func(path, want, got string)) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			break
		}
		keys := maps.Clone(w)
		maps.Copy(keys, g)
		order := func(a, b string) int { return cmp.Or(cmp.Compare(depth(keys[a]), depth(keys[b])), cmp.Compare(a, b)) }
		for _, key := range slices.SortedFunc(maps.Keys(keys), order) {
			differences(strings.TrimPrefix(path+"."+key, "."), w[key], g[key], tell)
		}
		return
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			break
		}
		for i := range w {
			differences(fmt.Sprintf("%s[%d]", path, i), w[i], g[i], tell)
		}
		return
	}
	if !reflect.DeepEqual(want, got) {
		tell(path, short(want), short(got))
	}
}

// depth puts what says most about a receipt first.
func depth(v any) int {
	switch v.(type) {
	case map[string]any:
		return 1
	case []any:
		return 2
	}
	return 0
}

// taskAt is the task of the completion that a path leads into.
func taskAt(path string, completions []checkpoint.CompletionRef) string {
	var i int
	if n, err := fmt.Sscanf(path, "completions[%d]", &i); err == nil && n == 1 && i < len(completions) {
		return completions[i].Task
	}
	return ""
}

// signature checks the signature that a receipt must have; false: there need not be one, or it does not hold.
func (v *verifier) signature(d *checkpoint.Due, data []byte) bool {
	if key := v.opts.Key; key != nil && d.Signer != checkpoint.KeyText(key) {
		found := d.Signer
		if found == "" {
			found = "no signature"
		}
		v.find(Finding{File: d.File.Path, What: "signed by", Expected: checkpoint.KeyText(key), Found: found})
	}
	if d.Signer == "" {
		return false
	}
	name := d.File.Path + signatureExt
	key, err := checkpoint.ParseKey([]byte(d.Signer))
	if err != nil {
		v.find(Finding{File: "ledger.jsonl", Line: d.Seq, What: fmt.Sprintf("the key that its segment signs with: %v", err)})
		return false
	}
	signature, err := os.ReadFile(v.path(name))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.find(Finding{File: name, What: fmt.Sprintf("it is missing, and the receipt is of a segment that signs with %s", d.Signer)})
		return false
	case err != nil:
		v.fails(name, err)
		return false
	}
	if err := checkpoint.CheckSignature(key, data, signature); err != nil {
		v.fails(name, err)
		return false
	}
	return true
}

// signers says whose signatures there are, and whether the end is signed.
func (v *verifier) signers(signed map[string]int) {
	for _, key := range slices.Sorted(maps.Keys(signed)) {
		v.checked("signatures: %d of %d receipts by %s", signed[key], len(v.due), key)
	}
	switch {
	case v.opts.Key != nil && !v.history.Finished:
		v.find(Finding{File: "ledger.jsonl", What: "the run is not finished: no signed statement says where its ledger ends, and events may have been cut off"})
	case v.opts.Key != nil:
	case len(signed) == 0:
		v.note("no receipt is signed: what hangs on nothing else can be made again by whoever can write here")
	default:
		v.note("nobody said whose signatures they must be: compare the key with the one that you trust")
		if !v.history.Finished {
			v.note("the run is not finished: no signed statement says where its ledger ends")
		}
	}
}

// unfinishedReceipt says that a receipt, or its signature, which no event names was made for the event that comes next.
func (v *verifier) unfinishedReceipt(name string) bool {
	v.later()
	last := v.latest[len(v.latest)-1]
	if last.Kind == checkpoint.KindFinished {
		return false
	}
	receipt, isSignature := strings.CutSuffix(name, signatureExt)
	data, err := os.ReadFile(v.path(receipt))
	if errors.Is(err, fs.ErrNotExist) {
		return isSignature // it is written before its receipt
	}
	if err != nil {
		return false
	}
	r, err := checkpoint.ParseReceipt(data)
	return err == nil && r.Ledger == checkpoint.LedgerHead{Seq: last.Seq, Hash: last.Hash}
}

// unnamedReceipt says what a receipt that no event names tells of the ledger.
func (v *verifier) unnamedReceipt(name string) string {
	const unnamed = "no event of the ledger names it"
	data, err := os.ReadFile(v.path(strings.TrimSuffix(name, signatureExt)))
	if err != nil {
		return unnamed
	}
	r, err := checkpoint.ParseReceipt(data)
	if err != nil {
		return unnamed
	}
	switch n := r.Ledger.Seq; {
	case n > len(v.latest):
		return fmt.Sprintf("%s, and it was made when the ledger had %d events; now it has %d: its end has been cut off", unnamed, n, len(v.latest))
	case n < 1 || v.latest[n-1].Hash != r.Ledger.Hash:
		return fmt.Sprintf("%s, and it was made after another event %d than the ledger has", unnamed, n)
	default:
		return fmt.Sprintf("%s, and it was made after event %d: another event follows there", unnamed, n)
	}
}
