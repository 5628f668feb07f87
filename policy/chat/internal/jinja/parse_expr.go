package jinja

import "slices"

// expression reads an expression with the precedences of Jinja: if, or, and, not, comparisons, + -, ~, * / // %, **, signs,
// and then attributes, calls, filters and tests.
func (p *parser) expression() expr {
	defer p.nest()()
	known := len(p.unknown)
	x := p.or()
	for p.accept(nameToken, "if") {
		c := conditional{test: p.or(), then: x}
		if p.accept(nameToken, "else") {
			c.otherwise = p.expression()
		}
		x = c
		p.unknown = p.unknown[:known]
	}
	return x
}

// tuple reads one expression or, separated by commas, a tuple of them, without brackets.
func (p *parser) tuple(conditionals bool) expr {
	var items []expr
	tuple := false
	for {
		if t := p.peek(); t.kind == outputEnd || t.kind == blockEnd || p.is(operatorToken, ")") || p.is(nameToken, "recursive") && !conditionals {
			break
		}
		if conditionals {
			items = append(items, p.expression())
		} else {
			items = append(items, p.or())
		}
		if !p.accept(operatorToken, ",") {
			break
		}
		tuple = true
	}
	switch {
	case tuple:
		return tupleExpr(items)
	case len(items) == 0:
		p.fail("expected an expression, got %s", p.peek().describe())
	}
	return items[0]
}

func (p *parser) or() expr {
	x := p.and()
	for p.accept(nameToken, "or") {
		x = logical{left: x, right: p.and(), or: true}
	}
	return x
}

func (p *parser) and() expr {
	x := p.not()
	for p.accept(nameToken, "and") {
		x = logical{left: x, right: p.not()}
	}
	return x
}

func (p *parser) not() expr {
	if p.accept(nameToken, "not") {
		defer p.nest()()
		return not{p.not()}
	}
	return p.comparison()
}

func (p *parser) comparison() expr {
	x := p.sum()
	var c comparison
	for {
		op := ""
		switch t := p.peek(); {
		case t.kind == operatorToken && slices.Contains([]string{"==", "!=", "<", "<=", ">", ">="}, t.text), p.is(nameToken, "in"):
			op = p.next().text
		case p.is(nameToken, "not") && p.tokens[p.at+1].kind == nameToken && p.tokens[p.at+1].text == "in":
			p.at += 2
			op = "not in"
		case c.ops == nil:
			return x
		default:
			c.first = x
			return c
		}
		c.ops = append(c.ops, op)
		c.operands = append(c.operands, p.sum())
	}
}

// binary reads operands between operators of one precedence, from left to right.
func (p *parser) binary(operand func() expr, ops ...string) expr {
	x := operand()
	for p.peek().kind == operatorToken && slices.Contains(ops, p.peek().text) {
		x = arithmetic{op: p.next().text, left: x, right: operand()}
	}
	return x
}

func (p *parser) sum() expr { return p.binary(p.concatenation, "+", "-") }

