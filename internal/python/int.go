package python

import (
	"math"
	"math/big"
	"math/bits"
	"strconv"
)

// maxDigits is how many decimal digits int() reads and str() writes (sys.get_int_max_str_digits).
const maxDigits = 4300

// Int is int: an integer of any size. The zero value is 0, and values are immutable.
type Int struct {
	small int64
	big   *big.Int // only where the number is no int64
}

// NewInt returns n as an Int.
func NewInt(n int) Int { return Int{small: int64(n)} }

// NewBigInt returns n as an Int. n must not change any more.
func NewBigInt(n *big.Int) Int {
	if n.IsInt64() {
		return Int{small: n.Int64()}
	}
	return Int{big: n}
}

// Big returns a new big.Int.
func (a Int) Big() *big.Int { return new(big.Int).Set(a.value()) }

// value returns the number to read from only.
func (a Int) value() *big.Int {
	if a.big != nil {
		return a.big
	}
	return big.NewInt(a.small)
}

// Int64 returns the number and whether it is an int64.
func (a Int) Int64() (int64, bool) { return a.small, a.big == nil }

// Add is a + b.
func (a Int) Add(b Int) Int {
	if sum := a.small + b.small; a.big == nil && b.big == nil && (sum > a.small) == (b.small > 0) {
		return Int{small: sum}
	}
	return NewBigInt(new(big.Int).Add(a.value(), b.value()))
}

// Sub is a - b.
func (a Int) Sub(b Int) Int {
	if diff := a.small - b.small; a.big == nil && b.big == nil && (diff < a.small) == (b.small > 0) {
		return Int{small: diff}
	}
	return NewBigInt(new(big.Int).Sub(a.value(), b.value()))
}

// Mul is a * b.
func (a Int) Mul(b Int) Int {
	if a.big == nil && b.big == nil {
		// The high half of the signed product must be the sign of the low one.
		high, low := bits.Mul64(uint64(a.small), uint64(b.small))
		signed := int64(high) - a.small>>63&b.small - b.small>>63&a.small
		if signed == int64(low)>>63 {
			return Int{small: int64(low)}
		}
	}
	return NewBigInt(new(big.Int).Mul(a.value(), b.value()))
}

// FloorDiv is a // b.
func (a Int) FloorDiv(b Int) Int {
	q, _ := a.DivMod(b)
	return q
}

// Mod is a % b, which has the sign of b.
func (a Int) Mod(b Int) Int {
	_, m := a.DivMod(b)
	return m
}

// DivMod is divmod(a, b): the quotient rounded down, and what is left.
func (a Int) DivMod(b Int) (Int, Int) {
	if b.Sign() == 0 {
		raise("ZeroDivisionError", "integer division or modulo by zero")
	}
	if a.big == nil && b.big == nil && !(a.small == math.MinInt64 && b.small == -1) {
		q, m := a.small/b.small, a.small%b.small
		if m != 0 && (m < 0) != (b.small < 0) {
			q, m = q-1, m+b.small
		}
		return Int{small: q}, Int{small: m}
	}
	q, m := new(big.Int).QuoRem(a.value(), b.value(), new(big.Int))
	if m.Sign() != 0 && m.Sign() != b.Sign() {
		q.Sub(q, big.NewInt(1))
		m.Add(m, b.value())
	}
	return NewBigInt(q), NewBigInt(m)
}

// Neg is -a.
func (a Int) Neg() Int { return Int{}.Sub(a) }

// Abs is abs(a).
func (a Int) Abs() Int {
	if a.Sign() < 0 {
		return a.Neg()
	}
	return a
}

// GCD is math.gcd(a, b).
func (a Int) GCD(b Int) Int {
	a, b = a.Abs(), b.Abs()
	for b.Sign() != 0 {
		a, b = b, a.Mod(b)
	}
	return a
}

// LCM is math.lcm(a, b).
func (a Int) LCM(b Int) Int {
	if a.Sign() == 0 || b.Sign() == 0 {
		return Int{}
	}
	return a.FloorDiv(a.GCD(b)).Mul(b).Abs()
}

