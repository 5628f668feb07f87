package python

import (
	"iter"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Dict is a dict with string keys that keeps their order, such as ParseJSON makes of an object.
type Dict struct {
	keys   []string
	values map[string]any
}

// NewDict returns an empty dict.
func NewDict() *Dict { return &Dict{values: map[string]any{}} }

// Len is len(d).
func (d *Dict) Len() int { return len(d.keys) }

// Get returns the value of a key and whether there is one.
func (d *Dict) Get(key string) (value any, ok bool) {
	value, ok = d.values[key]
	return value, ok
}

// All iterates in Python's order, which is that of the first appearance of keys.
func (d *Dict) All() iter.Seq2[string, any] {
	return func(yield func(string, any) bool) {
		for _, key := range d.keys {
			if !yield(key, d.values[key]) {
				return
			}
		}
	}
}

// Set is d[key] = value.
func (d *Dict) Set(key string, value any) {
	if _, ok := d.values[key]; !ok {
		d.keys = append(d.keys, key)
	}
	d.values[key] = value
}

// jsonDepth is how deep ParseJSON reads: near the depth at which Python's recursion limit stops json.loads.
const jsonDepth = 990

// ParseJSON is json.loads(text): nil, bool, Int, float64, string, []any or *Dict. It reads NaN and Infinity, takes the last
// value of a key, and refuses what Python refuses. Half of a surrogate pair becomes U+FFFD: Go's strings have none.
//
// The error has the type of Python's exception: JSONDecodeError, RecursionError for deep nesting, ValueError for an
// integer of more than 4300 digits.
func ParseJSON(text string) (value any, err error) {
	defer Catch(&err)
	p := jsonParser{text: text}
	p.space()
	value = p.value(0)
	p.space()
	if p.at < len(text) {
		p.fail("Extra data")
	}
	return value, nil
}

type jsonParser struct {
	text string
	at   int
}

func (p *jsonParser) fail(message string) { raise("JSONDecodeError", "%s: char %d", message, p.at) }

func (p *jsonParser) space() {
	for p.at < len(p.text) && strings.IndexByte(" \t\n\r", p.text[p.at]) >= 0 {
		p.at++
	}
}

// take moves over a word that stands here.
func (p *jsonParser) take(word string) bool {
	if !strings.HasPrefix(p.text[p.at:], word) {
		return false
	}
	p.at += len(word)
	return true
}

func (p *jsonParser) value(depth int) any {
	if depth > jsonDepth {
		raise("RecursionError", "maximum recursion depth exceeded while decoding a JSON document")
	}
	switch {
	case p.take(`"`):
		return p.string()
	case p.take("["):
		return p.array(depth)
	case p.take("{"):
		return p.object(depth)
	case p.take("null"):
		return nil
	case p.take("true"):
		return true
	case p.take("false"):
		return false
	case p.take("NaN"):
		return math.NaN()
	case p.take("Infinity"):
		return math.Inf(1)
	case p.take("-Infinity"):
		return math.Inf(-1)
	}
	return p.number()
}

func (p *jsonParser) array(depth int) any {
	list := []any{}
	p.space()
	if p.take("]") {
		return list
	}
	for {
		list = append(list, p.value(depth+1))
		p.space()
		switch {
		case p.take("]"):
			return list
		case !p.take(","):
			p.fail("Expecting ',' delimiter")
		}
		p.space()
	}
}

func (p *jsonParser) object(depth int) any {
	d := NewDict()
	p.space()
	if p.take("}") {
		return d
	}
	for {
		if !p.take(`"`) {
			p.fail("Expecting property name enclosed in double quotes")
		}
		key := p.string()
		p.space()
		if !p.take(":") {
			p.fail("Expecting ':' delimiter")
		}
		p.space()
		d.Set(key, p.value(depth+1))
		p.space()
		switch {
		case p.take("}"):
			return d
		case !p.take(","):
			p.fail("Expecting ',' delimiter")
		}
		p.space()
	}
}

func (p *jsonParser) number() any {
	rest := p.text[p.at:]
	_, digits := cutSign(strings.TrimPrefix(rest, "+")) // a plus sign is left in rest, where no digit is found
	whole, after := cutDigits(digits)
	if whole == "" || rest[0] == '+' {
		p.fail("Expecting value")
	}
	if whole[0] == '0' {
		after = digits[1:] // 01 is 0 and something that does not belong here
	}
	integer := true
	if strings.HasPrefix(after, ".") {
		if fraction, next := cutDigits(after[1:]); fraction != "" {
			integer, after = false, next
		}
	}
	if after != "" && after[0]|0x20 == 'e' {
		_, power := cutSign(after[1:])
		if power, next := cutDigits(power); power != "" {
			integer, after = false, next
		}
	}
	literal := rest[:len(rest)-len(after)]
	p.at += len(literal)
	if integer {
		n, ok := parseInt(literal, 10)
		if !ok {
			raise("ValueError", "Exceeds the limit (%d digits) for integer string conversion", maxDigits)
		}
		return n
	}
	f, _ := strconv.ParseFloat(literal, 64) // out of range is infinite, as in Python
	return f
}

// string reads what follows a quote.
func (p *jsonParser) string() string {
	end := strings.IndexAny(p.text[p.at:], `"\`)
	if end >= 0 && p.text[p.at+end] == '"' {
		plain := p.text[p.at : p.at+end]
		p.at += end + 1
		p.noControls(plain)
		return plain
	}
	var b []byte
	for {
		end := strings.IndexAny(p.text[p.at:], `"\`)
		if end < 0 {
			p.fail("Unterminated string")
		}
		plain := p.text[p.at : p.at+end]
		p.noControls(plain)
		b = append(b, plain...)
		p.at += end + 1
		if p.text[p.at-1] == '"' {
			return string(b)
		}
		b = p.escape(b)
	}
}

func (p *jsonParser) noControls(s string) {
	for i := range len(s) {
		if s[i] < ' ' {
			p.fail("Invalid control character")
		}
	}
}

// escape appends what the characters after a backslash stand for.
func (p *jsonParser) escape(b []byte) []byte {
	if p.at == len(p.text) {
		p.fail("Unterminated string")
	}
	c := p.text[p.at]
	p.at++
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		return append(b, "\"\\/\b\f\n\r\t"[i])
	}
	if c != 'u' {
		p.fail("Invalid \\escape")
	}
	char := p.hex()
	if utf16.IsSurrogate(char) {
		start := p.at
		if p.take(`\u`) {
			if pair := utf16.DecodeRune(char, p.hex()); pair != utf8.RuneError {
				return utf8.AppendRune(b, pair)
			}
			p.at = start
		}
	}
	return utf8.AppendRune(b, char)
}

func (p *jsonParser) hex() rune {
	if len(p.text)-p.at < 4 {
		p.fail("Invalid \\uXXXX escape")
	}
	var char rune
	for _, c := range []byte(p.text[p.at : p.at+4]) {
		d := digitValue(c)
		if d >= 16 {
			p.fail("Invalid \\uXXXX escape")
		}
		char = char<<4 | rune(d)
	}
	p.at += 4
	return char
}
