package python

import (
	"math/big"
	"strings"
	"unicode"
)

// numeral does what int() and float() do first: without white space around it, with digits of any script as 0 to 9. In a text
// that is all ASCII, U+001C to U+001F are no white space, as in Python.
func numeral(text string) string {
	if isASCII(text) {
		return strings.Trim(text, " \t\n\v\f\r")
	}
	var b strings.Builder
	for _, c := range text {
		switch d, ok := decimalDigit(c); {
		case c < 0x80:
			b.WriteRune(c)
		case ok:
			b.WriteByte(d)
		case unicode.IsSpace(c):
			b.WriteByte(' ')
		default:
			return "?" // no number has it
		}
	}
	return strings.Trim(b.String(), " \t\n\v\f\r")
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// decimalDigit returns the digit that c is in its script as '0' to '9'. Unicode has them in runs of ten, from zero on.
func decimalDigit(c rune) (byte, bool) {
	if c < 0x80 {
		return byte(c), c >= '0' && c <= '9'
	}
	if !unicode.Is(unicode.Nd, c) {
		return 0, false
	}
	for _, r := range unicode.Nd.R16 {
		if c >= rune(r.Lo) && c <= rune(r.Hi) {
			return '0' + byte((c-rune(r.Lo))%10), true
		}
	}
	for _, r := range unicode.Nd.R32 {
		if c >= rune(r.Lo) && c <= rune(r.Hi) {
			return '0' + byte((c-rune(r.Lo))%10), true
		}
	}
	return 0, false
}

// underscoresBetweenDigits drops underscores and says whether each was between two digits.
func underscoresBetweenDigits(s string) (string, bool) {
	if !strings.Contains(s, "_") {
		return s, true
	}
	for i := range len(s) {
		if s[i] == '_' && (i == 0 || i == len(s)-1 || !isDigit(s[i-1]) || !isDigit(s[i+1])) {
			return "", false
		}
	}
	return strings.ReplaceAll(s, "_", ""), true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func cutSign(s string) (sign int, rest string) {
	switch {
	case strings.HasPrefix(s, "+"):
		return 1, s[1:]
	case strings.HasPrefix(s, "-"):
		return -1, s[1:]
	}
	return 1, s
}

func cutDigits(s string) (digits, rest string) {
	i := 0
	for i < len(s) && isDigit(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

// quoted is a text for a message, cut short: what a model wrote may be long.
func quoted(text string) string {
	const most = 40
	if runes := []rune(text[:min(len(text), 4*most)]); len(runes) > most || len(text) > 4*most {
		return Repr(string(runes[:min(len(runes), most)])) + "…"
	}
	return Repr(text)
}

// ParseInt is int(text, base) for base 10 and 0. With base 0, prefixes 0x, 0o and 0b choose the base, and decimal numbers must
// not begin with 0. White space around the number, digits of any script and single underscores count. Decimal numbers
// of more than 4300 digits are errors.
func ParseInt(text string, base int) (Int, error) {
	if n, ok := parseInt(numeral(text), base); ok {
		return n, nil
	}
	return Int{}, Error{"ValueError", "invalid literal for int(): " + quoted(text)}
}

func parseInt(s string, base int) (Int, bool) {
	sign, s := cutSign(s)
	radix := 10
	if base == 0 && len(s) > 1 && s[0] == '0' {
		switch s[1] | 0x20 {
		case 'x':
			radix = 16
		case 'o':
			radix = 8
		case 'b':
			radix = 2
		}
		if radix != 10 {
			s = strings.TrimPrefix(s[2:], "_")
		}
	}
	digits := strings.ReplaceAll(s, "_", "")
	switch {
	case digits == "" || s[0] == '_' || s[len(s)-1] == '_' || strings.Contains(s, "__"):
		return Int{}, false
	case base == 0 && radix == 10 && digits[0] == '0' && strings.Trim(digits, "0") != "":
		return Int{}, false
	case radix == 10 && len(digits) > maxDigits:
		return Int{}, false
	}
	small := len(digits) <= 15 // 16^15 is an int64
	var n int64
	for i := range len(digits) {
		d := digitValue(digits[i])
		if d >= radix {
			return Int{}, false
		}
		if small {
			n = n*int64(radix) + int64(d)
		}
	}
	if small {
		return Int{small: int64(sign) * n}, true
	}
	whole, ok := new(big.Int).SetString(digits, radix)
	if !ok {
		return Int{}, false
	}
	if sign < 0 {
		whole.Neg(whole)
	}
	return NewBigInt(whole), true
}

func digitValue(c byte) int {
	switch {
	case isDigit(c):
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'z':
		return int(c|0x20-'a') + 10
	}
	return 36
}

// ParseFraction is fractions.Fraction(text): an integer, a decimal number with or without exponent, or a fraction n/d. Unlike
// Python it refuses exponents beyond 100,000 instead of filling memory.
func ParseFraction(text string) (*big.Rat, error) {
	failed := func() (*big.Rat, error) {
		return nil, Error{"ValueError", "Invalid literal for Fraction: " + quoted(text)}
	}
	var b strings.Builder
	for _, c := range Strip(text) {
		if d, ok := decimalDigit(c); ok {
			c = rune(d)
		}
		if c >= 0x80 {
			return failed()
		}
		b.WriteRune(c)
	}
	s, ok := underscoresBetweenDigits(b.String())
	if !ok {
		return failed()
	}
	if !strings.Contains(s, "/") {
		if !isDecimalLiteral(s) {
			return failed()
		}
		return decimalFraction(s)
	}
	above, below, _ := strings.Cut(s, "/")
	if len(above) == 0 || below == "" || !isDigit(below[0]) {
		return failed()
	}
	n, ok1 := parseInt(above, 10)
	d, ok2 := parseInt(below, 10)
	if !ok1 || !ok2 {
		return failed()
	}
	if d.Sign() == 0 {
		return nil, Error{"ZeroDivisionError", "Fraction(" + n.String() + ", 0)"}
	}
	return new(big.Rat).SetFrac(n.value(), d.value()), nil
}

// decimalFraction reads what isDecimalLiteral takes.
func decimalFraction(s string) (*big.Rat, error) {
	sign, s := cutSign(s)
	whole, s := cutDigits(s)
	fraction := ""
	if strings.HasPrefix(s, ".") {
		fraction, s = cutDigits(s[1:])
	}
	if len(whole) > maxDigits || len(fraction) > maxDigits {
		return nil, Error{"ValueError", "Exceeds the limit for integer string conversion"}
	}
	exponent := 0
	if s != "" {
		e, ok := parseInt(s[1:], 10)
		n, fits := e.Int64()
		if !ok || !fits || n > maxExponent || n < -maxExponent {
			return nil, Error{"OverflowError", "the exponent is too large: " + quoted(s)}
		}
		exponent = int(n)
	}
	n, _ := new(big.Int).SetString(whole+fraction, 10)
	if sign < 0 {
		n.Neg(n)
	}
	exponent -= len(fraction)
	if exponent >= 0 {
		return new(big.Rat).SetInt(n.Mul(n, PowerOfTen(exponent).value())), nil
	}
	return new(big.Rat).SetFrac(n, PowerOfTen(-exponent).value()), nil
}

const maxExponent = 100_000
