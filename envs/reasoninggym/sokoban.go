package reasoninggym

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// sokoban is SokobanDataset of reasoning_gym/games/sokoban.py. Its puzzles and solutions are those of xbandrade's
// sokoban-solver-generator, which upstream contains: see NOTICE.
var sokoban = definition[SokobanConfig]{
	name:        "sokoban",
	category:    "games",
	description: "Push all boxes onto goals.",
	defaults:    SokobanConfig{MinW: 6, MinH: 6, MaxW: 10, MaxH: 10, MinBoxes: 4, MaxBoxes: 10, MaxDepth: 80},
	prepareAt:   prepareSokoban,
	score:       scoreSokoban,

	scoreCorrected: scoreSokobanCorrected,
	faults: []Fault{
		{What: "Characters that are no move are left out, and the capitals L, R, U and D of a text are moves; corrected, an answer has moves only.", Answer: "My solution: {answer}"},
	},
	curriculum: []Attribute{
		ranged("width", "min_w", "max_w", "Columns of the board", span(6, 20, 1)...),
		ranged("height", "min_h", "max_h", "Rows of the board", span(6, 20, 1)...),
	},
}

// SokobanConfig has the settings of sokoban. Boards are drawn until the search for a solution finds one, which for some settings
// takes as long as the context allows.
type SokobanConfig struct {
	MinW     int `json:"min_w"`     // columns of the board, with the walls around
	MinH     int `json:"min_h"`     // rows of the board
	MaxW     int `json:"max_w"`     // columns of the board
	MaxH     int `json:"max_h"`     // rows of the board
	MinBoxes int `json:"min_boxes"` // on the smallest board
	MaxBoxes int `json:"max_boxes"` // on the largest board, and on all if boxes or a side cannot vary
	MaxDepth int `json:"max_depth"` // moves after which the search for a solution gives up
}

func (c SokobanConfig) validate() error {
	if err := check(
		between("max_w", c.MaxW, 1, 20),
		between("max_h", c.MaxH, 1, 20),
		between("min_w", c.MinW, 1, c.MaxW),
		between("min_h", c.MinH, 1, c.MaxH),
		between("max_boxes", c.MaxBoxes, c.MinBoxes, math.MaxInt32),
		atLeast("min_boxes", c.MinBoxes, math.MinInt32),
		atLeast("max_depth", c.MaxDepth, 2),
	); err != nil {
		return err
	}
	for w := max(c.MinW, 3); w <= c.MaxW; w++ {
		for h := max(c.MinH, 3); h <= c.MaxH; h++ {
			if c.boxesFit(w, h) {
				return nil
			}
		}
	}
	return fmt.Errorf("max_boxes is %d, which is too many for all boards of up to %d columns and %d rows", c.MaxBoxes, c.MaxW, c.MaxH)
}

// boxes is how many boxes a board has.
func (c SokobanConfig) boxes(width, height int) int {
	if c.MinW == c.MaxW || c.MinH == c.MaxH || c.MinBoxes == c.MaxBoxes {
		return c.MaxBoxes
	}
	slope := float64(c.MaxBoxes-c.MinBoxes) / float64(c.MaxW*c.MaxH-c.MinW*c.MinH)
	offset := float64(c.MinBoxes) - float64(slope*float64(c.MinW)*float64(c.MinH))
	return int(float64(slope*float64(width*height)) + offset)
}

// boxesFit says whether there is room for the boxes and the player within the walls around.
func (c SokobanConfig) boxesFit(width, height int) bool {
	return c.boxes(width, height) < (width-2)*(height-2)
}

// What a cell of a board shows.
const (
	sokobanWall         = '+'
	sokobanFloor        = '-'
	sokobanGoal         = 'X'
	sokobanBox          = '@'
	sokobanBoxOnGoal    = '$'
	sokobanPlayer       = '*'
	sokobanPlayerOnGoal = '%'
)

func isSokobanBox(cell byte) bool { return cell == sokobanBox || cell == sokobanBoxOnGoal }

func isSokobanGoal(cell byte) bool { return cell == sokobanGoal || cell == sokobanPlayerOnGoal } // without a box

