// Package guard calls what users give to Grouper: a panic of theirs becomes an error, and what ignores its context holds nothing up for
// ever.
package guard

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Call calls f. A panic becomes an error that says what has panicked.
func Call(what string, f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case error:
			err = fmt.Errorf("%s panicked: %w", what, p)
		default:
			err = fmt.Errorf("%s panicked: %v", what, p)
		}
	}()
	return f()
}

// Grace is how long [Await] waits for a call whose context has ended.
const Grace = 30 * time.Second

// ErrLeft says that a call did not return although its context had ended long ago. Its goroutine goes on.
var ErrLeft = errors.New("ignores that its context has ended, and is left behind")

// Await is Call with a result, for a function that waits for something. When ctx has ended it still gets [Grace] to return. If it does
// not, the error wraps ctx's and [ErrLeft]; so f must not use what its caller may free or change.
func Await[T any](ctx context.Context, what string, f func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	done := make(chan outcome, 1)
	go func() {
		o := outcome{err: fmt.Errorf("%s has ended its goroutine", what)} // by runtime.Goexit
		defer func() { done <- o }()
		o.err = Call(what, func() (err error) { o.value, err = f(); return err })
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
	}
	select {
	case o := <-done:
		return o.value, o.err
	case <-time.After(Grace):
		return none, fmt.Errorf("%w: %s %w", ctx.Err(), what, ErrLeft)
	}
}
