package jinja

import (
	"fmt"
	"slices"

	"github.com/grouper-rl/grouper/internal/python"
)

// parser reads statements; parse_expr.go reads expressions. Like Jinja's it is a recursive descent.
type parser struct {
	tokens  []token
	at      int
	nesting int
	loops   int  // for statements around the place, within the innermost macro
	branch  bool // the innermost block is a branch of an if statement
	unknown []lineError
}

// template reads a whole template. Unknown filters and tests are errors now, except in branches and conditional
// expressions, where they are when they are reached.
func (p *parser) template() []stmt {
	body := p.block()
	if len(p.unknown) > 0 {
		panic(p.unknown[0])
	}
	return body
}

func (p *parser) isUnknown(kind, name string) {
	if !p.branch {
		p.unknown = append(p.unknown, lineError{p.peek().line, unknownName(kind, name)})
	}
}

func unknownName(kind, name string) error {
	return python.Error{Type: "TemplateAssertionError", Message: fmt.Sprintf("unknown or unsupported %s %q", kind, name)}
}

func (p *parser) peek() token { return p.tokens[p.at] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if t.kind != endToken {
		p.at++
	}
	return t
}

func (p *parser) fail(format string, args ...any) {
	panic(lineError{p.peek().line, python.Error{Type: "TemplateSyntaxError", Message: fmt.Sprintf(format, args...)}})
}

// is says whether an operator or a name (a keyword) comes next.
func (p *parser) is(kind tokenKind, text string) bool {
	t := p.peek()
	return t.kind == kind && t.text == text
}

// accept moves over an operator or a name.
func (p *parser) accept(kind tokenKind, text string) bool {
	ok := p.is(kind, text)
	if ok {
		p.at++
	}
	return ok
}

func (p *parser) expect(kind tokenKind, text string) {
	if !p.accept(kind, text) {
		p.fail("expected %q, got %s", text, p.peek().describe())
	}
}

func (p *parser) close(kind tokenKind) {
	if p.peek().kind != kind {
		p.fail("expected %s, got %s", token{kind: kind}.describe(), p.peek().describe())
	}
	p.at++
}

func (p *parser) name() string {
	if p.peek().kind != nameToken {
		p.fail("expected a name, got %s", p.peek().describe())
	}
	return p.next().text
}

// nest counts what is within one another; the function that it returns ends it.
func (p *parser) nest() func() {
	if p.nesting++; p.nesting > maxNesting {
		panic(lineError{p.peek().line, fmt.Errorf("%w: nested more than %d deep", ErrLimit, maxNesting)})
	}
	return func() { p.nesting-- }
}

// block reads statements up to one of the given end tags, whose name comes next then, or up to the end of the template.
func (p *parser) block(ends ...string) []stmt {
	defer p.nest()()
	var body []stmt
	for {
		switch t := p.next(); t.kind {
		case endToken:
			if len(ends) > 0 {
				p.fail("unexpected end of template, expected %q", ends)
			}
			return body
		case dataToken:
			body = append(body, text(t.text))
		case outputBegin:
			body = append(body, output{t.line, p.tuple(true)})
			p.close(outputEnd)
		case blockBegin:
			if slices.Contains(ends, p.peek().text) && p.peek().kind == nameToken {
				return body
			}
			body = append(body, p.statement())
			p.close(blockEnd)
		default:
			p.at--
			p.fail("unexpected %s", t.describe())
		}
	}
}

// body reads a block whose opening tag ends here, and moves over the end tag's name.
func (p *parser) body(ends ...string) (body []stmt, end string) {
	outer := p.branch
	p.branch = ends[len(ends)-1] == "endif"
	p.close(blockEnd)
	body = p.block(ends...)
	p.branch = outer
	return body, p.next().text
}

