package tokenizer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/grouper-rl/grouper/policy/tokenizer"
)

const qwenPattern = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

type object = map[string]any

// spelled gives the character that stands for a byte in byte-level vocabularies.
func spelled(b byte) string {
	n := 0
	for i := range int(b) + 1 {
		printable := '!' <= i && i <= '~' || 0xA1 <= i && i <= 0xFF && i != 0xAD
		switch {
		case i == int(b) && printable:
			return string(rune(b))
		case i == int(b):
			return string(rune(0x100 + n))
		case !printable:
			n++
		}
	}
	panic("not reached")
}

// byteLevel is a tokenizer.json with all bytes (ids 0 to 255), the merges given as pairs of ordinary text, the added tokens
// <end> (special) and <note> after them, and Qwen3's other settings.
func byteLevel(merges ...[2]string) object {
	spell := func(s string) string {
		var b strings.Builder
		for i := range len(s) {
			b.WriteString(spelled(s[i]))
		}
		return b.String()
	}
	vocab := object{}
	for b := range 256 {
		vocab[spelled(byte(b))] = b
	}
	pairs := []any{}
	for i, m := range merges {
		vocab[spell(m[0]+m[1])] = 256 + i
		pairs = append(pairs, []any{spell(m[0]), spell(m[1])})
	}
	step := object{"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false}
	return object{
		"version": "1.0",
		"added_tokens": []any{
			object{"id": 256 + len(merges), "content": "<end>", "special": true},
			object{"id": 257 + len(merges), "content": "<note>", "normalized": false},
		},
		"normalizer": object{"type": "NFC"},
		"pre_tokenizer": object{"type": "Sequence", "pretokenizers": []any{
			object{"type": "Split", "pattern": object{"Regex": qwenPattern}, "behavior": "Isolated", "invert": false}, step}},
		"post_processor": step, "decoder": step,
		"model": object{"type": "BPE", "vocab": vocab, "merges": pairs},
	}
}

// byteFallback is a tokenizer.json of the kind that Llama 2 and Gemma have, with the characters of text in its vocabulary.
func byteFallback(text string) object {
	vocab := object{"<unk>": 0}
	for b := range 256 {
		vocab[fmt.Sprintf("<0x%02X>", b)] = len(vocab)
	}
	for _, r := range "\u2581" + text {
		if _, ok := vocab[string(r)]; !ok {
			vocab[string(r)] = len(vocab)
		}
	}
	replace := func(from, to string) object {
		return object{"type": "Replace", "pattern": object{"String": from}, "content": to}
	}
	return object{
		"added_tokens": []any{object{"id": 0, "content": "<unk>", "special": true}},
		"normalizer":   object{"type": "Sequence", "normalizers": []any{object{"type": "Prepend", "prepend": "\u2581"}, replace(" ", "\u2581")}},
		"decoder": object{"type": "Sequence", "decoders": []any{replace("\u2581", " "), object{"type": "ByteFallback"},
			object{"type": "Fuse"}, object{"type": "Strip", "content": " ", "start": 1, "stop": 0}}},
		"model": object{"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": vocab, "merges": []any{}},
	}
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

func parse(t testing.TB, file object) *tokenizer.BPE {
	t.Helper()
	tok, err := tokenizer.ParseBPE(marshal(t, file), nil)
	require.NoError(t, err)
	return tok
}

func ExampleLoad() {
	folder := fstest.MapFS{ // os.DirFS("Qwen3-0.6B")
		"tokenizer.json":        {Data: toyFile()},
		"tokenizer_config.json": {Data: []byte(`{"eos_token": "<end>"}`)},
	}
	t, err := tokenizer.Load(folder)
	if err != nil {
		panic(err)
	}
	ids, _ := t.Encode("the theme<end>")
	text, _ := t.Decode(ids)
	fmt.Println(ids, text, t.EOS())
	// Output:
	// [257 32 257 109 101 258] the theme<end> 258
}

func ExampleBPE_Stream() {
	t, err := tokenizer.ParseBPE(toyFile(), nil)
	if err != nil {
		panic(err)
	}
	ids, _ := t.Encode("the 中!")
	s := t.Stream(true)
	for _, id := range ids {
		fmt.Printf("%q ", s.Next(id))
	}
	fmt.Printf("%q\n", s.Flush())
	// Output:
	// "the" " " "" "" "中" "!" ""
}

func toyFile() []byte {
	b, err := json.Marshal(byteLevel([2]string{"t", "h"}, [2]string{"th", "e"}))
	if err != nil {
		panic(err)
	}
	return b
}

// What a policy is trained on must be what the user wrote.
func TestBPERoundTrip(t *testing.T) {
	raw := byteLevel([2]string{"a", "b"}, [2]string{"\xe4", "\xb8"}, [2]string{" ", "a"})
	delete(raw, "normalizer")
	bytes, fallback := parse(t, raw), parse(t, byteFallback("ab \n中"))
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.OneOf(rapid.SampledFrom([]string{"ab", " ", "  ", "\n", "中", "<end>", "<note>", "don't", "12"}), rapid.String())).Draw(t, "text"), "")
		for _, tok := range []*tokenizer.BPE{bytes, fallback} {
			ids, err := tok.Encode(text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := tok.Decode(ids)
			want := text
			if tok == fallback { // U+2581 stands for the space
				want = strings.ReplaceAll(text, "\u2581", " ")
				if strings.Contains(text, "<unk>") {
					continue
				}
			}
			if err != nil || got != want {
				t.Fatalf("%q became %q (%v) by %v", want, got, err, ids)
			}
			if got := stream(tok, ids, false); got != want {
				t.Fatalf("%q streamed %q", want, got)
			}
		}
	})
}

