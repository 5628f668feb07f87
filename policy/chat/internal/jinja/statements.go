package jinja

import (
	"context"
	"time"
)

// evaluator is the state of one rendering.
type evaluator struct {
	ctx       context.Context
	now       time.Time
	scope     *scope
	out       []byte
	generated []string
	line      int // of the statement under evaluation
	depth     int
	steps     int // done, of maxSteps
	maxSteps  int
	bytes     int // of strings made, of maxText
	maxText   int
	captured  string // text of the set block whose filters are evaluated
}

// scope holds the variables of a template, an iteration or a call.
type scope struct {
	vars   map[string]any
	parent *scope
}

func newScope(parent *scope) *scope { return &scope{vars: map[string]any{}, parent: parent} }

func (s *scope) lookup(name string) (any, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

// spend counts steps of work.
func (e *evaluator) spend(steps int) {
	before := e.steps >> 12
	if e.steps += steps; e.steps > e.maxSteps || steps < 0 {
		limit("more than %d steps of work", e.maxSteps)
	}
	if e.steps>>12 != before && e.ctx.Err() != nil {
		panic(context.Cause(e.ctx))
	}
}

// read counts the work of going through texts as a whole, of comparing them or of looking them up: a step for 64 bytes. Other values are free.
func (e *evaluator) read(values ...any) {
	for _, v := range values {
		if s, ok := asString(v); ok {
			e.spend(len(s) / 64)
		}
	}
}

// allocate counts bytes of text before it is made.
func (e *evaluator) allocate(bytes int) {
	if e.bytes += bytes; e.bytes > e.maxText || bytes < 0 {
		limit("more than %d bytes of text", e.maxText)
	}
}

// enter counts what is within one another while it is evaluated; the caller subtracts it from e.depth again.
func (e *evaluator) enter() {
	e.spend(1)
	if e.depth++; e.depth > maxDepth {
		limit("evaluation nested more than %d deep", maxDepth)
	}
}

func (e *evaluator) write(s string) {
	e.allocate(len(s))
	e.out = append(e.out, s...)
}

// capture returns what a function writes.
func (e *evaluator) capture(body func()) string {
	outer := e.out
	e.out = nil
	body()
	text := string(e.out)
	e.out = outer
	return text
}

// within runs a function in a new scope.
func (e *evaluator) within(parent *scope, body func()) {
	outer := e.scope
	e.scope = newScope(parent)
	body()
	e.scope = outer
}

// stmt is a statement. It returns "break" or "continue" if it ends an iteration of the loop around it.
type stmt interface{ run(e *evaluator) jump }

type jump string

func (e *evaluator) run(body []stmt) jump {
	e.enter()
	for _, s := range body {
		if j := s.run(e); j != "" {
			e.depth--
			return j
		}
	}
	e.depth--
	return ""
}

func (j jump) run(*evaluator) jump { return j }

type text string

func (s text) run(e *evaluator) jump {
	e.spend(1)
	e.write(string(s))
	return ""
}

type output struct {
	line int
	x    expr
}

func (s output) run(e *evaluator) jump {
	e.line = s.line
	e.write(e.str(e.eval(s.x)))
	return ""
}

type ifStmt struct {
	line      int
	branches  []branch
	otherwise []stmt
}

type branch struct {
	test expr
	body []stmt
}

func (s ifStmt) run(e *evaluator) jump {
	for _, b := range s.branches {
		e.line = s.line
		if truth(e.eval(b.test)) {
			return e.run(b.body)
		}
	}
	return e.run(s.otherwise)
}

type forStmt struct {
	line      int
	target    target
	items     expr
	test      expr // nil: all items
	body      []stmt
	otherwise []stmt
}

func (s forStmt) run(e *evaluator) jump {
	e.line = s.line
	outer := e.scope
	l := &loop{items: e.iterate(e.eval(s.items)), index0: -1}
	l.sized = s.test == nil
	if s.test != nil {
		l.accept = func(v any) (ok bool) {
			e.within(outer, func() {
				s.target.assign(e, v)
				ok = truth(e.eval(s.test))
			})
			return ok
		}
	}
	completed := false // an iteration, to its end; Jinja decides by that whether there is an else
	for l.advance(e) {
		var j jump
		e.within(outer, func() {
			e.scope.vars["loop"] = l
			s.target.assign(e, l.current)
			j = e.run(s.body)
		})
		if j == "break" {
			break
		}
		completed = completed || j == ""
	}
	if !completed && s.otherwise != nil {
		var j jump
		e.within(outer, func() { j = e.run(s.otherwise) })
		return j
	}
	return ""
}

type setStmt struct {
	line   int
	target target
	x      expr
}

func (s setStmt) run(e *evaluator) jump {
	e.line = s.line
	s.target.assign(e, e.eval(s.x))
	return ""
}

type setBlock struct {
	line    int
	target  target
	filters expr
	body    []stmt
}

func (s setBlock) run(e *evaluator) jump {
	var j jump
	text := e.capture(func() { e.within(e.scope, func() { j = e.run(s.body) }) })
	if j != "" {
		return j
	}
	e.line = s.line
	outer := e.captured
	e.captured = text
	v := e.eval(s.filters)
	e.captured = outer
	s.target.assign(e, v)
	return ""
}

// captured is the text that the filters of a set block begin with.
type captured struct{}

func (captured) eval(e *evaluator) any { return e.captured }

type generation struct{ body []stmt }

func (s generation) run(e *evaluator) jump {
	text := e.capture(func() { e.within(e.scope, func() { e.run(s.body) }) })
	e.generated = append(e.generated, text)
	e.write(text)
	return ""
}

type macroStmt struct {
	line  int
	macro macro
}

func (s macroStmt) run(e *evaluator) jump {
	m := s.macro
	m.scope = e.scope
	e.scope.vars[m.name] = &m
	return ""
}

// macro is callable. It sees the variables of the place where it stands, as they are when it is called.
type macro struct {
	name     string
	params   []string
	defaults []expr // of the last params
	body     []stmt
	scope    *scope
}

func (m *macro) call(e *evaluator, args values) any {
	if len(args.positional) > len(m.params) {
		fail("TypeError", "macro %q takes not more than %d argument(s)", m.name, len(m.params))
	}
	line := e.line
	text := e.capture(func() {
		e.within(m.scope, func() {
			for i, param := range m.params {
				v, ok := args.take(i, param)
				if d := i - (len(m.params) - len(m.defaults)); !ok && d >= 0 {
					v = e.eval(m.defaults[d])
				} else if !ok {
					v = undefined{"parameter '" + param + "' was not provided"}
				}
				e.scope.vars[param] = v
			}
			if len(args.names) > 0 {
				fail("TypeError", "macro %q takes no keyword argument %q", m.name, args.names[0])
			}
			e.run(m.body)
		})
	})
	e.line = line
	return text
}

// target is what a value is assigned to.
type target interface{ assign(e *evaluator, v any) }

type nameTarget string

func (t nameTarget) assign(e *evaluator, v any) { e.scope.vars[string(t)] = v }

type attributeTarget struct{ name, attribute string }

func (t attributeTarget) assign(e *evaluator, v any) {
	object, _ := e.scope.lookup(t.name)
	ns, ok := object.(*namespace)
	if !ok {
		fail("TemplateRuntimeError", "cannot assign attribute on non-namespace object")
	}
	ns.set(t.attribute, v)
}

type tupleTarget []target

func (t tupleTarget) assign(e *evaluator, v any) {
	items := e.iterate(v)
	if len(items) != len(t) {
		fail("ValueError", "cannot unpack %d values into %d names", len(items), len(t))
	}
	for i, part := range t {
		part.assign(e, items[i])
	}
}
