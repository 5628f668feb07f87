package reasoninggym

import (
	"bytes"
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// tsumego is TsumegoDataset of reasoning_gym/games/tsumego.py.
var tsumego = definition[TsumegoConfig]{
	name:        "tsumego",
	category:    "games",
	description: "Find the move in Go that captures white stones.",
	defaults:    TsumegoConfig{MinBoardSize: 9, MaxBoardSize: 13, MaxStones: 15},
	prepareAt:   prepareTsumego,
	score:       scoreTsumego,

	scoreCorrected: scoreTsumegoCorrected,
	faults: []Fault{
		{What: "In a fifth of the default items the answer captures nothing, because the white stones have another white stone beside them, and some boards have a capture elsewhere; corrected, boards are drawn until the answer is the one move that captures most.", Index: 1},
		{What: "A text that contains the answer scores in part, even C4 in C45; corrected, it scores 0.", Answer: "{answer}5"},
		{What: "Any point scores 0.05, anything else 0.01; corrected, a wrong answer scores 0.", Answer: "A1"},
	},
	curriculum: []Attribute{
		ranged("board_size", "min_board_size", "max_board_size", "Rows and columns of the board", 5, 10, 15, 19),
		scalar("max_stones", "max_stones", "Stones placed at random, and 4", 5, 10, 13, 15),
	},
}

// TsumegoConfig has the settings of tsumego. An item is ErrNoItem where the white stones find no place within 50 tries.
type TsumegoConfig struct {
	MinBoardSize int `json:"min_board_size"` // rows and columns
	MaxBoardSize int `json:"max_board_size"` // rows and columns
	MaxStones    int `json:"max_stones"`     // 4 more than are placed at random, before those of the problem
}

func (c TsumegoConfig) validate() error {
	return check(
		atLeast("min_board_size", c.MinBoardSize, 5),
		between("max_board_size", c.MaxBoardSize, c.MinBoardSize, 19),
		atLeast("max_stones", c.MaxStones, 5),
	)
}

var tsumegoPrompts = []string{
	"Tsumego time. Black to play and capture some stones.\nFind the key move.",
	"I have a Go problem for you. Black moves next - can you capture some of the white stones?",
	"Here's a Go challenge. Playing as Black, how can you capture as many white stones as possible?",
}

// tsumegoShapes are what the white stones may look like, in rows and columns from a first one.
var tsumegoShapes = []struct {
	white  []direction
	forced direction // the last liberty
}{
	{[]direction{{0, 0}, {-1, 0}, {1, 0}, {0, -1}}, direction{0, 1}},
	{[]direction{{0, 0}, {0, 1}, {1, 0}}, direction{1, 1}},
	{[]direction{{0, -1}, {0, 0}, {0, 1}, {1, 0}}, direction{-1, 0}},
}

func prepareTsumego(c TsumegoConfig, common Common) (indexedGenerator, error) {
	var difficulty object
	difficulty.ints("board_size", c.MinBoardSize, c.MaxBoardSize)
	return func(ctx context.Context, r *python.Random, _ int, m *object) (item, error) {
		size := r.RandInt(c.MinBoardSize, c.MaxBoardSize)
		b, move, err := c.draw(ctx, r, size)
		for common.Mode == Corrected && err == nil && !b.isBestCapture(move) {
			b, move, err = c.draw(ctx, r, size)
		}
		if err != nil {
			return item{}, err
		}
		m.grid("board", b.letterGrid)
		m.int("board_size", size)
		m.object("difficulty", difficulty)
		return item{
			question: b.question(python.Choice(r, tsumegoPrompts)),
			answer:   string(byte('A'+move%size)) + strconv.Itoa(size-move/size),
		}, nil
	}, nil
}

// draw makes a board and the move that is to capture. Upstream forgets a ko only after an item that it can make; here it forgets
// it always, so that no item depends on others.
func (c TsumegoConfig) draw(ctx context.Context, r *python.Random, size int) (*goBoard, int, error) {
	b := &goBoard{letterGrid: newLetterGrid(size, size, goEmpty), ko: -1, seen: make([]bool, size*size)}
	for placed := 0; placed < c.MaxStones-4; {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		at := r.RandInt(0, size-1)*size + r.RandInt(0, size-1)
		color := drawGoColor(r)
		if b.play(at, color) {
			placed++
		}
	}
	for range 50 {
		row, column := r.RandInt(1, size-2), r.RandInt(1, size-2)
		center := row*size + column
		shape := python.Choice(r, tsumegoShapes)
		move := center + shape.forced.rows*size + shape.forced.columns
		free := b.cells[move] == goEmpty
		for _, d := range shape.white {
			free = free && b.cells[center+d.rows*size+d.columns] == goEmpty
		}
		if !free {
			continue
		}
		for _, d := range shape.white {
			b.cells[center+d.rows*size+d.columns] = goWhite
		}
		for _, d := range shape.white {
			b.surround(center+d.rows*size+d.columns, move)
		}
		if stones := len(b.cells) - bytes.Count(b.cells, []byte{goEmpty}); stones < c.MaxStones+7 {
			b.addDecoy(r, center, move)
		}
		if b.allows(move, goBlack) {
			return b, move, nil
		}
	}
	return nil, 0, python.Error{Type: "RuntimeError", Message: "Failed to generate a capture problem"}
}

func drawGoColor(r *python.Random) byte {
	if r.Float64() < 0.5 {
		return goBlack
	}
	return goWhite
}

const (
	goEmpty = '.'
	goBlack = 'X'
	goWhite = 'O'
)

func opponent(color byte) byte { return goBlack + goWhite - color }

var goNeighbours = [...]direction{{-1, 0}, {1, 0}, {0, -1}, {0, 1}}

// goBoard is a position in Go.
type goBoard struct {
	letterGrid
	ko        int    // the point that may not be played at, or -1
	group     []int  // the stones that chain has found
	liberties []int  // and their free neighbours
	seen      []bool // false but in chain
}

// chain finds the stones that are connected with one, b.group, and their liberties, and counts these.
func (b *goBoard) chain(stone int) int {
	color := b.cells[stone]
	b.group, b.liberties = append(b.group[:0], stone), b.liberties[:0]
	b.seen[stone] = true
	for i := 0; i < len(b.group); i++ {
		for _, d := range goNeighbours {
			to, inside := b.step(b.group[i], d)
			if !inside || b.seen[to] {
				continue
			}
			switch b.cells[to] {
			case color:
				b.group = append(b.group, to)
			case goEmpty:
				b.liberties = append(b.liberties, to)
			default:
				continue
			}
			b.seen[to] = true
		}
	}
	for _, points := range [][]int{b.group, b.liberties} {
		for _, at := range points {
			b.seen[at] = false
		}
	}
	return len(b.liberties)
}

// captured lists the stones of the other color around a stone that have no liberty.
func (b *goBoard) captured(at int) (stones []int) {
	color := opponent(b.cells[at])
	for _, d := range goNeighbours {
		to, inside := b.step(at, d)
		if inside && b.cells[to] == color && b.chain(to) == 0 && !slices.Contains(stones, to) {
			stones = append(stones, b.group...)
		}
	}
	return stones
}

// allows says whether a move is legal: at a free point, not in ko, and no suicide.
func (b *goBoard) allows(at int, color byte) bool {
	if b.cells[at] != goEmpty || at == b.ko {
		return false
	}
	b.cells[at] = color
	legal := b.chain(at) > 0 || len(b.captured(at)) > 0
	b.cells[at] = goEmpty
	return legal
}

// play makes a move if it is legal and says so.
func (b *goBoard) play(at int, color byte) bool {
	if !b.allows(at, color) {
		return false
	}
	b.cells[at] = color
	b.ko = -1
	captured := b.captured(at)
	if len(captured) == 1 {
		b.chain(at)
		if len(b.group) == 1 {
			b.ko = captured[0]
		}
	}
	for _, stone := range captured {
		b.cells[stone] = goEmpty
	}
	return true
}

// surround puts black stones on a stone's liberties but one.
func (b *goBoard) surround(stone, but int) {
	for _, d := range goNeighbours {
		if to, inside := b.step(stone, d); inside && to != but && b.cells[to] == goEmpty {
			b.cells[to] = goBlack
		}
	}
}

// addDecoy puts a stone of any color two steps from a point, where there is room.
func (b *goBoard) addDecoy(r *python.Random, center, but int) {
	var room []int
	for rows := -2; rows <= 2; rows++ {
		for columns := -2; columns <= 2; columns++ {
			to, inside := b.step(center, direction{rows, columns})
			if max(rows, -rows)+max(columns, -columns) == 2 && inside && b.cells[to] == goEmpty && to != but {
				room = append(room, to)
			}
		}
	}
	if len(room) > 0 {
		at := python.Choice(r, room)
		b.cells[at] = drawGoColor(r)
	}
}

// isBestCapture says whether a move of Black captures more stones than any other one.
func (b *goBoard) isBestCapture(move int) bool {
	count := func(at int) int {
		b.cells[at] = goBlack
		captured := len(b.captured(at))
		b.cells[at] = goEmpty
		return captured
	}
	best := count(move)
	for at, c := range b.cells {
		if c == goEmpty && at != move && count(at) >= best {
			return false
		}
	}
	return best > 0
}

func (b *goBoard) question(prompt string) string {
	var text strings.Builder
	text.Grow(len(prompt) + 2*len(b.cells) + 4*b.columns + 200)
	text.WriteString(prompt + "\n\n```\n   ")
	for i := range b.columns {
		if i > 0 {
			text.WriteByte(' ')
		}
		text.WriteByte(byte('A' + i))
	}
	for row := range b.columns {
		text.WriteString("\n")
		if b.columns-row < 10 {
			text.WriteByte(' ')
		}
		text.WriteString(strconv.Itoa(b.columns-row) + " ")
		text.Write(b.appendSpaced(make([]byte, 0, 2*19), row))
	}
	text.WriteString("\n```\n\nX - Black\nO - White\n\nSpecify your move in coordinates (e.g. 'C4' for column C, row 4)")
	return text.String()
}

// scoreTsumego is 1 for the oracle in any case, its share of a text that contains it, 0.05 for another point and 0.01 for
// anything else.
func scoreTsumego(task envs.Task, answer string) (float64, error) {
	if answer == "" {
		return 0, nil
	}
	oracle, answer := python.Strip(task.Answer), python.Upper(python.Strip(answer))
	switch {
	case answer == oracle:
		return 1, nil
	case strings.Contains(answer, oracle):
		return float64(utf8.RuneCountInString(oracle)) / float64(utf8.RuneCountInString(answer)), nil
	case answer != "" && answer[0] >= 'A' && answer[0] <= 'Z' && python.IsDecimal(answer[1:]):
		return 0.05, nil
	}
	return 0.01, nil
}

func scoreTsumegoCorrected(task envs.Task, answer string) (float64, error) {
	if strings.EqualFold(python.Strip(answer), python.Strip(task.Answer)) {
		return 1, nil
	}
	return 0, nil
}
