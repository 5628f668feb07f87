package python

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tuple is a tuple, for Repr.
type Tuple []any

// Repr is repr(v), which for all but strings is str(v), too: None (nil), bool, int, Int, float64, string, Char, slices and
// arrays as lists, Tuple, *Dict.
func Repr(v any) string { return string(AppendRepr(nil, v)) }

// AppendRepr appends repr(v).
func AppendRepr(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "None"...)
	case bool:
		if v {
			return append(b, "True"...)
		}
		return append(b, "False"...)
	case int:
		return strconv.AppendInt(b, int64(v), 10)
	case Int:
		return v.Append(b)
	case float64:
		return AppendFloat(b, v)
	case Char:
		return appendQuoted(b, string(rune(v)))
	case string:
		return appendQuoted(b, v)
	case Tuple:
		b = append(b, '(')
		for i, e := range v {
			b = AppendRepr(appendComma(b, i), e)
		}
		if len(v) == 1 {
			b = append(b, ',')
		}
		return append(b, ')')
	case *Dict:
		b = append(b, '{')
		i := 0
		for key, e := range v.All() {
			b = appendQuoted(appendComma(b, i), key)
			b = AppendRepr(append(b, ": "...), e)
			i++
		}
		return append(b, '}')
	case []string:
		return appendList(b, v, appendQuoted)
	case []int:
		return appendList(b, v, func(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) })
	}
	list := reflect.ValueOf(v)
	if k := list.Kind(); k != reflect.Slice && k != reflect.Array {
		panic(fmt.Sprintf("python.Repr of %T", v)) // a mistake in the calling code
	}
	b = append(b, '[')
	for i := range list.Len() {
		b = AppendRepr(appendComma(b, i), list.Index(i).Interface())
	}
	return append(b, ']')
}

func appendList[T any](b []byte, list []T, appendOne func([]byte, T) []byte) []byte {
	b = append(b, '[')
	for i, e := range list {
		b = appendOne(appendComma(b, i), e)
	}
	return append(b, ']')
}

func appendComma(b []byte, i int) []byte {
	if i > 0 {
		b = append(b, ", "...)
	}
	return b
}

// appendQuoted appends repr(s): in single quotes, unless only double ones need no escape, and with escapes for what cannot be printed.
func appendQuoted(b []byte, s string) []byte {
	quote := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b = append(b, byte(quote))
	for _, c := range s {
		switch {
		case c == quote || c == '\\':
			b = append(b, '\\', byte(c))
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\t':
			b = append(b, `\t`...)
		case unicode.IsPrint(c):
			b = utf8.AppendRune(b, c)
		case c <= 0xff:
			b = fmt.Appendf(b, `\x%02x`, c)
		case c <= 0xffff:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = fmt.Appendf(b, `\U%08x`, c)
		}
	}
	return append(b, byte(quote))
}
