package jinja

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/grouper-rl/grouper/internal/python"
)

// builtin is a function, method, filter or test with a fixed list of parameters. Those of methods, filters and tests begin
// with what they are applied to.
type builtin struct {
	params   []string
	defaults []any // of the last parameters
	run      func(e *evaluator, args []any) any
}

func fn(params string, run func(e *evaluator, args []any) any, defaults ...any) builtin {
	return builtin{strings.Fields(params), defaults, run}
}

func (f builtin) call(e *evaluator, args values) any {
	if len(args.positional) > len(f.params) {
		fail("TypeError", "takes %d arguments (%d given)", len(f.params), len(args.positional))
	}
	list := make([]any, len(f.params))
	for i, param := range f.params {
		v, ok := args.take(i, param)
		if d := i - (len(f.params) - len(f.defaults)); !ok && d >= 0 {
			v = f.defaults[d]
		} else if !ok {
			fail("TypeError", "missing argument %q", param)
		}
		list[i] = v
	}
	if len(args.names) > 0 {
		fail("TypeError", "unexpected keyword argument %q", args.names[0])
	}
	e.read(list...)
	return f.run(e, list)
}

// variadic takes any arguments.
type variadic func(e *evaluator, args values) any

func (f variadic) call(e *evaluator, args values) any { return f(e, args) }

// method takes any positional arguments.
type method func(e *evaluator, args []any) any

func (f method) call(e *evaluator, args values) any {
	if len(args.names) > 0 {
		fail("TypeError", "unexpected keyword argument %q", args.names[0])
	}
	return f(e, args.positional)
}

// bound is a method with what it is called on.
type bound struct {
	of any
	builtin
}

func (b bound) call(e *evaluator, args values) any {
	args.positional = append([]any{b.of}, args.positional...)
	return b.builtin.call(e, args)
}

// globals are the functions that every template can call.
var globals = map[string]any{
	"range": method(func(e *evaluator, args []any) any {
		bounds := []int{0, 0, 1}
		switch len(args) {
		case 1:
			bounds[1] = e.index(args[0])
		case 2, 3:
			for i, v := range args {
				bounds[i] = e.index(v)
			}
		default:
			fail("TypeError", "range expected 1 to 3 arguments, got %d", len(args))
		}
		start, stop, step := bounds[0], bounds[1], bounds[2]
		switch {
		case step == 0:
			fail("ValueError", "range() arg 3 must not be zero")
		case max(start, stop, step, -start, -stop, -step) >= far:
			fail("OverflowError", "range() of numbers beyond %d", far)
		}
		kind := fmt.Sprintf("range(%d, %d)", start, stop)
		if step != 1 {
			kind = fmt.Sprintf("range(%d, %d, %d)", start, stop, step)
		}
		r := &series{kind: kind}
		for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
			if len(r.items) == maxRange {
				fail("OverflowError", "range too big: more than %d elements", maxRange)
			}
			r.items = append(r.items, python.NewInt(i))
		}
		e.spend(len(r.items))
		return r
	}),
	"dict": variadic(func(e *evaluator, args values) any { return e.dict(args) }),
	"namespace": variadic(func(e *evaluator, args values) any {
		n := &namespace{python.NewDict()}
		for key, v := range e.dict(args).All() {
			n.set(key, v)
		}
		return n
	}),
	"raise_exception": fn("message", func(e *evaluator, args []any) any {
		panic(fmt.Errorf("%w: %s", ErrRaised, e.str(args[0])))
	}),
	"strftime_now": fn("format", func(e *evaluator, args []any) any {
		return e.strftime(e.text("strftime_now", args[0]))
	}),
}

// dict is dict(mapping or pairs, name=value, …).
func (e *evaluator) dict(args values) *python.Dict {
	d := python.NewDict()
	switch len(args.positional) {
	case 0:
	case 1:
		e.update(d, args.positional[0])
	default:
		fail("TypeError", "dict expected at most 1 argument, got %d", len(args.positional))
	}
	for i, name := range args.names {
		d.Set(name, args.named[i])
	}
	return d
}

func (e *evaluator) update(d *python.Dict, from any) {
	if from, ok := from.(*python.Dict); ok {
		e.spend(from.Len())
		for key, v := range from.All() {
			d.Set(key, v)
		}
		return
	}
	for _, item := range e.iterate(from) {
		pair := e.iterate(item)
		if len(pair) != 2 {
			fail("ValueError", "dictionary update sequence element has length %d; 2 is required", len(pair))
		}
		key, ok := asString(pair[0])
		if !ok {
			fail("TypeError", "dict keys other than strings are not supported")
		}
		d.Set(key, pair[1])
	}
}

// text takes a string argument.
func (e *evaluator) text(of string, v any) string {
	if u, ok := v.(undefined); ok {
		u.fail()
	}
	s, ok := asString(v)
	if !ok {
		fail("TypeError", "%s takes a str, not '%s'", of, typeName(v))
	}
	return s
}

// strftime formats the rendering's time as datetime.strftime does for a time without a zone in the C locale.
func (e *evaluator) strftime(format string) string {
	if e.now.IsZero() {
		fail("ValueError", "the template asks for the time (strftime_now), and none was given")
	}
	now := e.now
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		pad := true
		if format[i] == '-' && i+1 < len(format) {
			pad = false
			i++
		}
		text, ok := directive(now, format[i])
		if !ok {
			fail("NotImplementedError", "strftime_now with %%%c is not supported", format[i])
		}
		if !pad {
			text = strings.TrimLeft(text[:len(text)-1], "0 ") + text[len(text)-1:]
		}
		b.WriteString(text)
	}
	return b.String()
}

var layouts = map[byte]string{
	'Y': "2006", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'y': "06", 'B': "January", 'b': "Jan",
	'h': "Jan", 'A': "Monday", 'a': "Mon", 'p': "PM", 'j': "002", 'F': "2006-01-02", 'T': "15:04:05", 'D': "01/02/06", 'R': "15:04",
	'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05", 'Z': "", 'z': "",
}

func directive(now time.Time, c byte) (string, bool) {
	switch c {
	case '%':
		return "%", true
	case 'f':
		return fmt.Sprintf("%06d", now.Nanosecond()/1000), true
	case 'w':
		return strconv.Itoa(int(now.Weekday())), true
	case 'n':
		return "\n", true
	case 't':
		return "\t", true
	}
	layout, ok := layouts[c]
	return now.Format(layout), ok
}
