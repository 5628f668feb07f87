// Package tokenizer turns text into token ids and back: byte-pair encoding as Hugging Face's tokenizer.json describes it
// ([BPE]), and one token a character for small models ([Char]). [Load] and [Parse] open either kind.
package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/grouper-rl/grouper/internal/files"
)

// None is the id of a special token that a tokenizer does not have.
const None int32 = -1

// ErrUnsupported is wrapped by errors about tokenizer files that are well-formed but describe something that is not
// implemented here. The error says what that is.
var ErrUnsupported = errors.New("unsupported tokenizer")

// Names of the files in a model folder.
const (
	FileName       = "tokenizer.json"
	ConfigFileName = "tokenizer_config.json"
)

// Tokenizer maps text to token ids 0 … VocabSize-1 and back. It is safe for concurrent use.
type Tokenizer interface {
	// Encode gives the ids of a text. Special tokens that stand in the text are recognised; none are added.
	Encode(text string) ([]int32, error)
	// Decode gives the text of ids, special tokens included. A negative id is an error; one that no token has is an error of
	// Char and is left out by BPE, since models have rows for more ids than their tokenizer has tokens.
	Decode(ids []int32) (string, error)
	// VocabSize is the number of ids: one more than the highest.
	VocabSize() int
	// ID is the id of a token given by its text.
	ID(token string) (id int32, ok bool)
	// EOS, BOS and Pad are the ids of the tokens that end a text, begin one, and fill rows; None where there is none.
	EOS() int32
	BOS() int32
	Pad() int32
}

// maxFile bounds the size of a tokenizer file in bytes; the largest released ones have some 35 MB.
const maxFile = 256 << 20

// Load reads the tokenizer of a model folder: tokenizer.json and, if it is there, tokenizer_config.json. The error wraps
// [fs.ErrNotExist] if there is no tokenizer.json, and otherwise is as Parse has it.
func Load(fsys fs.FS) (Tokenizer, error) {
	file, err := files.Read(fsys, FileName, maxFile)
	if err != nil {
		return nil, err
	}
	config, err := files.Read(fsys, ConfigFileName, maxFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return Parse(file, config)
}

// Parse makes the tokenizer that a tokenizer.json describes; config is tokenizer_config.json, which names the tokens that end and
// begin a text and fill rows, and may be nil. It returns a [*Char] for files as [Char.Files] writes them and a [*BPE] for
// byte-pair encoding. Errors name the file and the field; they wrap [ErrUnsupported] if something in the file is not implemented.
func Parse(file, config []byte) (Tokenizer, error) {
	f, err := decodeBPE(file)
	if err != nil {
		return nil, err
	}
	if f.Model.Type == "WordLevel" {
		return ParseChar(file, config)
	}
	return f.tokenizer(config)
}

// fileError names the file and the place of an error in its JSON.
func fileError(name string, err error) error {
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%s: at byte %d: %w", name, syntax.Offset, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// roles are the special tokens that tokenizer_config.json names.
type roles struct {
	EOS *role `json:"eos_token"`
	BOS *role `json:"bos_token"`
	Pad *role `json:"pad_token"`
}

// role is the text of a token: a string, or an object that has it as content.
type role string

// UnmarshalJSON implements json.Unmarshaler.
func (r *role) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		var o struct {
			Content string `json:"content"`
		}
		err := json.Unmarshal(data, &o)
		*r = role(o.Content)
		return err
	}
	return json.Unmarshal(data, (*string)(r))
}

func parseRoles(config []byte) (roles, error) {
	var r roles
	if config == nil {
		return r, nil
	}
	if err := files.Unmarshal(config, &r); err != nil {
		return r, fileError(ConfigFileName, err)
	}
	return r, nil
}
