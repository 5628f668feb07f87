package tokenizer_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

func ExampleNewChar() {
	t, err := tokenizer.NewChar(tokenizer.CharConfig{
		Special: []string{"<pad>", "<eos>"}, Alphabet: "abc >", EOS: "<eos>", Pad: "<pad>",
	})
	if err != nil {
		panic(err)
	}
	ids, _ := t.Encode("cab > abc<eos>")
	text, _ := t.Decode(ids)
	fmt.Println(ids, text, t.EOS())
	_, err = t.Encode("cab?")
	fmt.Println(err)
	// Output:
	// [4 2 3 5 6 5 2 3 4 1] cab > abc<eos> 1
	// character "?" at byte 3 is not in the tokenizer's alphabet
}

// Nothing may be lost between text and ids, and a saved tokenizer must be the same tokenizer.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alphabet := rapid.SliceOfNDistinct(rapid.Rune(), 0, 30, rapid.ID).Draw(t, "alphabet")
		specials := rapid.SliceOfNDistinct(rapid.StringN(1, 5, -1), 1, 5, rapid.ID).Draw(t, "specials")
		specials = slices.DeleteFunc(specials, func(s string) bool { return len([]rune(s)) == 1 && slices.Contains(alphabet, []rune(s)[0]) })
		if len(specials) == 0 {
			specials = []string{"<end>"}
		}
		c := tokenizer.CharConfig{Special: specials, Alphabet: string(alphabet), EOS: rapid.SampledFrom(specials).Draw(t, "eos")}
		tok, err := tokenizer.NewChar(c)
		if err != nil {
			t.Fatal(err)
		}
		pieces := append(slices.Clone(specials), strings.Split(string(alphabet), "")...)
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom(pieces)).Draw(t, "text"), "")
		ids, err := tok.Encode(text)
		// A special token may swallow the beginning of another one; what is left of that may be unknown characters.
		if err == nil {
			back, err := tok.Decode(ids)
			if err != nil || back != text {
				t.Fatalf("%q became %q: %v", text, back, err)
			}
		} else if !strings.Contains(err.Error(), "alphabet") {
			t.Fatal(err)
		}
		files, err := tok.Files()
		if err != nil {
			t.Fatal(err)
		}
		again, err := tokenizer.ParseChar(files[tokenizer.FileName], files[tokenizer.ConfigFileName])
		if err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(again.Config()) != fmt.Sprint(tok.Config()) || again.EOS() != tok.EOS() || again.VocabSize() != tok.VocabSize() {
			t.Fatalf("%+v became %+v", tok.Config(), again.Config())
		}
	})
}

// The longest special token wins, as in Hugging Face's tokenizers; otherwise ids would differ between the two.
func TestLongestSpecialToken(t *testing.T) {
	tok, err := tokenizer.NewChar(tokenizer.CharConfig{Special: []string{"<a", "<a>", "é!"}, Alphabet: "a<>é!"})
	require.NoError(t, err)
	for text, want := range map[string][]int32{
		"<a>": {1}, "<aa": {0, 3}, "<<a": {4, 0}, "é!é": {2, 6}, "": {},
	} {
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		require.Equal(t, want, ids, text)
	}
	_, err = tok.Decode([]int32{0, 8})
	require.ErrorContains(t, err, "token 8 at 1")
	_, err = tok.Encode("a\xffb")
	require.ErrorContains(t, err, "at byte 1")
	require.Equal(t, []int32{tokenizer.None, tokenizer.None, tokenizer.None}, []int32{tok.EOS(), tok.BOS(), tok.Pad()})
	id, ok := tok.ID("é!")
	require.True(t, ok)
	require.EqualValues(t, 2, id)
}

// Each mistake must name the field, so that it can be mended.
func TestValidate(t *testing.T) {
	for want, c := range map[string]tokenizer.CharConfig{
		"no tokens":             {},
		"Special[1] is empty":   {Special: []string{"a", ""}},
		"Special[0]":            {Special: []string{"\xff"}},
		`Special has "x" twice`: {Special: []string{"x", "x"}},
		"Alphabet is not valid": {Alphabet: "a\xff"},
		"'a' stands twice":      {Alphabet: "aba"},
		"'b' stands twice":      {Alphabet: "ab", Special: []string{"b"}},
		`EOS is "e"`:            {Alphabet: "ab", EOS: "e"},
		`BOS is "a"`:            {Alphabet: "ab", BOS: "a"},
		`Pad is "p", allowed`:   {Alphabet: "ab", Special: []string{"q"}, Pad: "p"},
	} {
		_, err := tokenizer.NewChar(c)
		require.ErrorContains(t, err, want)
	}
}

// A tokenizer of another kind must not be taken for a character tokenizer: all ids would be wrong.
func TestParseCharRefuses(t *testing.T) {
	tok, err := tokenizer.NewChar(tokenizer.CharConfig{Special: []string{"<e>"}, Alphabet: "ab"})
	require.NoError(t, err)
	files, err := tok.Files()
	require.NoError(t, err)
	good := string(files[tokenizer.FileName])
	for _, change := range [][2]string{
		{`"normalizer": null`, `"normalizer": {"type":"NFC"}`},
		{`"WordLevel"`, `"BPE"`}, {`"Fuse"`, `"ByteLevel"`}, {`"invert": false`, `"invert": true`},
		{`"b": 2`, `"bc": 2`}, {`"lstrip": false`, `"lstrip": true`}, {`"version"`, `"dropout": 0.1, "version"`},
	} {
		changed := strings.Replace(good, change[0], change[1], 1)
		require.NotEqual(t, good, changed, change)
		_, err := tokenizer.ParseChar([]byte(changed), nil)
		require.ErrorIs(t, err, tokenizer.ErrNotChar, change)
	}
	for _, change := range [][2]string{{`"b": 2`, `"b": 7`}, {`"b": 2`, `"b": -1`}, {`"b": 2`, `"b": 1`}, {`{`, `[`}} {
		_, err := tokenizer.ParseChar([]byte(strings.Replace(good, change[0], change[1], 1)), nil)
		require.Error(t, err, change)
	}
	_, err = tokenizer.ParseChar([]byte(good), []byte(`{"eos_token": "<nowhere>"}`))
	require.ErrorContains(t, err, "EOS")
	for _, path := range golden.Glob(t, "tokenizers/*/tokenizer.json") {
		_, err = tokenizer.ParseChar(golden.Read(t, path), nil)
		require.ErrorIs(t, err, tokenizer.ErrNotChar, path)
	}
}

// No file may crash the reader.
func FuzzParseChar(f *testing.F) {
	tok, err := tokenizer.NewChar(tokenizer.CharConfig{Special: []string{"<e>"}, Alphabet: "ab", EOS: "<e>"})
	require.NoError(f, err)
	files, err := tok.Files()
	require.NoError(f, err)
	f.Add(files[tokenizer.FileName], files[tokenizer.ConfigFileName])
	f.Fuzz(func(t *testing.T, file, config []byte) {
		tok, err := tokenizer.ParseChar(file, config)
		if err != nil {
			return
		}
		again, err := tok.Files()
		if err != nil || !json.Valid(again[tokenizer.FileName]) {
			t.Fatal(err)
		}
	})
}
