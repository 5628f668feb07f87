package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"

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

// Figures are the metrics of an update that follow from its completions alone. RecordUpdate adds them to Metrics, and
// verification computes them again:
//
//	reward_mean    mean reward of all completions
//	reward_std     unbiased standard deviation of the rewards of all completions; 0 for a single one
//	solve_all      fraction of the groups in which every reward is 1 or more
//	solve_none     fraction of the groups in which no reward is above 0
//	zero_variance  fraction of the groups whose rewards are all equal
//	truncated      fraction of the completions that did not finish with "stop"
//	tokens_mean    mean length of a completion
//	tokens_max     longest completion
func Figures(lines []Line, groupSize int) map[string]float64 {
	if len(lines) == 0 || groupSize < 1 {
		return nil
	}
	var rewards, squares, tokens, longest, truncated, all, none, equal, groups float64
	for i, l := range lines {
		rewards += l.Reward
		tokens += float64(len(l.Tokens))
		longest = max(longest, float64(len(l.Tokens)))
		if l.Finish != "stop" {
			truncated++
		}
		if i%groupSize != 0 {
			continue
		}
		groups++
		low, high := math.Inf(1), math.Inf(-1)
		for _, g := range lines[i:min(i+groupSize, len(lines))] {
			low, high = min(low, g.Reward), max(high, g.Reward)
		}
		if low >= 1 {
			all++
		}
		if high <= 0 {
			none++
		}
		if low == high {
			equal++
		}
	}
	n := float64(len(lines))
	mean := rewards / n
	for _, l := range lines {
		squares += (l.Reward - mean) * (l.Reward - mean)
	}
	return map[string]float64{
		"reward_mean": mean, "reward_std": math.Sqrt(squares / max(1, n-1)),
		"solve_all": all / groups, "solve_none": none / groups, "zero_variance": equal / groups,
		"truncated": truncated / n, "tokens_mean": tokens / n, "tokens_max": longest,
	}
}
