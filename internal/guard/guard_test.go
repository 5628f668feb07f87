package guard

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCall(t *testing.T) {
	require.NoError(t, Call("it", func() error { return nil }))
	require.Equal(t, io.EOF, Call("it", func() error { return io.EOF }))
	require.EqualError(t, Call("it", func() error { panic("oops") }), "it panicked: oops")
	err := Call("it", func() error { panic(io.EOF) })
	require.ErrorIs(t, err, io.EOF)
	require.EqualError(t, err, "it panicked: EOF")
}

// Whoever cancels gets the outcome of what returns in time, and is not held by what never does.
func TestAwait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, err := Await(t.Context(), "it", func() (int, error) { return 3, io.EOF })
		require.Equal(t, 3, n)
		require.ErrorIs(t, err, io.EOF)
		_, err = Await(t.Context(), "it", func() (int, error) { panic("oops") })
		require.EqualError(t, err, "it panicked: oops")
		_, err = Await(t.Context(), "it", func() (int, error) { runtime.Goexit(); return 0, nil })
		require.EqualError(t, err, "it has ended its goroutine")

		late := func(wait time.Duration) (int, time.Duration, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			n, err := Await(ctx, "it", func() (int, error) { time.Sleep(wait); return 4, nil })
			return n, time.Since(start), err
		}
		n, took, err := late(Grace)
		require.NoError(t, err)
		require.Equal(t, 4, n)
		require.Equal(t, Grace, took)
		_, took, err = late(time.Hour)
		require.EqualError(t, err, "context deadline exceeded: it ignores that its context has ended, and is left behind")
		require.True(t, errors.Is(err, context.DeadlineExceeded) && errors.Is(err, ErrLeft))
		require.Equal(t, time.Second+Grace, took)
		time.Sleep(time.Hour) // until it has ended

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = Await(ctx, "it", func() (int, error) { t.Error("it was called"); return 0, nil })
		require.ErrorIs(t, err, context.Canceled)
	})
}
