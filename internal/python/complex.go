package python

import "strings"

// ParseComplex is complex(text): a float, a float with j, or both with a sign between them, in parentheses or not. The number
// before j may be missing where it has a sign or stands alone. Around and inside, it reads what ParseFloat does.
func ParseComplex(text string) (complex128, error) {
	if s, ok := underscoresBetweenDigits(numeral(text)); ok {
		if z, ok := parseComplex(s); ok {
			return z, nil
		}
	}
	return 0, Error{"ValueError", "complex() arg is a malformed string: " + quoted(text)}
}

func parseComplex(s string) (z complex128, ok bool) {
	if inner, ok := strings.CutPrefix(s, "("); ok {
		if inner, ok = strings.CutSuffix(inner, ")"); !ok {
			return 0, false
		}
		s = strings.Trim(inner, " \t\n\v\f\r")
	}
	var re float64
	first, rest, found := cutFloat(s)
	switch {
	case found && rest == "":
		return complex(first, 0), true
	case found && isUnit(rest):
		return complex(0, first), true
	case found && (rest[0] == '+' || rest[0] == '-'):
		re = first
	case found:
		return 0, false
	default:
		rest = s
	}
	im, unit, found := cutFloat(rest)
	if !found {
		sign, after := cutSign(rest)
		im, unit = float64(sign), after
	}
	return complex(re, im), isUnit(unit)
}

func isUnit(s string) bool { return s == "j" || s == "J" }

// cutFloat cuts off the longest number that a text begins with.
func cutFloat(s string) (f float64, rest string, found bool) {
	_, digits := cutSign(s)
	end := len(s) - len(digits)
	whole, digits := cutDigits(digits)
	fraction, point := "", 0
	if strings.HasPrefix(digits, ".") {
		point = 1
		fraction, digits = cutDigits(digits[1:])
	}
	if whole+fraction == "" {
		for _, name := range []string{"infinity", "inf", "nan"} {
			if len(s) >= end+len(name) && strings.EqualFold(s[end:end+len(name)], name) {
				end += len(name)
				f, err := ParseFloat(s[:end])
				return f, s[end:], err == nil
			}
		}
		return 0, s, false
	}
	end += len(whole) + point + len(fraction)
	if digits != "" && (digits[0] == 'e' || digits[0] == 'E') {
		_, exponent := cutSign(digits[1:])
		if number, after := cutDigits(exponent); number != "" {
			end = len(s) - len(after)
		}
	}
	f, err := ParseFloat(s[:end])
	return f, s[end:], err == nil
}
