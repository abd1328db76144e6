// Package plot draws a chart of panels above each other, over one axis of leases or
// whatever it is, as SVG and as PNG. A chart is the same, byte for byte, each time it
// is drawn.
package plot

import (
	"io"
	"math"
)

// Colours of a chart, told apart also where red and green are not.
const (
	Grey   = "#7a7a7a"
	Black  = "#1a1a1a"
	Blue   = "#0b62a4"
	Orange = "#d9730d"
	Red    = "#b3123c"
	Green  = "#1d7a46"
)

// Chart is panels, one above the other, and lines down through all of them.
type Chart struct {
	Title    string
	Subtitle string
	XLabel   string // with the unit
	XMax     float64
	Panels   []Panel
	Marks    []Mark
	// Shaded is from where on the left the chart is tinted: 0 is nowhere.
	Shaded float64
}

// Panel is lines over one axis of their own.
type Panel struct {
	Label string // with the unit
	Max   float64
	Lines []Line
}

// Line is a curve. What of it is above its panel's Max is cut off, and a point that is
// not a number is a gap.
type Line struct {
	Name   string
	Color  string
	Dashed bool
	Points []Point
}

// Point is a point in the chart's figures.
type Point struct{ X, Y float64 }

// Mark is a line from top to bottom, with a word to it.
type Mark struct {
	X      float64
	Label  string
	Color  string
	Dashed bool
}

// WriteSVG writes the chart as SVG, 900 pixels wide.
func (c Chart) WriteSVG(w io.Writer) error {
	out := &svg{}
	c.draw(out)
	_, err := io.WriteString(w, out.document(c.Title, c.Subtitle, width, c.height()))
	return err
}

// Of the layout, in pixels.
const (
	width       = 900.0
	left        = 76.0
	right       = width - 40
	top         = 74.0 // of the marks' labels
	markRow     = 22.0
	panelHead   = 58.0 // a panel's label and legend
	panelHeight = 200.0
	foot        = 56.0 // the x axis

	small = 12.0
	plain = 13.0
)

// canvas is what a chart is drawn on. y grows downwards.
type canvas interface {
	rect(x, y, w, h float64, fill string)
	line(points []Point, color string, width float64, dashed bool)
	text(x, y float64, text string, style style)
}

type style struct {
	size   float64
	color  string
	bold   bool
	anchor anchor
}

type anchor int

const (
	start anchor = iota
	middle
	end
)

func (c Chart) height() float64 {
	return top + markRow*float64(len(c.Marks)) + (panelHead+panelHeight)*float64(len(c.Panels)) + foot
}

// x returns where a figure of the x axis is.
func (c Chart) x(value float64) float64 { return left + (right-left)*value/c.XMax }

// panelTop returns where the frame of a panel begins.
func (c Chart) panelTop(i int) float64 {
	return top + markRow*float64(len(c.Marks)) + panelHead + float64(i)*(panelHead+panelHeight)
}

func (c Chart) draw(on canvas) {
	on.rect(0, 0, width, c.height(), "#ffffff")
	on.text(left, 32, c.Title, style{size: 18, color: Black, bold: true})
	on.text(left, 54, c.Subtitle, style{size: plain, color: "#4a4a4a"})
	for i, panel := range c.Panels {
		c.frame(on, panel, c.panelTop(i))
	}
	c.axis(on)
	c.marks(on)
	// The heads come after the marks, so that no line runs through their words.
	for i, panel := range c.Panels {
		panel.head(on, c.panelTop(i))
		panel.lines(on, c, c.panelTop(i))
	}
}

// frame draws the tint, the grid and the y axis of a panel.
func (c Chart) frame(on canvas, panel Panel, y float64) {
	if tinted := min(c.Shaded, c.XMax); tinted > 0 {
		on.rect(left, y, c.x(tinted)-left, panelHeight, "#fbe9ee")
	}
	for _, tick := range ticks(panel.Max, 5) {
		at := y + panelHeight*(1-tick/panel.Max)
		on.line([]Point{{left, at}, {right, at}}, "#e0e0e0", 1, false)
		on.text(left-8, at+4, Number(tick), style{size: small, color: "#4a4a4a", anchor: end})
	}
	on.line([]Point{{left, y}, {left, y + panelHeight}, {right, y + panelHeight}}, Grey, 1, false)
}

