package python

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// spec is a format specification: [[fill]align][sign][#][0][width][grouping][.precision][type].
type spec struct {
	fill      rune
	align     byte // '<', '>', '=', '^'
	sign      byte // '+', '-', ' '
	alternate bool
	width     int
	group     byte // ',', '_' or 0
	precision int  // -1 where there is none
	kind      byte // the type, 0 where there is none
}

func parseSpec(text string) spec {
	s := spec{fill: ' ', align: '>', sign: '-', precision: -1}
	fill, size := utf8.DecodeRuneInString(text)
	filled, aligned := false, true
	switch {
	case size < len(text) && strings.IndexByte("<>=^", text[size]) >= 0:
		s.fill, s.align, text = fill, text[size], text[size+1:]
		filled = true
	case text != "" && strings.IndexByte("<>=^", text[0]) >= 0:
		s.align, text = text[0], text[1:]
	default:
		aligned = false
	}
	take := func(chars string) byte {
		if text == "" || strings.IndexByte(chars, text[0]) < 0 {
			return 0
		}
		c := text[0]
		text = text[1:]
		return c
	}
	number := func() int {
		digits, rest := cutDigits(text)
		text = rest
		n, err := strconv.Atoi(digits)
		if err != nil || n > 1_000_000 {
			raise("ValueError", "Too many decimal digits in format string")
		}
		return n
	}
	if c := take("+- "); c != 0 {
		s.sign = c
	}
	s.alternate = take("#") != 0
	if !filled && take("0") != 0 {
		s.fill = '0'
		if !aligned {
			s.align = '='
		}
	}
	if text != "" && isDigit(text[0]) {
		s.width = number()
	}
	s.group = take(",_")
	if take(".") != 0 {
		s.precision = number()
	}
	s.kind = take("bcdeEfFgGnosxX%")
	if text != "" {
		raise("ValueError", "Invalid format specifier")
	}
	return s
}

// FormatFloat is format(f, spec) for the types e, f, g and %, in both cases, and none. Of the alternate forms, that of e and f
// with digits after the point is supported, where it changes nothing.
func FormatFloat(f float64, spec string) string {
	s := parseSpec(spec)
	body, upper := s.float(math.Abs(f))
	if upper {
		body = strings.ToUpper(body)
	}
	return s.pad(math.Signbit(f) && !math.IsNaN(f), "", body)
}

func (s spec) float(f float64) (body string, upper bool) {
	precision := s.precision
	if precision < 0 {
		precision = 6
	}
	suffix := ""
	kind := s.kind
	if kind == '%' {
		f, kind, suffix = f*100, 'f', "%"
	}
	if s.alternate && precision == 0 || s.alternate && strings.IndexByte("eEfF", kind) < 0 || strings.IndexByte("\x00eEfFgG", kind) < 0 {
		raise("ValueError", "Unknown format code for object of type 'float'")
	}
	upper = kind == 'E' || kind == 'F' || kind == 'G'
	switch {
	case math.IsInf(f, 0) || math.IsNaN(f):
		return strings.TrimPrefix(FloatRepr(f), "-") + suffix, upper
	case kind == 0 && s.precision < 0:
		return FloatRepr(f), false
	case kind == 0: // general, with a digit after the point
		precision = max(precision, 1)
		body = strconv.FormatFloat(f, 'g', precision, 64)
		switch {
		case strings.ContainsAny(body, ".e"):
			return body, false
		case len(body) < precision:
			return body + ".0", false
		}
		// There is no room for that digit: the number is written with an exponent.
		mantissa, power, _ := strings.Cut(strconv.FormatFloat(f, 'e', precision-1, 64), "e")
		if strings.Contains(mantissa, ".") {
			mantissa = strings.TrimRight(strings.TrimRight(mantissa, "0"), ".")
		}
		return mantissa + "e" + power, false
	case kind|0x20 == 'g':
		return strconv.FormatFloat(f, 'g', max(precision, 1), 64), upper
	}
	return strconv.FormatFloat(f, kind|0x20, precision, 64) + suffix, upper
}

// FormatInt is format(n, spec) for the types b, d, o, x and X, and none, and for those of floats.
func FormatInt(n Int, spec string) string {
	s := parseSpec(spec)
	if s.kind != 0 && strings.IndexByte("eEfFgG%", s.kind) >= 0 {
		return FormatFloat(n.Float64(), spec)
	}
	if s.precision >= 0 {
		raise("ValueError", "Precision not allowed in integer format specifier")
	}
	base, prefix := 10, ""
	switch s.kind {
	case 0, 'd':
	case 'b':
		base, prefix = 2, "0b"
	case 'o':
		base, prefix = 8, "0o"
	case 'x', 'X':
		base, prefix = 16, "0"+string(rune(s.kind))
	default:
		raise("ValueError", "Unknown format code for object of type 'int'")
	}
	if !s.alternate || base == 10 {
		prefix = ""
	}
	if base != 10 && s.group == ',' {
		raise("ValueError", "Cannot specify ',' with this type")
	}
	body := n.Abs().String
	if base != 10 {
		body = func() string { return n.Abs().value().Text(base) }
	}
	text := body()
	if s.kind == 'X' {
		text = strings.ToUpper(text)
	}
	return s.pad(n.Sign() < 0, prefix, text)
}

// pad puts separators into the body's whole part, and sign, prefix and fill around it.
func (s spec) pad(negative bool, prefix, body string) string {
	head := prefix
	switch {
	case negative:
		head = "-" + prefix
	case s.sign != '-':
		head = string(rune(s.sign)) + prefix
	}
	whole, rest := s.cutWhole(body)
	grouped := s.separate(whole)
	missing := func() int { return s.width - utf8.RuneCountInString(head) - len(grouped) - len(rest) }
	if s.fill == '0' && s.align == '=' && s.group != 0 && whole != "" {
		for missing() > 0 { // zeros are grouped as digits
			whole = "0" + whole
			grouped = s.separate(whole)
		}
	}
	text := grouped + rest
	fill := max(missing(), 0)
	pad := func(n int) string { return strings.Repeat(string(s.fill), n) }
	switch s.align {
	case '<':
		return head + text + pad(fill)
	case '^':
		return pad(fill/2) + head + text + pad(fill-fill/2)
	case '=':
		return head + pad(fill) + text
	}
	return pad(fill) + head + text
}

// cutWhole cuts off the digits before a point, exponent or percent sign; of b, o and x all are.
func (s spec) cutWhole(body string) (whole, rest string) {
	if s.kind != 0 && strings.IndexByte("boxX", s.kind) >= 0 {
		return body, ""
	}
	return cutDigits(body)
}

// separate puts separators between groups of three digits, four in the bases 2, 8 and 16.
func (s spec) separate(digits string) string {
	size := 3
	if s.kind != 0 && strings.IndexByte("boxX", s.kind) >= 0 {
		size = 4
	}
	if s.group == 0 || len(digits) <= size {
		return digits
	}
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%size == 0 {
			b.WriteByte(s.group)
		}
		b.WriteByte(digits[i])
	}
	return b.String()
}
