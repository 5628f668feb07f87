package reasoninggym

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/grouper-rl/grouper/envs"
)

// readMetadata reads what a scorer needs of a task's metadata into a struct. Tasks of a bank have been read from a file, so the
// metadata may be anything.
func readMetadata(task envs.Task, into any) error {
	if err := json.Unmarshal(task.Metadata, into); err != nil {
		return fmt.Errorf("reasoninggym: the metadata of task %s: %w", task.ID, err)
	}
	return nil
}

// metadataFields iterates over the fields of metadata as far as they are a JSON object, with the values as text. It is for
// scorers of little work, which readMetadata would slow down.
func metadataFields(metadata []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		rest := metadata
		for {
			name, after := cutString(rest)
			if name == nil {
				return
			}
			value, after := cutValue(after)
			if value == nil || !yield(string(name), bytes.TrimSpace(value)) {
				return
			}
			rest = after
		}
	}
}

// cutString returns the text in the first quotes and what follows the colon behind them.
func cutString(data []byte) (text, rest []byte) {
	start := -1
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case start < 0 && c == '"':
			start = i + 1
		case start < 0:
		case c == '\\':
			i++
		case c == '"':
			text = data[start:i]
			for i++; i < len(data); i++ {
				if data[i] == ':' {
					return text, data[i+1:]
				}
			}
			return nil, nil
		}
	}
	return nil, nil
}

// cutValue cuts off a value up to the comma or brace that ends it.
func cutValue(data []byte) (value, rest []byte) {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case depth > 0 && (c == ']' || c == '}'):
			depth--
		case depth == 0 && (c == ',' || c == '}'):
			return data[:i], data[i:]
		}
	}
	return nil, nil
}
