package reasoninggym

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// shortestPath is ShortestPathDataset of reasoning_gym/graphs/shortest_path.py.
var shortestPath = definition[ShortestPathConfig]{
	name:        "shortest_path",
	category:    "graphs",
	description: "Find the shortest way through a grid with blocked cells.",
	defaults:    ShortestPathConfig{MinRows: 5, MaxRows: 8, MinCols: 5, MaxCols: 8, PBlocked: 0.4},
	prepare:     prepareShortestPath,
	score:       scoreShortestPath,

	scoreCorrected: scoreShortestPathCorrected,
	faults: []Fault{
		{What: "A way that is not the shortest scores 0.5; corrected, it scores 0.", Index: 0, Answer: "{answer} left right"},
	},
	curriculum: []Attribute{
		ranged("rows", "min_rows", "max_rows", "Rows of the grid", 10, 25, 50, 100),
		ranged("cols", "min_cols", "max_cols", "Columns of the grid", 10, 25, 50, 100),
	},
}

// ShortestPathConfig has the settings of shortest_path.
type ShortestPathConfig struct {
	MinRows  int     `json:"min_rows"`  // of the grid
	MaxRows  int     `json:"max_rows"`  // of the grid
	MinCols  int     `json:"min_cols"`  // of the grid
	MaxCols  int     `json:"max_cols"`  // of the grid
	PBlocked float64 `json:"p_blocked"` // probability that a cell is blocked
}

func (c ShortestPathConfig) validate() error {
	const largest = 1000
	if err := check(
		atLeast("min_rows", c.MinRows, 1),
		between("max_rows", c.MaxRows, c.MinRows, largest),
		atLeast("min_cols", c.MinCols, 1),
		between("max_cols", c.MaxCols, c.MinCols, largest),
		between("p_blocked", c.PBlocked, 0, 1),
	); err != nil {
		return err
	}
	if c.MaxRows == 1 && c.MaxCols == 1 { // upstream looks for the destination for ever
		return fmt.Errorf("max_rows and max_cols are 1, but start and destination need two cells")
	}
	return nil
}

const (
	shortestPathOpen    = 'O'
	shortestPathBlocked = 'X'
	shortestPathStart   = '*'
	shortestPathEnd     = '#'

	infeasible = "infeasible"
)

// shortestPathMoves are in the order in which upstream tries them, which decides between ways of one length.
var shortestPathMoves = []struct {
	name string
	direction
}{
	{"right", direction{0, 1}},
	{"down", direction{1, 0}},
	{"left", direction{0, -1}},
	{"up", direction{-1, 0}},
}

func prepareShortestPath(c ShortestPathConfig) (generator, error) {
	var difficulty object
	difficulty.ints("rows", c.MinRows, c.MaxRows)
	difficulty.ints("cols", c.MinCols, c.MaxCols)
	return func(r *python.Random, m *object) (item, error) {
		rows, columns := r.RandInt(c.MinRows, c.MaxRows), r.RandInt(c.MinCols, c.MaxCols)
		if rows*columns == 1 {
			return item{}, fmt.Errorf("%w: it looks for a destination in a grid of one cell for ever", ErrNoItem)
		}
		grid := newLetterGrid(rows, columns, shortestPathOpen)
		for i := range grid.cells {
			if r.Float64() < c.PBlocked {
				grid.cells[i] = shortestPathBlocked
			}
		}
		start := r.RandInt(0, rows-1)*columns + r.RandInt(0, columns-1)
		end := start
		for end == start {
			end = r.RandInt(0, rows-1)*columns + r.RandInt(0, columns-1)
		}
		grid.cells[start], grid.cells[end] = shortestPathStart, shortestPathEnd

		path := findShortestPath(grid, start)
		m.grid("matrix", grid)
		m.strings("solution", path)
		m.object("difficulty", difficulty)
		answer := infeasible
		if len(path) > 0 {
			answer = strings.Join(path, " ")
		}
		return item{shortestPathQuestion(grid), answer}, nil
	}, nil
}

func shortestPathQuestion(grid letterGrid) string {
	const head = `Your task is to find the shortest path from the start to the destination point in a grid.

The grid is represented as a matrix with the following types of cells:
- *: your starting point
- #: your destination point
- O: an open cell
- X: a blocked cell

Therefore, you need to find the shortest path from * to #, moving only through open cells.

You may only move in four directions: up, down, left, and right.

If there is no path from * to #, simply write "infeasible" (without quotes).

Your output should be a sequence of directions that leads from * to #, e.g. right right down down up left

Now, find the shortest path from * to # in the following grid:
`
	b := make([]byte, 0, len(head)+2*len(grid.cells))
	b = append(b, head...)
	for row := range grid.rows() {
		b = append(grid.appendSpaced(b, row), '\n')
	}
	return string(b)
}

// findShortestPath searches breadth first. It returns an empty list if there is no way.
func findShortestPath(grid letterGrid, start int) []string {
	arrived := make([]byte, len(grid.cells)) // by which move, counted from 1
	queue := append(make([]int, 0, len(grid.cells)), start)
	for head := 0; head < len(queue); head++ {
		for i, move := range shortestPathMoves {
			to, inside := grid.step(queue[head], move.direction)
			if !inside || arrived[to] != 0 {
				continue
			}
			switch grid.cells[to] {
			case shortestPathOpen:
				arrived[to] = byte(i + 1)
				queue = append(queue, to)
			case shortestPathEnd:
				arrived[to] = byte(i + 1)
				return walkBack(grid, arrived, start, to)
			}
		}
	}
	return []string{}
}

func walkBack(grid letterGrid, arrived []byte, start, end int) []string {
	var path []string
	for at := end; at != start; {
		move := shortestPathMoves[arrived[at]-1]
		path = append(path, move.name)
		at -= move.rows*grid.columns + move.columns
	}
	slices.Reverse(path)
	return path
}

func scoreShortestPath(task envs.Task, answer string) (float64, error) {
	return gradePath(task, answer, 0.5)
}

func scoreShortestPathCorrected(task envs.Task, answer string) (float64, error) {
	return gradePath(task, answer, 0)
}

// gradePath gives a way of another length than the oracle's the credit forLonger.
func gradePath(task envs.Task, answer string, forLonger float64) (float64, error) {
	oracle, answer := python.Strip(task.Answer), python.Strip(answer)
	if answer == oracle && answer != "" {
		return 1, nil
	}
	grid, err := readLetterGrid(task, "matrix")
	if err != nil {
		return 0, err
	}
	path := python.Fields(answer)
	switch {
	case !isPath(grid, path):
		return 0, nil
	case len(path) == len(python.Fields(oracle)):
		return 1, nil
	}
	return forLonger, nil
}

// isPath says whether moves lead from the start to the destination, not through blocked cells.
func isPath(grid letterGrid, path []string) bool {
	at := bytes.IndexByte(grid.cells, shortestPathStart)
	if at < 0 {
		return false
	}
	for _, name := range path {
		var inside bool
		for _, move := range shortestPathMoves {
			if move.name == name {
				at, inside = grid.step(at, move.direction)
			}
		}
		if !inside || grid.cells[at] == shortestPathBlocked {
			return false
		}
	}
	return grid.cells[at] == shortestPathEnd
}
