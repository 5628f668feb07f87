// Package console shows the progress of a run on a terminal: what the examples share that is not about training.
package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/grouper-rl/grouper/checkpoint"
	"github.com/grouper-rl/grouper/grpo"
)

// Progress prints a line for each update and evaluation.
type Progress struct {
	W       io.Writer
	Total   int // updates of the whole run
	started time.Time
	first   int // update at that time
}

// Show prints what an update did.
func (p *Progress) Show(u *grpo.Update) {
	if m := u.Metrics; m != nil {
		seconds := u.Timing.Rollout + u.Timing.Train
		each := time.Duration(seconds * float64(time.Second))
		if p.started.IsZero() { // compiling made the first one slow: time is counted from its end
			p.first, p.started = u.Update, time.Now()
		} else {
			each = time.Since(p.started) / time.Duration(u.Update-p.first)
		}
		fmt.Fprintf(p.W, "update %3d/%d  reward %.3f  truncated %2.0f %%  loss %+.4f  clip %.3f  grad %.3f  %5.0f tok/s  %s left\n",
			u.Update, p.Total, m.RewardMean, 100*m.Truncated, m.Loss, m.ClipFrac, m.GradNorm,
			m.Tokens/seconds, (each * time.Duration(p.Total-u.Update)).Round(time.Second))
	}
	if u.Evaluation != nil {
		fmt.Fprintln(p.W, Evaluation(*u.Evaluation))
	}
}

// Evaluation is one line on an evaluation.
func Evaluation(e checkpoint.Evaluation) string {
	return fmt.Sprintf("%s evaluation of update %d: %.2f %% (%d / %d, %d truncated, 95 %% interval %.1f to %.1f %%)",
		strings.Repeat("─", 4), e.Update, 100*e.Accuracy, e.Correct, e.Scored, e.Truncated, 100*e.Interval[0], 100*e.Interval[1])
}

// Interruptible is a context that an interrupt (Ctrl-C, SIGTERM) cancels; a second one ends the program at once.
func Interruptible() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	context.AfterFunc(ctx, func() {
		stop()
		select {
		case <-done:
		default:
			fmt.Fprintln(os.Stderr, "stopping as soon as what the device computes is done; interrupt again to end at once")
		}
	})
	return ctx, sync.OnceFunc(func() { close(done); stop() })
}

// Fail ends the program after an error, and says how to go on after an interrupt.
func Fail(err error) {
	if onlyCanceled(err) {
		fmt.Fprintf(os.Stderr, "interrupted; everything complete is kept. Run the same command again to go on.\n")
		os.Exit(130)
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}

// onlyCanceled says that nothing but the interrupt went wrong.
func onlyCanceled(err error) bool {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			if !onlyCanceled(e) {
				return false
			}
		}
		return true
	}
	if inner := errors.Unwrap(err); inner != nil {
		return onlyCanceled(inner)
	}
	return err == context.Canceled
}
