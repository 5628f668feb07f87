package report_test

import (
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/grouper-rl/grouper/internal/testrun"
)

// point is a place in a picture.
type point struct{ x, y float64 }

const decimal = `(-?[0-9.]+(?:e-?[0-9]+)?)`

var (
	circle = regexp.MustCompile(`<path d="M` + decimal + `,` + decimal + `A` + decimal + `,[^"]*Z" style="fill:(#[0-9A-F]{6})"`)
	stroke = regexp.MustCompile(`<path d="([ML][^"A]*)" style="fill:none;stroke:(#[0-9A-F]{6});`)
	vertex = regexp.MustCompile(`[ML]` + decimal + `,` + decimal)
)

func float(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// circles are the centres of an SVG's discs of a colour, the legend's first.
func circles(t *testing.T, svg, colour string) (centres []point) {
	for _, m := range circle.FindAllStringSubmatch(svg, -1) {
		if m[4] == colour {
			centres = append(centres, point{float(t, m[1]) - float(t, m[3]), float(t, m[2])})
		}
	}
	return centres
}

// strokes are an SVG's lines of a colour.
func strokes(t *testing.T, svg, colour string) (lines [][]point) {
	for _, m := range stroke.FindAllStringSubmatch(svg, -1) {
		if m[2] != colour {
			continue
		}
		var line []point
		for _, v := range vertex.FindAllStringSubmatch(m[1], -1) {
			line = append(line, point{float(t, v[1]), float(t, v[2])})
		}
		lines = append(lines, line)
	}
	return lines
}

// linear checks that points stand where values belong on linear axes, found from the extremes.
func linear(t *testing.T, what string, points, values []point) {
	t.Helper()
	if len(points) != len(values) {
		t.Fatalf("%s: %d points of %d values", what, len(points), len(values))
	}
	axis := func(of func(point) float64) {
		low, high := 0, 0
		for i, v := range values {
			if of(v) < of(values[low]) {
				low = i
			}
			if of(v) > of(values[high]) {
				high = i
			}
		}
		scale := (of(points[high]) - of(points[low])) / (of(values[high]) - of(values[low]))
		if !(scale > 0) {
			t.Fatalf("%s: values %v at %v", what, values, points)
		}
		for i, v := range values {
			if want := of(points[low]) + scale*(of(v)-of(values[low])); math.Abs(of(points[i])-want) > .05 { // SVG has five digits
				t.Errorf("%s: value %v stands at %v, belongs at %.2f", what, v, points[i], want)
			}
		}
	}
	axis(func(p point) float64 { return p.x })
	axis(func(p point) float64 { return p.y })
}

// count is how many pixels of an image have a colour.
func count(img image.Image, colour string) (n int) {
	var want color.RGBA
	if _, err := fmt.Sscanf(colour, "#%02X%02X%02X", &want.R, &want.G, &want.B); err != nil {
		panic(err)
	}
	want.A = 255
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			if color.RGBAModel.Convert(img.At(x, y)) == want {
				n++
			}
		}
	}
	return n
}

// A picture must show every recorded value where it belongs, and the mean that its legend names.
func TestPictures(t *testing.T) {
	const sky, blue, green, mint = "#9DC3E6", "#1D4E89", "#0F766E", "#7FC4BB"
	files, h := write(t, record(t, testrun.Program{Updates: 30, Every: 6, Seed: 5}))
	var raw, mean, accuracy []point
	sum := []float64{0}
	for i, u := range h.Updates {
		var m struct {
			Reward float64 `json:"reward_mean"`
		}
		if err := json.Unmarshal(u.Metrics, &m); err != nil {
			t.Fatal(err)
		}
		raw = append(raw, point{float64(u.Update), m.Reward})
		sum = append(sum, sum[i]+m.Reward)
		n := min(10, i+1)
		mean = append(mean, point{float64(u.Update), (sum[i+1] - sum[i+1-n]) / float64(n)})
	}
	for _, e := range h.Evaluations {
		accuracy = append(accuracy, point{float64(e.Update), e.Accuracy})
	}
	for _, name := range []string{"training.svg", "curves.svg"} {
		dots, lines := circles(t, files[name], sky), strokes(t, files[name], blue)
		linear(t, name+": updates", dots[1:], raw)
		if len(lines) != 2 {
			t.Fatalf("%s: %d dark lines, want the legend's and the running mean", name, len(lines))
		}
		linear(t, name+": running mean", lines[1], mean)
		// Both on one scale.
		linear(t, name+": updates and running mean", append(dots[1:len(dots):len(dots)], lines[1]...), append(raw[:len(raw):len(raw)], mean...))
	}
	for _, name := range []string{"validation.svg", "curves.svg"} {
		dots, bars := circles(t, files[name], green)[1:], strokes(t, files[name], mint)[3:]
		linear(t, name+": accuracy", dots, accuracy)
		if len(bars) != 3*len(accuracy) {
			t.Fatalf("%s: %d strokes of intervals, want %d", name, len(bars), 3*len(accuracy))
		}
		for i, e := range h.Evaluations {
			linear(t, name+": interval", append(dots[:len(dots):len(dots)], bars[3*i]...),
				append(accuracy[:len(accuracy):len(accuracy)], point{float64(e.Update), e.Interval[0]}, point{float64(e.Update), e.Interval[1]}))
		}
	}
	for name, want := range map[string]point{"training.png": {960, 600}, "validation.png": {960, 600}, "curves.png": {1920, 600}} {
		img, err := png.Decode(strings.NewReader(files[name]))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if b := img.Bounds(); float64(b.Dx()) != want.x || float64(b.Dy()) != want.y {
			t.Errorf("%s is %v", name, b)
		}
		colours := map[string]int{}
		for _, name := range []string{sky, blue, green, mint} {
			colours[name] = count(img, name)
		}
		if (colours[sky] > 50 && colours[blue] > 500) != (name != "validation.png") || (colours[green] > 500 && colours[mint] > 50) != (name != "training.png") {
			t.Errorf("%s does not show its curves: pixels of %s %d, %s %d, %s %d, %s %d", name, sky, colours[sky], blue, colours[blue], green, colours[green], mint, colours[mint])
		}
	}
}