// Lsh is a << n.
func (a Int) Lsh(n uint) Int { return NewBigInt(new(big.Int).Lsh(a.value(), n)) }

// Rsh is a >> n, which rounds down.
func (a Int) Rsh(n uint) Int { return NewBigInt(new(big.Int).Rsh(a.value(), n)) }

// Pow is a ** n. The caller sees to it that the power is of a size that memory holds.
func (a Int) Pow(n uint) Int {
	return NewBigInt(new(big.Int).Exp(a.value(), new(big.Int).SetUint64(uint64(n)), nil))
}

// Sign is -1, 0 or 1.
func (a Int) Sign() int {
	if a.big != nil {
		return a.big.Sign()
	}
	switch {
	case a.small < 0:
		return -1
	case a.small > 0:
		return 1
	}
	return 0
}

// Cmp is -1, 0 or 1 where a < b, a == b, a > b.
func (a Int) Cmp(b Int) int {
	if a.big == nil && b.big == nil {
		switch {
		case a.small < b.small:
			return -1
		case a.small > b.small:
			return 1
		}
		return 0
	}
	return a.value().Cmp(b.value())
}

// IntOf is int(f), which drops what is after the point. It raises an OverflowError for infinities and a ValueError for NaN.
func IntOf(f float64) Int {
	switch {
	case math.IsNaN(f):
		raise("ValueError", "cannot convert float NaN to integer")
	case math.IsInf(f, 0):
		raise("OverflowError", "cannot convert float infinity to integer")
	case math.Abs(f) < 1<<63:
		return NewInt(int(f))
	}
	n, _ := big.NewFloat(f).Int(nil)
	return NewBigInt(n)
}

// Float64 is float(a).
func (a Int) Float64() float64 {
	f, _ := new(big.Float).SetInt(a.value()).Float64()
	if math.IsInf(f, 0) {
		raise("OverflowError", "int too large to convert to float")
	}
	return f
}

// String is str(a), which raises a ValueError for more than 4300 digits.
func (a Int) String() string { return string(a.Append(nil)) }

// Append appends str(a).
func (a Int) Append(b []byte) []byte {
	if a.big == nil {
		return strconv.AppendInt(b, a.small, 10)
	}
	const perBit = math.Ln2 / math.Ln10
	long := float64(a.big.BitLen())*perBit > maxDigits+1 // do not even write a number that is clearly too long
	start := len(b)
	if !long {
		b = a.big.Append(b, 10)
		long = len(b)-start > maxDigits && (a.big.Sign() > 0 || len(b)-start > maxDigits+1)
	}
	if long {
		raise("ValueError", "Exceeds the limit (%d digits) for integer string conversion", maxDigits)
	}
	return b
}

// Hex is hex(a), such as -0x1f.
func (a Int) Hex() string {
	text := a.value().Text(16)
	if text[0] == '-' {
		return "-0x" + text[1:]
	}
	return "0x" + text
}

// MarshalJSON writes what json.dumps does.
func (a Int) MarshalJSON() ([]byte, error) { return a.Append(nil), nil }

// RandIntOf is randint(a, b) for integers of any size.
func (r *Random) RandIntOf(a, b Int) Int {
	if a.big == nil && b.big == nil {
		return NewInt(r.RandInt(int(a.small), int(b.small)))
	}
	return NewBigInt(r.RandIntBig(a.value(), b.value()))
}

// PowerOfTen is 10 ** n.
func PowerOfTen(n int) Int {
	if n < 0 {
		raise("ValueError", "the exponent is %d, must be at least 0", n)
	}
	if n < len(tens) {
		return Int{small: tens[n]}
	}
	return NewInt(10).Pow(uint(n))
}

var tens = func() (powers [19]int64) {
	powers[0] = 1
	for i := 1; i < len(powers); i++ {
		powers[i] = 10 * powers[i-1]
	}
	return powers
}()
