// Package jinja renders the chat templates of model folders as Jinja2 3.1.6 does in the environment that transformers gives
// them: the immutable sandbox, trim_blocks, lstrip_blocks, loop controls, {% generation %}, raise_exception, strftime_now and
// a tojson that is json.dumps.
//
// A prompt must be exactly the text that the model was trained on, so values, operators, filters and errors are Python's: 1.0
// is not 1, None prints as "None", a string plus a list is an error, a name that is assigned in a loop is forgotten in the
// next iteration. And a template is a program that somebody else wrote, so every rendering is bounded: in steps, in bytes of
// text, in the depth of calls and by its context. No template can panic, overflow the stack or fill the memory.
//
// Statements: for (with else, if, unpacking), if, set (also of namespaces, tuples and blocks), macro, generation, break, continue,
// raw. Other statements, filters and tests of Jinja are errors that name them.
package jinja

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/grouper-rl/grouper/internal/python"
)

// ErrRaised is wrapped by the error of a template that called raise_exception: the template refuses the conversation.
var ErrRaised = errors.New("the template raised an exception")

// ErrLimit is wrapped by the error of a rendering that was stopped because it took more than any prompt needs.
var ErrLimit = errors.New("the template exceeds a limit")

// Bounds of templates and renderings. Published chat templates need less than a hundredth of each.
const (
	maxSource  = 1 << 20 // bytes of a template
	maxNesting = 100     // brackets and blocks within one another
	maxDepth   = 1000    // expressions, blocks and macros under evaluation
	maxSteps   = 5e6     // nodes evaluated, list elements and characters touched one by one, 64 bytes of text at once
	maxText    = 1 << 27 // bytes of all strings made
	maxRange   = 100_000 // elements of range(), as in Jinja's sandbox
	maxBits    = 1 << 16 // of an integer
)

// Template is a parsed template. It is immutable and safe for concurrent use.
type Template struct {
	body []stmt
}

// Output is what a rendering gives.
type Output struct {
	Text      string
	Generated []string // the texts inside {% generation %} blocks, in the order in which the blocks ended
}

// Parse reads a template. Errors name the line.
func Parse(source string) (t *Template, err error) {
	defer catch(&err, func() int { return 0 })
	if len(source) > maxSource {
		return nil, fmt.Errorf("%w: %d bytes, allowed: %d", ErrLimit, len(source), maxSource)
	}
	p := parser{tokens: lex(source)}
	return &Template{body: p.template()}, nil
}

// Render executes the template. Variables are None (nil), bool, python.Int, float64, string, []any and *python.Dict, and are
// not changed. now is what strftime_now reads; if it is zero, a template that asks for the time fails.
func (t *Template) Render(ctx context.Context, variables map[string]any, now time.Time) (Output, error) {
	return t.render(&evaluator{ctx: ctx, now: now, maxSteps: maxSteps, maxText: maxText}, variables)
}

func (t *Template) render(e *evaluator, variables map[string]any) (out Output, err error) {
	defer catch(&err, func() int { return e.line })
	e.scope = newScope(&scope{vars: variables, parent: &scope{vars: globals}})
	e.run(t.body)
	return Output{Text: string(e.out), Generated: e.generated}, nil
}

// lineError is an error at a line of the template; 0: of the whole.
type lineError struct {
	line int
	err  error
}

func (e lineError) Error() string {
	if e.line == 0 {
		return e.err.Error()
	}
	return fmt.Sprintf("line %d: %v", e.line, e.err)
}

func (e lineError) Unwrap() error { return e.err }

// errInternal marks a mistake in this package. Templates cannot provoke it, as far as fuzzing can tell.
var errInternal = errors.New("internal error")

// catch turns the panics by which this package and package python report errors into errors.
func catch(err *error, line func() int) {
	switch e := recover().(type) {
	case nil:
	case lineError:
		*err = e
	case runtime.Error:
		*err = lineError{line(), fmt.Errorf("%w: %w", errInternal, e)}
	case error:
		*err = lineError{line(), e}
	default:
		*err = lineError{line(), fmt.Errorf("%w: %v", errInternal, e)}
	}
}

// fail reports an error of the kind that Python would raise.
func fail(kind, format string, args ...any) {
	panic(python.Error{Type: kind, Message: fmt.Sprintf(format, args...)})
}

// limit stops a rendering.
func limit(format string, args ...any) {
	panic(fmt.Errorf("%w: "+format, append([]any{ErrLimit}, args...)...))
}