func prepareSokoban(c SokobanConfig, _ Common) (indexedGenerator, error) {
	var difficulty object
	difficulty.ints("width", c.MinW, c.MaxW)
	difficulty.ints("height", c.MinH, c.MaxH)
	return func(ctx context.Context, r *python.Random, _ int, m *object) (item, error) {
		for {
			if err := ctx.Err(); err != nil {
				return item{}, err
			}
			width, height := r.RandInt(c.MinW, c.MaxW), r.RandInt(c.MinH, c.MaxH)
			if min(width, height) > 2 && !c.boxesFit(width, height) {
				return item{}, fmt.Errorf("%w: it puts %d boxes on a board of %d columns and %d rows for ever", ErrNoItem, c.boxes(width, height), width, height)
			}
			boxes := c.boxes(width, height)
			board := drawSokoban(r, width, height, boxes)
			if bytes.Count(board.cells, []byte{sokobanBox}) < boxes>>1 {
				continue
			}
			solution, err := solveSokoban(ctx, board, c.MaxDepth)
			if err != nil {
				return item{}, err
			}
			if solution == "" {
				continue
			}
			text := sokobanText(board)
			m.string("gamestr", text)
			m.int("width", width)
			m.int("height", height)
			m.object("difficulty", difficulty)
			return item{sokobanPrompt + text, solution}, nil
		}
	}, nil
}

const sokobanPrompt = `You are going to solve a 'sokoban' puzzle.

* - The player
% - The player on a goal
@ - A box
X - A goal
$ - A box on a goal
+ - A wall
- - An empty position

Your solution must be a string of characters, ex: LDURRUDL.

Here is your puzzle:
`

func sokobanText(board letterGrid) string {
	b := make([]byte, 0, 2*len(board.cells)+2*board.rows()+1)
	for row := range board.rows() {
		b = append(board.appendSpaced(b, row), "  \n"...)
	}
	return string(append(b, '\n'))
}

// drawSokoban starts with boxes on goals in a block of wall, through which a player who pulls boxes digs at random.
func drawSokoban(r *python.Random, width, height, boxes int) letterGrid {
	board := newLetterGrid(height, width, sokobanWall)
	column, row := r.RandInt(1, width-2), r.RandInt(1, height-2)
	player := row*width + column
	board.cells[player] = sokobanPlayer
	isGoal := make([]bool, len(board.cells))
	for placed := 0; placed < boxes; {
		row, column := r.RandInt(1, height-2), r.RandInt(1, width-2)
		if cell := row*width + column; board.cells[cell] == sokobanWall {
			board.cells[cell] = sokobanBoxOnGoal
			isGoal[cell] = true
			placed++
		}
	}
	show := func(cell int, plain, onGoal byte) {
		board.cells[cell] = plain
		if isGoal[cell] {
			board.cells[cell] = onGoal
		}
	}
	visits := map[string]*int{}
	last := -1 // the move that is now less likely
	for range int(math.RoundToEven(float64(height*width) * r.Uniform(1.8, 3.6))) {
		move := drawSokobanMove(r, last)
		count := visits[string(board.cells)]
		if count == nil {
			count = new(int)
			visits[string(board.cells)] = count
		}
		*count++
		d := sokobanMoves[move].direction
		step := d.rows*width + d.columns
		to := player + step
		if row, column := to/width, to%width; row > 0 && row < height-1 && column > 0 && column < width-1 && !isSokobanBox(board.cells[to]) {
			last = move ^ 1
			show(player, sokobanFloor, sokobanGoal)
			show(to, sokobanPlayer, sokobanPlayerOnGoal)
			if behind := player - step; isSokobanBox(board.cells[behind]) {
				show(behind, sokobanFloor, sokobanGoal)
				show(player, sokobanBox, sokobanBoxOnGoal)
			}
			player = to
		} else {
			last = move
		}
		if *count >= 20 {
			break
		}
	}
	return board
}

// sokobanMoves are in upstream's order, each beside its opposite.
var sokobanMoves = [4]struct {
	direction
	letter byte
}{
	{direction{1, 0}, 'D'},
	{direction{-1, 0}, 'U'},
	{direction{0, -1}, 'L'},
	{direction{0, 1}, 'R'},
}