// axis draws the x axis below the last panel.
func (c Chart) axis(on canvas) {
	y := c.panelTop(len(c.Panels)-1) + panelHeight
	for _, tick := range ticks(c.XMax, 10) {
		at := c.x(tick)
		on.line([]Point{{at, y}, {at, y + 5}}, Grey, 1, false)
		on.text(at, y+19, Number(tick), style{size: small, color: "#4a4a4a", anchor: middle})
	}
	on.text((left+right)/2, y+42, c.XLabel, style{size: plain, color: Black, anchor: middle})
}

// marks draws each mark with its label in a row of its own, so that no two labels
// meet, however close their lines are.
func (c Chart) marks(on canvas) {
	bottom := c.panelTop(len(c.Panels)-1) + panelHeight
	for i, mark := range c.Marks {
		at, row := c.x(mark.X), top+markRow*float64(i)
		on.line([]Point{{at, row}, {at, bottom}}, mark.Color, 1.5, mark.Dashed)
	}
	for i, mark := range c.Marks {
		at, row := c.x(mark.X), top+markRow*float64(i)
		wide := textWidth(mark.Label, plain) * 1.1 // bold
		from, s := at+6, style{size: plain, color: mark.Color, bold: true}
		x := from
		switch {
		case from+wide <= width-10:
		case at-6-wide >= 10:
			from, x, s.anchor = at-6-wide, at-6, end
		default:
			from, x = 10, 10
		}
		on.rect(from-2, row, wide+4, markRow-3, "#ffffff")
		on.text(x, row+14, mark.Label, s)
	}
}

// head draws what a panel is of, and which line is which.
func (p Panel) head(on canvas, y float64) {
	on.rect(left-2, y-panelHead+14, textWidth(p.Label, plain)+4, 18, "#ffffff")
	on.text(left, y-panelHead+27, p.Label, style{size: plain, color: Black, bold: true})
	x := left
	for _, line := range p.Lines {
		wide := 30 + textWidth(line.Name, small)
		on.rect(x-2, y-23, wide+6, 17, "#ffffff")
		on.line([]Point{{x, y - 14}, {x + 24, y - 14}}, line.Color, 2.5, line.Dashed)
		on.text(x+30, y-10, line.Name, style{size: small, color: Black})
		x += wide + 18
	}
}

func (p Panel) lines(on canvas, c Chart, y float64) {
	for _, line := range p.Lines {
		for _, piece := range cut(line.Points, p.Max) {
			for i, point := range piece {
				piece[i] = Point{c.x(point.X), y + panelHeight*(1-point.Y/p.Max)}
			}
			on.line(piece, line.Color, 2.5, line.Dashed)
		}
	}
}

// cut returns the pieces of a curve that are not above most.
func cut(points []Point, most float64) [][]Point {
	var pieces [][]Point
	var piece []Point
	finish := func() {
		if len(piece) > 1 {
			pieces = append(pieces, piece)
		}
		piece = nil
	}
	crossing := func(a, b Point) Point {
		return Point{a.X + (b.X-a.X)*(most-a.Y)/(b.Y-a.Y), most}
	}
	for i, point := range points {
		switch before := i > 0 && !math.IsNaN(points[i-1].Y); {
		case math.IsNaN(point.Y):
			finish()
		case point.Y > most:
			if before && points[i-1].Y <= most {
				piece = append(piece, crossing(points[i-1], point))
			}
			finish()
		default:
			if before && points[i-1].Y > most {
				piece = append(piece, crossing(points[i-1], point))
			}
			piece = append(piece, point)
		}
	}
	finish()
	return pieces
}

// ticks returns round figures from 0 to most, about as many as are wanted.
func ticks(most float64, wanted int) []float64 {
	step := round(most / float64(wanted))
	var all []float64
	for i := 0; float64(i)*step <= most*(1+1e-9); i++ {
		all = append(all, float64(i)*step)
	}
	return all
}

// Limit returns the round end of an axis that goes to most, or somewhat beyond, in about
// as many steps as are wanted.
func Limit(most float64, wanted int) float64 {
	step := round(most / float64(wanted))
	return step * math.Ceil(most/step*(1-1e-9))
}

// round rounds a figure up to 1, 2, 2.5 or 5 times a power of ten.
func round(value float64) float64 {
	if !(value > 0) || math.IsInf(value, 1) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, digit := range []float64{1, 2, 2.5, 5} {
		if digit*power >= value*(1-1e-9) {
			return digit * power
		}
	}
	return 10 * power
}

// textWidth is about how wide a text is: sans-serif letters are on average somewhat
// more than half as wide as they are high.
func textWidth(text string, size float64) float64 { return 0.56 * size * float64(len([]rune(text))) }
