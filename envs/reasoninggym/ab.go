package reasoninggym

import (
	"context"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// abSystem is ABDataset of reasoning_gym/algorithmic/ab.py.
var abSystem = definition[ABConfig]{
	name:        "ab",
	category:    "algorithmic",
	description: "Rewrite a program of the tokens A#, #A, B# and #B until no rule applies.",
	defaults:    ABConfig{Length: 10},
	prepareAt:   prepareAB,
	score:       scoreExact,

	scoreCorrected: func(task envs.Task, answer string) (float64, error) {
		if slices.Equal(python.Fields(answer), python.Fields(task.Answer)) {
			return 1, nil
		}
		return 0, nil
	},
	faults: []Fault{
		{What: "White space around the answer or other white space between the tokens makes it wrong; corrected, it does not count.", Answer: " {answer}\n"},
	},
	curriculum: []Attribute{scalar("length", "length", "Tokens of the program", 10, 25, 50, 100)},
}

// ABConfig has the settings of ab.
type ABConfig struct {
	Length int `json:"length"` // tokens of the program; above 200, hardly any program ends within the 100 steps that upstream waits
}

func (c ABConfig) validate() error { return between("length", c.Length, 1, maxTerms) }

var abTokens = []string{"A#", "B#", "#A", "#B"}

const abQuestion = "A::B is a system with 4 tokens: `A#`, `#A`, `B#` and `#B`.\n\nAn A::B program is a sequence of tokens. Example:\n\n    B# A# #B #A B#\n\nTo *compute* a program, we must rewrite neighbor tokens, using the rules:\n\n    A# #A ... becomes ... nothing\n    A# #B ... becomes ... #B A#\n    B# #A ... becomes ... #A B#\n    B# #B ... becomes ... nothing\n\nIn other words, whenever two neighbor tokens have their '#' facing each-other,\nthey must be rewritten according to the corresponding rule.\n\nNow, consider the following program:\n\n"

func prepareAB(c ABConfig, _ Common) (indexedGenerator, error) {
	var difficulty object
	difficulty.int("length", c.Length)
	return func(ctx context.Context, r *python.Random, _ int, m *object) (item, error) {
		program, stack := make([]string, c.Length), make([]string, 0, c.Length)
		for {
			for i := range program {
				program[i] = python.Choice(r, abTokens)
			}
			final, halts := runAB(program, stack)
			if halts {
				m.object("difficulty", difficulty)
				return item{
					question: abQuestion + strings.Join(program, " ") + "\n\nReturn the final state of the program.\n",
					answer:   strings.Join(final, " "),
				}, nil
			}
			if err := ctx.Err(); err != nil { // a long program may need many draws
				return item{}, err
			}
		}
	}, nil
}

// runAB rewrites a program and says whether upstream sees it end, which is so after up to 99 steps. All orders of the steps lead to
// the same result in the same number: here each token that faces left is moved as far as it comes, one after the other.
func runAB(program, stack []string) (final []string, halts bool) {
	final = stack[:0]
	steps := 0
	for _, token := range program {
		at := len(final)
		final = append(final, token)
		if token[0] != '#' {
			continue
		}
		for at > 0 && final[at-1][1] == '#' {
			if steps++; steps > 99 {
				return nil, false
			}
			if final[at-1][0] == token[1] {
				final = slices.Delete(final, at-1, at+1)
				break
			}
			final[at], final[at-1] = final[at-1], token
			at--
		}
	}
	return final, true
}

// scoreExact gives 1 for the oracle itself.
func scoreExact(task envs.Task, answer string) (float64, error) {
	if answer == task.Answer {
		return 1, nil
	}
	return 0, nil
}
