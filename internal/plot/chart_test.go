package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"image"
	"image/color"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample has what charts have: a cut, a gap, a tint and marks at both edges.
func sample() Chart {
	return Chart{
		Title: "Leases & <waits>", Subtitle: "of a burst", XLabel: "lease (seconds)", XMax: 100, Shaded: 30,
		Panels: []Panel{
			{Label: "Seconds", Max: 50, Lines: []Line{
				{Name: "up", Color: Blue, Points: []Point{{0, 0}, {100, 100}}},
				{Name: "gap", Color: Orange, Dashed: true, Points: []Point{{0, 10}, {20, 10}, {30, math.NaN()}, {40, 10}, {100, 10}}},
			}},
			{Label: "Copies", Max: 28_000, Lines: []Line{{Name: "down", Color: Red, Points: []Point{{0, 40_000}, {50, 100}, {100, 0}}}}},
		},
		Marks: []Mark{{X: 0, Label: "none", Color: Black}, {X: 60, Label: "yours", Color: Green}, {X: 100, Label: "as long as can be", Color: Red, Dashed: true}},
	}
}

func TestSVG(t *testing.T) {
	t.Parallel()
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := sample().WriteSVG(out); err != nil {
			t.Fatal(err)
		}
	}
	if first.String() != second.String() {
		t.Error("the same chart is drawn in two ways")
	}
	var texts []string
	lines := 0
	for decoder := xml.NewDecoder(&first); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			if token.Name.Local == "polyline" {
				lines++
			}
		case xml.CharData:
			texts = append(texts, strings.TrimSpace(string(token)))
		}
	}
	for _, want := range []string{"Leases & <waits>", "of a burst", "lease (seconds)", "Seconds", "Copies", "none", "yours", "as long as can be", "gap", "20,000", "100"} {
		if !slices.Contains(texts, want) {
			t.Errorf("%q is not in the picture", want)
		}
	}
	// The grids (6 and 3) and frames (2), the ticks (11), the marks (3), the legends (3)
	// and the curves, of which one has a gap (4).
	if want := 6 + 3 + 2 + 11 + 3 + 3 + 4; lines != want {
		t.Errorf("%d lines, want %d", lines, want)
	}
	if err := sample().WriteSVG(failing{}); err == nil {
		t.Error("a picture that could not be written is no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestPNG(t *testing.T) {
	t.Parallel()
	chart := sample()
	picture, err := chart.rasterize(1)
	if err != nil {
		t.Fatal(err)
	}
	if want := image.Rect(0, 0, 900, int(chart.height())); picture.Bounds() != want {
		t.Errorf("the picture is %v, want %v", picture.Bounds(), want)
	}
	if again, _ := chart.rasterize(1); !bytes.Equal(picture.Pix, again.Pix) {
		t.Error("the same chart is drawn in two ways")
	}
	at := func(x, y float64) color.Color { return picture.At(int(chart.x(x)), int(y)) }
	foot := chart.panelTop(1) + panelHeight
	if got, want := at(60, foot-50), (color.RGBA{0x1d, 0x7a, 0x46, 255}); color.RGBAModel.Convert(got) != want {
		t.Errorf("where a mark is the picture is %v, want %v", got, want)
	}
	if got, want := at(80, foot-50), (color.RGBA{255, 255, 255, 255}); color.RGBAModel.Convert(got) != want {
		t.Errorf("where nothing is the picture is %v, want %v", got, want)
	}
	if dark := inked(picture, image.Rect(76, 15, 300, 36)); dark < 300 {
		t.Errorf("the title is %d dark points", dark)
	}
	broken := sample()
	broken.Marks[0].Color = "red"
	if _, err := broken.rasterize(0.1); err == nil || !strings.Contains(err.Error(), `"red" is not #rrggbb`) {
		t.Errorf("a colour that is none: %v", err)
	}
}

// inked counts the dark points of a part of a picture.
func inked(picture image.Image, part image.Rectangle) (n int) {
	for y := part.Min.Y; y < part.Max.Y; y++ {
		for x := part.Min.X; x < part.Max.X; x++ {
			if r, _, _, _ := picture.At(x, y).RGBA(); r < 0x8000 {
				n++
			}
		}
	}
	return n
}

func TestCut(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for _, test := range []struct {
		name   string
		points []Point
		want   [][]Point
	}{
		{"inside", []Point{{0, 0}, {1, 10}}, [][]Point{{{0, 0}, {1, 10}}}},
		{"out at the top", []Point{{0, 0}, {10, 20}}, [][]Point{{{0, 0}, {5, 10}}}},
		{"in from the top", []Point{{0, 20}, {10, 0}}, [][]Point{{{5, 10}, {10, 0}}}},
		{"out and in", []Point{{0, 0}, {10, 20}, {20, 0}}, [][]Point{{{0, 0}, {5, 10}}, {{15, 10}, {20, 0}}}},
		{"a gap", []Point{{0, 1}, {1, 1}, {2, nan}, {3, 1}, {4, 1}}, [][]Point{{{0, 1}, {1, 1}}, {{3, 1}, {4, 1}}}},
		{"in from a gap", []Point{{0, nan}, {1, 20}, {2, 0}}, [][]Point{{{1.5, 10}, {2, 0}}}},
		{"a point alone", []Point{{0, nan}, {1, 1}, {2, nan}}, nil},
		{"never in", []Point{{0, 11}, {1, 12}}, nil},
	} {
		if diff := cmp.Diff(test.want, cut(test.points, 10)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestDashes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		points []Point
		gap    float64
		want   [][]Point
	}{
		{"round a corner", []Point{{0, 0}, {12, 0}, {12, 10}}, 4, [][]Point{{{0, 0}, {6, 0}}, {{10, 0}, {12, 0}, {12, 4}}, {{12, 8}, {12, 10}}}},
		{"to the middle of a gap", []Point{{0, 0}, {8, 0}}, 4, [][]Point{{{0, 0}, {6, 0}}}},
		{"without gaps", []Point{{0, 0}, {15, 0}}, 0, [][]Point{{{0, 0}, {6, 0}}, {{6, 0}, {12, 0}}, {{12, 0}, {15, 0}}}},
		{"a point alone", []Point{{0, 0}}, 4, nil},
	} {
		if diff := cmp.Diff(test.want, dashes(test.points, 6, test.gap)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestPieces(t *testing.T) {
	t.Parallel()
	frame := []Point{{0, 0}, {0, 200}, {800, 200}}
	if diff := cmp.Diff([][]Point{{{0, 0}, {0, 200}}, {{0, 200}, {800, 200}}}, pieces(frame, false)); diff != "" {
		t.Errorf("along the axes (-want +got):\n%s", diff)
	}
	if got := len(pieces([]Point{{0, 0}, {300, 400}}, false)); got != 13 {
		t.Errorf("500 pixels across are drawn in %d pieces, want 13", got)
	}
	if got := len(pieces(frame, true)); got != 100 {
		t.Errorf("1000 pixels have %d dashes, want 100", got)
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]float64{0, 500, 1000, 1500, 2000}, ticks(2000, 5)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, test := range []struct{ most, want float64 }{{1828, 2000}, {3158, 4000}, {42_000, 50_000}, {0.7, 0.8}, {10, 10}} {
		if got := Limit(test.most, 5); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("an axis up to %v ends at %v, want %v", test.most, got, test.want)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]string{0: "0", 7: "7", 999: "999", 1000: "1,000", 28_000: "28,000", 1_234_567.5: "1,234,567.5", 0.05: "0.05", -12_918: "-12,918", 4.714: "4.71"} {
		if got := Number(value); got != want {
			t.Errorf("%v is written %s, want %s", value, got, want)
		}
	}
}
