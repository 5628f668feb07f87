package decoder

import (
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/policy"
)

// States gives what golden files record: the input of layer 0, the output of each layer and that of the final norm, each [B*T,D].
func States(d *Decoder, w policy.Vars, in policy.Inputs) []*graph.Node {
	positions := flat(positionsOf(in))
	turns := d.rotations(positions)
	x := d.embed(w, flat(in.Tokens))
	states := []*graph.Node{x}
	for i := range d.cfg.Layers {
		x = d.layer(w, i, x, turns[d.at(i).Rope], mixing{d.within(in), d.recurWithin(in)})
		states = append(states, x)
	}
	return append(states, d.norm(x, w[d.index[tensor{role: FinalNorm}]]))
}
