package reasoninggym

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// miniSudoku is MiniSudokuDataset of reasoning_gym/games/mini_sudoku.py.
var miniSudoku = definition[MiniSudokuConfig]{
	name:        "mini_sudoku",
	category:    "games",
	description: "Solve a sudoku of 4 rows and 4 columns.",
	defaults:    MiniSudokuConfig{MinEmpty: 8, MaxEmpty: 12},
	prepare:     prepareMiniSudoku,
	score:       scoreMiniSudoku,

	scoreCorrected: scoreMiniSudokuCorrected,
	faults: []Fault{
		{What: "Each right number scores in part; corrected, a board is right or wrong.", Index: 0, Answer: "4 2 1 3\n1 3 4 2\n2 1 3 4\n3 4 2 2"},
		{What: "Text around the board costs in part only; corrected, the answer must be the board alone.", Answer: "The board:\n{answer}"},
		{What: "White space around the board costs in part; corrected, it does not count.", Answer: "\n{answer}\n"},
	},
	curriculum: []Attribute{
		interval("empty", "min_empty", "max_empty", "Cells without a number", 4, 6, 8, 10, 12),
	},
}

// MiniSudokuConfig has the settings of mini_sudoku.
type MiniSudokuConfig struct {
	MinEmpty int `json:"min_empty"` // cells without a number; there are fewer where the solution would not be the only one
	MaxEmpty int `json:"max_empty"` // cells without a number
}

func (c MiniSudokuConfig) validate() error {
	return check(
		between("min_empty", c.MinEmpty, 0, 12), // with more, no board has one solution only
		between("max_empty", c.MaxEmpty, c.MinEmpty, 12),
	)
}

func prepareMiniSudoku(c MiniSudokuConfig) (generator, error) {
	var difficulty object
	difficulty.ints("empty", c.MinEmpty, c.MaxEmpty)
	return func(r *python.Random, m *object) (item, error) {
		solved, err := drawMiniSudoku(r)
		if err != nil {
			return item{}, err
		}
		puzzle := solved.dig(r, r.RandInt(c.MinEmpty, c.MaxEmpty))
		m.board("puzzle", puzzle)
		m.board("solution", solved)
		m.int("num_empty", bytes.Count(puzzle[:], []byte{0}))
		m.object("difficulty", difficulty)
		return item{
			question: "In 4x4 Mini Sudoku:\n" +
				"- Each row must contain each number from 1-4 exactly once\n" +
				"- Each column must contain each number 1-4 exactly once\n" +
				"- Each 2x2 subgrid must contain each number 1-4 exactly once\n" +
				"Solve this 4x4 Mini Sudoku puzzle:\n" + puzzle.String() + "\n" +
				"Format your response as the puzzle above, with spaces separating each number within a row, and newlines separating rows.\n",
			answer: solved.String(),
		}, nil
	}, nil
}

// miniBoard is a board of 4 rows, row after row; 0 is an empty cell.
type miniBoard [16]byte

// miniUnits are the row, the column and the box of each cell, as bits of miniTaken.
var miniUnits = func() (units [16]struct{ row, column, box int }) {
	for i := range units {
		row, column := i/4, i%4
		units[i].row, units[i].column, units[i].box = row, column, row/2*2+column/2
	}
	return units
}()

// miniTaken has the numbers that stand in each row, column and box, as bits 0 to 3.
type miniTaken struct{ rows, columns, boxes [4]byte }

func (t *miniTaken) toggle(cell int, bit byte) {
	u := miniUnits[cell]
	t.rows[u.row] ^= bit
	t.columns[u.column] ^= bit
	t.boxes[u.box] ^= bit
}

// free has the numbers that a cell can have, as bits.
func (t *miniTaken) free(cell int) byte {
	u := miniUnits[cell]
	return 15 &^ (t.rows[u.row] | t.columns[u.column] | t.boxes[u.box])
}

func (b *miniBoard) taken() (t miniTaken) {
	for cell, number := range b {
		if number > 0 {
			t.toggle(cell, 1<<(number-1))
		}
	}
	return t
}

// solve fills the cells from one on with the first numbers that fit, and says whether that is possible.
func (b *miniBoard) solve(t *miniTaken, cell int) bool {
	for cell < len(b) && b[cell] != 0 {
		cell++
	}
	if cell == len(b) {
		return true
	}
	for free := t.free(cell); free != 0; free &= free - 1 {
		bit := free & -free
		t.toggle(cell, bit)
		b[cell] = byte(bits.Len8(bit))
		if b.solve(t, cell+1) {
			return true
		}
		b[cell] = 0
		t.toggle(cell, bit)
	}
	return false
}

// solvable says whether the board has a solution with one of some numbers, as bits, in an empty cell.
func (b miniBoard) solvable(t miniTaken, cell int, numbers byte) bool {
	for ; numbers != 0; numbers &= numbers - 1 {
		bit := numbers & -numbers
		filled, taken := b, t
		filled[cell] = byte(bits.Len8(bit))
		taken.toggle(cell, bit)
		if filled.solve(&taken, 0) {
			return true
		}
	}
	return false
}