// drawSokobanMove is choices(moves, weights) with weight 0.1 for one of the moves, if there is one, and 1 for the others.
func drawSokobanMove(r *python.Random, unlikely int) int {
	var sums [4]float64
	sum := 0.0
	for i := range sums {
		if i == unlikely {
			sum += 0.1
		} else {
			sum++
		}
		sums[i] = sum
	}
	x := r.Float64() * sum
	for i, sum := range sums {
		if x < sum {
			return i
		}
	}
	return len(sums) - 1
}

// scoreSokoban is 1 if the moves in an answer leave no box beside a goal.
func scoreSokoban(task envs.Task, answer string) (float64, error) {
	var m struct{ Gamestr string }
	if err := readMetadata(task, &m); err != nil {
		return 0, err
	}
	board, err := parseSokoban(m.Gamestr)
	if err != nil {
		return 0, fmt.Errorf("reasoninggym: the metadata of task %s: gamestr: %w", task.ID, err)
	}
	if board.play(answer) && bytes.IndexByte(board.cells, sokobanBox) < 0 {
		return 1, nil
	}
	return 0, nil
}

func scoreSokobanCorrected(task envs.Task, answer string) (float64, error) {
	answer = python.Strip(answer)
	if strings.Trim(answer, "LRUD") != "" {
		return 0, nil
	}
	return scoreSokoban(task, answer)
}

// sokobanGame is a board with a player.
type sokobanGame struct {
	letterGrid
	player int
}

func parseSokoban(text string) (*sokobanGame, error) {
	lines := strings.Split(python.Strip(strings.ReplaceAll(text, " ", "")), "\n")
	g := &sokobanGame{letterGrid{columns: len(lines[0])}, -1}
	for _, line := range lines {
		if line == "" || len(line) != g.columns {
			return nil, fmt.Errorf("a row is %q", line)
		}
		g.cells = append(g.cells, line...)
	}
	for i, c := range g.cells {
		switch c {
		case sokobanPlayer, sokobanPlayerOnGoal:
			g.player = i
		case sokobanWall, sokobanFloor, sokobanGoal, sokobanBox, sokobanBoxOnGoal:
		default:
			return nil, fmt.Errorf("a cell is %q", c)
		}
	}
	if g.player < 0 {
		return nil, fmt.Errorf("there is no player")
	}
	return g, nil
}

// play makes the moves in a text as far as they are possible. It returns false if they lead off the board.
func (g *sokobanGame) play(text string) bool {
	for _, letter := range []byte(text) {
		for _, move := range sokobanMoves {
			if move.letter != letter {
				continue
			}
			to, inside := g.step(g.player, move.direction)
			if !inside {
				return false
			}
			if g.cells[to] == sokobanWall {
				continue
			}
			if isSokobanBox(g.cells[to]) {
				beyond, inside := g.step(to, move.direction)
				if !inside {
					return false
				}
				if g.cells[beyond] == sokobanWall || isSokobanBox(g.cells[beyond]) {
					continue
				}
				sokobanPush(g.cells, to, beyond)
			}
			sokobanWalk(g.cells, g.player, to)
			g.player = to
		}
	}
	return true
}

// sokobanPush moves a box to the next cell, which is free.
func sokobanPush(cells []byte, from, to int) {
	if cells[to] == sokobanGoal {
		cells[to] = sokobanBoxOnGoal
	} else {
		cells[to] = sokobanBox
	}
	if cells[from] == sokobanBoxOnGoal {
		cells[from] = sokobanGoal
	} else {
		cells[from] = sokobanFloor
	}
}

// sokobanWalk moves the player to the next cell, which is free.
func sokobanWalk(cells []byte, from, to int) {
	if cells[to] == sokobanGoal {
		cells[to] = sokobanPlayerOnGoal
	} else {
		cells[to] = sokobanPlayer
	}
	if cells[from] == sokobanPlayerOnGoal {
		cells[from] = sokobanGoal
	} else {
		cells[from] = sokobanFloor
	}
}
