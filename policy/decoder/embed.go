package decoder

import (
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/policy"
)

// oneHotVocab is the largest vocabulary whose embedding is a product with one-hot rows. The gradient of a gather is a scatter,
// which is slow.
const oneHotVocab = 1024

// embed looks tokens [n] up, [n,D].
func (d *Decoder) embed(w policy.Vars, tokens *graph.Node) *graph.Node {
	table := w[d.index[embedName]]
	if d.cfg.Vocab <= oneHotVocab {
		return graph.Dot(graph.OneHot(tokens, d.cfg.Vocab, table.DType()), table).General([]int{1}, nil, []int{0}, nil)
	}
	return graph.Gather(table, graph.ExpandAxes(tokens, -1))
}
