package reasoninggym

import (
	"context"
	"slices"
	"strconv"

	"github.com/grouper-rl/grouper/internal/python"
)

// maze is MazeDataset of reasoning_gym/games/maze.py.
var maze = definition[MazeConfig]{
	name:        "maze",
	category:    "games",
	description: "Say how many steps the shortest way through a maze has.",
	defaults:    MazeConfig{MinDist: 5, MaxDist: 10, MinGridSize: 5, MaxGridSize: 10},
	size:        50,
	prepareAt:   prepareMaze,
	curriculum: []Attribute{
		interval("dist", "min_dist", "max_dist", "Steps from start to goal", 5, 10, 15, 20),
		interval("grid_size", "min_grid_size", "max_grid_size", "Rows and columns of the maze", 10, 25, 50, 100),
	},
}

// MazeConfig has the settings of maze. If a maze that fits them is not found within 1000 tries, an item is ErrNoItem; of the
// default settings, that is about one item in 1500.
type MazeConfig struct {
	MinDist     int `json:"min_dist"`      // steps from start to goal
	MaxDist     int `json:"max_dist"`      // steps from start to goal
	MinGridSize int `json:"min_grid_size"` // rows and columns, with the walls around
	MaxGridSize int `json:"max_grid_size"` // rows and columns, with the walls around
}

func (c MazeConfig) validate() error {
	return check(
		atLeast("min_dist", c.MinDist, 1),
		atLeast("max_dist", c.MaxDist, c.MinDist),
		atLeast("min_grid_size", c.MinGridSize, 2),
		between("max_grid_size", c.MaxGridSize, c.MinGridSize, 1000),
	)
}

// mazeTries is how often upstream tries to find a maze, and a free cell in one.
const mazeTries = 1000

// mazeLetters are the characters that may stand for walls, passages, start and goal: string.printable[:94].
const mazeLetters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"

func prepareMaze(c MazeConfig, _ Common) (indexedGenerator, error) {
	var difficulty object
	difficulty.ints("dist", c.MinDist, c.MaxDist)
	difficulty.ints("grid_size", c.MinGridSize, c.MaxGridSize)
	return func(ctx context.Context, r *python.Random, _ int, m *object) (item, error) {
		letters := python.Sample(r, []byte(mazeLetters), 4)
		g := mazeGrid{wall: letters[0], path: letters[1], start: letters[2], goal: letters[3]}
		for range mazeTries {
			if err := ctx.Err(); err != nil {
				return item{}, err
			}
			g.draw(r, r.RandInt(c.MinGridSize, c.MaxGridSize))
			start := g.place(r, g.start)
			goal := g.place(r, g.goal)
			if steps := g.distance(start, goal, c.MaxDist); steps >= c.MinDist {
				g.describe(m, steps)
				m.object("difficulty", difficulty)
				return item{g.question(), strconv.Itoa(steps)}, nil
			}
		}
		return item{}, python.Error{Type: "RuntimeError", Message: "Could not generate a maze with distance in [" +
			strconv.Itoa(c.MinDist) + ", " + strconv.Itoa(c.MaxDist) + "] after " + strconv.Itoa(mazeTries) + " attempts."}
	}, nil
}

func (g *mazeGrid) describe(m *object, steps int) {
	m.int("grid_size", g.size)
	m.name("grid")
	m.data = append(m.data, '[')
	for row := range slices.Chunk(g.cells, g.size) {
		m.data = append(appendJSONString(m.data, string(row)), ',')
	}
	m.data[len(m.data)-1] = ']'
	m.int("shortest_path_length", steps)
	m.string("start", string(g.start))
	m.string("goal", string(g.goal))
	m.string("wall", string(g.wall))
	m.string("path", string(g.path))
}

func (g *mazeGrid) question() string {
	b := make([]byte, 0, len(g.cells)+g.size+300)
	b = append(b, "Navigate from '"+string(g.start)+"' (start) to '"+string(g.goal)+"' (goal):\n\n```\n"...)
	for row := range slices.Chunk(g.cells, g.size) {
		b = append(append(b, row...), '\n')
	}
	return string(append(b, "```\nLegend: '"+string(g.wall)+"' = Wall, '"+string(g.path)+"' = Passage\n\n"+
		"What is the minimum number of steps to reach the goal?\n"+
		"Give only the number of steps as your final answer, no other text or formatting."...))
}

// mazeGrid is a square with walls around.
type mazeGrid struct {
	wall, path, start, goal byte
	size                    int
	cells                   []byte // row after row
	steps                   []int  // to each cell from the start, counted from 1
	queue                   []int
}

// draw makes each cell that is not on the border a passage with probability 0.7.
func (g *mazeGrid) draw(r *python.Random, size int) {
	g.size = size
	g.cells = slices.Grow(g.cells[:0], size*size)[:size*size]
	for i := range g.cells {
		g.cells[i] = g.wall
	}
	for row := 1; row < size-1; row++ {
		for column := 1; column < size-1; column++ {
			if r.Float64() < 0.7 {
				g.cells[row*size+column] = g.path
			}
		}
	}
}

// place puts a letter in a random passage.
func (g *mazeGrid) place(r *python.Random, letter byte) int {
	for range mazeTries {
		row := r.RandInt(1, g.size-2)
		if cell := row*g.size + r.RandInt(1, g.size-2); g.cells[cell] == g.path {
			g.cells[cell] = letter
			return cell
		}
	}
	panic(python.Error{Type: "RuntimeError", Message: "Could not find suitable path cell after " + strconv.Itoa(mazeTries) + " attempts"})
}

// distance is the number of steps of the shortest way from start to goal, or -1 if there is none of at most longest steps.
func (g *mazeGrid) distance(start, goal, longest int) int {
	g.steps = slices.Grow(g.steps[:0], len(g.cells))[:len(g.cells)]
	clear(g.steps)
	g.steps[start] = 1
	g.queue = append(g.queue[:0], start)
	for head := 0; head < len(g.queue); head++ {
		at := g.queue[head]
		if g.steps[at] > longest {
			break
		}
		for _, to := range [...]int{at - g.size, at + 1, at + g.size, at - 1} { // within the walls around
			if g.steps[to] != 0 || g.cells[to] == g.wall {
				continue
			}
			if to == goal {
				return g.steps[at]
			}
			g.steps[to] = g.steps[at] + 1
			g.queue = append(g.queue, to)
		}
	}
	return -1
}
