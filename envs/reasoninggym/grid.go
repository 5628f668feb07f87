package reasoninggym

import (
	"fmt"

	"github.com/grouper-rl/grouper/envs"
)

// letterGrid is a rectangle of letters, which upstream has as a list of lists of strings. Its letters are ASCII and none that JSON
// would escape.
type letterGrid struct {
	columns int
	cells   []byte // row after row
}

func newLetterGrid(rows, columns int, fill byte) letterGrid {
	g := letterGrid{columns, make([]byte, rows*columns)}
	for i := range g.cells {
		g.cells[i] = fill
	}
	return g
}

func (g letterGrid) rows() int { return len(g.cells) / g.columns }

func (g letterGrid) row(r int) []byte { return g.cells[r*g.columns : (r+1)*g.columns] }

// step moves from a cell by one row or column and says whether that is still within the grid.
func (g letterGrid) step(cell int, d direction) (int, bool) {
	row, column := cell/g.columns+d.rows, cell%g.columns+d.columns
	return row*g.columns + column, row >= 0 && row < g.rows() && column >= 0 && column < g.columns
}

type direction struct{ rows, columns int }

// appendSpaced appends a row with spaces between the letters.
func (g letterGrid) appendSpaced(b []byte, r int) []byte {
	for i, c := range g.row(r) {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, c)
	}
	return b
}

// appendJSON appends [["a","b"],["c","d"]].
func (g letterGrid) appendJSON(b []byte) []byte {
	separator := byte('[')
	for r := range g.rows() {
		b = append(b, separator)
		separator = '['
		for _, c := range g.row(r) {
			b = append(b, separator, '"', c, '"')
			separator = ','
		}
		b = append(b, ']')
	}
	return append(b, ']')
}

func (o *object) grid(name string, g letterGrid) {
	o.name(name)
	o.data = g.appendJSON(o.data)
}

// readLetterGrid reads a field of a task's metadata that letterGrid has written.
func readLetterGrid(task envs.Task, field string) (letterGrid, error) {
	for name, value := range metadataFields(task.Metadata) {
		if name != field {
			continue
		}
		if g, ok := parseLetterGrid(value); ok {
			return g, nil
		}
	}
	return letterGrid{}, fmt.Errorf("reasoninggym: the metadata of task %s have no grid of letters as %q", task.ID, field)
}

func parseLetterGrid(data []byte) (g letterGrid, ok bool) {
	depth, start := 0, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '[':
			if depth++; depth > 2 {
				return g, false
			}
			start = len(g.cells)
		case ']':
			if depth == 2 && g.columns == 0 {
				g.columns = len(g.cells)
			}
			if depth == 2 && len(g.cells)-start != g.columns {
				return g, false
			}
			depth--
		case '"':
			if depth != 2 || i+2 >= len(data) || data[i+2] != '"' {
				return g, false
			}
			g.cells = append(g.cells, data[i+1])
			i += 2
		case ',', ' ', '\n', '\t', '\r':
		default:
			return g, false
		}
	}
	return g, depth == 0 && g.columns > 0
}