// drawMiniSudoku fills the first and the last box at random and the others with the first numbers that fit, if some do.
func drawMiniSudoku(r *python.Random) (miniBoard, error) {
	for range 100 {
		var b miniBoard
		for _, corner := range []int{0, 10} {
			numbers := []byte{1, 2, 3, 4}
			python.Shuffle(r, numbers)
			b[corner], b[corner+1], b[corner+4], b[corner+5] = numbers[0], numbers[1], numbers[2], numbers[3]
		}
		t := b.taken()
		if b.solve(&t, 0) {
			return b, nil
		}
	}
	return miniBoard{}, python.Error{Type: "RuntimeError", Message: "Failed to generate valid mini sudoku board"}
}

// dig empties so many cells in random order, skipping those without which there is a second solution: one that has another
// number there. As upstream, it empties as many as it can if the number is 0.
func (b miniBoard) dig(r *python.Random, empty int) miniBoard {
	order := [16]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	python.Shuffle(r, order[:])
	taken := b.taken()
	for _, cell := range order {
		number := b[cell]
		bit := byte(1) << (number - 1)
		b[cell] = 0
		taken.toggle(cell, bit)
		if b.solvable(taken, cell, taken.free(cell)&^bit) {
			b[cell] = number
			taken.toggle(cell, bit)
		} else if empty--; empty == 0 {
			break
		}
	}
	return b
}

// board is a field whose value is a list of rows.
func (o *object) board(name string, b miniBoard) {
	o.name(name)
	separator := byte('[')
	for i := 0; i < len(b); i += 4 {
		o.data = append(o.data, separator, '[', '0'+b[i], ',', '0'+b[i+1], ',', '0'+b[i+2], ',', '0'+b[i+3], ']')
		separator = ','
	}
	o.data = append(o.data, ']')
}

func (b miniBoard) String() string {
	text := make([]byte, 0, 2*len(b))
	for i, number := range b {
		switch {
		case i == 0:
		case i%4 == 0:
			text = append(text, '\n')
		default:
			text = append(text, ' ')
		}
		text = append(text, "_1234"[number])
	}
	return string(text)
}

// scoreMiniSudoku is 1 for the oracle; of other answers, it counts the right numbers in the lines that have as many digits as
// the board has columns. Texts that are longer than the oracle get less.
func scoreMiniSudoku(task envs.Task, answer string) (float64, error) {
	if answer == "" {
		return 0, nil
	}
	score := 1.0
	if !sameLines(task.Answer, answer) {
		var m struct{ Solution [][]int }
		if err := readMetadata(task, &m); err != nil {
			return 0, err
		}
		matching, err := rightDigits(m.Solution, answer)
		if err != nil {
			return 0, fmt.Errorf("reasoninggym: the metadata of task %s: %w", task.ID, err)
		}
		score = float64(matching) / float64(len(m.Solution)*len(m.Solution)) * 0.9
	}
	if want, got := utf8.RuneCountInString(task.Answer), utf8.RuneCountInString(answer); got > want {
		score *= float64(want) / float64(got)
	}
	return score, nil
}

// sameLines compares texts without the white space at the end of lines.
func sameLines(a, b string) bool {
	for {
		lineA, restA, moreA := strings.Cut(a, "\n")
		lineB, restB, moreB := strings.Cut(b, "\n")
		if moreA != moreB || lineA != lineB && strings.TrimRightFunc(lineA, python.IsSpace) != strings.TrimRightFunc(lineB, python.IsSpace) {
			return false
		}
		if !moreA {
			return true
		}
		a, b = restA, restB
	}
}

func rightDigits(solution [][]int, answer string) (right int, err error) {
	for _, row := range solution {
		if len(row) != len(solution) {
			return 0, errors.New("solution is no square")
		}
	}
	if len(solution) == 0 {
		return 0, errors.New("solution is empty")
	}
	digits := make([]int, 0, len(solution))
	row := 0
	for line := range strings.SplitSeq(answer, "\n") {
		digits = digits[:0]
		for _, c := range []byte(line) {
			if c >= '1' && c <= '9' {
				digits = append(digits, int(c-'0'))
			}
		}
		if len(digits) != len(solution) {
			continue
		}
		for i, digit := range digits {
			if solution[row][i] == digit {
				right++
			}
		}
		if row++; row == len(solution) {
			break
		}
	}
	return right, nil
}

// scoreMiniSudokuCorrected gives 1 for the numbers of the oracle, in its rows and with white space between them.
func scoreMiniSudokuCorrected(task envs.Task, answer string) (float64, error) {
	want, got := strings.Split(task.Answer, "\n"), strings.Split(python.Strip(answer), "\n")
	if len(got) != len(want) {
		return 0, nil
	}
	for i := range want {
		if !slices.Equal(python.Fields(want[i]), python.Fields(got[i])) {
			return 0, nil
		}
	}
	return 1, nil
}
