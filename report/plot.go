package report

import (
	"bytes"
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A panel is 6.4 by 4 inches; a PNG has 150 dots an inch, so that it stays sharp on fine screens.
const (
	panelWidth  = 6.4 * vg.Inch
	panelHeight = 4 * vg.Inch
	margin      = vg.Length(12) // points, as are all lengths here
	resolution  = 150
)

var (
	ink   = color.NRGBA{R: 0x1f, G: 0x29, B: 0x37, A: 0xff}
	faded = color.NRGBA{R: 0x6b, G: 0x72, B: 0x80, A: 0xff}
	rule  = color.NRGBA{R: 0xe5, G: 0xe7, B: 0xeb, A: 0xff}
	blue  = color.NRGBA{R: 0x1d, G: 0x4e, B: 0x89, A: 0xff}
	sky   = color.NRGBA{R: 0x9d, G: 0xc3, B: 0xe6, A: 0xff}
	green = color.NRGBA{R: 0x0f, G: 0x76, B: 0x6e, A: 0xff}
	mint  = color.NRGBA{R: 0x7f, G: 0xc4, B: 0xbb, A: 0xff}
)

// panel is a plot under its title and its legend, which stand outside so that they never cover data.
type panel struct {
	title  string
	legend []entry
	plot   *plot.Plot
	empty  string // what to say where there is nothing to draw
}

type entry struct {
	text string
	mark []plot.Thumbnailer
}

// picture draws panels side by side, as PNG and as SVG.
func picture(panels ...*panel) (png, svg []byte, err error) {
	width := vg.Length(len(panels)) * panelWidth
	bitmap := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, panelHeight), vgimg.UseDPI(resolution))}
	vector := vgsvg.New(width, panelHeight)
	for _, canvas := range []vg.CanvasSizer{bitmap, vector} {
		all := draw.New(canvas)
		all.SetColor(color.White)
		all.Fill(all.Rectangle.Path())
		for i, p := range panels {
			left := vg.Length(i) * panelWidth
			p.draw(draw.Crop(all, left+margin, left+panelWidth-width-margin, margin, -margin))
		}
	}
	var b, v bytes.Buffer
	if _, err := bitmap.WriteTo(&b); err != nil {
		return nil, nil, err
	}
	if _, err := vector.WriteTo(&v); err != nil {
		return nil, nil, err
	}
	// Liberation Sans has the widths of Arial and Helvetica, and few readers have it.
	fonts := []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")
	return b.Bytes(), bytes.ReplaceAll(v.Bytes(), []byte("font-family:Liberation Sans;"), fonts), nil
}

func (p *panel) draw(c draw.Canvas) {
	title := style(14, ink)
	c.FillText(title, vg.Point{X: c.Min.X, Y: c.Max.Y}, p.title)
	c.Max.Y -= title.Height(p.title) + 7

	label := style(10, faded)
	label.YAlign = draw.YCenter
	const thumb, gap = vg.Length(20), vg.Length(5)
	row := label.Height("0")
	x := c.Min.X
	for _, e := range p.legend {
		box := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: x, Y: c.Max.Y - row}, Max: vg.Point{X: x + thumb, Y: c.Max.Y}}}
		for _, m := range e.mark {
			m.Thumbnail(&box)
		}
		c.FillText(label, vg.Point{X: x + thumb + gap, Y: box.Center().Y + 1}, e.text)
		x += thumb + gap + label.Width(e.text) + 18
	}
	c.Max.Y -= row + 10

	p.plot.Draw(c)
	if p.empty != "" {
		label.XAlign = draw.XCenter
		data := p.plot.DataCanvas(c)
		c.FillText(label, data.Center(), p.empty)
	}
}

func style(size vg.Length, c color.Color) text.Style {
	return text.Style{
		Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}, XAlign: draw.XLeft, YAlign: draw.YTop,
		Handler: plot.DefaultTextHandler,
	}
}

// newPlot is an empty plot from update 0 to last.
func newPlot(last int, yLabel string) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	p.X.Label.Text, p.Y.Label.Text = "update", yLabel
	p.X.Label.Padding, p.Y.Label.Padding = 4, 6
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Label.TextStyle.Color = style(11, ink).Font, ink
		a.Tick.Label.Font, a.Tick.Label.Color = style(10, ink).Font, faded
		a.Tick.Length = 4
		a.Tick.LineStyle = draw.LineStyle{Color: faded, Width: .6}
		a.LineStyle = draw.LineStyle{Color: faded, Width: .8}
		a.Padding = 0
	}
	p.X.Max = float64(max(1, last))
	p.X.Min = -.01 * p.X.Max // room for what is drawn at update 0
	p.X.Max -= p.X.Min
	p.X.Tick.Marker = ticks{whole: true}
	p.Y.Tick.Marker = ticks{}
	p.Add(&plotter.Grid{Vertical: draw.LineStyle{Color: rule, Width: .6}, Horizontal: draw.LineStyle{Color: rule, Width: .6}})
	return p
}

// barMark is the legend's error bar.
type barMark struct{ draw.LineStyle }

func (m barMark) Thumbnail(c *draw.Canvas) {
	x := c.Center().X
	c.StrokeLine2(m.LineStyle, x, c.Min.Y, x, c.Max.Y)
	for _, y := range []vg.Length{c.Min.Y, c.Max.Y} {
		c.StrokeLine2(m.LineStyle, x-3, y, x+3, y)
	}
}

// ticks are at most about eight round numbers: multiples of 1, 2 or 5 times a power of ten.
type ticks struct{ whole bool }

func (t ticks) Ticks(low, high float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((high-low)/4)))
	for _, f := range []float64{5, 2} {
		if f*step <= (high-low)/4 {
			step *= f
			break
		}
	}
	if t.whole {
		step = max(1, step)
	}
	digits := max(0, int(-math.Floor(math.Log10(step))))
	var marks []plot.Tick
	for i := math.Ceil(low / step); i <= math.Floor(high/step+1e-9); i++ {
		v := i*step + 0 // -0 becomes 0
		marks = append(marks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', digits, 64)})
	}
	return marks
}
