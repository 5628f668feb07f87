package python

import (
	"math"
	"math/big"
	"slices"
	"sort"
)

// Below is randrange(n): a number in [0,n). n must be positive.
func (r *Random) Below(n int) int {
	if n <= 0 {
		raise("ValueError", "empty range for randrange(%d)", n)
	}
	return int(r.below(uint64(n)))
}

// RandInt is randint(a, b): a number in [a,b], both ends included.
func (r *Random) RandInt(a, b int) int {
	if b < a {
		raise("ValueError", "empty range for randint(%d, %d)", a, b)
	}
	width := uint64(b) - uint64(a) + 1
	if width == 0 { // all 2^64 numbers
		return int(r.RandIntBig(big.NewInt(int64(a)), big.NewInt(int64(b))).Int64())
	}
	return int(uint64(a) + r.below(width))
}

// RandIntBig is randint(a, b) for integers of any size.
func (r *Random) RandIntBig(a, b *big.Int) *big.Int {
	return r.RandRangeBig(a, new(big.Int).Add(b, big.NewInt(1)), big.NewInt(1))
}

// RandRange is randrange(start, stop, step): one of start, start+step, … before stop, which may lie below start if step is negative.
func (r *Random) RandRange(start, stop, step int) int {
	return int(r.RandRangeBig(big.NewInt(int64(start)), big.NewInt(int64(stop)), big.NewInt(int64(step))).Int64())
}

// RandRangeBig is randrange(start, stop, step) for integers of any size.
func (r *Random) RandRangeBig(start, stop, step *big.Int) *big.Int {
	n := new(big.Int).Sub(stop, start)
	switch step.Sign() {
	case 1:
		n.Sub(n.Add(n, step), big.NewInt(1))
	case -1:
		n.Add(n.Add(n, step), big.NewInt(1))
	default:
		raise("ValueError", "zero step for randrange()")
	}
	if n.Quo(n, step).Sign() <= 0 { // rounding down or towards zero differs only where both are not positive
		raise("ValueError", "empty range for randrange(%v, %v, %v)", start, stop, step)
	}
	x := r.bigBelow(n)
	return x.Add(x.Mul(x, step), start)
}

// Uniform is uniform(a, b): a + (b-a)*random().
func (r *Random) Uniform(a, b float64) float64 {
	return a + float64((b-a)*r.Float64()) // the conversion keeps a compiler from fusing the two operations
}

// Choice is choice(items): one element of a slice that is not empty.
func Choice[T any](r *Random, items []T) T {
	if len(items) == 0 {
		raise("IndexError", "Cannot choose from an empty sequence")
	}
	return items[r.below(uint64(len(items)))]
}

// Choices is choices(items, k=k): k elements, drawn with replacement.
func Choices[T any](r *Random, items []T, k int) []T {
	if len(items) == 0 && k > 0 {
		raise("IndexError", "list index out of range")
	}
	chosen := make([]T, max(k, 0))
	for i := range chosen {
		chosen[i] = items[int(r.Float64()*float64(len(items)))]
	}
	return chosen
}

// Weight is a weight of a weighted choice. Sums of weights are made in their own type, as in Python; a mixture of int and
// float weights in Python is float64 here.
type Weight interface{ int | float64 }

// WeightedChoices is choices(items, weights, k=k).
func WeightedChoices[T any, W Weight](r *Random, items []T, weights []W, k int) []T {
	sums := make([]W, len(weights))
	var sum W
	for i, w := range weights {
		sum += w
		sums[i] = sum
	}
	return CumulativeChoices(r, items, sums, k)
}

// CumulativeChoices is choices(items, cum_weights=sums, k=k). Integer sums must be below 2^63.
func CumulativeChoices[T any, W Weight](r *Random, items []T, sums []W, k int) []T {
	if len(sums) != len(items) {
		raise("ValueError", "The number of weights does not match the population")
	}
	if len(sums) == 0 {
		raise("IndexError", "list index out of range")
	}
	total := float64(sums[len(sums)-1])
	if !(total > 0) {
		raise("ValueError", "Total of weights must be greater than zero")
	}
	if math.IsInf(total, 1) {
		raise("ValueError", "Total of weights must be finite")
	}
	chosen := make([]T, max(k, 0))
	for i := range chosen {
		x := r.Float64() * total
		// Python bisects up to the last index only, and sort.Search probes the same places as bisect.
		chosen[i] = items[sort.Search(len(items)-1, func(j int) bool { return less(x, sums[j]) })]
	}
	return chosen
}

// less compares exactly, as Python does a float with an int: where the sum is not a float64, its rounding decides unless
// it is equal to x.
func less[W Weight](x float64, sum W) bool {
	rounded := float64(sum)
	return x < rounded || x == rounded && W(x) < sum
}

// Shuffle is shuffle(items), in place.
func Shuffle[T any](r *Random, items []T) {
	for i := len(items) - 1; i > 0; i-- {
		j := r.below(uint64(i + 1))
		items[i], items[j] = items[j], items[i]
	}
}

// Sample is sample(items, k): k different positions in the order of selection.
func Sample[T any](r *Random, items []T, k int) []T {
	chosen := make([]T, 0, max(k, 0))
	for _, i := range SampleRange(r, len(items), k) {
		chosen = append(chosen, items[i])
	}
	return chosen
}

// SampleRange is sample(range(n), k). It needs memory for k numbers, or for n where n is not much larger than k.
func SampleRange(r *Random, n, k int) []int {
	if k < 0 || k > n {
		raise("ValueError", "Sample larger than population or is negative")
	}
	chosen := make([]int, k)
	switch {
	case n <= poolLimit(k):
		var small [64]int
		pool := small[:]
		if n > len(small) {
			pool = make([]int, n)
		}
		for i := range n {
			pool[i] = i
		}
		for i := range chosen {
			j := r.Below(n - i)
			chosen[i] = pool[j]
			pool[j] = pool[n-i-1]
		}
	case k <= 16: // as in the last case, without a map
		for i := range chosen {
			j := r.Below(n)
			for slices.Contains(chosen[:i], j) {
				j = r.Below(n)
			}
			chosen[i] = j
		}
	default:
		seen := make(map[int]bool, k)
		for i := range chosen {
			j := r.Below(n)
			for seen[j] {
				j = r.Below(n)
			}
			seen[j] = true
			chosen[i] = j
		}
	}
	return chosen
}

// poolLimit is the largest population of which sample copies the whole instead of keeping a set of what it took: 21, and
// for k > 5 the next power of 4 above 3k more.
func poolLimit(k int) int {
	if k <= 5 {
		return 21
	}
	table := 1
	for table < 3*k {
		table *= 4
	}
	return 21 + table
}

// SampleCounts is sample(items, k, counts=counts): as if items[i] stood counts[i] times in a row.
func SampleCounts[T any](r *Random, items []T, counts []int, k int) []T {
	if len(counts) != len(items) {
		raise("ValueError", "The number of counts does not match the population")
	}
	sums := make([]int, len(counts))
	total := 0
	for i, c := range counts {
		total += c
		sums[i] = total
	}
	if total <= 0 {
		raise("ValueError", "Total of counts must be greater than zero")
	}
	chosen := make([]T, 0, max(k, 0))
	for _, x := range SampleRange(r, total, k) {
		chosen = append(chosen, items[sort.Search(len(sums)-1, func(j int) bool { return x < sums[j] })])
	}
	return chosen
}
