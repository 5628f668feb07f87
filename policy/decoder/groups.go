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
	x := d.forward(w, tokens, positions, mixing{
		d.acrossGroups(in.Prompts, groups, each, length), d.recurAcrossGroups(in.Prompts, groups, each, length),
	})

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
	spans := d.blocks(length)
	// What each block of completion tokens sees of the prompt and of its own row.
	type sights struct{ prompt, own []view }
	seen := byWindow(d, width+length, func(window int) (out sights) {
		ownWindow := window
		if window >= length {
			ownWindow = 0
		}
		out.own = d.views(g, spans, nil, ownWindow, rows, length)
		for _, s := range spans {
			keys := span{min(first(width+s.start, window), width), width}
			count := each * (s.end - s.start) // queries of a prompt
			var queries *graph.Node           // their slots; all keys are before them
			if window > 0 && keys.start < width {
				queries = part(slotsOf(g, graph.Const(g, int32(width)), length), 0, s.start, s.end)
				queries = graph.Reshape(graph.BroadcastToDims(graph.Reshape(queries, 1, -1), each, s.end-s.start), count)
			}
			v := view{keys: keys}
			if keys.start < width {
				v.mask = d.mask(queries, part(slotsOf(g, nil, width), 0, keys.start, keys.end), prompts.Pad, window, groups, count)
			}
			out.prompt = append(out.prompt, v)
		}
		return out
	})
	// To a prompt, the queries of its completions are rows of one matrix: together goes from [rows,KVHeads,r,dim] to
	// [groups,KVHeads,each*r,dim], apart goes back.
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
		split := func(x *graph.Node) (prompts, completions *graph.Node) {
			return part(x, 0, 0, groups*width), part(x, 0, groups*width, groups*width+rows*length)
		}
		qp, q := split(q)
		kp, k := split(k)
		vp, v := split(v)
		prompt := inPrompts(layer, qp, kp, vp)
		kp, vp = d.headsFirst(kp, groups), d.headsFirst(vp, groups)
		q, k, v = d.queries(q, rows), d.headsFirst(k, rows), d.headsFirst(v, rows)
		seen := seen(layer)
		completions := d.inBlocks(spans, q, func(i int, block *graph.Node) *graph.Node {
			prompt, own := seen.prompt[i], seen.own[i]
			ownKeys, ownValues := part(k, 2, own.keys.start, own.keys.end), part(v, 2, own.keys.start, own.keys.end)
			if prompt.keys.start == width { // the window has left the prompt behind
				return d.attend(block, ownKeys, ownValues, own.mask)
			}
			toPrompt := scores(together(block), part(kp, 2, prompt.keys.start, width), prompt.mask)
			toOwn := scores(block, ownKeys, own.mask)
			top := graph.Max(highest(toOwn), apart(highest(toPrompt)))
			sumOwn, totalOwn := weigh(toOwn, top, ownValues)
			sumPrompt, totalPrompt := weigh(toPrompt, together(top), part(vp, 2, prompt.keys.start, width))
			return d.mixed(graph.Add(sumOwn, apart(sumPrompt)), graph.Add(totalOwn, apart(totalPrompt)), v.DType())
		})
		return graph.Concatenate([]*graph.Node{prompt, completions}, 0)
	}
}
