package reasoninggym

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"strings"
)

// solveSokoban is upstream's search for a solution. It is like A*, but orders positions by the estimate of the one before and the
// cost of the move, and visits a position once for each way to it that was found before the first visit. It returns "" where
// upstream gives up: after a visit by more than maxDepth moves, or when no position is left.
func solveSokoban(ctx context.Context, board letterGrid, maxDepth int) (string, error) {
	s := sokobanSearch{width: board.columns, height: board.rows(), states: map[string]*sokobanState{}}
	player := slices.IndexFunc(board.cells, func(c byte) bool { return c == sokobanPlayer || c == sokobanPlayerOnGoal })
	first := s.state(board.cells, player)
	first.estimate = s.estimate(first) // also if it is a deadlock for isDeadlock, which sees some where there is none
	queue := sokobanQueue{{state: first}}
	for visits := 0; len(queue) > 0; visits++ {
		if visits%1024 == 0 && ctx.Err() != nil {
			return "", ctx.Err()
		}
		at := heap.Pop(&queue).(*sokobanVisit)
		at.state.visited = true
		for move, next := range s.next(at.state) {
			if next.state == nil || next.state.visited || next.state.deadlock {
				continue
			}
			visit := &sokobanVisit{order: at.state.estimate + next.cost, state: next.state, depth: at.depth + 1, move: move, before: at}
			if next.state.boxes == 0 {
				return visit.path(), nil
			}
			heap.Push(&queue, visit)
		}
		if at.depth > maxDepth {
			break
		}
	}
	return "", nil
}

// sokobanVisit is a way to a position, which is to be visited.
type sokobanVisit struct {
	order  int
	state  *sokobanState
	depth  int // moves so far
	move   int // the last one
	before *sokobanVisit
}

func (v *sokobanVisit) path() string {
	path := make([]byte, v.depth)
	for ; v.before != nil; v = v.before {
		path[v.depth-1] = sokobanMoves[v.move].letter
	}
	return string(path)
}

// sokobanQueue is a heap in the order of Python's tuples of order, estimate, position as text, depth and path.
type sokobanQueue []*sokobanVisit

func (q sokobanQueue) Len() int { return len(q) }

func (q sokobanQueue) Less(i, j int) bool {
	a, b := q[i], q[j]
	if a.order != b.order {
		return a.order < b.order
	}
	if a.state != b.state {
		if a.state.estimate != b.state.estimate {
			return a.state.estimate < b.state.estimate
		}
		return a.state.text < b.state.text
	}
	return a.depth < b.depth || a.depth == b.depth && a.comparePath(b) < 0
}

func (q sokobanQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

func (q *sokobanQueue) Push(v any) { *q = append(*q, v.(*sokobanVisit)) }

func (q *sokobanQueue) Pop() any {
	last := len(*q) - 1
	v := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return v
}

// comparePath compares the letters of the moves of two ways of one length: the first that differ count.
func (v *sokobanVisit) comparePath(w *sokobanVisit) (order int) {
	for ; v != w; v, w = v.before, w.before {
		if v.move != w.move {
			order = cmp.Compare(sokobanMoves[v.move].letter, sokobanMoves[w.move].letter)
		}
	}
	return order
}

// sokobanSearch knows the positions that were met.
type sokobanSearch struct {
	width, height int
	states        map[string]*sokobanState // by their text
	cells         []byte                   // of next
}

// sokobanState is a position.
type sokobanState struct {
	text     string
	player   int
	boxes    int // beside goals
	estimate int // of what is left to do
	deadlock bool
	visited  bool
	expanded bool
	moves    [4]sokobanNext
}

// sokobanNext is the position after a move, or nil if that is not possible.
type sokobanNext struct {
	state *sokobanState
	cost  int
}

func (s *sokobanSearch) state(cells []byte, player int) *sokobanState {
	state := s.states[string(cells)]
	if state == nil {
		state = &sokobanState{text: string(cells), player: player}
		state.boxes = strings.Count(state.text, string(sokobanBox))
		state.deadlock = s.isDeadlock(state.text)
		if !state.deadlock {
			state.estimate = s.estimate(state)
		}
		s.states[state.text] = state
	}
	return state
}

// next lists the positions after each of sokobanMoves.
func (s *sokobanSearch) next(state *sokobanState) *[4]sokobanNext {
	if state.expanded {
		return &state.moves
	}
	state.expanded = true
	for i, move := range sokobanMoves {
		step := move.rows*s.width + move.columns
		to := state.player + step
		if state.text[to] == sokobanWall {
			continue
		}
		s.cells = append(s.cells[:0], state.text...)
		cost := 3
		if isSokobanBox(s.cells[to]) {
			beyond := to + step
			if s.cells[beyond] == sokobanWall || isSokobanBox(s.cells[beyond]) {
				continue
			}
			sokobanPush(s.cells, to, beyond)
			cost = 2
			if s.cells[beyond] == sokobanBoxOnGoal {
				cost = 0
			}
		}
		sokobanWalk(s.cells, state.player, to)
		state.moves[i] = sokobanNext{s.state(s.cells, to), cost}
	}
	return &state.moves
}

// estimate adds up the distance of each box to the nearest goal, that of the player to the nearest box, and the size of the
// board for each box.
func (s *sokobanSearch) estimate(state *sokobanState) int {
	if state.boxes == 0 {
		return 0
	}
	total := state.boxes * len(state.text)
	nearest := len(state.text)
	for box := range len(state.text) {
		if state.text[box] != sokobanBox {
			continue
		}
		nearest = min(nearest, s.distance(box, state.player))
		toGoal := len(state.text)
		for goal := range len(state.text) {
			if isSokobanGoal(state.text[goal]) {
				toGoal = min(toGoal, s.distance(box, goal))
			}
		}
		total += toGoal
	}
	return total + nearest
}

func (s *sokobanSearch) distance(a, b int) int {
	rows, columns := a/s.width-b/s.width, a%s.width-b%s.width
	return max(rows, -rows) + max(columns, -columns)
}

// isDeadlock says whether a box beside a goal is in a corner or in a square of boxes and walls, or whether along one of the four
// outer walls there are more such boxes than goals.
func (s *sokobanSearch) isDeadlock(text string) bool {
	wall := func(at int) bool { return text[at] == sokobanWall }
	stuck := func(at int) bool { return wall(at) || isSokobanBox(text[at]) }
	for box := range len(text) {
		if text[box] != sokobanBox {
			continue
		}
		for _, across := range [...]int{-1, 1} {
			for _, along := range [...]int{-s.width, s.width} {
				if wall(box+across) && wall(box+along) || stuck(box+across) && stuck(box+along) && stuck(box+across+along) {
					return true
				}
			}
		}
	}
	columns, rows := s.width-2, s.height-2
	first, last := s.width+1, rows*s.width+columns // cells of the corners within
	return s.crowded(text, first, 1, columns) || s.crowded(text, last-columns+1, 1, columns) ||
		s.crowded(text, first, s.width, rows) || s.crowded(text, first+columns-1, s.width, rows)
}

// crowded says whether there are more boxes beside goals than goals in a line of cells.
func (s *sokobanSearch) crowded(text string, first, step, count int) bool {
	balance := 0
	for i := range count {
		switch cell := text[first+i*step]; {
		case cell == sokobanBox:
			balance++
		case isSokobanGoal(cell):
			balance--
		}
	}
	return balance > 0
}