func (p *parser) concatenation() expr {
	parts := concatenation{p.product()}
	for p.accept(operatorToken, "~") {
		parts = append(parts, p.product())
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return parts
}

func (p *parser) product() expr { return p.binary(p.power, "*", "/", "//", "%") }

func (p *parser) power() expr {
	return p.binary(func() expr { return p.unary(true) }, "**")
}

func (p *parser) unary(filters bool) expr {
	var x expr
	if op := p.peek(); op.kind == operatorToken && (op.text == "-" || op.text == "+") {
		defer p.nest()()
		p.at++
		x = sign{op.text, p.unary(false)}
	} else {
		x = p.primary()
	}
	x = p.postfix(x)
	for filters {
		switch {
		case p.accept(operatorToken, "|"):
			x = p.filter(x)
		case p.accept(nameToken, "is"):
			x = p.test(x)
		case p.is(operatorToken, "("):
			x = call{x, p.arguments()}
		default:
			return x
		}
	}
	return x
}

func (p *parser) primary() expr {
	t := p.next()
	switch {
	case t.kind == nameToken:
		switch t.text {
		case "true", "True":
			return literal{true}
		case "false", "False":
			return literal{false}
		case "none", "None":
			return literal{nil}
		}
		return name(t.text)
	case t.kind == stringToken:
		s := t.text
		for p.peek().kind == stringToken {
			s += p.next().text
		}
		return literal{s}
	case t.kind == numberToken:
		return literal{t.value}
	case t.kind == operatorToken && t.text == "(":
		if p.accept(operatorToken, ")") {
			return tupleExpr(nil)
		}
		x := p.tuple(true)
		p.expect(operatorToken, ")")
		return x
	case t.kind == operatorToken && t.text == "[":
		var items listExpr
		p.list("]", func() { items = append(items, p.expression()) })
		return items
	case t.kind == operatorToken && t.text == "{":
		var d dictExpr
		p.list("}", func() {
			d.keys = append(d.keys, p.expression())
			p.expect(operatorToken, ":")
			d.values = append(d.values, p.expression())
		})
		return d
	}
	if t.kind != endToken {
		p.at--
	}
	p.fail("unexpected %s", t.describe())
	return nil
}

// list reads elements between commas up to a closing bracket; a comma may follow the last.
func (p *parser) list(closing string, element func()) {
	for first := true; !p.accept(operatorToken, closing); first = false {
		if !first {
			p.expect(operatorToken, ",")
			if p.accept(operatorToken, closing) {
				return
			}
		}
		element()
	}
}

func (p *parser) postfix(x expr) expr {
	for {
		switch {
		case p.accept(operatorToken, "."):
			if t := p.peek(); t.kind == numberToken {
				p.at++
				x = item{x, literal{t.value}}
			} else {
				x = attribute{x, p.name()}
			}
		case p.accept(operatorToken, "["):
			x = p.subscript(x)
		case p.is(operatorToken, "("):
			x = call{x, p.arguments()}
		default:
			return x
		}
	}
}

func (p *parser) subscript(x expr) expr {
	var keys []expr
	sliced := false
	var s slice
	p.list("]", func() {
		if !p.is(operatorToken, ":") {
			keys = append(keys, p.expression())
		}
		if p.is(operatorToken, ":") {
			sliced = true
			s = p.slice(x)
		}
	})
	switch {
	case sliced && len(keys) > 1:
		p.fail("slices within tuples are not supported")
	case sliced:
		if len(keys) == 1 {
			s.start = keys[0]
		}
		return s
	case len(keys) == 1:
		return item{x, keys[0]}
	}
	return item{x, tupleExpr(keys)}
}

// slice reads what follows a slice's start.
func (p *parser) slice(x expr) slice {
	s := slice{of: x}
	for _, part := range []*expr{&s.stop, &s.step} {
		if p.accept(operatorToken, ":") && !p.is(operatorToken, "]") && !p.is(operatorToken, ":") && !p.is(operatorToken, ",") {
			*part = p.expression()
		}
	}
	return s
}

func (p *parser) arguments() arguments {
	p.expect(operatorToken, "(")
	var args arguments
	p.list(")", func() {
		switch {
		case p.is(operatorToken, "*") || p.is(operatorToken, "**"):
			p.fail("unpacked arguments are not supported")
		case p.peek().kind == nameToken && p.tokens[p.at+1].kind == operatorToken && p.tokens[p.at+1].text == "=":
			args.names = append(args.names, p.name())
			p.at++
			args.named = append(args.named, p.expression())
		case len(args.names) > 0:
			p.fail("positional argument follows keyword argument")
		default:
			args.positional = append(args.positional, p.expression())
		}
	})
	return args
}

func (p *parser) filter(x expr) expr {
	f := filter{of: x, name: p.name()}
	if _, ok := filters[f.name]; !ok {
		p.isUnknown("filter", f.name)
	}
	if p.is(operatorToken, "(") {
		f.args = p.arguments()
	}
	return f
}

func (p *parser) test(x expr) expr {
	negated := p.accept(nameToken, "not")
	t := test{of: x, name: p.name()}
	if _, ok := tests[t.name]; !ok {
		p.isUnknown("test", t.name)
	}
	switch next := p.peek(); {
	case p.is(operatorToken, "("):
		t.args = p.arguments()
	case p.is(nameToken, "else") || p.is(nameToken, "or") || p.is(nameToken, "and"):
	case p.is(nameToken, "is"):
		p.fail("tests cannot be chained")
	case next.kind == nameToken || next.kind == stringToken || next.kind == numberToken || p.is(operatorToken, "[") || p.is(operatorToken, "{"):
		t.args.positional = []expr{p.postfix(p.primary())}
	}
	if negated {
		return not{t}
	}
	return t
}
