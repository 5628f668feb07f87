// Package tokenizer turns text into token ids and back.
package tokenizer

// None is the id of a special token that a tokenizer does not have.
const None int32 = -1

// Tokenizer maps text to token ids 0 … VocabSize-1 and back. It is safe for concurrent use.
type Tokenizer interface {
	// Encode gives the ids of a text. Special tokens that stand in the text are recognised; none are added.
	Encode(text string) ([]int32, error)
	// Decode gives the text of ids, special tokens included. An id out of range is an error.
	Decode(ids []int32) (string, error)
	// VocabSize is the number of ids.
	VocabSize() int
	// ID is the id of a token given by its text.
	ID(token string) (id int32, ok bool)
	// EOS, BOS and Pad are the ids of the tokens that end a text, begin one, and fill rows; None where there is none.
	EOS() int32
	BOS() int32
	Pad() int32
}