// Any ids may be sampled: text comes out valid and the same in one go and in a stream.
func TestDecodeAnything(t *testing.T) {
	toks := []*tokenizer.BPE{parse(t, byteLevel([2]string{"\xe4", "\xb8"})), parse(t, byteFallback("ab"))}
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.Int32Range(0, 270)).Draw(t, "ids")
		for _, tok := range toks {
			for _, skip := range []bool{false, true} {
				whole, err := tok.Decode(ids)
				if skip {
					whole, err = tok.DecodeSkipSpecial(ids)
				}
				if err != nil || strings.ToValidUTF8(whole, "!") != whole {
					t.Fatalf("%q, %v", whole, err)
				}
				if got := stream(tok, ids, skip); got != whole {
					t.Fatalf("%v streamed %q, decoded %q", ids, got, whole)
				}
			}
		}
	})
	_, err := toks[0].Decode([]int32{5, -1})
	require.ErrorContains(t, err, "token -1 at 1")
	s := toks[1].Stream(false)
	for range 2 { // a stream begins anew after Flush
		require.Equal(t, "", s.Next(0x21+1)+s.Next(-1)+s.Next(9999))
		require.Equal(t, "!", s.Flush())
	}
}

// Text that is not UTF-8 has no ids in the reference, so that it is refused and not mended.
func TestEncodeInvalid(t *testing.T) {
	tok := parse(t, byteLevel())
	_, err := tok.Encode("aé\xffb")
	require.ErrorContains(t, err, "byte 3")
	ids, err := tok.AppendEncode([]int32{7}, "a\xe4\xb8")
	require.ErrorContains(t, err, "byte 1")
	require.Equal(t, []int32{7}, ids)
}

