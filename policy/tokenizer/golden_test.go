package tokenizer_test

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/grouper-rl/grouper/internal/golden"
	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// folder is one folder of golden files with the tokenizer that its ids belong to.
type folder struct {
	path string
	tok  *tokenizer.BPE
}

// folders opens the tokenizer of every golden folder that has the named file. Folders real-NAME hold ids of released
// tokenizers without their files: they are looked for in $GROUPER_TOKENIZERS/NAME and, as whole model folders, in
// $GROUPER_NAME (GROUPER_SMOLLM2 for real-smollm2).
func folders(t *testing.T, file string) []folder {
	var all []folder
	for _, path := range golden.Glob(t, "tokenizers/*/"+file) {
		dir := filepath.Dir(path)
		model := dir
		if name, ok := strings.CutPrefix(filepath.Base(dir), "real-"); ok {
			model = ""
			for _, d := range []string{filepath.Join(os.Getenv("GROUPER_TOKENIZERS"), name), os.Getenv("GROUPER_" + strings.ToUpper(name))} {
				if _, err := os.Stat(filepath.Join(d, tokenizer.FileName)); err == nil && filepath.IsAbs(d) {
					model = d
				}
			}
			if model == "" {
				t.Logf("%s: its tokenizer.json is not here", golden.Name(t, path))
				continue
			}
		}
		optional := func(name string) []byte {
			for _, ext := range []string{"", ".gz"} {
				p := filepath.Join(model, name+ext)
				if _, err := os.Stat(p); err == nil {
					return golden.Read(t, p)
				}
			}
			return nil
		}
		tok, err := tokenizer.Parse(optional(tokenizer.FileName), optional(tokenizer.ConfigFileName))
		require.NoError(t, err, dir)
		all = append(all, folder{path, tok.(*tokenizer.BPE)})
	}
	return all
}

// rows decodes a file of JSON lines.
func rows[T any](t *testing.T, path string) []T {
	var all []T
	for _, line := range golden.Lines(t, path) {
		var row T
		require.NoError(t, json.Unmarshal(line, &row), path)
		all = append(all, row)
	}
	return all
}

// A wrong id trains the policy on another text than the user sees, and other programs read its prompts differently.
func TestGoldenEncode(t *testing.T) {
	total := 0
	for _, f := range folders(t, "encode.jsonl") {
		t.Run(golden.Name(t, f.path), func(t *testing.T) {
			for i, c := range rows[struct {
				Tag, Text   string
				IDs         []int32
				IDsSpecial  []int32 `json:"ids_special"`
				Decoded     *string
				DecodedSkip *string `json:"decoded_skip"`
				Varies      bool    `json:"decode_varies"`
			}](t, f.path) {
				total++
				got, err := f.tok.Encode(c.Text)
				if err != nil || !slices.Equal(got, c.IDs) {
					t.Errorf("row %d (%s): %.200q\ngot  %v (%v)\nwant %v", i, c.Tag, c.Text, got, err, c.IDs)
				}
				want := c.IDs
				if c.IDsSpecial != nil {
					want = c.IDsSpecial
				}
				got, err = f.tok.EncodeSpecial(c.Text)
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("row %d (%s): %.200q with special tokens\ngot  %v (%v)\nwant %v", i, c.Tag, c.Text, got, err, want)
				}
				if c.Varies {
					continue
				}
				decoded := c.Text
				if c.Decoded != nil {
					decoded = *c.Decoded
				}
				checkDecode(t, f.tok, c.IDs, decoded, c.DecodedSkip)
			}
		})
	}
	require.NotZero(t, total)
	t.Logf("%d rows", total)
}

