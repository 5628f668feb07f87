package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// encodeLines gives the bytes of a .jsonl.zst file. They depend on the lines alone, so that work done again gives the
// same file.
func encodeLines(lines []Line) ([]byte, error) {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return nil, err
	}
	for i, l := range lines {
		data, err := marshal(l)
		if err != nil {
			return nil, fmt.Errorf("completion %d (task %q, sample %d): %w", i+1, l.Task, l.Sample, err)
		}
		if _, err := z.Write(append(data, '\n')); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// ReadLines reads a .jsonl.zst file of completions. content is the SHA-256 of the decompressed bytes, in hex. An error
// names the line.
func ReadLines(r io.Reader) (lines []Line, content string, err error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(1<<34))
	if err != nil {
		return nil, "", err
	}
	defer z.Close()
	data, err := io.ReadAll(z)
	if err != nil {
		return nil, "", fmt.Errorf("decompressing: %w", err)
	}
	sum := sha256.Sum256(data)
	for n := 1; len(data) > 0; n++ {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			return nil, "", fmt.Errorf("line %d: it has no end", n)
		}
		var l Line
		if err := unmarshal(data[:end], &l); err != nil {
			return nil, "", fmt.Errorf("line %d: %w", n, err)
		}
		lines = append(lines, l)
		data = data[end+1:]
	}
	return lines, hex.EncodeToString(sum[:]), nil
}
