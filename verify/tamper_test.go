package verify_test

import (
	"bytes"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/rescore"
	"github.com/grouper-rl/grouper/verify"
)

// tampering is something that is done to a run directory, and what must be found.
type tampering struct {
	do         func(forger)
	file, what string // what a finding must name and say
}

// tried does each tampering to a copy of a run and looks for the finding. What reveals a kind of tampering is said with it.
func tried(t *testing.T, base string, kinds map[string]map[string]tampering, opts verify.Options, key ed25519.PrivateKey) {
	t.Helper()
	n := 0
	for reveals, cases := range kinds {
		for name, c := range cases {
			n++
			t.Run(name, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "run")
				if err := os.CopyFS(dir, os.DirFS(base)); err != nil {
					t.Fatal(err)
				}
				c.do(forger{t: t, dir: dir, sign: key})
				report := checkWith(t, dir, opts)
				found(t, report, c.file, c.what)
				if report.OK() || report.Digest != "" {
					t.Errorf("it was to be revealed by this: %s; the run has the digest %q", reveals, report.Digest)
				}
			})
		}
	}
	t.Logf("%d kinds of tampering", n)
}

func (f forger) read(name string) []byte {
	f.t.Helper()
	data, err := os.ReadFile(f.path(name))
	if err != nil {
		f.t.Fatal(err)
	}
	return data
}

// flip changes a bit in the middle of a file.
func flip(name string) func(forger) {
	return func(f forger) {
		f.t.Helper()
		data := f.read(name)
		data[len(data)/2] ^= 1
		rewrite(f.t, f.path(name), data)
	}
}

func remove(name string) func(forger) {
	return func(f forger) {
		f.t.Helper()
		f.read(strings.TrimSuffix(name, "/") + map[bool]string{true: "/manifest.json"}[strings.HasSuffix(name, "/")]) // it must be there
		if err := os.RemoveAll(f.path(name)); err != nil {
			f.t.Fatal(err)
		}
	}
}

func swap(a, b string) func(forger) {
	return func(f forger) {
		f.t.Helper()
		tmp := f.path("swapped")
		for _, move := range [][2]string{{f.path(a), tmp}, {f.path(b), f.path(a)}, {tmp, f.path(b)}} {
			if err := os.Rename(move[0], move[1]); err != nil {
				f.t.Fatal(err)
			}
		}
	}
}

func replace(name, old, new string) func(forger) {
	return func(f forger) {
		f.t.Helper()
		data := f.read(name)
		if !bytes.Contains(data, []byte(old)) {
			f.t.Fatalf("%s has no %q", name, old)
		}
		rewrite(f.t, f.path(name), bytes.Replace(data, []byte(old), []byte(new), 1))
	}
}

func add(name string) func(forger) {
	return func(f forger) {
		f.t.Helper()
		if err := os.MkdirAll(filepath.Dir(f.path(name)), 0o755); err != nil {
			f.t.Fatal(err)
		}
		rewrite(f.t, f.path(name), []byte("{}\n"))
	}
}

// lines edits the lines of the ledger, with their newlines.
func ledgerLines(edit func([][]byte) [][]byte) func(forger) {
	return func(f forger) {
		f.t.Helper()
		lines := bytes.SplitAfter(f.read("ledger.jsonl"), []byte("\n"))
		rewrite(f.t, f.path("ledger.jsonl"), bytes.Join(edit(lines[:len(lines)-1]), nil))
	}
}