func checkDecode(t *testing.T, tok *tokenizer.BPE, ids []int32, want string, skip *string) {
	t.Helper()
	got, err := tok.Decode(ids)
	if err != nil || got != want {
		t.Errorf("%v decodes to %.200q (%v), want %.200q", ids, got, err, want)
	}
	if skip != nil {
		want = *skip
	}
	got, err = tok.DecodeSkipSpecial(ids)
	if err != nil || got != want {
		t.Errorf("%v without special tokens decodes to %.200q (%v), want %.200q", ids, got, err, want)
	}
	for _, skipSpecial := range []bool{false, true} {
		want, err := tok.Decode(ids)
		if skipSpecial {
			want, err = tok.DecodeSkipSpecial(ids)
		}
		require.NoError(t, err)
		if got := stream(tok, ids, skipSpecial); got != want {
			t.Errorf("%v streams %.200q, decodes to %.200q", ids, got, want)
		}
	}
}

func stream(tok *tokenizer.BPE, ids []int32, skipSpecial bool) string {
	s := tok.Stream(skipSpecial)
	var b strings.Builder
	for _, id := range ids {
		b.WriteString(s.Next(id))
	}
	b.WriteString(s.Flush())
	return b.String()
}

// Policies sample any ids: broken characters, special tokens, rows that no token has. What is graded must be what every other
// program would show.
func TestGoldenDecode(t *testing.T) {
	total := 0
	for _, f := range folders(t, "decode.jsonl") {
		for _, c := range rows[struct {
			IDs         []int32
			Decoded     string
			DecodedSkip *string `json:"decoded_skip"`
		}](t, f.path) {
			total++
			checkDecode(t, f.tok, c.IDs, c.Decoded, c.DecodedSkip)
		}
	}
	require.NotZero(t, total)
	t.Logf("%d rows", total)
}

// A stream must not show half characters, and must not lose any.
func TestGoldenStream(t *testing.T) {
	total := 0
	for _, f := range folders(t, "stream.jsonl") {
		for _, c := range rows[struct {
			IDs         []int32
			SkipSpecial bool `json:"skip_special"`
			Chunks      []*string
		}](t, f.path) {
			total++
			var want strings.Builder // without what the reference holds back at the end
			for _, chunk := range c.Chunks {
				if chunk != nil {
					want.WriteString(*chunk)
				}
			}
			got := stream(f.tok, c.IDs, c.SkipSpecial)
			rest, ok := strings.CutPrefix(got, want.String())
			if !ok || rest != "" && !strings.HasSuffix(rest, "\uFFFD") {
				t.Errorf("%s: %v streams %q, the reference %q", golden.Name(t, f.path), c.IDs, got, want.String())
			}
		}
	}
	require.NotZero(t, total)
	t.Logf("%d rows", total)
}

// Each token's bytes are what streaming builds on.
func TestGoldenTokenBytes(t *testing.T) {
	total := 0
	for _, f := range folders(t, "token_bytes.json") {
		var tokens []string
		require.NoError(t, json.Unmarshal(golden.Read(t, f.path), &tokens))
		require.Len(t, tokens, f.tok.VocabSize(), f.path)
		for id, want := range tokens {
			b, err := hex.DecodeString(want)
			require.NoError(t, err)
			got, ok := f.tok.Bytes(int32(id))
			if !ok || string(got) != string(b) {
				t.Errorf("%s: token %d is %q, want %q", golden.Name(t, f.path), id, got, b)
			}
			total++
		}
	}
	require.NotZero(t, total)
	t.Logf("%d tokens", total)
}

// A file that means something else than what is implemented must be refused: its ids would be wrong without a word.
func TestGoldenReject(t *testing.T) {
	total := 0
	for _, path := range golden.Glob(t, "tokenizers/reject.jsonl") {
		for _, c := range rows[struct {
			Name, Why string
			Accept    bool
			Tokenizer json.RawMessage
		}](t, path) {
			total++
			_, err := tokenizer.Parse(c.Tokenizer, nil)
			if c.Accept != (err == nil) {
				t.Errorf("%s (%s): %v", c.Name, c.Why, err)
			}
			if err != nil {
				t.Logf("%s (%s, unsupported %t): %v", c.Name, c.Why, errors.Is(err, tokenizer.ErrUnsupported), err)
				require.ErrorContains(t, err, tokenizer.FileName)
			}
		}
	}
	require.NotZero(t, total)
	t.Logf("%d files", total)
}
