package jinja

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/internal/python"
)

type tokenKind int

const (
	endToken tokenKind = iota
	dataToken
	outputBegin
	outputEnd
	blockBegin
	blockEnd
	nameToken
	stringToken
	numberToken
	operatorToken
)

type token struct {
	kind  tokenKind
	text  string // data, name, operator; a string's value
	value any    // a number's value
	line  int
}

// describe names a token in messages.
func (t token) describe() string {
	switch t.kind {
	case endToken:
		return "end of template"
	case dataToken:
		return "text"
	case outputBegin, outputEnd, blockBegin, blockEnd:
		return fmt.Sprintf("%q", [...]string{"{{", "}}", "{%", "%}"}[t.kind-outputBegin])
	case stringToken:
		return "string " + strconv.Quote(t.text)
	case numberToken:
		return "number " + python.Repr(t.value)
	}
	return strconv.Quote(t.text)
}

// lexer splits a template as Jinja's lexer does with trim_blocks and lstrip_blocks.
type lexer struct {
	source    string
	at        int
	line      int
	lineStart bool // what was read last ended with a newline
	tokens    []token
}

var newlines = strings.NewReplacer("\r\n", "\n", "\r", "\n")

func lex(source string) []token {
	if !utf8.ValidString(source) {
		fail("UnicodeDecodeError", "the template is not valid UTF-8")
	}
	l := &lexer{source: strings.TrimSuffix(newlines.Replace(source), "\n"), line: 1, lineStart: true}
	for l.at < len(l.source) {
		l.part()
	}
	l.add(endToken, "", nil)
	return l.tokens
}

func (l *lexer) fail(format string, args ...any) {
	panic(lineError{l.line, python.Error{Type: "TemplateSyntaxError", Message: fmt.Sprintf(format, args...)}})
}

func (l *lexer) add(kind tokenKind, text string, value any) {
	l.tokens = append(l.tokens, token{kind, text, value, l.line})
}

func (l *lexer) rest() string { return l.source[l.at:] }

// take moves over n bytes and returns them.
func (l *lexer) take(n int) string {
	text := l.source[l.at : l.at+n]
	l.at += n
	l.line += strings.Count(text, "\n")
	return text
}

// close moves over the end of a tag, which takes white space along: all after a minus, one newline if that is trimmed.
func (l *lexer) close(delimiter string, trim bool) bool {
	rest := l.rest()
	n := len(delimiter)
	switch {
	case strings.HasPrefix(rest, "-"+delimiter):
		n = len(rest) - len(strings.TrimLeftFunc(rest[1+n:], python.IsSpace))
	case trim && strings.HasPrefix(rest, "+"+delimiter):
		n++
	case !strings.HasPrefix(rest, delimiter):
		return false
	case trim && strings.HasPrefix(rest[n:], "\n"):
		n++
	}
	l.lineStart = strings.HasSuffix(l.take(n), "\n")
	return true
}

var (
	tagBegin = regexp.MustCompile(`\{[{%#][-+]?`)
	rawBegin = regexp.MustCompile(`^\{%[-+]?` + space + `raw` + space + `-?%\}`)
	rawEnd   = regexp.MustCompile(`\{%([-+]?)` + space + `endraw` + space + `[-+]?%\}`)
)

// space is Python's \s*.
const space = `[\s\v\x1c-\x1f\x{85}\p{Z}]*`

// part reads text up to a tag, and the tag.
func (l *lexer) part() {
	found := tagBegin.FindStringIndex(l.rest())
	if found == nil {
		l.data(l.take(len(l.rest())), "", false)
		return
	}
	begin := l.rest()[found[0]:found[1]]
	l.data(l.take(found[0]), begin[2:], begin[1] != '{')
	if raw := rawBegin.FindString(l.rest()); raw != "" {
		l.take(strings.Index(raw, "raw") + len("raw"))
		l.take(len(l.rest()) - len(strings.TrimLeftFunc(l.rest(), python.IsSpace)))
		l.close("%}", false)
		l.raw()
		return
	}
	l.take(len(begin))
	switch begin[1] {
	case '#':
		end := strings.Index(l.rest(), "#}")
		if end < 0 {
			l.fail("missing end of comment tag")
		}
		if end > 0 && strings.IndexByte("-+", l.rest()[end-1]) >= 0 {
			end--
		}
		l.take(end)
		l.close("#}", true)
	case '%':
		l.add(blockBegin, "", nil)
		l.tag(blockEnd, "%}", true)
	default:
		l.add(outputBegin, "", nil)
		l.tag(outputEnd, "}}", false)
	}
}

func (l *lexer) raw() {
	found := rawEnd.FindStringSubmatchIndex(l.rest())
	if found == nil {
		l.fail("missing end of raw directive")
	}
	sign := l.rest()[found[2]:found[3]]
	l.data(l.take(found[0]), sign, true)
	tag := l.rest()[:found[1]-found[0]]
	l.take(len(strings.TrimRight(tag, "-+%}")))
	l.close("%}", true)
}

