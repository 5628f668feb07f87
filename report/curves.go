package report

import (
	"fmt"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/grouper-rl/grouper/checkpoint"
)

// window is how many updates the running mean spans.
const window = 10

// trainingPanel is the reward mean of every update, light, under its running mean, dark.
func trainingPanel(updates []update) *panel {
	p := newPlot(len(updates), "mean reward")
	raw := make(plotter.XYs, len(updates))
	rewards := make([]float64, len(updates))
	low, high := 0.0, 1.0
	for i, u := range updates {
		rewards[i] = u.reward
		raw[i] = plotter.XY{X: float64(u.update), Y: u.reward}
		low, high = min(low, u.reward), max(high, u.reward)
	}
	mean := make(plotter.XYs, len(updates))
	for i, m := range runningMean(rewards, window) {
		mean[i] = plotter.XY{X: raw[i].X, Y: m}
	}
	size := fineness(len(updates), 250)
	thin := &plotter.Line{XYs: raw, LineStyle: draw.LineStyle{Color: sky, Width: .9 * size}}
	dots := &plotter.Scatter{XYs: raw, GlyphStyle: draw.GlyphStyle{Color: sky, Radius: 1.7 * size, Shape: draw.CircleGlyph{}}}
	thick := &plotter.Line{XYs: mean, LineStyle: draw.LineStyle{Color: blue, Width: 1.2 + size}}
	result := &panel{title: "Training reward", plot: p, legend: []entry{
		{"each update", []plot.Thumbnailer{thin, dots}},
		{fmt.Sprintf("running mean of %d", window), []plot.Thumbnailer{thick}},
	}}
	if len(updates) == 0 {
		result.empty = "no updates yet"
	} else {
		p.Add(thin, dots, thick)
	}
	p.Y.Min, p.Y.Max = low, high // rewards between 0 and 1 have the same axis in every run
	return result
}

// validationPanel is the accuracy of every evaluation with its interval; last is the last update.
func validationPanel(last int, evaluations []checkpoint.Evaluation) *panel {
	p := newPlot(last, "accuracy, %")
	points, intervals := make(plotter.XYs, len(evaluations)), make(plotter.YErrors, len(evaluations))
	for i, e := range evaluations {
		points[i] = plotter.XY{X: float64(e.Update), Y: 100 * e.Accuracy}
		intervals[i].Low, intervals[i].High = 100*(e.Accuracy-e.Interval[0]), 100*(e.Interval[1]-e.Accuracy)
	}
	size := fineness(len(evaluations), 50)
	line := &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: green, Width: 1.8 * size}}
	dots := &plotter.Scatter{XYs: points, GlyphStyle: draw.GlyphStyle{Color: green, Radius: 3 * size, Shape: draw.CircleGlyph{}}}
	bars := &plotter.YErrorBars{XYs: points, YErrors: intervals, LineStyle: draw.LineStyle{Color: mint, Width: 1.4 * size}, CapWidth: 6 * size}
	result := &panel{title: "Validation accuracy", plot: p, legend: []entry{
		{"accuracy", []plot.Thumbnailer{line, dots}},
		{"95 % interval", []plot.Thumbnailer{barMark{bars.LineStyle}}},
	}}
	if n := len(evaluations); n == 0 {
		result.empty = "no evaluations yet"
	} else {
		p.Add(bars, line, dots)
		if n > 1 {
			result.title += fmt.Sprintf(": %s → %s", percent(evaluations[0].Accuracy), percent(evaluations[n-1].Accuracy))
		}
	}
	p.Y.Min, p.Y.Max = 0, 100
	return result
}

// fineness scales lines and dots down where there are more of them than fit well.
func fineness(n, fit int) vg.Length {
	return vg.Length(max(.5, min(1, float64(fit)/float64(n+1))))
}

// runningMean is the mean of each value and of the window-1 before it; at the beginning, of those that there are.
func runningMean(values []float64, window int) []float64 {
	means := make([]float64, len(values))
	for i := range values {
		sum := 0.0
		first := max(0, i-window+1)
		for _, v := range values[first : i+1] {
			sum += v
		}
		means[i] = sum / float64(i+1-first)
	}
	return means
}
