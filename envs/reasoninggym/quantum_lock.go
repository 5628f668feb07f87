package reasoninggym

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// quantumLock is QuantumLockDataset of reasoning_gym/graphs/quantum_lock.py.
var quantumLock = definition[QuantumLockConfig]{
	name:        "quantum_lock",
	category:    "graphs",
	description: "Press buttons that do arithmetic, some of them only every other time, until a number is reached.",
	defaults:    QuantumLockConfig{Difficulty: 10},
	prepareAt:   prepareQuantumLock,
	score:       scoreQuantumLock,

	scoreCorrected: scoreQuantumLockCorrected,
	faults: []Fault{
		{What: "Each a, b and c in a text is a press of that button; corrected, those in words are not.", Answer: "The sequence: {answer}"},
	},
	curriculum: []Attribute{
		scalar("difficulty", "difficulty", "How large the number to reach is", span(1, 11, 1)...),
	},
}

// QuantumLockConfig has the settings of quantum_lock.
type QuantumLockConfig struct {
	Difficulty int `json:"difficulty"` // at most: how large the number to reach is
}

func (c QuantumLockConfig) validate() error {
	// Beyond that no number can be reached in 15 presses, as they make 3^15 at most, and upstream ends in a RecursionError.
	return between("difficulty", c.Difficulty, 1, 1<<16)
}

type quantumLockPuzzle struct {
	TargetValue  int           `json:"target_value"`
	Buttons      [3]lockButton `json:"buttons"`
	InitialState string        `json:"initial_state"`
	InitialValue int           `json:"initial_value"`
}

type lockButton struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Value       int    `json:"value"`
	ActiveState string `json:"active_state"`
}

// works says whether the button does something while the light is red or not.
func (b lockButton) works(red bool) bool {
	return b.ActiveState == "any" || (b.ActiveState == "red") == red
}

func (b lockButton) press(value int) int {
	switch b.Type {
	case "add":
		return value + b.Value
	case "subtract":
		return value - b.Value
	}
	return value * b.Value
}

var (
	buttonNames  = [3]string{"A", "B", "C"}
	buttonTypes  = []string{"add", "subtract", "multiply"}
	lightStates  = []string{"any", "green", "red"}
	lightWeights = []int{4, 2, 1}
	easyTerms    = []int{1, 2}
	easyFactors  = []int{2}
	hardValues   = []int{2, 3}
)

const quantumLockQuestion = "In front of you are some buttons, a light, and a number. The light will toggle between red and green whenever you press a button. " +
	"Each button performs a mathematical operation to the number, but the operation may depend on the state of the light.\n" +
	"You must press the shortest correct sequence of buttons to reach the target value. " +
	"Your answer should be a sequence of buttons separated by '→', for example: A → B → C\n\nStart: 0 (red)\nTarget: "

// maxRecursion is about how many nested calls of its own Python allows a function.
const maxRecursion = 990

func prepareQuantumLock(c QuantumLockConfig, _ Common) (indexedGenerator, error) {
	return func(ctx context.Context, r *python.Random, _ int, m *object) (item, error) {
		difficulty := r.RandInt(1, c.Difficulty)
		for range maxRecursion {
			if err := ctx.Err(); err != nil {
				return item{}, err
			}
			p := quantumLockPuzzle{InitialState: "red", Buttons: drawButtons(r, difficulty)}
			d := float64(difficulty)
			base := 5 + math.Sqrt(d*d*d)
			spread := r.RandInt(-int(base*0.2), int(base*0.3))
			p.TargetValue = max(8, int(base+float64(spread)))
			if path := unlock(p.Buttons, p.TargetValue, min(15, 6+difficulty*3/2)); path != nil {
				m.strings("solution_path", path)
				p.describe(m)
				var level object
				level.int("difficulty", difficulty)
				m.object("difficulty", level)
				return item{p.question(), strings.Join(path, " → ")}, nil
			}
		}
		return item{}, python.Error{Type: "RecursionError", Message: "maximum recursion depth exceeded"}
	}, nil
}

func (p *quantumLockPuzzle) describe(m *object) {
	m.int("target_value", p.TargetValue)
	m.name("buttons")
	m.data = appendJSONList(m.data, p.Buttons[:], appendButton)
	m.string("initial_state", p.InitialState)
	m.int("initial_value", p.InitialValue)
}

func appendButton(data []byte, b lockButton) []byte {
	var o object
	o.string("name", b.Name)
	o.string("type", b.Type)
	o.int("value", b.Value)
	o.string("active_state", b.ActiveState)
	return o.append(data)
}

