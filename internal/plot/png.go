package plot

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"
	"strconv"
	"strings"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// sharp is how many pixels of a PNG make one of the chart, so that it is sharp on
// today's screens.
const sharp = 1.5

// Of a dashed line, in the chart's pixels.
const (
	dashOn  = 6.0
	dashOff = 4.0
)

// WritePNG writes the chart as PNG, 1350 pixels wide.
func (c Chart) WritePNG(w io.Writer) error {
	picture, err := c.rasterize(sharp)
	if err != nil {
		return fmt.Errorf("draw the picture: %w", err)
	}
	encoder := png.Encoder{CompressionLevel: png.BestSpeed}
	return encoder.Encode(w, picture)
}

func (c Chart) rasterize(scale float64) (*image.RGBA, error) {
	out := &raster{
		scale: scale,
		image: image.NewRGBA(image.Rect(0, 0, int(width*scale), int(math.Ceil(c.height()*scale)))),
		faces: map[face]font.Face{},
	}
	c.draw(out)
	return out.image, out.err
}

type face struct {
	size float64
	bold bool
}

// raster draws on an image. err is the first thing that went wrong.
type raster struct {
	scale float64
	image *image.RGBA
	faces map[face]font.Face
	err   error
}

func (r *raster) rect(x, y, w, h float64, fill string) {
	round := func(value float64) int { return int(math.Round(value * r.scale)) }
	at := image.Rect(round(x), round(y), round(x+w), round(y+h))
	draw.Draw(r.image, at, r.ink(fill), image.Point{}, draw.Src)
}

func (r *raster) line(points []Point, color string, width float64, dashed bool) {
	for _, piece := range pieces(points, dashed) {
		box := r.bounds(piece, width).Intersect(r.image.Bounds())
		pen := &pen{Rasterizer: vector.NewRasterizer(box.Dx(), box.Dy()), corner: box.Min, scale: r.scale}
		for i := 1; i < len(piece); i++ {
			pen.stroke(piece[i-1], piece[i], width)
			if i > 1 || !dashed {
				pen.dot(piece[i-1], width)
			}
		}
		pen.Draw(r.image, box, r.ink(color), image.Point{})
	}
}

// pieceLength is how much of a curve is drawn at a time: what that costs is the
// rectangle around it.
const pieceLength = 40.0

// pieces are what is drawn of a line at a time. What runs along an axis is drawn whole:
// its rectangle is small, and no seam shows.
func pieces(points []Point, dashed bool) [][]Point {
	if dashed {
		return dashes(points, dashOn, dashOff)
	}
	var whole [][]Point
	for i := 1; i < len(points); i++ {
		if points[i-1].X != points[i].X && points[i-1].Y != points[i].Y {
			return dashes(points, pieceLength, 0)
		}
		whole = append(whole, points[i-1:i+1])
	}
	return whole
}

// bounds is the part of the image that a line touches.
func (r *raster) bounds(points []Point, width float64) image.Rectangle {
	low, high := points[0], points[0]
	for _, point := range points {
		low = Point{min(low.X, point.X), min(low.Y, point.Y)}
		high = Point{max(high.X, point.X), max(high.Y, point.Y)}
	}
	floor := func(value float64) int { return int(math.Floor((value - width) * r.scale)) }
	ceil := func(value float64) int { return int(math.Ceil((value + width) * r.scale)) }
	return image.Rect(floor(low.X), floor(low.Y), ceil(high.X), ceil(high.Y))
}

// pen draws outlines on the part of the image that begins at its corner.
type pen struct {
	*vector.Rasterizer
	corner image.Point
	scale  float64
}

// stroke adds a straight line. All outlines go round the same way: of two that
// overlap, one must not cancel the other.
func (p *pen) stroke(a, b Point, width float64) {
	length := math.Hypot(b.X-a.X, b.Y-a.Y)
	if length == 0 {
		return
	}
	dx, dy := (b.Y-a.Y)/length*width/2, -(b.X-a.X)/length*width/2
	p.outline(Point{a.X + dx, a.Y + dy}, Point{b.X + dx, b.Y + dy}, Point{b.X - dx, b.Y - dy}, Point{a.X - dx, a.Y - dy})
}

// dot rounds the joint of two lines.
func (p *pen) dot(at Point, width float64) {
	corners := make([]Point, 12)
	for i := range corners {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / float64(len(corners)))
		corners[i] = Point{at.X + cos*width/2, at.Y + sin*width/2}
	}
	p.outline(corners...)
}

func (p *pen) outline(corners ...Point) {
	for i, corner := range corners {
		x, y := float32(corner.X*p.scale)-float32(p.corner.X), float32(corner.Y*p.scale)-float32(p.corner.Y)
		if i == 0 {
			p.MoveTo(x, y)
		} else {
			p.LineTo(x, y)
		}
	}
	p.ClosePath()
}

// dashes cuts a line into dashes, so long and so far from each other.
func dashes(points []Point, length, gap float64) [][]Point {
	var pieces [][]Point
	var piece []Point
	on, left := true, length
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		whole := math.Hypot(b.X-a.X, b.Y-a.Y)
		if on && piece == nil {
			piece = []Point{a}
		}
		gone := 0.0
		for ; whole-gone > left; on = !on {
			gone += left
			at := Point{a.X + (b.X-a.X)*gone/whole, a.Y + (b.Y-a.Y)*gone/whole}
			if on {
				pieces, piece, left = append(pieces, append(piece, at)), nil, gap
			} else {
				piece, left = []Point{at}, length
			}
		}
		if left -= whole - gone; on {
			piece = append(piece, b)
		}
	}
	if len(piece) > 1 {
		pieces = append(pieces, piece)
	}
	return pieces
}

func (r *raster) text(x, y float64, text string, style style) {
	face := r.face(face{style.size, style.bold})
	if face == nil {
		return
	}
	pen := font.Drawer{Dst: r.image, Src: r.ink(style.color), Face: face}
	wide := float64(pen.MeasureString(text)) / 64
	at := x*r.scale - wide*[...]float64{0, 0.5, 1}[style.anchor]
	pen.Dot = fixed.Point26_6{X: fixed.Int26_6(math.Round(at * 64)), Y: fixed.Int26_6(math.Round(y * r.scale * 64))}
	pen.DrawString(text)
}

func (r *raster) face(key face) font.Face {
	if known, ok := r.faces[key]; ok {
		return known
	}
	file := goregular.TTF
	if key.bold {
		file = gobold.TTF
	}
	parsed, err := opentype.Parse(file)
	if err == nil {
		r.faces[key], err = opentype.NewFace(parsed, &opentype.FaceOptions{Size: key.size * r.scale, DPI: 72})
	}
	if err != nil && r.err == nil {
		r.err = err
	}
	return r.faces[key]
}

// ink reads a colour that is written as in SVG, #rrggbb.
func (r *raster) ink(text string) image.Image {
	digits, ok := strings.CutPrefix(text, "#")
	value, err := strconv.ParseUint(digits, 16, 32)
	if (!ok || len(digits) != 6 || err != nil) && r.err == nil {
		r.err = fmt.Errorf("colour %q is not #rrggbb", text)
	}
	return image.NewUniform(color.RGBA{uint8(value >> 16), uint8(value >> 8), uint8(value), 255})
}
