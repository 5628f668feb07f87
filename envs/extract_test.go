package envs

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/internal/golden"
)

// The answer that is scored must be the one that upstream would score, or accuracies cannot be compared.
func TestExtractGolden(t *testing.T) {
	cases := 0
	for _, path := range golden.Glob(t, "reasoninggym/extract.json") {
		var file struct {
			Cases []map[string]*string
		}
		if err := json.Unmarshal(golden.Read(t, path), &file); err != nil {
			t.Fatal(err)
		}
		for _, c := range file.Cases {
			tags := map[string]*string{"answer": c["answer"], "think": nil, "final": nil} // absent: nothing to find
			for name, want := range c {
				if tag, ok := strings.CutPrefix(name, "tag_"); ok {
					tags[tag] = want
				}
			}
			for tag, want := range tags {
				cases++
				got, ok := Extract(*c["completion"], tag)
				if ok != (want != nil) || ok && got != *want {
					t.Errorf("%s of %q: got %q, %v", tag, *c["completion"], got, ok)
				}
			}
		}
	}
	t.Logf("%d extractions", cases)
	if cases == 0 {
		t.Fatal("no case ran")
	}
}

// pattern is upstream's, with Python's white space written out.
var pattern = regexp.MustCompile(`(?s)<answer>` + space + `?(.*?)` + space + `?</answer>`)

const space = `[\t-\r\x1c- \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}]`

func FuzzExtract(f *testing.F) {
	for _, s := range []string{"<answer>1</answer>", "<answer> \x1f a\u00a0\n</answer><answer>", "<answer><answer>x</answer></answer>", "</answer>", "<answer>1</answer>2<answer></answer>"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := Extract(text, "answer")
		if !utf8.ValidString(text) {
			return
		}
		matches := pattern.FindAllStringSubmatch(text, -1)
		if ok != (len(matches) > 0) {
			t.Fatalf("found %v, the pattern %v", ok, !ok)
		}
		if !ok {
			return
		}
		// The pattern drops at most one white space at each end; stripping drops the rest.
		want, _ := Extract("<answer>"+matches[len(matches)-1][1]+"</answer>", "answer")
		if got != want {
			t.Fatalf("got %q, the pattern %q", got, want)
		}
	})
}