// A record on which anything was changed, lost, added or exchanged, by accident or by somebody who knows nothing of hashes, must
// not pass, and the finding must say where to look.
func TestTampering(t *testing.T) {
	p := program
	p.Key = testKey
	base := write(t, p, 3, 5)
	if _, err := rescore.Run(t.Context(), base, relabel(t)); err != nil {
		t.Fatal(err)
	}
	public := testKey.Public().(ed25519.PublicKey)
	opts := options()
	opts.Key = public
	if report := checkWith(t, base, opts); !report.OK() {
		t.Fatalf("nobody has touched it:\n%s", text(t, report))
	}
	other := write(t, p, 3, 5) // differs in times
	from := func(name string) func(forger) {
		return func(f forger) {
			data, err := os.ReadFile(filepath.Join(other, filepath.FromSlash(name)))
			if err != nil {
				f.t.Fatal(err)
			}
			rewrite(f.t, f.path(name), data)
		}
	}
	tried(t, base, map[string]map[string]tampering{
		"the digest of the file, which hangs in the chain": {
			"a bit of run.json":                  {replace("run.json", `"seed": 7`, `"seed": 5`), "run.json", "the ledger does not begin with this file"},
			"a bit of the bank":                  {flip("bank/train.jsonl"), "bank/train.jsonl", "SHA-256"},
			"a bit of an update's completions":   {flip("rollouts/000002.jsonl.zst"), "rollouts/000002.jsonl.zst", "SHA-256"},
			"a bit of a rolled back one's":       {flip("rollouts/000003.jsonl.zst"), "rollouts/000003.jsonl.zst", "SHA-256"},
			"a bit of evaluated completions":     {flip("evals/000002.jsonl.zst"), "evals/000002.jsonl.zst", "SHA-256"},
			"a bit of the weights":               {flip("checkpoints/000002/weights.safetensors"), "checkpoints/000002", "weights.safetensors"},
			"a bit of a state":                   {flip("checkpoints/000002/state.json"), "checkpoints/000002", "state.json"},
			"a bit of a manifest":                {flip("checkpoints/000002/manifest.json"), "checkpoints/000002", "manifest.json"},
			"a bit of a receipt":                 {flip("receipts/evaluation-000002.json"), "receipts/evaluation-000002.json", "SHA-256"},
			"an emptied file":                    {func(f forger) { rewrite(f.t, f.path("rollouts/000001.jsonl.zst"), nil) }, "rollouts/000001.jsonl.zst", "SHA-256"},
			"two updates' completions exchanged": {swap("rollouts/000001.jsonl.zst", "rollouts/000002.jsonl.zst"), "rollouts/000001.jsonl.zst", "task"},
			"two evaluations' exchanged":         {swap("evals/000002.jsonl.zst", "evals/000004.jsonl.zst"), "evals/000002.jsonl.zst", "weights of update 4"},
			"two checkpoints exchanged":          {swap("checkpoints/000002", "checkpoints/000004"), "checkpoints/000002", "manifest.json"},
			"two receipts exchanged":             {swap("receipts/evaluation-000002.json", "receipts/evaluation-000004.json"), "receipts/evaluation-000002.json", "update against the record: expected 2, found 4"},
			"another run's receipt":              {from("receipts/evaluation-000002.json"), "receipts/evaluation-000002.json", "run.start against the record"},
		},
		"the ledger has the figures": {
			"an edited accuracy": {replace("evals/000002.json", `"correct": `, `"correct": 1`), "evals/000002.json", "correct: expected"},
		},
		"an event names it": {
			"completions lost":              {remove("rollouts/000002.jsonl.zst"), "rollouts/000002.jsonl.zst", "it is missing"},
			"an evaluation's figures lost":  {remove("evals/000002.json"), "evals/000002.json", "it is missing"},
			"a checkpoint lost":             {remove("checkpoints/000002/"), "checkpoints/000002", "manifest.json"},
			"a receipt lost":                {remove("receipts/finished-000005.json"), "receipts/finished-000005.json", "it is missing"},
			"a part of the bank lost":       {remove("bank/validation.jsonl"), "bank/validation.jsonl", "it is missing"},
			"run.json lost":                 {remove("run.json"), "run.json", "no such file"},
			"the ledger lost":               {remove("ledger.jsonl"), "ledger.jsonl", "no such file"},
			"a file of a checkpoint lost":   {remove("checkpoints/000002/slots.safetensors"), "checkpoints/000002", "slots.safetensors"},
			"the signature of a receipt":    {remove("receipts/checkpoint-000002.json.sig"), "receipts/checkpoint-000002.json.sig", "it is missing"},
			"a rolled back update's, lost":  {remove("rollouts/000003.jsonl.zst"), "rollouts/000003.jsonl.zst", "it is missing"},
			"a folder in place of a file":   {func(f forger) { remove("evals/000002.json")(f); add("evals/000002.json/x")(f) }, "evals/000002.json", "is a directory"},
			"the end of a file cut off":     {func(f forger) { cutFile(f, "evals/000002.jsonl.zst") }, "evals/000002.jsonl.zst", "decompressing"},
			"the end of a tensor's, too":    {func(f forger) { cutFile(f, "checkpoints/000004/weights.safetensors") }, "checkpoints/000004", "bytes, expected"},
			"the end of a signature's, too": {func(f forger) { cutFile(f, "receipts/finished-000005.json.sig") }, "receipts/finished-000005.json.sig", "signature does not hold"},
		},
		"no event names it": {
			"completions slipped in":   {add("rollouts/000004.s9.jsonl.zst"), "rollouts/000004.s9.jsonl.zst", "no event of the ledger names it"},
			"a checkpoint slipped in":  {add("checkpoints/000003/weights.safetensors"), "checkpoints/000003/weights.safetensors", "no event of the ledger names it"},
			"an evaluation slipped in": {add("evals/000003.json"), "evals/000003.json", "no event of the ledger names it"},
			"a task slipped in":        {add("bank/easy.jsonl"), "bank/easy.jsonl", "no event of the ledger names it"},
			"a receipt slipped in":     {add("receipts/evaluation-000003.json"), "receipts/evaluation-000003.json", "no event of the ledger names it"},
			"a file in a checkpoint":   {add("checkpoints/000002/more.safetensors"), "checkpoints/000002", "more.safetensors"},
			"a receipt copied": {func(f forger) {
				rewrite(f.t, f.path("receipts/evaluation-000002.s2.json"), f.read("receipts/evaluation-000002.json"))
			}, "receipts/evaluation-000002.s2.json", "another event follows there"},
			"another run's receipt, added": {func(f forger) {
				copyFrom(f, other, "receipts/evaluation-000002.json", "receipts/evaluation-000002.s2.json")
			}, "receipts/evaluation-000002.s2.json", "after another event 6"},
		},
		"the hash chain and the numbers of the events": {
			"an event left out":     {ledgerLines(func(l [][]byte) [][]byte { return append(l[:2:2], l[3:]...) }), "ledger.jsonl", "line 3: it has number 4"},
			"an event twice":        {ledgerLines(func(l [][]byte) [][]byte { return append(l[:3:3], l[2:]...) }), "ledger.jsonl", "line 4: it has number 3"},
			"events exchanged":      {ledgerLines(func(l [][]byte) [][]byte { l[3], l[4] = l[4], l[3]; return l }), "ledger.jsonl", "line 4: it has number 5"},
			"no first event":        {ledgerLines(func(l [][]byte) [][]byte { return l[1:] }), "ledger.jsonl", "line 1: it has number 2"},
			"an empty line":         {ledgerLines(func(l [][]byte) [][]byte { return append([][]byte{l[0], []byte("\n")}, l[1:]...) }), "ledger.jsonl", "line 2"},
			"a space":               {replace("ledger.jsonl", `"seq":2`, `"seq": 2`), "ledger.jsonl", "line 2: it is not in the canonical form"},
			"a metric":              {replace("ledger.jsonl", `"loss":`, `"loss":1`), "ledger.jsonl", "line 4: its hash is"},
			"a time":                {replace("ledger.jsonl", `"time":"20`, `"time":"10`), "ledger.jsonl", "line 1: its hash is"},
			"a metric and its hash": {rehashOne, "ledger.jsonl", "line 5: it follows hash"},
			"another run's ledger":  {from("ledger.jsonl"), "run.json", "the ledger does not begin with this file"},
			"nothing left":          {ledgerLines(func([][]byte) [][]byte { return nil }), "ledger.jsonl", "it has no events"},
		},
		"the newline that every event ends with": {
			"the last event torn": {func(f forger) { cutFile(f, "ledger.jsonl") }, "ledger.jsonl", "the last line has no end"},
		},
		"files that only the lost events name": {
			"the last event cut off":       {ledgerLines(func(l [][]byte) [][]byte { return l[:len(l)-1] }), "ledger.jsonl", "the run is not finished"},
			"the last evaluation cut off":  {ledgerLines(func(l [][]byte) [][]byte { return l[:len(l)-3] }), "receipts/finished-000005.json", "its end has been cut off"},
			"all but the first opening":    {ledgerLines(func(l [][]byte) [][]byte { return l[:10] }), "receipts/checkpoint-000004.json", "its end has been cut off"},
			"that, and its completions":    {func(f forger) { cutOpening(f) }, "receipts/finished-000005.json", "its end has been cut off"},
			"the end, its signature stays": {func(f forger) { cutOpening(f); remove("receipts/finished-000005.json")(f) }, "ledger.jsonl", "the run is not finished"},
		},
		"signatures are of the receipt and the key": {
			"a bit of a signature":     {flip("receipts/checkpoint-000002.json.sig"), "receipts/checkpoint-000002.json.sig", "the signature does not hold"},
			"two signatures exchanged": {swap("receipts/checkpoint-000002.json.sig", "receipts/checkpoint-000004.json.sig"), "receipts/checkpoint-000002.json.sig", "the signature does not hold"},
			"another run's signature":  {from("receipts/checkpoint-000002.json.sig"), "receipts/checkpoint-000002.json.sig", "the signature does not hold"},
			"a space behind a signature": {func(f forger) {
				rewrite(f.t, f.path("receipts/checkpoint-000002.json.sig"), append(f.read("receipts/checkpoint-000002.json.sig"), ' '))
			}, "receipts/checkpoint-000002.json.sig", "the signature does not hold"},
		},
		"labels have digests of their own": {
			"a bit of another grader's labels": {flip("labels/x/rollouts/000002.jsonl.zst"), "labels/x", "labels/x/rollouts/000002.jsonl.zst"},
			"labels of another run":            {func(f forger) { replace("labels/x/labels.json", `"run": "`, `"run": "0`)(f) }, "labels/x", "of another run"},
		},
	}, opts, nil)
}

