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
//	parent/                      of a forked run: run.json and ledger.jsonl of the run that it was forked from, as they were
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
// Each opening of a run begins a segment; that of a finished run is recorded only when something is done in it. Its
// event names the parent segment, the checkpoint that it goes on from, and why.
// Usually that is the newest checkpoint of the segment before; with a [Restore] it can be any checkpoint of any segment, so
// segments form a tree. What counts is the path through it to the last segment, the retained trajectory of [History]: of each
// segment on the path the updates, evaluations and checkpoints up to the update at which the next one left it. All
// else is rolled back: its files stay, and it counts in nothing. The event says how much a restore takes off
// the retained trajectory; whoever goes back to a segment that was left has its work on it again. A branch that
// nothing goes on from contributes nothing once another segment has begun elsewhere.
//
// # Asynchronous training
//
// While an update trains, groups for the next ones are sampled, by weights that may be older than those that they will
// train: [Plan] says by how many updates. Groups that are sampled and graded when a checkpoint is taken are in it, ready, and the segment
// that goes on from it trains on them as they are; the update's event says which segment sampled each group. Groups that were
// still being sampled are made again. Which is which depends on when the machine stopped and enters no logical digest.
//
// # Forks
//
// [Fork] lets a run go on in another directory. The child has a copy of the bank, of the checkpoint, and of the parent's
// run.json and ledger as they were, in parent/; a parent that was forked itself has its own parent/ in there. Its run.json names the
// parent: the hash that its ledger starts from, the last event that was copied, the event of the checkpoint, the
// manifest's digest. As the child's ledger starts from its run.json, one chain goes on through both. Segments are numbered on
// from the parent's, and the parent's trajectory up to the fork is the beginning of the child's: all counts are of the whole run.
// Raw completions stay where they are; verification of the child reads them from the parent's directory if it is there
// and finds if it has changed.
//
// # Retention
//
// With [Run.Retain], checkpoints that need not be kept are removed when a newer one has been written. An event of kind
// "pruned" comes first, so a checkpoint that is missing without one has been lost.
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
	// ErrNotBegun says that a program has opened the run directory and not recorded anything yet.
	ErrNotBegun = errors.New("the run has not begun")
	// ErrDamaged says that a file of the run directory is missing or is not what the ledger says it is.
	ErrDamaged = errors.New("the run directory is damaged")
	// ErrFormat says that something was written by another version of the format.
	ErrFormat = errors.New("another format version")
	// ErrIncomplete says that a restored state lacks something that the program asks for.
	ErrIncomplete = errors.New("the checkpoint is incomplete")
)