// Added tokens are cut out of the text before anything else, with flags that decide which white space goes with them.
func TestAddedTokens(t *testing.T) {
	file := byteLevel()
	token := func(id int, content string, flags ...string) object {
		o := object{"id": id, "content": content}
		for _, f := range flags {
			o[f] = true
		}
		return o
	}
	file["added_tokens"] = []any{
		token(300, "<l>", "lstrip"), token(301, "<r>", "rstrip"), token(302, "cat", "single_word"), token(303, "<a"), token(304, "<ab>"),
		token(305, "caf\u00e9", "normalized"), token(306, "\n\n"), token(307, "\t", "lstrip"), token(308, "<x>", "special"),
	}
	tok := parse(t, file)
	for text, want := range map[string][]int32{
		"  <l>  ":       {300, 32, 32},            // white space to the left goes, also with a piece of its own
		"  <r>  a":      {32, 32, 301, 'a'},       //
		"<r> <l>":       {301, 300},               // the first one has it
		"<ab> <abc":     {304, 32, 303, 'b', 'c'}, // leftmost, then longest
		"cat, cats":     {302, ',', 32, 'c', 'a', 't', 's'},
		"cafe\u0301<x>": {305, 308},               // matched after normalisation, whole
		"e<x>\u0301":    {'e', 308, 0xCC, 0x81},   // and that does not join over a token
		"<r>\n\n \n\na": {301, 306, 32, 306, 'a'}, // a token inside of white space that was taken counts, and gives the rest back
		"<r>\t<x>":      {301, 308},               // unless nothing is left of it
		"<en":           {'<', 'e', 'n'},
	} {
		ids, err := tok.Encode(text)
		require.NoError(t, err)
		require.Equal(t, want, ids, "%q", text)
	}
	id, ok := tok.ID("<x>")
	require.True(t, ok)
	require.EqualValues(t, 308, id)
	_, ok = tok.ID("<y>")
	require.False(t, ok)
	require.Equal(t, 309, tok.VocabSize())
	text, err := tok.Decode([]int32{'a', 299, 308, 9999})
	require.NoError(t, err)
	require.Equal(t, "a<x>", text)
	_, ok = tok.Bytes(299)
	require.False(t, ok)
}

// A byte without a token vanishes, or becomes the unknown token if there is one.
func TestUnknown(t *testing.T) {
	file := byteLevel([2]string{"a", "b"})
	vocab := file["model"].(object)["vocab"].(object)
	delete(vocab, spelled(1))
	delete(vocab, spelled(2))
	ids, err := parse(t, file).Encode("a\x01b\x01中")
	require.NoError(t, err)
	require.Equal(t, []int32{'a', 'b', 0xE4, 0xB8, 0xAD}, ids) // other pieces: no merge
	ids, err = parse(t, file).Encode("\x01!\x02\x01!")
	require.NoError(t, err)
	require.Equal(t, []int32{'!', '!'}, ids)
	file["model"].(object)["unk_token"] = "?"
	for fuse, want := range map[bool][]int32{false: {'?', '!', '?', '?', '!'}, true: {'?', '!', '?', '!'}} {
		file["model"].(object)["fuse_unk"] = fuse
		ids, err = parse(t, file).Encode("\x01!\x02\x01!")
		require.NoError(t, err)
		require.Equal(t, want, ids)
	}
}

// edit changes a place in a file that is given by its keys; nil deletes it.
func edit(file object, value any, keys ...string) object {
	file = maps.Clone(file)
	if len(keys) > 1 {
		file[keys[0]] = edit(file[keys[0]].(object), value, keys[1:]...)
	} else if file[keys[0]] = value; value == nil {
		delete(file, keys[0])
	}
	return file
}

