// Package checkpoint keeps the run directory: the ledger of everything that happened, raw completions, full-state
// checkpoints, and the lineage that restoring makes. What is on disk is whole at every instant: a file is written under
// a temporary name, flushed to the disk, renamed, and its folder flushed; only then does the ledger name it.
//
// # The run directory
//
//	run.json                     what the run is: settings, seed, plan, digests (see RunFile); never changes
//	ledger.jsonl                 one event a line; what it does not say did not happen
//	bank/                        the frozen tasks
//	rollouts/000031.jsonl.zst    raw completions of update 31, a Line each; groups that were sampled for it and left out
//	                             are in rollouts/000031.dropped.jsonl.zst
//	checkpoints/000030/          the state after update 30: a .safetensors file a group of tensors, state.json, groups that
//	                             wait for later updates in ready.jsonl.zst, manifest.json
//	evals/000030.json            the figures of an evaluation, exactly the ledger's body, indented
//	evals/000030.jsonl.zst       the raw completions that the figures follow from
//	receipts/                    evaluation-000030.json, checkpoint-000030.json, finished-000100.json: a Receipt each, and its
//	                             signature in evaluation-000030.json.sig if the run is signed
//
// Work that is done again after a restore and comes out with other bytes is written under a name that carries the
// segment (rollouts/000031.s2.jsonl.zst): nothing recorded is ever overwritten. The same names with ".tmp-" before the
// last part are unfinished writes; the next [Open] removes them.
//
// # The ledger
//
// An event is a line of exactly this form, without spaces (see [Event]):
//
//	{"seq":1,"time":"2026-01-02T03:04:05.000Z","kind":"segment","body":{…},"prev":"<hex>","hash":"<hex>"}
//
// hash is the SHA-256, in hex, of the line's bytes up to and without `,"hash":`, followed by `}`. prev is the hash of the line
// before. The first event's prev is the SHA-256 of lines "path digest\n", the digest being the file's SHA-256 in hex:
// run.json's line, then one for each file of the bank, sorted ("bank/manifest.json", …). So
// every byte of run.json, of the bank and of the ledger hangs in one chain, and through the digests in the events every
// byte of the other files. Times never go back: while the clock is behind the last event, events get that one's time.
//
// A checkpoint is written while training goes on, so its event may come after those of later updates.
//
// # Receipts and signatures
//
// Evaluations, checkpoints and the end of a run have receipts, see [Receipt]: written before their event, which names them. A
// receipt has the hash of the event before its own, so it stands for everything that was recorded until then.
//
// Hashes show that nothing was changed by accident; whoever means to deceive can make them all again. Signatures need a key
// that he does not have, see [Run.SignWith]: a signed receipt cannot be made for another record. The segment's event names
// the public key as "ed25519:" and 64 hexadecimal digits. A .sig file is one line: the base64 text of the Ed25519 signature
// (RFC 8032) of the receipt's bytes. So
//
//	base64 -d evaluation-000030.json.sig > raw
//	openssl pkeyutl -verify -pubin -inkey key.pub -rawin -in evaluation-000030.json -sigfile raw
//
// checks one without Grouper. The receipt of the end pins the whole ledger but for the event that names it; of a run that
// is not finished nobody can say how much came after the last receipt.
//
// # Segments
//
// Each opening of a run begins a segment. Its event names the parent segment and the checkpoint that it goes on
// from. Updates, evaluations and checkpoints of the parent that belong to a later update than that checkpoint are rolled
// back: their files stay, and they count in nothing. What remains is the retained trajectory, [History].
package checkpoint

import "errors"

// Format is the version of everything that this package writes. Another version is refused on reading.
const Format = 2

var (
	// ErrLocked says that another process, or another Run of this one, has the run directory open.
	ErrLocked = errors.New("the run directory is in use")
	// ErrOtherConfiguration says that a run directory was made with other settings; the message lists them.
	ErrOtherConfiguration = errors.New("the run directory is of another configuration")
	// ErrNoRun says that a folder is no run directory: it has neither run.json nor ledger.jsonl.
	ErrNoRun = errors.New("it is no run directory")
	// ErrDamaged says that a file of the run directory is missing or is not what the ledger says it is.
	ErrDamaged = errors.New("the run directory is damaged")
	// ErrFormat says that something was written by another version of the format.
	ErrFormat = errors.New("another format version")
	// ErrIncomplete says that a restored state lacks something that the program asks for.
	ErrIncomplete = errors.New("the checkpoint is incomplete")
)
