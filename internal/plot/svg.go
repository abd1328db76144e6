package plot

import (
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// svg collects the elements of a document.
type svg struct{ body strings.Builder }

func (s *svg) document(title, subtitle string, w, h float64) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="%[1]s" height="%[2]s" viewBox="0 0 %[1]s %[2]s" role="img" font-family="Helvetica, Arial, 'DejaVu Sans', sans-serif">
<title>%[3]s</title>
<desc>%[4]s</desc>
%[5]s</svg>
`, px(w), px(h), escaped(title), escaped(subtitle), s.body.String())
}

func (s *svg) rect(x, y, w, h float64, fill string) {
	fmt.Fprintf(&s.body, "<rect x=%q y=%q width=%q height=%q fill=%q/>\n", px(x), px(y), px(w), px(h), fill)
}

func (s *svg) line(points []Point, color string, width float64, dashed bool) {
	var at strings.Builder
	for i, point := range points {
		if i > 0 {
			at.WriteByte(' ')
		}
		at.WriteString(px(point.X) + "," + px(point.Y))
	}
	more := ""
	if dashed {
		more = fmt.Sprintf(` stroke-dasharray="%s,%s"`, px(dashOn), px(dashOff))
	}
	fmt.Fprintf(&s.body, "<polyline points=%q fill=\"none\" stroke=%q stroke-width=%q stroke-linejoin=\"round\"%s/>\n", at.String(), color, px(width), more)
}

func (s *svg) text(x, y float64, text string, style style) {
	more := ""
	if style.bold {
		more = ` font-weight="bold"`
	}
	if style.anchor != start {
		more += ` text-anchor="` + [...]string{"start", "middle", "end"}[style.anchor] + `"`
	}
	fmt.Fprintf(&s.body, "<text x=%q y=%q font-size=%q fill=%q%s>%s</text>\n", px(x), px(y), px(style.size), style.color, more, escaped(text))
}

// px writes a length, to a hundredth of a pixel.
func px(value float64) string {
	text := strconv.FormatFloat(value, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

func escaped(text string) string {
	var out strings.Builder
	// A strings.Builder never fails.
	_ = xml.EscapeText(&out, []byte(text))
	return out.String()
}
