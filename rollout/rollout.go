// Package rollout samples completions: prompt tokens in, completion tokens and their log-probs out.
package rollout

import (
	"context"
	"fmt"

	"github.com/grouper-rl/grouper/policy"
)

// Engine samples completions with the weights that it was given last. Its methods return soon after ctx has ended. A Generate that does
// not is left behind after half a minute; a Load is waited for, since it reads weights that are not its own.
type Engine interface {
	// Load hands weights over; the engine takes a copy, so the caller may change or donate its own afterwards.
	Load(ctx context.Context, w *policy.Weights) error
	// Generate samples one completion for each seed of each request and returns them in that order. A completion
	// depends on the weights, the sampling settings, its prompt and its seed, and on nothing else in the call, up to the
	// rounding of an engine's log-probs. The same call gives the same bits. What one request is to blame for is a [RequestError].
	Generate(ctx context.Context, reqs []Request, s Sampling) ([][]Completion, error)
}

// RequestError says which request of a call an engine could not serve, so that whoever made the call can say which task that is.
type RequestError struct {
	Request int // index
	Sample  int // index of the seed; -1: the request as a whole
	Err     error
}

func (e *RequestError) Error() string {
	if e.Sample < 0 {
		return fmt.Sprintf("request %d: %v", e.Request, e.Err)
	}
	return fmt.Sprintf("request %d, sample %d: %v", e.Request, e.Sample, e.Err)
}

func (e *RequestError) Unwrap() error { return e.Err }

// Request asks for the completions of one prompt.
type Request struct {
	Prompt []int32 // at least one token
	Seeds  []Seed  // one completion each
}

// FinishReason says why a completion ended.
type FinishReason string

// Finish reasons. Anything but Stop is a truncation.
const (
	Stop   FinishReason = "stop"   // a stop token was sampled; it is the completion's last token
	Length FinishReason = "length" // MaxTokens or the context's end was reached
)

// Completion is what was sampled: the tokens that will be trained on, id for id.
type Completion struct {
	Tokens   []int32      // with the stop token, if one ended it
	LogProbs []float32    // log_softmax(logits/T) of each token over the whole vocabulary: the behaviour log-probs
	Filtered []float32    // log-prob of each token under the distribution that it was drawn from (after top-k, top-p, min-p)
	Finish   FinishReason // why it ended
	Update   int          // the update that made the weights
}

// Order is the order in which the filters apply, as the systems that Grouper is compared with have them.
type Order string

// Orders. See Sampling for what each does.
const (
	HF    Order = "hf"    // temperature, top-k, top-p, min-p; softmax anew after each (transformers)
	VLLM  Order = "vllm"  // temperature, min-p, top-k, top-p; softmax anew after each
	Joint Order = "joint" // one softmax, then all tests on those probabilities, one renormalisation (SGLang)
)

// Sampling says how tokens are drawn.
type Sampling struct {
	Temperature float64 // 1: as the model says; 0: greedy, the lowest id among equals
	TopK        int     // 0: no limit
	TopP        float64 // 1: no limit; 0 is read as 1
	MinP        float64 // 0: no limit
	Order       Order   // "": HF
	MaxTokens   int     // longest completion, at least 1
	Stop        []int32 // token ids that end a completion
}

// Validate names the first setting that cannot be used.
func (s Sampling) Validate() error {
	bad := func(field string, value any, allowed string) error {
		return fmt.Errorf("sampling: %s is %v, allowed: %s", field, value, allowed)
	}
	switch {
	case s.Temperature != 0 && !(s.Temperature >= 1e-3 && s.Temperature <= 100):
		return bad("Temperature", s.Temperature, "0 (greedy) or 0.001 to 100")
	case s.TopK < 0:
		return bad("TopK", s.TopK, "0 (off) or more")
	case !(s.TopP >= 0 && s.TopP <= 1):
		return bad("TopP", s.TopP, "0 to 1")
	case !(s.MinP >= 0 && s.MinP <= 1):
		return bad("MinP", s.MinP, "0 to 1")
	case s.Order != "" && s.Order != HF && s.Order != VLLM && s.Order != Joint:
		return bad("Order", s.Order, "hf, vllm, joint")
	case s.MaxTokens < 1:
		return bad("MaxTokens", s.MaxTokens, "1 or more")
	}
	return nil
}
