package local

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gomlx/gomlx/core/tensors"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/rollout"
)

// row is a completion in the making.
type row struct {
	rollout.Completion
	request, index int // where it belongs
	prompt         []int32
	seed           rollout.Seed
	limit          int   // its longest length: MaxTokens or what the context leaves
	pad            int32 // cache slots before its prompt
}

func (r *row) done() bool { return r.Finish != "" }

// last is the token that the next one follows.
func (r *row) last() int32 {
	if n := len(r.Tokens); n > 0 {
		return r.Tokens[n-1]
	}
	return r.prompt[len(r.prompt)-1]
}

// add appends a sampled token.
func (r *row) add(token int32, full, filtered float32, stop []int32) error {
	if token < 0 {
		return &rollout.RequestError{Request: r.request, Sample: r.index, Err: fmt.Errorf("the logits of token %d are not finite", len(r.Tokens))}
	}
	r.Tokens, r.LogProbs, r.Filtered = append(r.Tokens, token), append(r.LogProbs, full), append(r.Filtered, filtered)
	switch {
	case slices.Contains(stop, token):
		r.Finish = rollout.Stop
	case len(r.Tokens) == r.limit:
		r.Finish = rollout.Length
	}
	return nil
}

// plan makes batches of at most MaxRows rows: prompts of like width together, requests whole where they fit.
func (e *Engine) plan(reqs []rollout.Request, s rollout.Sampling) (batches [][]*row) {
	order := make([]int, len(reqs))
	for i := range order {
		order[i] = i
	}
	width := func(i int) int { return promptWidth(reqs[i].Prompt) }
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(width(a), width(b)) })
	room := 0
	for n, i := range order {
		r := reqs[i]
		if whole := min(len(r.Seeds), e.opts.MaxRows); room < whole || e.opts.FixedRows && width(i) != width(order[n-1]) {
			room = 0
		}
		for k, seed := range r.Seeds {
			if room == 0 {
				batches, room = append(batches, nil), e.opts.MaxRows
			}
			last := &batches[len(batches)-1]
			limit := min(s.MaxTokens, e.policy.MaxPositions()-len(r.Prompt))
			*last = append(*last, &row{request: i, index: k, prompt: r.Prompt, seed: seed, limit: limit})
			room--
		}
	}
	return batches
}

// Sizes are rounded up to powers of two, so that few shapes are compiled.
const (
	leastWidth    = 16 // of prompts
	leastCapacity = 64
	leastRows     = 16
)

// roundUp returns the smallest of least, 2 least, 4 least, … that is not below n.
func roundUp(n, least int) int {
	for least < n {
		least *= 2
	}
	return least
}

// promptWidth is the room for all but the last token of a prompt.
func promptWidth(prompt []int32) int { return roundUp(len(prompt)-1, leastWidth) }

// rowsFor rounds up a number of rows. On devices that run whole segments compilation is dear and a few rows more cost
// little; elsewhere it is the other way round.
func (e *Engine) rowsFor(n int) int {
	switch {
	case e.opts.FixedRows:
		return e.opts.MaxRows
	case e.loop:
		return roundUp(n, leastRows)
	}
	return (n + 7) / 8 * 8
}

// batch is the state of decoding on the device.
type batch struct {
	e        *Engine
	sampling rollout.Sampling
	rows     []*row            // as they lie in the cache, finished ones too
	width    int               // rows of the cache; those beyond len(rows) are idle
	capacity int               // slots of the cache
	start    int               // slots that are filled
	cache    []*tensors.Tensor // nil before the prefill
}

