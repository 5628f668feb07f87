package envs

import (
	"strings"

	"github.com/grouper-rl/grouper/internal/python"
)

// Extract returns what stands in the last <tag>…</tag> of a completion, without white space around it, and whether there
// is one. It does what reasoning_gym.utils.extract_answer does at upstream's revision 49b07130b3fcd12f2d064bba7c43869543a0e7e7,
// which takes the last match of `<tag>\s?(.*?)\s?</tag>`: an element starts at the first opening tag after the element
// before it and ends at the first closing tag, tags are case-sensitive, and white space is Python's. Unlike there, the tag
// is a name and not a pattern.
func Extract(completion, tag string) (answer string, ok bool) {
	opening, closing := "<"+tag+">", "</"+tag+">"
	for rest := completion; ; {
		_, after, opened := strings.Cut(rest, opening)
		if !opened {
			break
		}
		inner, next, closed := strings.Cut(after, closing)
		if !closed {
			break
		}
		answer, ok, rest = inner, true, next
	}
	return python.Strip(answer), ok
}