// A file that is wrong must say where, one that needs more than is implemented must say what: both before any id is made.
func TestParseRefuses(t *testing.T) {
	good := byteLevel([2]string{"a", "b"})
	fallback := byteFallback("ab")
	vocab := good["model"].(object)["vocab"].(object)
	double := object{"type": "Replace", "pattern": object{"String": "a"}, "content": "aa"}
	for name, c := range map[string]struct {
		file        any
		want        string
		unsupported bool
	}{
		"not JSON":          {json.RawMessage(`"x"`), "cannot unmarshal", false},
		"duplicate id":      {edit(good, 97, "model", "vocab", "ab"), `model.vocab: token "`, false},
		"negative id":       {edit(good, -1, "model", "vocab", "ab"), `token "ab" has id -1, allowed are 0 to`, false},
		"absurd id":         {edit(good, 1<<30, "model", "vocab", "ab"), `token "ab" has id 1073741824, allowed are 0 to`, false},
		"id of many digits": {edit(good, json.Number("99999999999999999999"), "model", "vocab", "ab"), `token "ab" has id 99999999999999999999`, false},
		"fraction as id":    {edit(good, 1.5, "model", "vocab", "ab"), `token "ab" has id 1.5`, false},
		"list as vocab":     {edit(good, []any{}, "model", "vocab"), "model.vocab: not an object", false},
		"no vocab":          {edit(good, nil, "model", "vocab"), "model.vocab: not an object", false},
		"no merges":         {edit(good, nil, "model", "merges"), "model.merges: not a list", false},
		"merge of three":    {edit(good, []any{"a b c"}, "model", "merges"), "model.merges: [0] is not two tokens", false},
		"merge of one":      {edit(good, []any{[]any{"a"}}, "model", "merges"), "model.merges: [0] is not a pair", false},
		"merge of numbers":  {edit(good, []any{[]any{1, 2}}, "model", "merges"), "model.merges: [0] is not a pair", false},
		"merge to nothing":  {edit(good, []any{"a b", []any{"a", "c"}}, "model", "merges"), `model.merges: [1], "a" and "c": "ac" is not in`, false},
		"added id taken":    {edit(good, []any{object{"id": 97, "content": "<x>"}}, "added_tokens"), `added_tokens[0]: token "<x>" has id 97, which token "a" has`, false},
		"added id differs":  {edit(good, []any{object{"id": 98, "content": "a"}}, "added_tokens"), `added_tokens[0]: token "a" has id 98, in model.vocab it has id 97`, false},
		"added twice":       {edit(good, []any{object{"id": 300, "content": "<x>"}, object{"id": 301, "content": "<x>"}}, "added_tokens"), `added_tokens[1]: token "<x>" twice, with ids 300 and 301`, false},
		"added empty":       {edit(good, []any{object{"id": 300, "content": ""}}, "added_tokens"), "added_tokens[0]: content is empty", false},
		"added ambiguous": {edit(good, []any{object{"id": 300, "content": "<é>", "normalized": true}, object{"id": 301, "content": "<e\u0301>", "normalized": true}}, "added_tokens"),
			"both match", false},
		"added id negative": {edit(good, []any{object{"id": -3, "content": "<x>"}}, "added_tokens"), `token "<x>" has id -3`, false},
		"unknown missing":   {edit(fallback, "<none>", "model", "unk_token"), `model.unk_token: "<none>" is not in the vocabulary`, false},
		"template without its token": {edit(good, object{"type": "TemplateProcessing", "single": []any{object{"SpecialToken": object{"id": "<s>"}}}}, "post_processor"),
			`post_processor: single[0] is token "<s>"`, false},
		"template with a wrong id": {edit(good, object{"type": "TemplateProcessing", "single": []any{object{"SpecialToken": object{"id": "<s>"}}},
			"special_tokens": object{"<s>": object{"ids": []any{4000}}}}, "post_processor"), "id 4000", false},
		"template without text": {edit(good, object{"type": "TemplateProcessing", "single": []any{}}, "post_processor"), "the text 0 times", false},
		"template of two texts": {edit(good, object{"type": "TemplateProcessing", "single": []any{object{"Sequence": object{"id": "B"}}}}, "post_processor"),
			"single[0] is neither", false},

		"version":            {edit(good, "2.0", "version"), `version: "2.0"`, true},
		"other model":        {edit(good, "Unigram", "model", "type"), `model.type: "Unigram"`, true},
		"prefix":             {edit(good, "##", "model", "continuing_subword_prefix"), `continuing_subword_prefix: "##"`, true},
		"suffix":             {edit(good, "</w>", "model", "end_of_word_suffix"), `end_of_word_suffix: "</w>"`, true},
		"dropout":            {edit(good, .5, "model", "dropout"), "model.dropout: 0.5", true},
		"fallback and bytes": {edit(edit(good, true, "model", "byte_fallback"), nil, "model", "vocab", "x"), "model.byte_fallback", true},
		"normalizer":         {edit(good, object{"type": "NFKC"}, "normalizer"), `normalizer: type "NFKC"`, true},
		"replace by regex":   {edit(good, object{"type": "Replace", "pattern": object{"Regex": " +"}}, "normalizer"), `Replace with pattern Regex " +"`, true},
		"normalizer deep": {edit(good, object{"type": "Sequence", "normalizers": []any{object{"type": "NFC"}, object{"type": "Sequence", "normalizers": []any{object{"type": "Nmt"}}}}}, "normalizer"),
			`normalizer.normalizers[1].normalizers[0]: type "Nmt"`, true},
		"text without measure": {edit(good, object{"type": "Sequence", "normalizers": []any{double, double, double, double, double, double, double}}, "normalizer"),
			"normalizer: of text it makes up to 128 times as much", true},
		"long prefix":       {edit(good, object{"type": "Prepend", "prepend": strings.Repeat("x", 64)}, "normalizer"), "up to 65 times", true},
		"tokens grow":       {edit(fallback, []any{object{"type": "Replace", "pattern": object{"String": "\u2581"}, "content": strings.Repeat("x", 200)}}, "decoder", "decoders"), "decoder: Replace with content of 200 bytes", true},
		"added without end": {edit(good, []any{object{"id": 300, "content": strings.Repeat("x", 1025)}}, "added_tokens"), "added_tokens[0]: content of 1025 bytes", true},
		"prefix space":      {edit(good, object{"type": "ByteLevel", "add_prefix_space": true}, "pre_tokenizer"), "add_prefix_space", true},
		"no regex":          {edit(good, object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}, "pre_tokenizer"), "ByteLevel with use_regex false", true},
		"pattern":           {edit(good, object{"type": "Sequence", "pretokenizers": []any{object{"type": "Split", "behavior": "Isolated", "pattern": object{"Regex": `\w+`}}, object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}}}, "pre_tokenizer"), `Split with pattern Regex "\\w+"`, true},
		"spaces left":       {edit(edit(fallback, object{"type": "Split", "behavior": "MergedWithPrevious", "pattern": object{"String": " "}}, "pre_tokenizer"), nil, "normalizer"), `Split with pattern String " "`, true},
		"no decoder":        {edit(good, nil, "decoder"), "decoder: none", true},
		"other decoder":     {edit(good, object{"type": "Metaspace"}, "decoder"), `decoder: "Metaspace"`, true},
		"decoder of others": {edit(fallback, object{"type": "ByteLevel"}, "decoder"), `decoder: "ByteLevel"`, true},
		"processor":         {edit(good, object{"type": "BertProcessing"}, "post_processor"), `post_processor: type "BertProcessing"`, true},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := tokenizer.Parse(marshal(t, c.file), nil)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, tokenizer.FileName)
			require.Equal(t, c.unsupported, errors.Is(err, tokenizer.ErrUnsupported), "%v", err)
		})
	}
	require.Contains(t, vocab, "ab", "the edits are copies")

	for text, want := range map[string]string{
		`{"model":{"vocab":{"a":0,}}}`:       "tokenizer.json: at byte 26",
		`{"model":{"type":"BPE"`:             "tokenizer.json: at byte 22",
		"{\"x\":\"\xff\"}":                   "tokenizer.json: not valid UTF-8",
		`{}`:                                 "tokenizer.json: model is missing",
		string(marshal(t, good))[:400] + `"`: "tokenizer.json",
		strings.Replace(string(marshal(t, good)), `"model":`, `"model":{},"model":`, 1): `tokenizer.json: key "model" stands twice`,
		strings.Replace(string(marshal(t, good)), `"a":97`, `"a":97,"a":97`, 1):         `model.vocab: token "a" `,
		strings.Replace(string(marshal(t, good)), `"a":97`, `"a":97,"a":400`, 1):        `model.vocab: token "a" twice`,
	} {
		_, err := tokenizer.Parse([]byte(text), nil)
		require.ErrorContains(t, err, want)
	}
	for config, want := range map[string]string{
		`{"eos_token":"<none>"}`:             `tokenizer_config.json: eos_token: "<none>" is not a token`,
		`{"pad_token":{"content":"<none>"}}`: `tokenizer_config.json: pad_token: "<none>"`,
		`{"bos_token":5}`:                    "tokenizer_config.json",
		`{`:                                  "tokenizer_config.json: at byte 1",
		`{"pad_token":"<end>","pad_token":"<note>"}`: `tokenizer_config.json: key "pad_token" stands twice`,
	} {
		_, err := tokenizer.Parse(marshal(t, good), []byte(config))
		require.ErrorContains(t, err, want)
	}
	tok, err := tokenizer.Parse(marshal(t, good), []byte(`{"eos_token":{"content":"<end>"},"bos_token":null,"pad_token":"<note>"}`))
	require.NoError(t, err)
	require.Equal(t, []int32{257, tokenizer.None, 258}, []int32{tok.EOS(), tok.BOS(), tok.Pad()})
}

