package jinja

import "github.com/grouper-rl/grouper/internal/python"

// loop is the variable of that name in a for statement. It takes items when they are asked for, since the test that they
// must pass may depend on what earlier iterations did.
type loop struct {
	items   []any
	accept  func(any) bool // nil: all
	sized   bool           // length is known from the start
	length  int
	index0  int
	current any
	before  any
	after   []any // the next item, if it was looked at
	changed any   // the arguments of the last call of loop.changed
}

func (l *loop) pull() (any, bool) {
	for len(l.items) > 0 {
		v := l.items[0]
		l.items = l.items[1:]
		if l.accept == nil || l.accept(v) {
			return v, true
		}
	}
	return nil, false
}

// advance goes to the next item.
func (l *loop) advance(e *evaluator) bool {
	e.spend(1)
	if l.index0 == -1 && l.sized {
		l.length = len(l.items)
	}
	if !l.peek() {
		return false
	}
	l.before, l.current, l.after = l.current, l.after[0], nil
	l.index0++
	return true
}

func (l *loop) peek() bool {
	if l.after == nil {
		v, ok := l.pull()
		if !ok {
			return false
		}
		l.after = []any{v}
	}
	return true
}

// total is loop.length. Without a known length all items must be taken now.
func (l *loop) total() int {
	if !l.sized {
		var rest []any
		for v, ok := l.pull(); ok; v, ok = l.pull() {
			rest = append(rest, v)
		}
		l.items, l.accept, l.sized = rest, nil, true
		l.length = len(rest) + l.index0 + 1 + len(l.after)
	}
	return l.length
}

func (l *loop) attribute(e *evaluator, name string) any {
	n := func(n int) any { return python.NewInt(n) }
	switch name {
	case "index":
		return n(l.index0 + 1)
	case "index0":
		return n(l.index0)
	case "revindex":
		return n(l.total() - l.index0)
	case "revindex0":
		return n(l.total() - l.index0 - 1)
	case "first":
		return l.index0 == 0
	case "last":
		return !l.peek()
	case "length":
		return n(l.total())
	case "depth":
		return n(1)
	case "depth0":
		return n(0)
	case "previtem":
		if l.index0 == 0 {
			return undefined{"there is no previous item"}
		}
		return l.before
	case "nextitem":
		if !l.peek() {
			return undefined{"there is no next item"}
		}
		return l.after[0]
	case "cycle":
		return method(func(e *evaluator, args []any) any {
			if len(args) == 0 {
				fail("TypeError", "no items for cycling given")
			}
			return args[l.index0%len(args)]
		})
	case "changed":
		return method(func(e *evaluator, args []any) any {
			same := l.changed != nil && e.equal(l.changed, python.Tuple(args))
			l.changed = python.Tuple(args)
			return !same
		})
	}
	return undefined{"'LoopContext object' has no attribute '" + name + "'"}
}
