package python

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// IsSpace is str.isspace of one character, and what \s matches in a Python pattern: Unicode's white space and, unlike
// unicode.IsSpace, the separators U+001C to U+001F.
func IsSpace(c rune) bool {
	return c >= 0x1c && c <= 0x1f || unicode.IsSpace(c)
}

// Strip is str.strip().
func Strip(s string) string { return strings.TrimFunc(s, IsSpace) }

// Fields is str.split() without a separator.
func Fields(s string) []string { return strings.FieldsFunc(s, IsSpace) }

// SplitLines is str.splitlines(): it ends lines at more characters than "\n", and has no empty line after the last ending.
func SplitLines(s string) []string {
	var lines []string
	start, after := 0, rune(0)
	for i, c := range s {
		if after == '\r' && c == '\n' { // one ending
			start, after = i+1, 0
			continue
		}
		after = c
		switch c {
		case '\n', '\r', '\v', '\f', 0x1c, 0x1d, 0x1e, 0x85, 0x2028, 0x2029:
			lines = append(lines, s[start:i])
			start = i + len(string(c))
		}
	}
	if start < len(s) {
		lines = append(lines, s[start:])
	}
	return lines
}

// IsAlpha is str.isalpha(): true if there is a character and all are letters. As in all functions here, characters are those
// of Go's Unicode tables, which are newer than Python 3.11's.
func IsAlpha(s string) bool { return all(s, unicode.IsLetter) }

// IsAlnum is str.isalnum(): true if there is a character and all are letters or numbers.
func IsAlnum(s string) bool {
	return all(s, func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) })
}

// IsWord says whether a character matches \w in a Python pattern.
func IsWord(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c) }

// IsDecimal is str.isdecimal(), and what \d matches: digits of any script with which numbers are written.
func IsDecimal(s string) bool { return all(s, func(c rune) bool { return unicode.Is(unicode.Nd, c) }) }

func all(s string, is func(rune) bool) bool {
	for _, c := range s {
		if !is(c) {
			return false
		}
	}
	return s != ""
}

// Lower is str.lower(). Unlike strings.ToLower it keeps the dot of U+0130 and ends words with a final sigma.
func Lower(s string) string {
	if isASCII(s) || !strings.ContainsAny(s, "\u0130\u03a3") {
		return strings.ToLower(s)
	}
	var b strings.Builder
	for i, c := range s {
		switch {
		case c == 0x130:
			b.WriteString("i\u0307")
		case c == 0x3a3 && finalSigma(s, i):
			b.WriteRune(0x3c2)
		default:
			b.WriteRune(unicode.ToLower(c))
		}
	}
	return b.String()
}

// finalSigma says whether the capital sigma at s[i:] ends a word: a cased letter is before it and none after it, when
// characters that don't count as letters or ends of words (case-ignorable in Unicode's terms) are left out.
func finalSigma(s string, i int) bool {
	before := strings.TrimRightFunc(s[:i], caseIgnorable)
	if last, _ := utf8.DecodeLastRuneInString(before); !cased(last) {
		return false
	}
	for _, c := range s[i+len("\u03a3"):] {
		if !caseIgnorable(c) {
			return !cased(c)
		}
	}
	return true
}

func cased(c rune) bool {
	return unicode.In(c, unicode.Lu, unicode.Ll, unicode.Lt, unicode.Other_Lowercase, unicode.Other_Uppercase)
}

func caseIgnorable(c rune) bool {
	return unicode.In(c, unicode.Mn, unicode.Me, unicode.Cf, unicode.Lm, unicode.Sk) || strings.ContainsRune(midWord, c)
}

const midWord = "'.:\u00b7\u0387\u055f\u05f4\u2018\u2019\u2024\u2027\ufe13\ufe52\ufe55\uff07\uff0e\uff1a"

// Upper is str.upper(). Unlike strings.ToUpper it maps some characters to several, such as ß to SS.
func Upper(s string) string {
	for _, c := range s {
		if c >= 0xdf {
			return longUpper.Replace(strings.ToUpper(s))
		}
	}
	return strings.ToUpper(s)
}

