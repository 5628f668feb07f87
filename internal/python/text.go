package python

import (
	"strings"
	"unicode"
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

// IsAlpha is str.isalpha(): true if there is a character and all are letters.
func IsAlpha(s string) bool {
	for _, c := range s {
		if !unicode.IsLetter(c) {
			return false
		}
	}
	return s != ""
}
