package reasoninggym

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/grouper-rl/grouper/envs"
	"github.com/grouper-rl/grouper/internal/python"
)

// graphColor is GraphColorDataset of reasoning_gym/algorithmic/graph_color.py.
var graphColor = definition[GraphColorConfig]{
	name:        "graph_color",
	category:    "algorithmic",
	description: "Color the vertices of a graph so that no edge joins two of one color.",
	defaults:    GraphColorConfig{NumColors: 3, MinNumVertices: 10, MaxNumVertices: 10, EdgeProbability: 0.1},
	prepareAt:   prepareGraphColor,
	score:       scoreGraphColor,

	scoreCorrected: scoreGraphColorCorrected,
	faults: []Fault{
		{What: "A wrong coloring scores 0.01; corrected, it scores 0.", Answer: "{}"},
		{What: "true and 1.0 count as the color 1; corrected, a color is an integer.", Config: Config{"min_num_vertices": 2, "max_num_vertices": 2, "edge_probability": 0.0}, Answer: `{"0": true, "1": 1.0}`},
		{What: "A list that has the number of each vertex somewhere is taken for a coloring, by position; corrected, only a JSON object is one.", Config: Config{"min_num_vertices": 2, "max_num_vertices": 2, "edge_probability": 0.0}, Answer: "[1, 1, 0]"},
	},
	curriculum: []Attribute{
		interval("num_vertices", "min_num_vertices", "max_num_vertices", "Vertices of the graph", 6, 10, 20, 25),
		scalar("num_colors", "num_colors", "Colors to choose from", 5, 4, 3),
	},
}

// GraphColorConfig has the settings of graph_color. Graphs are drawn until coloring the vertices in order, each with the first color
// that fits, needs no more than the colors there are: with few colors and many edges that takes as long as the context allows.
type GraphColorConfig struct {
	NumColors       int     `json:"num_colors"`       // to choose from
	MinNumVertices  int     `json:"min_num_vertices"` // of the graph
	MaxNumVertices  int     `json:"max_num_vertices"` // of the graph
	EdgeProbability float64 `json:"edge_probability"` // of each pair of vertices, below 1
}

func (c GraphColorConfig) validate() error {
	const largest = 1000
	if err := check(
		between("num_colors", c.NumColors, 1, largest),
		between("min_num_vertices", c.MinNumVertices, 0, largest),
		between("max_num_vertices", c.MaxNumVertices, c.MinNumVertices, largest),
	); err != nil {
		return err
	}
	if !(c.EdgeProbability >= 0 && c.EdgeProbability < 1) {
		return fmt.Errorf("edge_probability is %v, must be at least 0 and below 1", c.EdgeProbability)
	}
	return nil
}

// graphColoringOf is upstream's puzzle.
type graphColoringOf struct {
	Vertices     []int    `json:"vertices"`
	Edges        [][2]int `json:"edges"`
	NumColors    int      `json:"num_colors"`
	ColorOptions []int    `json:"color_options"`
}

func prepareGraphColor(c GraphColorConfig, _ Common) (indexedGenerator, error) {
	var difficulty object
	difficulty.ints("num_vertices", c.MinNumVertices, c.MaxNumVertices)
	difficulty.int("num_colors", c.NumColors)
	options := make([]int, c.NumColors)
	for i := range options {
		options[i] = i + 1
	}
	return func(ctx context.Context, r *python.Random, _ int, m *object) (item, error) {
		puzzle := graphColoringOf{NumColors: c.NumColors, ColorOptions: options}
		vertices := r.RandInt(c.MinNumVertices, c.MaxNumVertices)
		next := vertices // upstream's name for it is num_vertices, too
		var colors []int
		for colors == nil {
			if err := ctx.Err(); err != nil {
				return item{}, err
			}
			vertices = next
			puzzle.Edges = drawEdges(r, vertices, c.EdgeProbability, puzzle.Edges[:0])
			colors = colorGreedily(vertices, puzzle.Edges, c.NumColors)
			if len(colors) == 0 { // also if there is no vertex, and then the metadata have another number
				next = r.RandInt(c.MinNumVertices, c.MaxNumVertices)
			}
		}
		puzzle.Vertices = make([]int, vertices)
		for i := range puzzle.Vertices {
			puzzle.Vertices[i] = i
		}
		m.name("possible_answer")
		m.data = appendColoring(m.data, colors)
		m.name("puzzle")
		m.data = puzzle.appendJSON(m.data)
		m.int("num_vertices", next)
		m.object("difficulty", difficulty)
		return item{question: puzzle.question()}, nil
	}, nil
}

// appendColoring appends the colors of the vertices: {"0":1,"1":2}.
func appendColoring(b []byte, colors []int) []byte {
	b = append(b, '{')
	for vertex, color := range colors {
		if vertex > 0 {
			b = append(b, ',')
		}
		b = append(appendInt(append(b, '"'), vertex), '"', ':')
		b = appendInt(b, color)
	}
	return append(b, '}')
}

func (p *graphColoringOf) appendJSON(b []byte) []byte {
	b = appendJSONList(append(b, `{"vertices":`...), p.Vertices, appendInt)
	b = appendJSONList(append(b, `,"edges":`...), p.Edges, func(b []byte, edge [2]int) []byte { return appendJSONList(b, edge[:], appendInt) })
	b = appendInt(append(b, `,"num_colors":`...), p.NumColors)
	b = appendJSONList(append(b, `,"color_options":`...), p.ColorOptions, appendInt)
	return append(b, '}')
}