// longUpper maps what strings.ToUpper leaves as it is: the unconditional mappings of Unicode's SpecialCasing.txt.
var longUpper = strings.NewReplacer(pairs(
	"ßSS ŉ\u02bcN ǰJ\u030c \u0390\u0399\u0308\u0301 \u03b0\u03a5\u0308\u0301 \u0587\u0535\u0552 \u1e96H\u0331 \u1e97T\u0308 \u1e98W\u030a \u1e99Y\u030a \u1e9aA\u02be \u1f50\u03a5\u0313 \u1f52\u03a5\u0313\u0300 \u1f54\u03a5\u0313\u0301 \u1f56\u03a5\u0313\u0342 " +
		"\u1f80\u1f08\u0399 \u1f81\u1f09\u0399 \u1f82\u1f0a\u0399 \u1f83\u1f0b\u0399 \u1f84\u1f0c\u0399 \u1f85\u1f0d\u0399 \u1f86\u1f0e\u0399 \u1f87\u1f0f\u0399 \u1f88\u1f08\u0399 \u1f89\u1f09\u0399 \u1f8a\u1f0a\u0399 \u1f8b\u1f0b\u0399 \u1f8c\u1f0c\u0399 \u1f8d\u1f0d\u0399 \u1f8e\u1f0e\u0399 \u1f8f\u1f0f\u0399 " +
		"\u1f90\u1f28\u0399 \u1f91\u1f29\u0399 \u1f92\u1f2a\u0399 \u1f93\u1f2b\u0399 \u1f94\u1f2c\u0399 \u1f95\u1f2d\u0399 \u1f96\u1f2e\u0399 \u1f97\u1f2f\u0399 \u1f98\u1f28\u0399 \u1f99\u1f29\u0399 \u1f9a\u1f2a\u0399 \u1f9b\u1f2b\u0399 \u1f9c\u1f2c\u0399 \u1f9d\u1f2d\u0399 \u1f9e\u1f2e\u0399 \u1f9f\u1f2f\u0399 " +
		"\u1fa0\u1f68\u0399 \u1fa1\u1f69\u0399 \u1fa2\u1f6a\u0399 \u1fa3\u1f6b\u0399 \u1fa4\u1f6c\u0399 \u1fa5\u1f6d\u0399 \u1fa6\u1f6e\u0399 \u1fa7\u1f6f\u0399 \u1fa8\u1f68\u0399 \u1fa9\u1f69\u0399 \u1faa\u1f6a\u0399 \u1fab\u1f6b\u0399 \u1fac\u1f6c\u0399 \u1fad\u1f6d\u0399 \u1fae\u1f6e\u0399 \u1faf\u1f6f\u0399 " +
		"\u1fb2\u1fba\u0399 \u1fb3\u0391\u0399 \u1fb4\u0386\u0399 \u1fb6\u0391\u0342 \u1fb7\u0391\u0342\u0399 \u1fbc\u0391\u0399 \u1fc2\u1fca\u0399 \u1fc3\u0397\u0399 \u1fc4\u0389\u0399 \u1fc6\u0397\u0342 \u1fc7\u0397\u0342\u0399 \u1fcc\u0397\u0399 \u1fd2\u0399\u0308\u0300 \u1fd3\u0399\u0308\u0301 \u1fd6\u0399\u0342 " +
		"\u1fd7\u0399\u0308\u0342 \u1fe2\u03a5\u0308\u0300 \u1fe3\u03a5\u0308\u0301 \u1fe4\u03a1\u0313 \u1fe6\u03a5\u0342 \u1fe7\u03a5\u0308\u0342 \u1ff2\u1ffa\u0399 \u1ff3\u03a9\u0399 \u1ff4\u038f\u0399 \u1ff6\u03a9\u0342 \u1ff7\u03a9\u0342\u0399 \u1ffc\u03a9\u0399 \ufb00FF \ufb01FI " +
		"\ufb02FL \ufb03FFI \ufb04FFL \ufb05ST \ufb06ST \ufb13\u0544\u0546 \ufb14\u0544\u0535 \ufb15\u0544\u053b \ufb16\u054e\u0546 \ufb17\u0544\u053d",
)...)

// pairs splits words into their first character and the rest.
func pairs(words string) []string {
	var list []string
	for word := range strings.FieldsSeq(words) {
		for i := range word {
			if i > 0 {
				list = append(list, word[:i], word[i:])
				break
			}
		}
	}
	return list
}