func drawButtons(r *python.Random, difficulty int) (buttons [3]lockButton) {
	terms, factors := easyTerms, easyFactors
	if difficulty >= 5 {
		terms = hardValues
	}
	if difficulty >= 7 {
		factors = hardValues
	}
	for n := 0; n < len(buttons); {
		b := lockButton{Name: buttonNames[n], Type: python.Choice(r, buttonTypes)}
		values := terms
		if b.Type == "multiply" {
			values = factors
		}
		b.Value = python.Choice(r, values)
		b.ActiveState = python.WeightedChoices(r, lightStates, lightWeights, 1)[0]
		if !slices.ContainsFunc(buttons[:n], func(other lockButton) bool {
			return other.Type == b.Type && other.Value == b.Value && other.ActiveState == b.ActiveState
		}) {
			buttons[n] = b
			n++
		}
	}
	return buttons
}

func (p *quantumLockPuzzle) question() string {
	b := make([]byte, 0, len(quantumLockQuestion)+100)
	b = append(b, quantumLockQuestion...)
	b = strconv.AppendInt(b, int64(p.TargetValue), 10)
	b = append(b, "\nButtons:"...)
	for _, button := range p.Buttons {
		b = append(b, '\n', button.Name[0], ':', ' ', button.Type[0]-'a'+'A')
		b = append(append(b, button.Type[1:]...), ' ')
		b = strconv.AppendInt(b, int64(button.Value), 10)
		b = append(append(append(b, " (when "...), button.ActiveState...), ')')
	}
	return string(b)
}

// unlock is the first of the shortest sequences of at most so many presses that make target of 0, or nil. It is a breadth-first
// search, like upstream's, but leaves out numbers from which the target is too far.
func unlock(buttons [3]lockButton, target, presses int) []string {
	type node struct{ value, parent, button, presses int }
	const most = 3 // that a press adds or takes away
	low, high := -most*presses, target+most*presses
	seen := make([]uint64, (high-low)/32+1) // two bits for each number
	see := func(value int, red bool) (isNew bool) {
		i := 2 * (value - low)
		if red {
			i++
		}
		isNew = seen[i/64]>>(i%64)&1 == 0
		seen[i/64] |= 1 << (i % 64)
		return isNew
	}
	nodes := make([]node, 1, 64)
	see(0, true)
	for at := 0; at < len(nodes); at++ {
		from := nodes[at]
		red := from.presses%2 == 0
		left := presses - from.presses - 1
		for i, button := range buttons {
			if !button.works(red) {
				continue
			}
			value := button.press(from.value)
			if value == target {
				path := make([]string, from.presses+1)
				path[from.presses] = button.Name
				for n := from; n.presses > 0; n = nodes[n.parent] {
					path[n.presses-1] = buttonNames[n.button]
				}
				return path
			}
			if left > 0 && value >= -most*left && value <= target+most*left && see(value, !red) {
				nodes = append(nodes, node{value, at, i, from.presses + 1})
			}
		}
	}
	return nil
}

// scoreQuantumLock is 1 for a sequence as long as the oracle that reaches the target, and 0.5 for another that does.
func scoreQuantumLock(task envs.Task, answer string) (float64, error) {
	return scorePresses(task, presses(answer))
}

func scoreQuantumLockCorrected(task envs.Task, answer string) (float64, error) {
	var pressed []byte
	for _, word := range strings.FieldsFunc(answer, func(c rune) bool { return !unicode.IsLetter(c) }) {
		if buttons := presses(word); len(buttons) == len(word) {
			pressed = append(pressed, buttons...)
		}
	}
	return scorePresses(task, pressed)
}

// presses lists the letters A, B and C of text.upper().
func presses(text string) []byte {
	var pressed []byte
	for _, c := range text {
		switch {
		case c >= 'A' && c <= 'C':
			pressed = append(pressed, byte(c))
		case c >= 'a' && c <= 'c':
			pressed = append(pressed, byte(c)-'a'+'A')
		case c == 'ẚ': // is Aʾ in upper case
			pressed = append(pressed, 'A')
		}
	}
	return pressed
}

func scorePresses(task envs.Task, pressed []byte) (float64, error) {
	want := presses(task.Answer)
	if string(pressed) == string(want) {
		return 1, nil
	}
	var m quantumLockPuzzle
	if err := readMetadata(task, &m); err != nil {
		return 0, err
	}
	const largest = 1 << 32
	value, red := m.InitialValue, m.InitialState == "red"
	for _, b := range m.Buttons {
		if max(b.Value, -b.Value) > 1<<16 || !slices.Contains(buttonTypes, b.Type) {
			return 0, fmt.Errorf("reasoninggym: the metadata of task %s have a button %+v", task.ID, b)
		}
	}
	for _, c := range pressed {
		i := slices.IndexFunc(m.Buttons[:], func(b lockButton) bool { return b.Name == string(rune(c)) })
		if i < 0 || !m.Buttons[i].works(red) {
			continue
		}
		if value < -largest || value > largest {
			return 0, nil // no answer is so long that it leads back from there
		}
		value = m.Buttons[i].press(value)
		red = !red
	}
	switch {
	case value != m.TargetValue:
		return 0, nil
	case len(pressed) == len(want):
		return 1, nil
	}
	return 0.5, nil
}