// A folder is opened by what its files say, whichever kind of tokenizer they describe.
func TestLoad(t *testing.T) {
	char, err := tokenizer.NewChar(tokenizer.CharConfig{Special: []string{"<e>"}, Alphabet: "ab", EOS: "<e>"})
	require.NoError(t, err)
	files, err := char.Files()
	require.NoError(t, err)
	folder := fstest.MapFS{}
	_, err = tokenizer.Load(folder)
	require.ErrorIs(t, err, fs.ErrNotExist)
	for name, data := range files {
		folder[name] = &fstest.MapFile{Data: data}
	}
	tok, err := tokenizer.Load(folder)
	require.NoError(t, err)
	require.Equal(t, char.Config(), tok.(*tokenizer.Char).Config())
	folder[tokenizer.FileName] = &fstest.MapFile{Data: toyFile()}
	_, err = tokenizer.Load(folder)
	require.ErrorContains(t, err, "<e>")
	delete(folder, tokenizer.ConfigFileName)
	tok, err = tokenizer.Load(folder)
	require.NoError(t, err)
	require.IsType(t, (*tokenizer.BPE)(nil), tok)
}

// One tokenizer serves all rollouts at once. What it learns about its tokens on the way must not depend on who comes first.
func TestConcurrentUse(t *testing.T) {
	file := byteLevel([2]string{"\xe4", "\xb8"}, [2]string{"\xe4\xb8", "\xad"}, [2]string{"t", "h"}, [2]string{"th", "e"}, [2]string{" ", "the"})
	text := strings.Repeat("the 中 then中中 <note>é\n", 20)
	want, err := parse(t, file).Encode(text)
	require.NoError(t, err)
	tok := parse(t, file)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				got, err := tok.Encode(text)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("%v (%v), want %v", got, err, want)
				}
				if back, err := tok.Decode(got); err != nil || back != text {
					t.Errorf("%q (%v)", back, err)
				}
			}
		})
	}
	all.Wait()
}