func cutFile(f forger, name string) {
	f.t.Helper()
	data := f.read(name)
	rewrite(f.t, f.path(name), data[:len(data)-3])
}

func copyFrom(f forger, dir, name, to string) {
	f.t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name)))
	if err != nil {
		f.t.Fatal(err)
	}
	rewrite(f.t, f.path(to), data)
}

// rehashOne changes an event and makes its own hash fit, but not what follows.
func rehashOne(f forger) {
	ledgerLines(func(l [][]byte) [][]byte {
		line := bytes.Replace(l[3], []byte(`"loss":`), []byte(`"loss":1`), 1)
		at := bytes.LastIndex(line, []byte(`,"hash":`))
		l[3] = append(line[:at:at], []byte(`,"hash":"`+digest(append(line[:at:at], '}'))+`"}`+"\n")...)
		return l
	})(f)
}

// cutOpening takes the last opening away with all its files but the last receipt.
func cutOpening(f forger) {
	f.t.Helper()
	ledgerLines(func(l [][]byte) [][]byte { return l[:10] })(f)
	for _, name := range []string{
		"rollouts/000004.jsonl.zst", "rollouts/000005.jsonl.zst", "evals/000004.json", "evals/000004.jsonl.zst", "checkpoints/000004/",
		"receipts/checkpoint-000004.json", "receipts/checkpoint-000004.json.sig", "receipts/evaluation-000004.json", "receipts/evaluation-000004.json.sig", "labels/x/labels.json",
	} {
		remove(name)(f)
	}
	if err := os.RemoveAll(f.path("labels")); err != nil {
		f.t.Fatal(err)
	}
}

// relabel is another grader's view of the completions.
func relabel(t *testing.T) rescore.Options {
	t.Helper()
	source := checkpoint.Grader{Source: "echo"}
	grader, err := options().Grader(source)
	if err != nil {
		t.Fatal(err)
	}
	return rescore.Options{Name: "x", Grader: grader, Source: source, Version: "2"}
}
