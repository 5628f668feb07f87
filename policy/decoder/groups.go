package decoder

import (
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/policy"
)

// HiddenGroups computes each prompt once for all completions that continue it (Prefix Grouper, arXiv 2506.05433) and returns
// [G*N,T+1,D]: the state of the prompt's last token, then those of the completion's tokens.
func (d *Decoder) HiddenGroups(w policy.Vars, in policy.Groups) *graph.Node {
	g := in.Completions.Graph()
	groups, width := in.Prompts.Tokens.Shape().Dim(0), in.Prompts.Tokens.Shape().Dim(1)
	rows, length := in.Completions.Shape().Dim(0), in.Completions.Shape().Dim(1)
	each := rows / groups // completions of a prompt

	// One list of tokens: all prompts, then all completions. Everything but attention treats them alike.
	completions := policy.Inputs{Tokens: in.Completions, Start: graph.Const(g, int32(width))}
	if in.Prompts.Pad != nil {
		pad := graph.BroadcastToDims(graph.Reshape(in.Prompts.Pad, groups, 1), groups, each)
		completions.Pad = graph.Reshape(pad, rows)
	}
	tokens := graph.Concatenate([]*graph.Node{flat(in.Prompts.Tokens), flat(in.Completions)}, 0)
	positions := graph.Concatenate([]*graph.Node{flat(positionsOf(in.Prompts)), flat(positionsOf(completions))}, 0)
	x := d.forward(w, tokens, positions, d.acrossGroups(in.Prompts, groups, each, length))

	cut := groups * width
	last := part(graph.Reshape(part(x, 0, 0, cut), groups, width, -1), 1, width-1, width)
	last = graph.Reshape(graph.BroadcastToDims(last, groups, each, d.cfg.Hidden), rows, 1, -1)
	own := graph.Reshape(part(x, 0, cut, cut+rows*length), rows, length, -1)
	return graph.Concatenate([]*graph.Node{last, own}, 1)
}

// acrossGroups is attention of prompts within themselves, and of completions, each for its group's prompt and for itself.
func (d *Decoder) acrossGroups(prompts policy.Inputs, groups, each, length int) attention {
	width, rows := prompts.Tokens.Shape().Dim(1), groups*each
	inPrompts := d.within(prompts)
	g := prompts.Tokens.Graph()
	slots := slotsOf(g, nil, length)
	share := d.cfg.Heads / d.cfg.KVHeads
	spans := d.blocks(length)
	type masks struct{ prompt, own *graph.Node }
	byBlock := make([]masks, len(spans))
	for i, s := range spans {
		byBlock[i].prompt = d.mask(nil, slotsOf(g, nil, width), prompts.Pad, groups, each*(s[1]-s[0]))
		byBlock[i].own = d.mask(part(slots, 0, s[0], s[1]), part(slots, 0, 0, s[1]), nil, rows, s[1]-s[0])
	}
	// To a prompt, the queries of its completions are rows of one matrix: [groups,KVHeads,each*r,dim] from [rows,KVHeads,r,dim], and back.
	together := func(x *graph.Node) *graph.Node {
		r, dim := x.Shape().Dim(2), x.Shape().Dim(3)
		x = graph.Reshape(x, groups, each, d.cfg.KVHeads, r*dim)
		return graph.Reshape(graph.TransposeAllAxes(x, 0, 2, 1, 3), groups, d.cfg.KVHeads, each*r, dim)
	}
	apart := func(x *graph.Node) *graph.Node {
		r, dim := x.Shape().Dim(2)/each, x.Shape().Dim(3)
		x = graph.Reshape(x, groups, d.cfg.KVHeads, each, r*dim)
		return graph.Reshape(graph.TransposeAllAxes(x, 0, 2, 1, 3), rows, d.cfg.KVHeads, r, dim)
	}
	return func(layer int, q, k, v *graph.Node) *graph.Node {
		cut, end := groups*width, groups*width+rows*length
		prompt := inPrompts(layer, part(q, 0, 0, cut), part(k, 0, 0, cut), part(v, 0, 0, cut))
		kp, vp := d.headsFirst(part(k, 0, 0, cut), groups), d.headsFirst(part(v, 0, 0, cut), groups)
		q, k, v = d.queries(part(q, 0, cut, end), rows), d.headsFirst(part(k, 0, cut, end), rows), d.headsFirst(part(v, 0, cut, end), rows)
		out := make([]*graph.Node, len(spans))
		for i, s := range spans {
			block := part(q, 2, s[0]*share, s[1]*share)
			toPrompt := scores(together(block), kp, byBlock[i].prompt)
			toOwn := scores(block, part(k, 2, 0, s[1]), byBlock[i].own)
			top := graph.Max(highest(toOwn), apart(highest(toPrompt)))
			sumOwn, totalOwn := gather(toOwn, top, part(v, 2, 0, s[1]))
			sumPrompt, totalPrompt := gather(toPrompt, together(top), vp)
			out[i] = d.headsLast(divide(graph.Add(sumOwn, apart(sumPrompt)), graph.Add(totalOwn, apart(totalPrompt))))
		}
		return graph.Concatenate([]*graph.Node{prompt, flat(join(out, 1))}, 0)
	}
}
