package python

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// FloatRepr is repr(f), which is also str(f): the shortest digits that read back as f.
func FloatRepr(f float64) string { return string(AppendFloat(nil, f)) }

// AppendFloat appends repr(f).
func AppendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, "nan"...)
	case math.IsInf(f, 1):
		return append(b, "inf"...)
	case math.IsInf(f, -1):
		return append(b, "-inf"...)
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.AppendFloat(b, f, 'e', -1, 64)
	}
	switch {
	case f != math.Trunc(f):
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	case f == 0 && math.Signbit(f):
		return append(b, "-0.0"...)
	}
	return append(strconv.AppendInt(b, int64(f), 10), ".0"...)
}

// Round is round(f, digits): f's exact value rounded half to even at a decimal place. round(f) without digits is
// math.RoundToEven. It raises an OverflowError where rounding a large number up leaves float64.
func Round(f float64, digits int) float64 {
	switch {
	case f == 0 || math.IsNaN(f) || math.IsInf(f, 0) || digits > 323:
		return f
	case digits < -308:
		return math.Copysign(0, f)
	}
	var rounded float64
	if digits >= 0 {
		rounded, _ = strconv.ParseFloat(strconv.FormatFloat(f, 'f', digits, 64), 64)
	} else {
		rounded = roundToTens(f, -digits)
	}
	if math.IsInf(rounded, 0) {
		raise("OverflowError", "rounded value too large to represent")
	}
	return rounded
}

// roundToTens rounds half to even to a multiple of 10^n.
func roundToTens(f float64, n int) float64 {
	unit := PowerOfTen(n).value()
	whole, rest := new(big.Float).SetFloat64(math.Abs(f)), new(big.Int)
	count, _ := whole.Int(nil)
	fraction := !whole.IsInt()
	count.QuoRem(count, unit, rest)
	switch rest.Lsh(rest, 1).Cmp(unit) {
	case 1:
		count.Add(count, big.NewInt(1))
	case 0:
		if fraction || count.Bit(0) == 1 {
			count.Add(count, big.NewInt(1))
		}
	}
	rounded, _ := new(big.Float).SetInt(count.Mul(count, unit)).Float64()
	return math.Copysign(rounded, f)
}

// NumpyRound is numpy.round(f, digits) of one float64: it scales, rounds half to even and scales back, which may differ
// from Round.
func NumpyRound(f float64, digits int) float64 {
	switch {
	case digits == 0:
		return math.RoundToEven(f)
	case digits < 0:
		scale := math.Pow10(-digits)
		return math.RoundToEven(f/scale) * scale
	}
	scale := math.Pow10(digits)
	return math.RoundToEven(f*scale) / scale
}

// FloatDivMod is divmod(a, b): the quotient rounded down, and what is left, which has the sign of b.
func FloatDivMod(a, b float64) (quotient, rest float64) {
	if b == 0 {
		raise("ZeroDivisionError", "float floor division by zero")
	}
	rest = math.Mod(a, b)
	quotient = (a - rest) / b
	if rest == 0 {
		rest = math.Copysign(0, b)
	} else if (b < 0) != (rest < 0) {
		rest += b
		quotient--
	}
	if quotient == 0 {
		return math.Copysign(0, a/b), rest
	}
	floor := math.Floor(quotient)
	if quotient-floor > 0.5 {
		floor++
	}
	return floor, rest
}

// ParseFloat is float(text): white space around it, digits of any script, single underscores between digits, "nan" and
// "inf" count, hexadecimal does not. What is too large is infinite.
func ParseFloat(text string) (float64, error) {
	digits, ok := underscoresBetweenDigits(numeral(text))
	if ok && isDecimalLiteral(digits) {
		f, err := strconv.ParseFloat(digits, 64)
		if err == nil || math.IsInf(f, 0) {
			return f, nil
		}
	}
	switch sign, name := cutSign(strings.ToLower(digits)); {
	case !ok:
	case name == "nan":
		return math.NaN(), nil
	case name == "inf" || name == "infinity":
		return math.Inf(sign), nil
	}
	return 0, Error{"ValueError", "could not convert string to float: " + quoted(text)}
}

// isDecimalLiteral says whether a text is [sign] digits [. [digits]] [e [sign] digits], or so without digits before the point.
func isDecimalLiteral(s string) bool {
	_, s = cutSign(s)
	whole, s := cutDigits(s)
	fraction := ""
	if strings.HasPrefix(s, ".") {
		fraction, s = cutDigits(s[1:])
	}
	if whole+fraction == "" {
		return false
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		_, s = cutSign(s[1:])
		if s == "" {
			return false
		}
		_, s = cutDigits(s)
	}
	return s == ""
}
