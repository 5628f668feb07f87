// Command tokenizer measures how fast texts are encoded, on one thread and in CPU time, and prints a JSON line for each. The
// texts are cut into documents of at most 2,000 bytes.
//
//	go run ./bench/tokenizer -write DIR                      # writes the texts english.txt, code.txt and chinese.txt
//	go run ./bench/tokenizer -tokenizer FILE TEXT...
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"go/build"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/policy/tokenizer"
)

const (
	textSize     = 1_000_000
	documentSize = 2000
)

func main() {
	log.SetFlags(0)
	write := flag.String("write", "", "folder to write the texts to")
	file := flag.String("tokenizer", "", "tokenizer.json")
	repeats := flag.Int("repeats", 5, "measurements, of which the best and the median are printed by the caller")
	flag.Parse()
	runtime.GOMAXPROCS(1)
	var err error
	if *write != "" {
		err = writeTexts(*write)
	} else {
		err = measure(*file, flag.Args(), *repeats)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func measure(file string, texts []string, repeats int) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	start := cpu()
	tok, err := tokenizer.ParseBPE(data, nil)
	if err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(map[string]any{"by": "grouper", "text": "(open tokenizer.json)", "seconds": (cpu() - start).Seconds()}); err != nil {
		return err
	}
	for _, path := range texts {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		docs := documents(string(text))
		digest := sha256.New()
		for range repeats {
			tokens := 0
			digest.Reset()
			start := cpu()
			all := make([][]int32, len(docs))
			for i, d := range docs {
				if all[i], err = tok.Encode(d); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
				tokens += len(all[i])
			}
			took := cpu() - start
			for _, ids := range all {
				if err := binary.Write(digest, binary.LittleEndian, ids); err != nil {
					return err
				}
			}
			err := out.Encode(map[string]any{"by": "grouper", "text": strings.TrimSuffix(filepath.Base(path), ".txt"),
				"mb_per_s": float64(len(text)) / 1e6 / took.Seconds(), "tokens": tokens, "ids": fmt.Sprintf("%x", digest.Sum(nil))[:16]})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// documents cuts a text into parts of at most documentSize bytes.
func documents(text string) []string {
	var docs []string
	for text != "" {
		end := min(documentSize, len(text))
		for end < len(text) && !utf8.RuneStart(text[end]) {
			end--
		}
		docs = append(docs, text[:end])
		text = text[end:]
	}
	return docs
}

// cpu is the CPU time of this process.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		log.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func writeTexts(dir string) error {
	code, err := code()
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"english": english(), "code": code, "chinese": chinese()} {
		if err := os.WriteFile(filepath.Join(dir, name+".txt"), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// code is the beginning of Go's standard library.
func code() (string, error) {
	var all bytes.Buffer
	root := filepath.Join(build.Default.GOROOT, "src", "net")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" {
			return err
		}
		if all.Len() >= textSize {
			return fs.SkipAll
		}
		b, err := os.ReadFile(path)
		all.Write(b)
		return err
	})
	if err == nil && all.Len() < textSize {
		err = fmt.Errorf("%s has only %d bytes of Go", root, all.Len())
	}
	if err != nil {
		return "", err
	}
	return all.String()[:textSize], nil
}

// generator is a linear congruential one, so that a program in another language can write the same texts.
type generator uint64

func (g *generator) draw(n int) int {
	*g = *g*6364136223846793005 + 1442695040888963407
	return int(uint64(*g>>33) % uint64(n))
}
