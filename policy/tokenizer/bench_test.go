package tokenizer_test

import (
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/policy/tokenizer"
)

// BenchmarkParse is the time to open each tokenizer in $GROUPER_TOKENIZERS.
func BenchmarkParse(b *testing.B) {
	paths, _ := filepath.Glob(filepath.Join(os.Getenv("GROUPER_TOKENIZERS"), "*", tokenizer.FileName))
	for _, path := range paths {
		file, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(filepath.Base(filepath.Dir(path)), func(b *testing.B) {
			b.SetBytes(int64(len(file)))
			b.ReportAllocs()
			start := cpu()
			for b.Loop() {
				if _, err := tokenizer.Parse(file, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(cpu()-start)/float64(b.N)/1e6, "cpu-ms/op")
		})
	}
}

// BenchmarkEncode encodes the texts in $GROUPER_TEXTS with the tokenizers in $GROUPER_TOKENIZERS, in documents of 2,000 bytes.
func BenchmarkEncode(b *testing.B) {
	paths, _ := filepath.Glob(filepath.Join(os.Getenv("GROUPER_TOKENIZERS"), "*", tokenizer.FileName))
	texts, _ := filepath.Glob(filepath.Join(os.Getenv("GROUPER_TEXTS"), "*.txt"))
	for _, path := range paths {
		file, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		tok, err := tokenizer.ParseBPE(file, nil)
		if err != nil {
			b.Fatal(err)
		}
		for _, path2 := range texts {
			text, err := os.ReadFile(path2)
			if err != nil {
				b.Fatal(err)
			}
			var docs []string
			for t := string(text); t != ""; {
				n := min(2000, len(t))
				for n < len(t) && !utf8.RuneStart(t[n]) {
					n--
				}
				docs, t = append(docs, t[:n]), t[n:]
			}
			b.Run(filepath.Base(filepath.Dir(path))+"/"+filepath.Base(path2), func(b *testing.B) {
				b.ReportAllocs()
				start := cpu()
				var ids []int32
				for b.Loop() {
					for _, d := range docs {
						if ids, err = tok.AppendEncode(ids[:0], d); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(len(text))*float64(b.N)*1e3/float64(cpu()-start), "MB/cpu-s")
			})
		}
	}
}
