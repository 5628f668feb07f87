package local

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// compiled returns the function of that name and makes it the first time.
func (e *Engine) compiled(name string, build func(in []*graph.Node) []*graph.Node) (*backend.Func, error) {
	if f := e.funcs[name]; f != nil {
		return f, nil
	}
	f, err := backend.Compile(e.b, name, build)
	if err == nil {
		e.funcs[name] = f
	}
	return f, err
}

// prefill computes prompts: weights, tokens [G,P] and pad [G], to a cache of P slots.
func (e *Engine) prefill() (*backend.Func, error) {
	return e.compiled("prefill", func(in []*graph.Node) []*graph.Node {
		w, tokens, pad := in[:len(in)-2], in[len(in)-2], in[len(in)-1]
		g := tokens.Graph()
		var empty []*graph.Node
		for _, shape := range e.policy.Cache(tokens.Shape().Dim(0), tokens.Shape().Dim(1), e.opts.DType) {
			empty = append(empty, graph.Zeros(g, shape))
		}
		_, cache := e.policy.Extend(w, empty, policy.Inputs{Tokens: tokens, Pad: pad, Start: graph.Const(g, int32(0))})
		return cache
	})
}

// arrange takes rows out of caches and adds empty slots: index [R] into the rows of all caches one after the other, and
// the caches, to a cache of R rows. It makes room for new slots, and lets finished rows go.
func (e *Engine) arrange(capacity int) (*backend.Func, error) {
	return e.compiled(fmt.Sprintf("arranging for %d slots", capacity), func(in []*graph.Node) []*graph.Node {
		index, caches := in[0], in[1:]
		want := e.policy.Cache(index.Shape().Dim(0), capacity, e.opts.DType)
		cache := make([]*graph.Node, len(want))
		for i, shape := range want {
			var parts []*graph.Node
			for at := i; at < len(caches); at += len(want) {
				parts = append(parts, caches[at])
			}
			x := parts[0]
			if len(parts) > 1 {
				x = graph.Concatenate(parts, 0)
			}
			x = graph.Gather(x, graph.ExpandAxes(index, -1))
			for axis, size := range shape.Dimensions {
				if more := size - x.Shape().Dim(axis); more > 0 {
					empty := x.Shape().Clone()
					empty.Dimensions[axis] = more
					x = graph.Concatenate([]*graph.Node{x, graph.Zeros(index.Graph(), empty)}, axis)
				}
			}
			cache[i] = x
		}
		return cache
	})
}

// segment samples n tokens for each row of a cache: weights, cache, last token [R], pad [R], tokens left to sample [R],
// uniforms [n,R] and the first free slot, to tokens, log-probs and filtered log-probs [n,R] and the new cache. It ends early
// when no row has tokens left. What a row gets after its end means nothing. Without loops on the device n is 1.
func (e *Engine) segment(s rollout.Sampling) (*backend.Func, error) {
	s.MaxTokens = 0 // is in the tokens left
	return e.compiled(fmt.Sprintf("decoding with %+v", s), func(in []*graph.Node) []*graph.Node {
		in, uniforms := in[:len(in)-1], in[len(in)-1]
		if e.loop {
			return e.decodeLoop(s, in, uniforms)
		}
		st := e.unpack(in)
		token, full, filtered := e.step(s, &st, graph.Reshape(uniforms, -1))
		out := []*graph.Node{graph.ExpandAxes(token, 0), graph.ExpandAxes(full, 0), graph.ExpandAxes(filtered, 0)}
		return append(out, st.cache...)
	})
}

// state is what goes from token to token.
type state struct {
	weights, cache  []*graph.Node
	last, pad, left *graph.Node // [R] int32
	slot            *graph.Node // scalar int32
}

func (e *Engine) unpack(in []*graph.Node) state {
	nw, n := len(e.policy.Params()), len(in)
	return state{weights: in[:nw], cache: in[nw : n-4], last: in[n-4], pad: in[n-3], left: in[n-2], slot: in[n-1]}
}

