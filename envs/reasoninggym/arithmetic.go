package reasoninggym

import (
	"context"
	"math/big"
	"math/bits"
	"slices"

	"github.com/grouper-rl/grouper/internal/python"
)

// token is a part of a generated expression: a number, an operator or a parenthesis.
type token struct {
	kind  byte // number, negated, or one of + - * / ( )
	value python.Int
}

const (
	number  = 'n'
	negated = '~' // "-("
)

func (t token) append(b []byte) []byte {
	switch t.kind {
	case number:
		return t.value.Append(b)
	case negated:
		return append(b, "-("...)
	}
	return append(b, t.kind)
}

// evaluate is the value of an expression with Python's precedence and / as //, and whether no division was rounded. It raises
// a ZeroDivisionError as Python does.
func evaluate(tokens []token) (value python.Int, exact bool) {
	e := evaluator{tokens: tokens, exact: true}
	value = e.sum()
	return value, e.exact
}

type evaluator struct {
	tokens []token
	exact  bool
}

func (e *evaluator) next() byte {
	if len(e.tokens) == 0 {
		return 0
	}
	return e.tokens[0].kind
}

func (e *evaluator) take() token {
	t := e.tokens[0]
	e.tokens = e.tokens[1:]
	return t
}

func (e *evaluator) sum() python.Int {
	value := e.product()
	for e.next() == '+' || e.next() == '-' {
		if e.take().kind == '+' {
			value = value.Add(e.product())
		} else {
			value = value.Sub(e.product())
		}
	}
	return value
}

func (e *evaluator) product() python.Int {
	value := e.operand()
	for e.next() == '*' || e.next() == '/' {
		if e.take().kind == '*' {
			value = value.Mul(e.operand())
			continue
		}
		quotient, rest := value.DivMod(e.operand())
		value, e.exact = quotient, e.exact && rest.Sign() == 0
	}
	return value
}

func (e *evaluator) operand() python.Int {
	t := e.take()
	if t.kind == number {
		return t.value
	}
	value := e.sum()
	e.take() // the closing parenthesis
	if t.kind == negated {
		return value.Neg()
	}
	return value
}

// divisors lists the divisors of n > 0 in ascending order. Where n is above 2^63 and has two large prime factors that takes long, as
// it does upstream for smaller ones; ctx ends it.
func divisors(ctx context.Context, n python.Int) ([]python.Int, error) {
	list := []python.Int{python.NewInt(1)}
	for p, step := 2, 1; ; p, step = p+step, 2 {
		small, isSmall := n.Int64()
		if isSmall && (p > 1000 || int64(p) > small/int64(p)) {
			break
		}
		if p%(1<<16) == 1 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if isSmall && small%int64(p) != 0 {
			continue
		}
		prime, count := python.NewInt(p), 0
		for {
			q, rest := n.DivMod(prime)
			if rest.Sign() != 0 {
				break
			}
			n, count = q, count+1
		}
		list = timesPowers(list, prime, count)
	}
	rest, _ := n.Int64()
	primes := primeFactors(uint64(rest), nil)
	slices.Sort(primes)
	for len(primes) > 0 {
		count := 1
		for count < len(primes) && primes[count] == primes[0] {
			count++
		}
		list = timesPowers(list, python.NewInt(int(primes[0])), count)
		primes = primes[count:]
	}
	slices.SortFunc(list, python.Int.Cmp)
	return list, nil
}

// primeFactors appends the prime factors of n < 2^63, which is a prime or has none up to 1000, by Pollard's rho method.
func primeFactors(n uint64, primes []uint64) []uint64 {
	if n == 1 {
		return primes
	}
	if n < 1_000_000 || new(big.Int).SetUint64(n).ProbablyPrime(0) { // which is exact below 2^64
		return append(primes, n)
	}
	for c := uint64(1); ; c++ {
		next := func(x uint64) uint64 {
			high, low := bits.Mul64(x, x)
			low, carry := bits.Add64(low, c, 0)
			return bits.Rem64(high+carry, low, n)
		}
		slow, fast, divisor := uint64(2), uint64(2), uint64(1)
		for divisor == 1 {
			slow, fast = next(slow), next(next(fast))
			divisor = uint64(commonDivisor(int(max(slow, fast)-min(slow, fast)), int(n)))
		}
		if divisor != n {
			return primeFactors(n/divisor, primeFactors(divisor, primes))
		}
	}
}

// timesPowers multiplies each number with the powers of a prime up to count.
func timesPowers(list []python.Int, prime python.Int, count int) []python.Int {
	all := list
	for range count {
		next := make([]python.Int, len(list))
		for i, d := range list {
			next[i] = d.Mul(prime)
		}
		all, list = append(all, next...), next
	}
	return all
}
