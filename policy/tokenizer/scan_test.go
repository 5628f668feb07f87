package tokenizer

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/golden"
)

var scanners = map[string]scanner{
	"qwen2":   scannerFor(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`),
	"qwen3_5": scannerFor(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`),
	"llama3":  scannerFor(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`),
	"gpt2":    scannerFor(gpt2Pattern),
	"smollm2": &gpt2Scanner{classes(), numeric},
}

// A wrong border makes other tokens only with some vocabularies, so that it would be found late.
func TestGoldenScanners(t *testing.T) {
	total := 0
	for _, path := range golden.Glob(t, "tokenizers/pretok.jsonl") {
		for _, line := range golden.Lines(t, path) {
			var row map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(line, &row))
			var tag, text string
			require.NoError(t, json.Unmarshal(row["text"], &text))
			require.NoError(t, json.Unmarshal(row["tag"], &tag))
			delete(row, "text")
			delete(row, "tag")
			for name, lengths := range row {
				var want, got []int
				require.NoError(t, json.Unmarshal(lengths, &want))
				s, ok := scanners[name]
				require.True(t, ok, "no scanner %q", name)
				for i := 0; i < len(text); {
					end := s.next(text, i)
					got = append(got, end-i)
					i = end
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s (%s): %.200q\ngot  %v\nwant %v", name, tag, text, got, want)
				}
				total++
			}
		}
	}
	t.Logf("%d texts and patterns", total)
}

// The released tokenizers were trained with these tables: a character in another class is cut at another place.
func TestGoldenUnicode(t *testing.T) {
	for _, path := range golden.Glob(t, "tokenizers/hf_unicode.json") {
		var u map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(golden.Read(t, path), &u))
		table := classes()
		for name, c := range map[string]class{"L": letter, "M": mark, "N": number, "s": space, "is_numeric": numeric} {
			var ranges [][2]rune
			require.NoError(t, json.Unmarshal(u[name], &ranges))
			in := func(r rune) bool {
				_, ok := slices.BinarySearchFunc(ranges, r, func(x [2]rune, r rune) int {
					switch {
					case r < x[0]:
						return 1
					case r > x[1]:
						return -1
					}
					return 0
				})
				return ok
			}
			for r := rune(0); r <= 0x10FFFF; r++ {
				if got := table.of(r)&c != 0; got != in(r) {
					t.Fatalf("U+%04X in %s: %t", r, name, got)
				}
			}
		}
		var n struct {
			CCC    [][2]rune
			Decomp [][]rune
			Comp   [][3]rune
		}
		require.NoError(t, json.Unmarshal(u["nfc"], &n))
		d := nfcTables()
		require.Len(t, d.class, len(n.CCC))
		for _, c := range n.CCC {
			require.EqualValues(t, c[1], d.class[c[0]], "class of U+%04X", c[0])
		}
		require.Len(t, d.decompose, len(n.Decomp))
		for _, c := range n.Decomp {
			require.Equal(t, c[1:], d.decompose[c[0]], "U+%04X", c[0])
		}
		require.Len(t, d.compose, len(n.Comp))
		for _, c := range n.Comp {
			require.Equal(t, c[2], d.compose[[2]rune{c[0], c[1]}], "U+%04X U+%04X", c[0], c[1])
		}
	}
}
