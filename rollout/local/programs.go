package local

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph" //nolint:staticcheck // the graph's operations read as formulae

	"github.com/grouper-rl/grouper/backend"
	"github.com/grouper-rl/grouper/policy"
	"github.com/grouper-rl/grouper/rollout"
)

// compiled returns the function of that name and makes it the first time.
func (e *Engine) compiled(name string, build func(in []*Node) []*Node) (*backend.Func, error) {
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
	return e.compiled("prefill", func(in []*Node) []*Node {
		w, tokens, pad := in[:len(in)-2], in[len(in)-2], in[len(in)-1]
		g := tokens.Graph()
		var empty []*Node
		for _, shape := range e.policy.Cache(tokens.Shape().Dim(0), tokens.Shape().Dim(1)) {
			empty = append(empty, Zeros(g, shape))
		}
		_, cache := e.policy.Extend(w, empty, policy.Inputs{Tokens: tokens, Pad: pad, Start: Const(g, int32(0))})
		return cache
	})
}

// arrange takes rows out of caches and adds empty slots: index [R] into the rows of all caches one after the other, and
// the caches, to a cache of R rows. It makes room for new slots, and lets finished rows go.
func (e *Engine) arrange(capacity int) (*backend.Func, error) {
	return e.compiled(fmt.Sprintf("arranging for %d slots", capacity), func(in []*Node) []*Node {
		index, caches := in[0], in[1:]
		want := e.policy.Cache(index.Shape().Dim(0), capacity)
		cache := make([]*Node, len(want))
		for i, shape := range want {
			var parts []*Node
			for at := i; at < len(caches); at += len(want) {
				parts = append(parts, caches[at])
			}
			x := parts[0]
			if len(parts) > 1 {
				x = Concatenate(parts, 0)
			}
			x = Gather(x, ExpandAxes(index, -1))
			for axis, size := range shape.Dimensions {
				if more := size - x.Shape().Dim(axis); more > 0 {
					empty := x.Shape().Clone()
					empty.Dimensions[axis] = more
					x = Concatenate([]*Node{x, Zeros(index.Graph(), empty)}, axis)
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
	return e.compiled(fmt.Sprintf("decoding with %+v", s), func(in []*Node) []*Node {
		in, uniforms := in[:len(in)-1], in[len(in)-1]
		if e.loop {
			return e.decode(s, in, uniforms)
		}
		st := e.unpack(in)
		token, full, filtered := e.step(s, &st, Reshape(uniforms, -1))
		return append([]*Node{ExpandAxes(token, 0), ExpandAxes(full, 0), ExpandAxes(filtered, 0)}, st.cache...)
	})
}

// state is what goes from token to token.
type state struct {
	weights, cache  []*Node
	last, pad, left *Node // [R] int32
	slot            *Node // scalar int32
}

func (e *Engine) unpack(in []*Node) state {
	nw, n := len(e.policy.Params()), len(in)
	return state{weights: in[:nw], cache: in[nw : n-4], last: in[n-4], pad: in[n-3], left: in[n-2], slot: in[n-1]}
}

func (st state) pack() []*Node {
	return slices.Concat(st.weights, st.cache, []*Node{st.last, st.pad, st.left, st.slot})
}

// step samples one token for each row.
func (e *Engine) step(s rollout.Sampling, st *state, uniform *Node) (token, full, filtered *Node) {
	g := st.slot.Graph()
	rows := st.last.Shape().Dim(0)
	// A finished row may be carried along beyond the context: it must not ask for positions that the policy does not have.
	pad := Max(st.pad, Sub(st.slot, Const(g, int32(e.policy.MaxPositions()-1))))
	hidden, cache := e.policy.Extend(st.weights, st.cache, policy.Inputs{Tokens: Reshape(st.last, rows, 1), Pad: pad, Start: st.slot})
	logits := e.policy.Logits(st.weights, Reshape(hidden, rows, -1))
	token, full, filtered = rollout.Draw(logits, uniform, s)
	ended := LessThan(token, Const(g, int32(0)))
	for _, stop := range s.Stop {
		ended = LogicalOr(ended, Equal(token, Const(g, stop)))
	}
	st.left = Where(ended, ZerosLike(st.left), Max(SubScalar(st.left, 1), ScalarZero(g, dtypes.Int32)))
	st.last = Max(token, ScalarZero(g, dtypes.Int32))
	st.slot = AddScalar(st.slot, 1)
	st.cache = cache
	return token, full, filtered
}

// decode is a loop of steps on the device. All that its closures use, weights too, is loop state, as XLA lets them capture
// nothing. Outside the body there are no reductions and no scalars but Const: GoMLX shares the others across a graph, and
// what one closure made cannot be used in another.
func (e *Engine) decode(s rollout.Sampling, in []*Node, uniforms *Node) []*Node {
	g, n, rows := uniforms.Graph(), uniforms.Shape().Dim(0), uniforms.Shape().Dim(1)
	none := func(zero any) *Node { return BroadcastToDims(Const(g, zero), n, rows) }
	initial := slices.Concat(in, []*Node{
		uniforms, none(int32(0)), none(float32(0)), none(float32(0)), // sampled so far
		Const(g, int32(0)), Const(g, true), // steps done, whether to go on
	})
	parameters := func(g *Graph) []*Node {
		all := make([]*Node, len(initial))
		for i, x := range initial {
			all[i] = Parameter(g, "state"+strconv.Itoa(i), x.Shape())
		}
		return all
	}
	goOn := NewClosure(g, func(g *Graph) []*Node { return parameters(g)[len(initial)-1:] })
	body := NewClosure(g, func(g *Graph) []*Node {
		all := parameters(g)
		st, uniforms, sampled, t := e.unpack(all[:len(in)]), all[len(in)], all[len(in)+1:len(in)+4], all[len(in)+4]
		here := []*Node{t, Const(g, int32(0))}
		token, full, filtered := e.step(s, &st, Reshape(DynamicSlice(uniforms, here, []int{1, rows}), rows))
		next := append(st.pack(), uniforms)
		for i, x := range []*Node{token, full, filtered} {
			next = append(next, DynamicUpdateSlice(sampled[i], Reshape(x, 1, rows), here))
		}
		t = AddScalar(t, 1)
		more := GreaterThan(ReduceAllMax(st.left), ScalarZero(g, dtypes.Int32))
		return append(next, t, LogicalAnd(more, LessThan(t, Const(g, int32(n)))))
	})
	out := While(goOn, body, initial...)
	return append(slices.Clone(out[len(in)+1:len(in)+4]), e.unpack(out[:len(in)]).cache...)
}
