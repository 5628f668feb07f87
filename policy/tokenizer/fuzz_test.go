package tokenizer_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// No file may crash the reader, or make a tokenizer that crashes.
func FuzzParse(f *testing.F) {
	char, err := tokenizer.NewChar(tokenizer.CharConfig{Special: []string{"<e>"}, Alphabet: "ab", EOS: "<e>"})
	require.NoError(f, err)
	files, err := char.Files()
	require.NoError(f, err)
	f.Add(files[tokenizer.FileName], files[tokenizer.ConfigFileName])
	f.Add(toyFile(), []byte(`{"eos_token": {"content": "<end>"}}`))
	f.Add(marshal(f, byteFallback("ab")), []byte(`{}`))
	f.Fuzz(func(t *testing.T, file, config []byte) {
		tok, err := tokenizer.Parse(file, config)
		if err != nil {
			if !strings.Contains(err.Error(), tokenizer.FileName) && !strings.Contains(err.Error(), tokenizer.ConfigFileName) {
				t.Fatalf("which file? %v", err)
			}
			return
		}
		ids, err := tok.Encode("ab <e>中é e\u0301\n")
		for _, id := range ids {
			if id < 0 || int(id) >= tok.VocabSize() {
				t.Fatalf("id %d of %d", id, tok.VocabSize())
			}
		}
		if err != nil {
			ids = []int32{0}
		}
		text, err := tok.Decode(ids)
		if err != nil || !utf8.ValidString(text) {
			t.Fatalf("%v: %q, %v", ids, text, err)
		}
	})
}

// Whatever is written comes back, in normalisation form C where the file asks for that: nothing a user writes may be lost.
func FuzzEncode(f *testing.F) {
	merges := [][2]string{{"t", "h"}, {"th", "e"}, {" ", "the"}, {"\xe4", "\xb8"}, {"\xe4\xb8", "\xad"}, {"\xad", "\xe4"}, {"a", "a"}, {"aa", "aa"}}
	normal := byteLevel(merges...)
	raw := edit(normal, nil, "normalizer")
	gpt2 := edit(raw, object{"type": "ByteLevel", "add_prefix_space": false}, "pre_tokenizer")
	smollm := edit(raw, object{"type": "Sequence", "pretokenizers": []any{object{"type": "Digits", "individual_digits": true},
		object{"type": "ByteLevel", "add_prefix_space": false}}}, "pre_tokenizer")
	toks := []*tokenizer.BPE{parse(f, raw), parse(f, gpt2), parse(f, smollm), parse(f, byteFallback("ab中"))}
	nfc := parse(f, normal)
	for _, text := range []string{"the theme\n\n  ends<end>", "中文，中中 12345 '\u017fa", "e\u0301\u0301\u0316 한글", strings.Repeat("a", 300), "\xff", "\r\n \u00a0\u3000x", "U\u0308<note>"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range toks {
			ids, err := tok.Encode(text)
			if utf8.ValidString(text) != (err == nil) {
				t.Fatalf("%q: %v", text, err)
			}
			if err != nil {
				continue
			}
			want := text
			if i == 3 {
				want = strings.ReplaceAll(text, "\u2581", " ")
				if strings.Contains(text, "<unk>") {
					continue
				}
			}
			got, err := tok.Decode(ids)
			if err != nil || got != want {
				t.Fatalf("tokenizer %d: %q became %q (%v)", i, text, got, err)
			}
			if got := stream(tok, ids, false); got != want {
				t.Fatalf("tokenizer %d: %q streamed %q", i, text, got)
			}
		}
		// Normalising twice is normalising once, and added tokens part the text.
		ids, err := nfc.Encode(text)
		if err != nil {
			return
		}
		once, err := nfc.Decode(ids)
		if err != nil {
			t.Fatal(err)
		}
		again, err := nfc.Encode(once)
		if err != nil {
			t.Fatal(err)
		}
		if twice, err := nfc.Decode(again); err != nil || twice != once {
			t.Fatalf("%q, then %q, then %q (%v)", text, once, twice, err)
		}
	})
}