// A prompt of a million equal letters must not stop a server: the time grows with the length, not with its square.
func TestLinearTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	merges := [][2]string{}
	for _, c := range []string{"a", " ", "\n", "中"} {
		for n := range 5 {
			half := strings.Repeat(c, 1<<n)
			merges = append(merges, [2]string{half, half})
		}
		if c == "\n" {
			merges = append(merges, [2]string{"\xe4", "\xb8"}, [2]string{"\xe4\xb8", "\xad"})
		}
	}
	marks := byteFallback("a中\u0301")
	for name, tok := range map[string]*tokenizer.BPE{"byte level": parse(t, byteLevel(merges...)), "byte fallback": parse(t, marks)} {
		for _, unit := range []string{"a", " ", "\n", "1", "中", "\u0301", "<"} {
			seconds := func(size int) float64 {
				best := math.Inf(1)
				text := strings.Repeat(unit, size/len(unit))
				for range 3 {
					start := cpu()
					ids, err := tok.Encode(text)
					require.NoError(t, err)
					back, err := tok.Decode(ids)
					require.NoError(t, err)
					best = min(best, float64(cpu()-start)/1e9)
					require.Equal(t, len(text), len(back))
				}
				return best
			}
			size := 1 << 18
			if unit == "a" {
				size = 1 << 20
			}
			short, long := seconds(size/16), seconds(size)
			if long > 80*short { // 16 times the text; the square would be 256
				t.Errorf("%s, %q: %.4f s for %d bytes, %.4f s for %d", name, unit, short, size/16, long, size)
			}
		}
	}
}

// cpu is the CPU time of this process in nanoseconds: a busy machine changes it less than the time that passes.
func cpu() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