// sample completes rows.
func (e *Engine) sample(ctx context.Context, rows []*row, s rollout.Sampling) error {
	b := &batch{e: e, sampling: s, rows: rows}
	defer func() { backend.Free(b.cache...) }()
	if err := b.prefill(ctx); err != nil {
		return err
	}
	for {
		var rows []*row
		var at []int32
		for i, r := range b.rows {
			if !r.done() {
				rows, at = append(rows, r), append(at, int32(i))
			}
		}
		if len(rows) == 0 {
			return nil
		}
		if e.rowsFor(len(rows)) < b.width || b.start+e.opts.Segment > b.capacity {
			b.rows = rows
			if err := b.arrange(at); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := b.decode(); err != nil {
			return err
		}
	}
}

// prefill computes each prompt once, all but its last token: that is the first token to be decoded, so that all sampled
// tokens come from the same computation.
func (b *batch) prefill(ctx context.Context) error {
	e := b.e
	var prompts [][]int32
	at := make([]int32, len(b.rows))
	for i, r := range b.rows {
		if i == 0 || r.request != b.rows[i-1].request {
			prompts = append(prompts, r.prompt)
			b.start = max(b.start, promptWidth(r.prompt))
		}
		at[i] = int32(len(prompts) - 1)
	}
	for i, r := range b.rows {
		r.pad = int32(b.start - len(prompts[at[i]]) + 1)
	}
	f, err := e.prefill()
	if err != nil {
		return err
	}
	for some := range slices.Chunk(prompts, e.prompts) {
		if err := ctx.Err(); err != nil {
			return err
		}
		tokens, pad := make([]int32, e.prompts*b.start), make([]int32, e.prompts)
		for i := range pad {
			p := some[min(i, len(some)-1)]
			pad[i] = int32(b.start - len(p) + 1)
			copy(tokens[i*b.start+int(pad[i]):], p[:len(p)-1])
		}
		in := []*tensors.Tensor{tensor(tokens, e.prompts, b.start), tensor(pad, e.prompts)}
		cache, err := f.Call(e.opts.Device, e.weights.Tensors, in)
		backend.Free(in...)
		if err != nil {
			return err
		}
		b.cache = append(b.cache, cache...)
	}
	return b.arrange(at)
}

// arrange makes a cache for b.rows out of those that there are, whose rows they stand at, with slots for the next segment.
func (b *batch) arrange(at []int32) error {
	b.width = b.e.rowsFor(len(b.rows))
	b.capacity = roundUp(b.start+b.e.opts.Segment, leastCapacity)
	f, err := b.e.arrange(b.capacity)
	if err != nil {
		return err
	}
	index := slices.Repeat(at[:1], b.width) // idle rows are copies
	copy(index, at)
	in := tensor(index, b.width)
	defer backend.Free(in)
	old := b.cache
	b.cache = nil
	if b.cache, err = f.Call(b.e.opts.Device, in, backend.Donate(old)); err != nil {
		backend.Free(old...)
	}
	return err
}

// decode samples one segment.
func (b *batch) decode() error {
	e, n := b.e, b.e.opts.Segment
	last, pad, left := make([]int32, b.width), make([]int32, b.width), make([]int32, b.width)
	uniforms := make([]float32, n*b.width)
	for i, r := range b.rows {
		last[i], pad[i] = r.last(), r.pad
		if r.done() {
			continue
		}
		left[i] = int32(r.limit - len(r.Tokens))
		for t := range n {
			uniforms[t*b.width+i] = r.seed.Uniform(len(r.Tokens) + t)
		}
	}
	f, err := e.segment(b.sampling)
	if err != nil {
		return err
	}
	in := []*tensors.Tensor{
		tensor(last, b.width), tensor(pad, b.width), tensor(left, b.width), tensor([]int32{int32(b.start)}),
		tensor(uniforms, n, b.width),
	}
	defer backend.Free(in...)
	old := b.cache
	b.cache = nil
	out, err := f.Call(e.opts.Device, e.weights.Tensors, backend.Donate(old), in)
	if err != nil {
		backend.Free(old...)
		return err
	}
	b.cache = out[3:]
	defer backend.Free(out[:3]...)
	return b.collect(out[0], out[1], out[2])
}

// collect appends what a segment sampled, [n,width] each.
func (b *batch) collect(tokens, full, filtered *tensors.Tensor) error {
	token, err := tensors.CopyFlatData[int32](tokens)
	if err != nil {
		return err
	}
	fullOf, err := tensors.CopyFlatData[float32](full)
	if err != nil {
		return err
	}
	filteredOf, err := tensors.CopyFlatData[float32](filtered)
	if err != nil {
		return err
	}
	sampled := 0
	for at := 0; at < len(token); at += b.width {
		before := sampled
		for i, r := range b.rows {
			if r.done() {
				continue
			}
			if err := r.add(token[at+i], fullOf[at+i], filteredOf[at+i], b.sampling.Stop); err != nil {
				return err
			}
			sampled++
		}
		if sampled > before { // otherwise the device had stopped
			b.start++
		}
	}
	if b.e.opts.Progress != nil {
		b.e.opts.Progress(sampled)
	}
	return nil
}

// tensor is one of the dimensions, a scalar without any.
func tensor[T int32 | float32](values []T, dims ...int) *tensors.Tensor {
	return tensors.FromFlatDataAndDimensions(values, dims...)
}