func (p *parser) statement() stmt {
	line := p.peek().line
	switch keyword := p.name(); keyword {
	case "if":
		return p.ifStatement(line)
	case "for":
		return p.forStatement(line)
	case "set":
		return p.setStatement(line)
	case "macro":
		return p.macroStatement(line)
	case "generation":
		return p.separate(func() stmt {
			body, _ := p.body("endgeneration")
			return generation{body}
		})
	case "break", "continue":
		if p.loops == 0 {
			p.fail("%q outside of a loop", keyword)
		}
		return jump(keyword)
	default:
		p.at--
		p.fail("unknown or unsupported tag %q", keyword)
		return nil
	}
}

// separate reads what is a function of its own, out of which no loop can be left.
func (p *parser) separate(read func() stmt) stmt {
	loops := p.loops
	p.loops = 0
	s := read()
	p.loops = loops
	return s
}

func (p *parser) ifStatement(line int) stmt {
	s := ifStmt{line: line}
	for {
		known := len(p.unknown)
		test := p.tuple(false)
		p.unknown = p.unknown[:known]
		body, end := p.body("elif", "else", "endif")
		s.branches = append(s.branches, branch{test, body})
		if end == "else" {
			s.otherwise, end = p.body("endif")
		}
		if end == "endif" {
			return s
		}
	}
}

func (p *parser) forStatement(line int) stmt {
	s := forStmt{line: line, target: p.target(false)}
	p.expect(nameToken, "in")
	s.items = p.tuple(false)
	if p.accept(nameToken, "if") {
		s.test = p.expression()
	}
	if p.is(nameToken, "recursive") {
		p.fail("recursive loops are not supported")
	}
	p.loops++
	body, end := p.body("else", "endfor")
	p.loops--
	s.body = body
	if end == "else" {
		s.otherwise, _ = p.body("endfor")
	}
	return s
}

func (p *parser) setStatement(line int) stmt {
	target := p.target(true)
	if p.accept(operatorToken, "=") {
		return setStmt{line, target, p.tuple(true)}
	}
	var filters expr = captured{}
	for p.accept(operatorToken, "|") {
		filters = p.filter(filters)
	}
	body, _ := p.body("endset")
	return setBlock{line, target, filters, body}
}

func (p *parser) macroStatement(line int) stmt {
	s := macroStmt{line: line, macro: macro{name: p.name()}}
	m := &s.macro
	p.expect(operatorToken, "(")
	for !p.is(operatorToken, ")") {
		if len(m.params) > 0 {
			p.expect(operatorToken, ",")
		}
		m.params = append(m.params, p.name())
		switch {
		case p.accept(operatorToken, "="):
			m.defaults = append(m.defaults, p.expression())
		case len(m.defaults) > 0:
			p.fail("non-default argument follows default argument")
		}
	}
	p.expect(operatorToken, ")")
	return p.separate(func() stmt {
		m.body, _ = p.body("endmacro")
		return s
	})
}

// target reads what is assigned to: a name, an attribute of a namespace where that is allowed, or several in a tuple.
func (p *parser) target(namespaces bool) target {
	var parts []target
	tuple := false
	for {
		if p.is(nameToken, "in") || p.peek().kind == blockEnd || p.is(operatorToken, "=") || p.is(operatorToken, ")") {
			break
		}
		parts = append(parts, p.targetPart(namespaces))
		if !p.accept(operatorToken, ",") {
			break
		}
		tuple = true
	}
	switch {
	case tuple:
		return tupleTarget(parts)
	case len(parts) == 0:
		p.fail("expected a name, got %s", p.peek().describe())
	}
	return parts[0]
}

func (p *parser) targetPart(namespaces bool) target {
	if p.accept(operatorToken, "(") {
		defer p.nest()()
		t := p.target(namespaces)
		p.expect(operatorToken, ")")
		return t
	}
	name := p.name()
	if slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, name) {
		p.fail("cannot assign to %q", name)
	}
	if namespaces && p.accept(operatorToken, ".") {
		return attributeTarget{name, p.name()}
	}
	return nameTarget(name)
}