func drawEdges(r *python.Random, vertices int, probability float64, edges [][2]int) [][2]int {
	for i := range vertices {
		for j := i + 1; j < vertices; j++ {
			if r.Float64() < probability {
				edges = append(edges, [2]int{i, j})
			}
		}
	}
	return edges
}

// colorGreedily gives each vertex the first color that no neighbour before it has. It returns nil if the colors do not suffice.
// The edges are in order of their first vertex.
func colorGreedily(vertices int, edges [][2]int, colors int) []int {
	c := make([]int, vertices)
	taken := make([]bool, vertices*colors) // by a neighbour, for each vertex and color
	for v := range c {
		free := slices.Index(taken[v*colors:(v+1)*colors], false)
		if free < 0 {
			return nil
		}
		c[v] = free + 1
		for len(edges) > 0 && edges[0][0] == v {
			taken[edges[0][1]*colors+free] = true
			edges = edges[1:]
		}
	}
	return c
}

func (p *graphColoringOf) question() string {
	b := make([]byte, 0, 500+8*len(p.Edges)+4*len(p.Vertices))
	b = append(b, "Please provide a coloring for this graph such that every vertex is not connected to a vertex of the same color. The graph has these properties:\n\nVertices: "...)
	b = appendInts(b, '[', p.Vertices, ']')
	b = append(b, "\nEdges: ["...)
	for i, edge := range p.Edges {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = appendInts(b, '(', edge[:], ')')
	}
	b = append(b, "]\nPossible colors: "...)
	b = appendInts(b, '[', p.ColorOptions, ']')
	b = append(b, "\n\nReturn your solution as a JSON map of vertices to colors. (For example: {\"0\": 1, \"1\": 2, \"2\": 3}.)\n"...)
	return string(b)
}

func appendInts(b []byte, open byte, numbers []int, end byte) []byte {
	b = append(b, open)
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return append(b, end)
}

// scoreGraphColor is 1 for a coloring, 0.01 for a JSON object or list that is none, and 0 where upstream raises.
func scoreGraphColor(task envs.Task, answer string) (float64, error) {
	return gradeColoring(task, answer, 0.01, vertexValue, wholeNumber)
}

// scoreGraphColorCorrected is 1 for a JSON object with an integer for each vertex that make a coloring.
func scoreGraphColorCorrected(task envs.Task, answer string) (float64, error) {
	inObject := func(given any, vertex int) (any, bool) {
		object, ok := given.(*python.Dict)
		if !ok {
			return nil, false
		}
		return object.Get(strconv.Itoa(vertex))
	}
	integer := func(value any) (int64, bool) {
		n, _ := value.(python.Int) // else 0, which is no color
		return n.Int64()
	}
	return gradeColoring(task, answer, 0, inObject, integer)
}

// gradeColoring scores JSON text by how the value of a vertex is found and what color it stands for.
func gradeColoring(
	task envs.Task, answer string, forWrong float64, valueOf func(given any, vertex int) (any, bool), colorOf func(value any) (int64, bool),
) (float64, error) {
	given, err := python.ParseJSON(answer)
	if err != nil {
		return 0, nil
	}
	var m struct{ Puzzle graphColoringOf }
	if err := readMetadata(task, &m); err != nil {
		return 0, err
	}
	values := make([]any, len(m.Puzzle.Vertices))
	for i, vertex := range m.Puzzle.Vertices {
		value, ok := valueOf(given, vertex)
		if !ok {
			return forWrong, nil
		}
		values[i] = value
	}
	colors := make(map[int]int64, len(values))
	for i, vertex := range m.Puzzle.Vertices {
		color, ok := colorOf(values[i])
		if !ok || !slices.Contains(m.Puzzle.ColorOptions, int(color)) {
			return forWrong, nil
		}
		colors[vertex] = color
	}
	for _, edge := range m.Puzzle.Edges {
		first, ok1 := colors[edge[0]]
		second, ok2 := colors[edge[1]]
		if !ok1 || !ok2 || first == second {
			return forWrong, nil
		}
	}
	return 1, nil
}

// vertexValue is upstream's get_color: what an object has for a vertex, or what is at its place in a list that has its number as
// an element.
func vertexValue(given any, vertex int) (any, bool) {
	switch given := given.(type) {
	case *python.Dict:
		return given.Get(strconv.Itoa(vertex))
	case []any:
		isVertex := func(element any) bool {
			switch element.(type) {
			case bool, python.Int, float64:
				n, ok := wholeNumber(element)
				return ok && n == int64(vertex)
			}
			return false
		}
		if slices.ContainsFunc(given, isVertex) {
			if vertex < 0 || vertex >= len(given) {
				panic(python.Error{Type: "IndexError", Message: "list index out of range"})
			}
			return given[vertex], true
		}
		if !slices.ContainsFunc(given, func(element any) bool { return element == strconv.Itoa(vertex) }) {
			return nil, false
		}
	}
	panic(python.Error{Type: "TypeError", Message: "no map of vertices to colors"})
}

// wholeNumber is the integer that a value is equal to in Python. It raises for a value that cannot be in a set.
func wholeNumber(value any) (int64, bool) {
	switch v := value.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case python.Int:
		return v.Int64()
	case float64:
		return int64(v), v == math.Trunc(v) && math.Abs(v) < 1<<53
	case []any, *python.Dict:
		panic(python.Error{Type: "TypeError", Message: "unhashable type"})
	}
	return 0, false
}
