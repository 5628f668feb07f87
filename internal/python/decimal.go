package python

import (
	"bytes"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Decimal is decimal.Decimal: a sign, an integer and a power of ten, or an infinity or NaN. The zero value is 0, and
// values are immutable.
type Decimal struct {
	negative bool
	digits   Int // the integer, at least 0; of a NaN its payload
	exponent int // of ten
	kind     decimalKind
}

type decimalKind uint8

const (
	finite decimalKind = iota
	infinite
	quietNaN
	signallingNaN
)

// The limits of a Decimal on its own, of which its context may have narrower ones.
const (
	largestAdjusted  = 999999999999999999
	smallestExponent = -1999999999999999997
)

// NewDecimal returns n * 10^exponent.
func NewDecimal(n Int, exponent int) Decimal {
	return Decimal{negative: n.Sign() < 0, digits: n.Abs(), exponent: exponent}
}

// maxDecimalDigits is how many digits ParseDecimal reads: work with more takes long.
const maxDecimalDigits = 10_000

// ParseDecimal is Decimal(text), which is exact: white space around the number, digits of any script and underscores anywhere
// count, and so do NaN and Infinity. Unlike Python it refuses numbers of more than 10,000 digits, where zeros at the end do not count
// and are left out.
func ParseDecimal(text string) (Decimal, error) {
	if d, ok := parseDecimal(text); ok {
		return d, nil
	}
	return Decimal{}, Error{"InvalidOperation", "no Decimal: " + quoted(text)}
}

func parseDecimal(text string) (d Decimal, ok bool) {
	s := strings.ReplaceAll(Strip(text), "_", "")
	if !isASCII(s) {
		var b strings.Builder
		for _, c := range s {
			digit, ok := decimalDigit(c)
			switch {
			case c < 0x80:
				b.WriteRune(c)
			case ok:
				b.WriteByte(digit)
			default:
				return d, false
			}
		}
		s = b.String()
	}
	if !isDecimalLiteral(s) {
		return specialDecimal(s)
	}
	sign, s := cutSign(s)
	d.negative = sign < 0
	whole, s := cutDigits(s)
	fraction := ""
	if strings.HasPrefix(s, ".") {
		fraction, s = cutDigits(s[1:])
	}
	digits := strings.TrimLeft(whole+fraction, "0")
	d.exponent = -len(fraction)
	if len(digits) > maxDecimalDigits {
		kept := strings.TrimRight(digits, "0")
		d.exponent += len(digits) - len(kept)
		if digits = kept; len(digits) > maxDecimalDigits {
			return d, false
		}
	}
	d.digits = digitsInt(digits)
	if s != "" {
		e, err := strconv.ParseInt(s[1:], 10, 64)
		if err != nil || e > 2*largestAdjusted || e < 2*smallestExponent {
			return d, false
		}
		d.exponent += int(e)
	}
	adjusted := d.exponent
	if d.digits.Sign() != 0 {
		adjusted = d.Adjusted()
	}
	return d, adjusted <= largestAdjusted && d.exponent >= smallestExponent
}

func specialDecimal(s string) (d Decimal, ok bool) {
	sign, name := cutSign(strings.ToLower(s))
	d.negative = sign < 0
	if name == "inf" || name == "infinity" {
		d.kind = infinite
		return d, true
	}
	d.kind = quietNaN
	if strings.HasPrefix(name, "s") {
		d.kind, name = signallingNaN, name[1:]
	}
	payload, ok := strings.CutPrefix(name, "nan")
	digits, rest := cutDigits(payload)
	if !ok || rest != "" || len(digits) > maxDecimalDigits {
		return d, false
	}
	d.digits = digitsInt(digits)
	return d, true
}

// digitsInt reads digits, of which there may be none or any number.
func digitsInt(digits string) Int {
	if digits == "" {
		return Int{}
	}
	if len(digits) <= 18 {
		n, _ := strconv.ParseInt(digits, 10, 64)
		return Int{small: n}
	}
	n, _ := new(big.Int).SetString(digits, 10)
	return NewBigInt(n)
}

// appendDigits writes the integer without the limit of str(int), which Decimals don't have.
func (d Decimal) appendDigits(b []byte) []byte {
	if d.digits.big != nil {
		return d.digits.big.Append(b, 10)
	}
	return strconv.AppendInt(b, d.digits.small, 10)
}

// numDigits is how many digits the integer has, 1 for 0.
func (d Decimal) numDigits() int {
	if d.digits.big != nil {
		n := 1 + int(float64(d.digits.big.BitLen()-1)*(math.Ln2/math.Ln10)) // or one more
		if d.digits.Cmp(PowerOfTen(n)) >= 0 {
			n++
		}
		return n
	}
	n := 1
	for n < len(tens) && d.digits.small >= tens[n] {
		n++
	}
	return n
}

// Adjusted is adjusted(): the power of ten of the first digit.
func (d Decimal) Adjusted() int { return d.exponent + d.numDigits() - 1 }

// IsFinite says whether the Decimal is a number.
func (d Decimal) IsFinite() bool { return d.kind == finite }

// IsZero says whether the Decimal is 0 or -0.
func (d Decimal) IsZero() bool { return d.kind == finite && d.digits.Sign() == 0 }

// Neg is -d, which rounds to the context.
func (d Decimal) Neg(c Context) Decimal {
	if d.kind <= infinite {
		d.negative = !d.negative && !d.IsZero()
	}
	return c.round(d)
}

// Equal is d == e. As in Python, 1.0 equals 1 and a NaN equals nothing; a signalling NaN, which raises there, does neither.
func (d Decimal) Equal(e Decimal) bool {
	return d.kind <= infinite && e.kind <= infinite && d.compare(e) == 0
}

// Cmp is -1, 0 or 1 where d < e, d == e, d > e. NaNs raise.
func (d Decimal) Cmp(e Decimal) int {
	if d.kind > infinite || e.kind > infinite {
		raise("InvalidOperation", "comparison involving NaN")
	}
	return d.compare(e)
}

func (d Decimal) compare(e Decimal) int {
	if s, t := d.sign(), e.sign(); s != t || s == 0 {
		return NewInt(s).Cmp(NewInt(t))
	}
	size := 0
	switch {
	case d.kind != e.kind:
		size = int(d.kind) - int(e.kind)
	case d.kind == infinite:
	case d.Adjusted() != e.Adjusted():
		size = NewInt(d.Adjusted()).Cmp(NewInt(e.Adjusted()))
	default: // the exponents differ by no more than the numbers of digits
		size = d.scaled(min(d.exponent, e.exponent)).Cmp(e.scaled(min(d.exponent, e.exponent)))
	}
	return size * d.sign()
}

func (d Decimal) sign() int {
	switch {
	case d.IsZero():
		return 0
	case d.negative:
		return -1
	}
	return 1
}

// scaled is the integer that stands with an exponent that is not larger.
func (d Decimal) scaled(exponent int) Int {
	if d.exponent == exponent {
		return d.digits
	}
	return d.digits.Mul(PowerOfTen(d.exponent - exponent))
}

// String is str(d).
func (d Decimal) String() string { return string(d.Append(nil)) }

// Append appends str(d).
func (d Decimal) Append(b []byte) []byte {
	if d.negative {
		b = append(b, '-')
	}
	switch d.kind {
	case infinite:
		return append(b, "Infinity"...)
	case quietNaN, signallingNaN:
		if d.kind == signallingNaN {
			b = append(b, 's')
		}
		b = append(b, "NaN"...)
		if d.digits.Sign() != 0 {
			b = d.appendDigits(b)
		}
		return b
	}
	adjusted := d.Adjusted()
	if d.exponent <= 0 && adjusted >= -6 {
		return d.appendPlain(b)
	}
	start := len(b)
	b = d.appendDigits(b)
	if len(b) > start+1 {
		b = slices.Insert(b, start+1, '.')
	}
	b = append(b, 'E')
	if adjusted >= 0 {
		b = append(b, '+')
	}
	return strconv.AppendInt(b, int64(adjusted), 10)
}

// appendPlain writes the integer with the point in its place, for an exponent of at most 0.
func (d Decimal) appendPlain(b []byte) []byte {
	start, places := len(b), -d.exponent
	b = d.appendDigits(b)
	if places == 0 {
		return b
	}
	if zeros := places + 1 - (len(b) - start); zeros > 0 {
		b = slices.Insert(b, start, bytes.Repeat([]byte{'0'}, zeros)...)
	}
	return slices.Insert(b, len(b)-places, '.')
}

// Fixed is format(d, ".<places>f"), or format(d, "f") for places < 0. The text has as many characters as the number has places,
// which the caller bounds.
func (d Decimal) Fixed(places int) string { return string(d.AppendFixed(nil, places)) }

// AppendFixed appends Fixed(places).
func (d Decimal) AppendFixed(b []byte, places int) []byte {
	if d.kind != finite {
		return append(b, d.String()...)
	}
	if places >= 0 {
		d = d.rescaled(-places)
	}
	if d.exponent > 0 {
		d.digits, d.exponent = d.scaled(0), 0
	}
	if d.negative {
		b = append(b, '-')
	}
	return d.appendPlain(b)
}

// Float64 is float(d).
func (d Decimal) Float64() float64 {
	sign := 1
	if d.negative {
		sign = -1
	}
	switch d.kind {
	case infinite:
		return math.Inf(sign)
	case quietNaN:
		return math.NaN()
	case signallingNaN:
		raise("ValueError", "cannot convert signaling NaN to float")
	}
	f, _ := strconv.ParseFloat(d.String(), 64) // out of range is infinite, as in Python
	return f
}

// rescaled rounds half to even to an exponent, or appends zeros.
func (d Decimal) rescaled(exponent int) Decimal {
	if exponent > d.exponent {
		d.digits = roundTens(d.digits, exponent-d.exponent, d.numDigits())
	} else {
		d.digits = d.scaled(exponent)
	}
	d.exponent = exponent
	return d
}

// roundTens is n / 10^places, rounded half to even. n has the given number of digits.
func roundTens(n Int, places, digits int) Int {
	if places > digits {
		return Int{}
	}
	unit := PowerOfTen(places)
	q, rest := n.DivMod(unit)
	half := rest.Add(rest).Cmp(unit)
	if half > 0 || half == 0 && q.Mod(NewInt(2)).Sign() != 0 {
		q = q.Add(NewInt(1))
	}
	return q
}
