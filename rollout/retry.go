package rollout

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Retry says how often what failed is tried again. The zero value tries once. What a context ended is never tried again.
type Retry struct {
	Attempts int           // in all; 0: 1
	Wait     time.Duration // before the second attempt; doubled before each further one, up to a minute
}

// longestWait bounds the doubling.
const longestWait = time.Minute

// Validate names the first setting that cannot be used.
func (r Retry) Validate() error {
	switch {
	case r.Attempts < 0:
		return fmt.Errorf("retry: Attempts is %d, allowed: 0 (once) or more", r.Attempts)
	case r.Wait < 0:
		return fmt.Errorf("retry: Wait is %v, allowed: 0 or more", r.Wait)
	}
	return nil
}

// Do calls f until it succeeds or the attempts are used up, and returns its last error.
func (r Retry) Do(ctx context.Context, f func() error) error {
	wait := r.Wait
	for attempt := 1; ; attempt++ {
		err := f()
		if err == nil || ctx.Err() != nil || errors.Is(err, context.Canceled) {
			return err
		}
		if attempt >= r.Attempts {
			if attempt > 1 {
				err = fmt.Errorf("%w (tried %d times)", err, attempt)
			}
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
		wait = min(2*wait, longestWait)
	}
}
