package optim

import "math"

// Schedule gives the learning rate of an update from the number of updates done before it: 0 for the first.
// It is a plain function, so a user's own is one too.
type Schedule func(update int) float64

// Constant is the same learning rate for ever.
func Constant(lr float64) Schedule {
	return func(int) float64 { return lr }
}

// Linear falls from lr to 0 in the given number of updates and stays there.
func Linear(lr float64, updates int) Schedule {
	return func(update int) float64 { return lr * float64(max(0, updates-update)) / float64(max(updates, 1)) }
}

// Cosine goes from lr to least along a cosine: cycles 0.5 is half a period, down once in the given number of updates; 1 comes
// back to lr. Beyond that number it goes on along the cosine.
func Cosine(lr, least float64, updates int, cycles float64) Schedule {
	n := float64(max(updates, 1))
	return func(update int) float64 {
		f := (1 + math.Cos(2*math.Pi*cycles*float64(update)/n)) / 2
		return least + (lr-least)*max(0, f)
	}
}

// WithWarmup rises linearly from 0 to the schedule's first value in the given number of updates, and only then starts
// the schedule. The first update has learning rate 0, as in transformers.
func (s Schedule) WithWarmup(updates int) Schedule {
	return func(update int) float64 {
		if update < updates {
			return s(0) * float64(update) / float64(updates)
		}
		return s(update - updates)
	}
}
