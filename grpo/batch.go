package grpo

import (
	"fmt"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// batch holds the rows of one update on the host: completion i of the batch is row i, group by group. Ragged fields have
// one number a completion token.
type batch struct {
	groups  []rollout.Group
	rows    []row
	rewards []float64
	group   []int // which group a row belongs to
	tokens  int   // completion tokens in all
}

// row is one completion.
type row struct {
	prompt    []int32
	tokens    []int32
	behaviour []float32 // log-probs recorded at sampling
	truncated bool
}

func newBatch(groups []rollout.Group) *batch {
	b := &batch{groups: groups}
	for g, group := range groups {
		for k, c := range group.Completions {
			b.rows = append(b.rows, row{
				prompt: group.Prompt, tokens: c.Tokens, behaviour: c.LogProbs,
				truncated: c.Finish != rollout.Stop,
			})
			b.rewards = append(b.rewards, group.Scores[k].Reward)
			b.group = append(b.group, g)
			b.tokens += len(c.Tokens)
		}
	}
	return b
}

// trainable refuses a group with tokens that the policy does not have, or with more than fit its context.
func trainable(p policy.Policy) func(rollout.Group) error {
	vocab, positions := p.VocabSize(), p.MaxPositions()
	return func(g rollout.Group) error {
		for k, c := range g.Completions {
			if n := len(g.Prompt) + len(c.Tokens); n > positions {
				return fmt.Errorf("task %q, sample %d: %d tokens with its prompt, the context has %d", g.Task.ID, k, n, positions)
			}
			for _, token := range c.Tokens {
				if token < 0 || int(token) >= vocab {
					return fmt.Errorf("task %q, sample %d: token %d, the vocabulary has %d", g.Task.ID, k, token, vocab)
				}
			}
		}
		return nil
	}
}

// width is the number of tokens of the longest completion.
func (b *batch) width() int {
	w := 0
	for _, r := range b.rows {
		w = max(w, len(r.tokens))
	}
	return w
}

// micro is a slice of a batch as the compiled functions take it. Its rows are complete groups, or a part of one
// group; either way n consecutive rows continue each prompt.
type micro struct {
	first, rows int     // of the batch
	n           int     // rows a prompt
	promptWidth int     // P, a multiple of the bucket
	width       int     // C, a multiple of the bucket
	prompts     []int32 // [rows/n, P], padded on the left
	pad         []int32 // [rows/n]
	completions []int32 // [rows, C], padded on the right
}

// split cuts the batch into micro-batches of the given number of rows. All are padded to the same widths, so that one
// compilation serves them.
func (b *batch) split(rows, groupSize, bucket int) []micro {
	up := func(n int) int { return (n + bucket - 1) / bucket * bucket }
	promptWidth := 0
	for _, r := range b.rows {
		promptWidth = max(promptWidth, up(len(r.prompt)))
	}
	width := max(up(b.width()), 2)
	n := min(rows, groupSize)
	var out []micro
	for first := 0; first < len(b.rows); first += rows {
		m := micro{
			first: first, rows: rows, n: n, promptWidth: promptWidth, width: width,
			prompts: make([]int32, rows/n*promptWidth), pad: make([]int32, rows/n), completions: make([]int32, rows*width),
		}
		for i := range rows {
			r := b.rows[first+i]
			copy(m.completions[i*width:], r.tokens)
			if i%n == 0 {
				pad := promptWidth - len(r.prompt)
				m.pad[i/n] = int32(pad)
				copy(m.prompts[i/n*promptWidth+pad:], r.prompt)
			}
		}
		out = append(out, m)
	}
	return out
}

// inputs are the tokens as tensors: prompts [G,P], padding [G], completions [B,C].
func (m micro) inputs() []*tensors.Tensor {
	groups := m.rows / m.n
	return []*tensors.Tensor{
		tensors.FromFlatDataAndDimensions(m.prompts, groups, m.promptWidth),
		tensors.FromFlatDataAndDimensions(m.pad, groups),
		tensors.FromFlatDataAndDimensions(m.completions, m.rows, m.width),
	}
}

// optionalTarget is an input of the loss that only some configurations have.
type optionalTarget struct {
	node   func(*LossInputs) **graph.Node
	values func(Signal, Rows) [][]float64
}

func (c Config) optionalTargets(reference bool) []optionalTarget {
	var out []optionalTarget
	if c.OldLogProbs == Behaviour {
		out = append(out, optionalTarget{
			func(in *LossInputs) **graph.Node { return &in.Old },
			func(_ Signal, r Rows) [][]float64 { return r.Old },
		})
	}
	if c.Objective.Correction.on() {
		out = append(out, optionalTarget{
			func(in *LossInputs) **graph.Node { return &in.Weights },
			func(s Signal, _ Rows) [][]float64 { return s.Weights },
		})
	}
	if reference {
		out = append(out, optionalTarget{
			func(in *LossInputs) **graph.Node { return &in.Ref },
			func(_ Signal, r Rows) [][]float64 { return r.Ref },
		})
	}
	return out
}

// targets are the rest of the loss's inputs as [B,C] tensors: mask, advantages, aggregation weights, then the optional ones.
func (m micro) targets(c Config, s Signal, r Rows) []*tensors.Tensor {
	mask := make([]bool, m.rows*m.width)
	for i := range m.rows {
		copy(mask[i*m.width:], s.Mask[m.first+i])
	}
	out := []*tensors.Tensor{
		tensors.FromFlatDataAndDimensions(mask, m.rows, m.width),
		m.rectangle(s.Advantages),
		m.rectangle(s.Aggregate),
	}
	for _, optional := range c.optionalTargets(r.Ref != nil) {
		out = append(out, m.rectangle(optional.values(s, r)))
	}
	return out
}

// rectangle lays the micro-batch's rows of a ragged matrix out as [B,C] float32, with 0 in places that no token has.
func (m micro) rectangle(ragged [][]float64) *tensors.Tensor {
	flat := make([]float32, m.rows*m.width)
	for i := range m.rows {
		for t, v := range ragged[m.first+i] {
			flat[i*m.width+t] = float32(v)
		}
	}
	return tensors.FromFlatDataAndDimensions(flat, m.rows, m.width)
}

// unpack copies a [B,C] float32 tensor into the micro-batch's rows of a ragged matrix.
func (m micro) unpack(t *tensors.Tensor, b *batch, ragged [][]float64) error {
	values, err := flat(t)
	if err != nil {
		return err
	}
	for i := range m.rows {
		ragged[m.first+i] = values[i*m.width:][:len(b.rows[m.first+i].tokens)]
	}
	return nil
}