func (st state) pack() []*graph.Node {
	return slices.Concat(st.weights, st.cache, []*graph.Node{st.last, st.pad, st.left, st.slot})
}

// step samples one token for each row.
func (e *Engine) step(s rollout.Sampling, st *state, uniform *graph.Node) (token, full, filtered *graph.Node) {
	g := st.slot.Graph()
	rows := st.last.Shape().Dim(0)
	// A finished row may be carried along beyond the context: it must not ask for positions that the policy does not have.
	pad := graph.Max(st.pad, graph.Sub(st.slot, graph.Const(g, int32(e.policy.MaxPositions()-1))))
	in := policy.Inputs{Tokens: graph.Reshape(st.last, rows, 1), Pad: pad, Start: st.slot}
	hidden, cache := e.policy.Extend(st.weights, st.cache, in)
	logits := e.policy.Logits(st.weights, graph.Reshape(hidden, rows, -1))
	token, full, filtered = rollout.Draw(logits, uniform, s)
	ended := graph.LessThan(token, graph.Const(g, int32(0)))
	for _, stop := range s.Stop {
		ended = graph.LogicalOr(ended, graph.Equal(token, graph.Const(g, stop)))
	}
	zero := graph.ScalarZero(g, dtypes.Int32)
	st.left = graph.Where(ended, zero, graph.Max(graph.SubScalar(st.left, 1), zero))
	st.last = graph.Max(token, zero)
	st.slot = graph.AddScalar(st.slot, 1)
	st.cache = cache
	return token, full, filtered
}

// decodeLoop is a loop of steps on the device. All that its closures use, weights too, is loop state, as XLA lets them capture
// nothing. Outside the body there are no reductions and no scalars but Const: GoMLX shares the others across a graph, and
// what one closure made cannot be used in another.
func (e *Engine) decodeLoop(s rollout.Sampling, in []*graph.Node, uniforms *graph.Node) []*graph.Node {
	g, n, rows := uniforms.Graph(), uniforms.Shape().Dim(0), uniforms.Shape().Dim(1)
	none := func(zero any) *graph.Node { return graph.BroadcastToDims(graph.Const(g, zero), n, rows) }
	initial := slices.Concat(in, []*graph.Node{
		uniforms, none(int32(0)), none(float32(0)), none(float32(0)), // sampled so far
		graph.Const(g, int32(0)), graph.Const(g, true), // steps done, whether to go on
	})
	parameters := func(g *graph.Graph) []*graph.Node {
		all := make([]*graph.Node, len(initial))
		for i, x := range initial {
			all[i] = graph.Parameter(g, "state"+strconv.Itoa(i), x.Shape())
		}
		return all
	}
	goOn := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node { return parameters(g)[len(initial)-1:] })
	body := graph.NewClosure(g, func(g *graph.Graph) []*graph.Node {
		all := parameters(g)
		st, uniforms, sampled, t := e.unpack(all[:len(in)]), all[len(in)], all[len(in)+1:len(in)+4], all[len(in)+4]
		here := []*graph.Node{t, graph.Const(g, int32(0))}
		token, full, filtered := e.step(s, &st, graph.Reshape(graph.DynamicSlice(uniforms, here, []int{1, rows}), rows))
		next := append(st.pack(), uniforms)
		for i, x := range []*graph.Node{token, full, filtered} {
			next = append(next, graph.DynamicUpdateSlice(sampled[i], graph.Reshape(x, 1, rows), here))
		}
		t = graph.AddScalar(t, 1)
		more := graph.GreaterThan(graph.ReduceAllMax(st.left), graph.ScalarZero(g, dtypes.Int32))
		return append(next, t, graph.LogicalAnd(more, graph.LessThan(t, graph.Const(g, int32(n)))))
	})
	out := graph.While(goOn, body, initial...)
	return append(slices.Clone(out[len(in)+1:len(in)+4]), e.unpack(out[:len(in)]).cache...)
}
