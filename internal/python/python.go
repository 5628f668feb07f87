// Package python reproduces, bit for bit, the parts of CPython 3.11 that ported task generators and scorers rest on:
//
//   - random.Random, and numpy.random.default_rng (Random, Sequence, Generator)
//   - hashes and the iteration order of sets with PYTHONHASHSEED=0 (Set)
//   - int of any size, float, Decimal with its contexts, Fraction: arithmetic, rounding, printing, parsing (Int, Decimal,
//     Round, FormatFloat, ParseInt, ParseFloat, ParseFraction, …)
//   - methods of str, repr and json.loads (Lower, SplitLines, Repr, ParseJSON, …)
//
// The Parse functions read what a model wrote, in bounded time and memory, and return an error of type Error. Where else Python
// raises an exception for a wrong argument (an empty range, a sample larger than its population), the functions here panic with
// an Error, as math/rand/v2 does; Catch turns that back into an error at a package's border.
// Nothing here is safe for concurrent use unless it says so: every task makes its own Random and its own sets.
package python

import "fmt"

// Error is what this package panics with where Python would raise.
type Error struct {
	Type    string // of the exception, such as "ValueError"
	Message string
}

func (e Error) Error() string { return e.Type + ": " + e.Message }

func raise(kind, format string, args ...any) {
	panic(Error{Type: kind, Message: fmt.Sprintf(format, args...)})
}

// Catch, deferred, stores a panic with an Error in *err and lets every other panic pass:
//
//	defer python.Catch(&err)
func Catch(err *error) {
	switch e := recover().(type) {
	case nil:
	case Error:
		*err = e
	default:
		panic(e)
	}
}