// data adds text without what the following tag strips from it. Blocks and comments strip the white space between the line's
// start and themselves.
func (l *lexer) data(text, sign string, block bool) {
	switch {
	case sign == "-":
		text = strings.TrimRightFunc(text, python.IsSpace)
	case block && sign != "+":
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || l.lineStart) && python.Strip(text[start:]) == "" {
			text = text[:start]
		}
	}
	if text != "" {
		l.add(dataToken, text, nil)
	}
}

var (
	floatToken   = regexp.MustCompile(`^(?i:(\d+_)*\d+((\.(\d+_)*\d+)?e[+\-]?(\d+_)*\d+|\.(\d+_)*\d+))`)
	integerToken = regexp.MustCompile(`^(?i:0b(_?[01])+|0o(_?[0-7])+|0x(_?[\da-f])+|[1-9](_?\d)*|0(_?0)*)`)
	operators    = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}", ">", "<", "=", ".", ":", "|", ",", ";"}
)

// tag reads the inside of a tag and its end. Within brackets the end's characters are operators.
func (l *lexer) tag(end tokenKind, delimiter string, trim bool) {
	var open []byte // the closing brackets that are awaited
	for l.at < len(l.source) {
		line := l.line
		if len(open) == 0 && l.close(delimiter, trim) {
			l.tokens = append(l.tokens, token{kind: end, line: line})
			return
		}
		rest := l.rest()
		c, size := utf8.DecodeRuneInString(rest)
		switch {
		case python.IsSpace(c):
			l.take(size)
		case c >= '0' && c <= '9':
			l.number()
		case python.IsWord(c):
			n := len(rest) - len(strings.TrimLeftFunc(rest, python.IsWord))
			if unicode.IsNumber(c) {
				l.fail("invalid character in identifier")
			}
			l.add(nameToken, l.take(n), nil)
		case c == '\'' || c == '"':
			l.string(byte(c))
		default:
			open = l.operator(open)
		}
	}
	l.fail("unexpected end of template in a tag")
}

func (l *lexer) number() {
	if digits := floatToken.FindString(l.rest()); digits != "" && l.source[l.at-1] != '.' {
		f, _ := strconv.ParseFloat(strings.ReplaceAll(digits, "_", ""), 64) // out of range is infinite, as in Python
		l.add(numberToken, "", f)
		l.take(len(digits))
		return
	}
	digits := integerToken.FindString(l.rest())
	n, err := python.ParseInt(digits, 0)
	if err != nil {
		l.fail("%v", err)
	}
	l.add(numberToken, "", n)
	l.take(len(digits))
}

func (l *lexer) operator(open []byte) []byte {
	for _, op := range operators {
		if !strings.HasPrefix(l.rest(), op) {
			continue
		}
		switch op {
		case "(", "[", "{":
			open = append(open, map[string]byte{"(": ')', "[": ']', "{": '}'}[op])
		case ")", "]", "}":
			if len(open) == 0 || open[len(open)-1] != op[0] {
				l.fail("unexpected %q", op)
			}
			open = open[:len(open)-1]
		}
		l.add(operatorToken, op, nil)
		l.take(len(op))
		return open
	}
	c, _ := utf8.DecodeRuneInString(l.rest())
	l.fail("unexpected char %q", c)
	return nil
}

// string reads a literal, whose escapes are Python's.
func (l *lexer) string(quote byte) {
	var b strings.Builder
	rest := l.rest()
	for i := 1; i < len(rest); {
		switch c := rest[i]; {
		case c == quote:
			l.add(stringToken, b.String(), nil)
			l.take(i + 1)
			return
		case c == '\\' && i+1 < len(rest):
			i += l.escape(&b, rest[i:])
		default:
			b.WriteByte(c)
			i++
		}
	}
	l.fail("unexpected char %q", quote)
}

// escape writes what an escape sequence stands for and returns its length.
func (l *lexer) escape(b *strings.Builder, s string) int {
	c := s[1]
	if i := strings.IndexByte(`\'"abfnrtv`, c); i >= 0 {
		b.WriteByte("\\'\"\a\b\f\n\r\t\v"[i])
		return 2
	}
	digits, base := 0, 16
	start := 2
	switch {
	case c == '\n':
		return 2
	case c >= '0' && c <= '7':
		start, base = 1, 8
		for digits < 3 && start+digits < len(s) && s[start+digits] >= '0' && s[start+digits] <= '7' {
			digits++
		}
	case c == 'x':
		digits = 2
	case c == 'u':
		digits = 4
	case c == 'U':
		digits = 8
	case c == 'N':
		l.fail(`\N escapes are not supported`)
	default:
		b.WriteByte('\\')
		return 1
	}
	code, err := strconv.ParseUint(s[start:min(start+digits, len(s))], base, 32)
	if err != nil || len(s) < start+digits || !utf8.ValidRune(rune(code)) {
		l.fail("cannot decode escape %q", s[:min(start+digits, len(s))])
	}
	b.WriteRune(rune(code))
	return start + digits
}
