package decoder_test

import (
	"context"
	"fmt"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/policy/decoder"
)

// The logits of a sentence, one row of them for each token.
func Example() {
	d, err := decoder.New(decoder.Config{Vocab: 100, Hidden: 32, Layers: 2, Heads: 4, KVHeads: 2, Intermediate: 64,
		MaxPositions: 128, NormEps: 1e-6, Rope: decoder.Rope{Theta: 1e4}, QKNorm: true, Tied: true})
	if err != nil {
		panic(err)
	}
	weights, err := d.Init(1)
	if err != nil {
		panic(err)
	}
	b, err := backend.Open(context.Background(), backend.Go)
	if err != nil {
		panic(err)
	}
	logits, err := backend.Compile(b, "logits", func(in []*graph.Node) []*graph.Node {
		vars, tokens := policy.Vars(in[:len(in)-1]), in[len(in)-1]
		hidden := d.Hidden(vars, policy.Inputs{Tokens: tokens})
		return []*graph.Node{d.Logits(vars, graph.Reshape(hidden, -1, d.Config().Hidden))}
	})
	if err != nil {
		panic(err)
	}
	out, err := logits.Call(0, weights.Tensors, [][]int32{{5, 17, 42}})
	if err != nil {
		panic(err)
	}
	fmt.Println(out[0].Shape(), weights.Size())
	// Output: (Float32)[3, 100] 21824
}
