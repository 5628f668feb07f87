package checkpoint

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// One encoder and one decoder serve all files: each holds megabytes of tables. Their EncodeAll and DecodeAll may be called
// concurrently.
var (
	encoder = sync.OnceValues(func() (*zstd.Encoder, error) { return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1)) })
	decoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(1<<34))
	})
)

// encodeLines gives the bytes of a .jsonl.zst file. They depend on the lines alone, so that work done again gives the
// same file.
func encodeLines(lines []Line) ([]byte, error) {
	z, err := encoder()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for i, l := range lines {
		data, err := marshal(l)
		if err != nil {
			return nil, fmt.Errorf("completion %d (task %q, sample %d): %w", i+1, l.Task, l.Sample, err)
		}
		b.Write(data)
		b.WriteByte('\n')
	}
	return z.EncodeAll(b.Bytes(), nil), nil
}

// ReadLines reads a .jsonl.zst file of completions. content is the SHA-256 of the decompressed bytes, in hex. An error
// names the line.
func ReadLines(r io.Reader) (lines []Line, content string, err error) {
	z, err := decoder()
	if err != nil {
		return nil, "", err
	}
	packed, err := io.ReadAll(r)
	if err != nil {
		return nil, "", err
	}
	data, err := z.DecodeAll(packed, nil)
	if err != nil {
		return nil, "", fmt.Errorf("decompressing: %w", err)
	}
	content = hexDigest(data)
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
	return lines, content, nil
}
