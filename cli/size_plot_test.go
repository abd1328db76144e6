package cli_test

import (
	"encoding/xml"
	"errors"
	"image/png"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// word is a text of a picture, and about where it is.
type word struct {
	text                     string
	left, right, top, bottom float64
}

// picture draws the picture of a question, and returns the document and its texts.
func picture(t *testing.T, args ...string) (document string, words []word) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lease.svg")
	if got := succeeds(t, append(args, "--plot", path)...).out; !strings.HasSuffix(got, "picture: "+path+"\n") {
		t.Errorf("it does not say where the picture is:\n%s", got)
	}
	svg, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var element xml.StartElement
	for decoder := xml.NewDecoder(strings.NewReader(string(svg))); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return string(svg), words
		} else if err != nil {
			t.Fatalf("the picture is not XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			element = token.Copy()
		case xml.EndElement:
			element = xml.StartElement{}
		case xml.CharData:
			if element.Name.Local == "text" {
				words = append(words, placed(t, element, string(token)))
			}
		}
	}
}

// placed works out where a text is, if letters are half as wide as they are high.
func placed(t *testing.T, element xml.StartElement, text string) word {
	t.Helper()
	of := map[string]string{}
	for _, attribute := range element.Attr {
		of[attribute.Name.Local] = attribute.Value
	}
	number := func(name string) float64 {
		value, err := strconv.ParseFloat(of[name], 64)
		if err != nil {
			t.Fatalf("%s of the text %q: %v", name, text, err)
		}
		return value
	}
	size := number("font-size")
	w := word{text: text, left: number("x"), top: number("y") - size, bottom: number("y")}
	wide := 0.5 * size * float64(len([]rune(text)))
	switch of["text-anchor"] {
	case "middle":
		w.left -= wide / 2
	case "end":
		w.left -= wide
	}
	w.right = w.left + wide
	return w
}

func TestPlot(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, args string
		want       []string
	}{
		{"a lease that lapses", "--backlog 28000 --workers 20 --run 1s --lease 15m", []string{
			"A lease for 28,000 rows at 20 a second", "lease (seconds)", "your lease: 900s", "to declare: 1590s",
			"collapse: up to 700s, if a copy costs a full slot", "wait of the last row", "if one costs 5ms", "if one costs a full slot", "2,000",
		}},
		{"no lease", "--backlog 28000 --rate 20", []string{"to declare: 1590s", "collapse: up to 127s, if a copy costs 5ms"}},
		{"a full slot", "--backlog 28000 --rate 20 --lease 60s --stale-cost full", []string{"your lease: 60s", "collapse: up to 700s, if a copy costs a full slot"}},
		{"nothing", "--backlog 28000 --rate 20 --stale-cost 0s", []string{"if one costs nothing"}},
		{"small", "--backlog 300 --workers 4 --run 200ms --lease 70s --stale-cost 50ms", []string{"your lease: 70s", "to declare: 21s", "collapse: up to 7.5s, if a copy costs a full slot"}},
		{"large", "--backlog 2000000 --rate 2 --lease 30m --stale-cost full", []string{"your lease: 1800s", "collapse: up to 500000s, if a copy costs a full slot"}},
		{"far too long", "--backlog 5 --rate 0.01 --lease 100h", []string{"your lease: 360000s, beyond the edge", "to declare: 1140s", "4,000"}},
		{"one row", "--backlog 1 --rate 0.5", []string{"A lease for 1 rows at 0.5 a second"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"size"}, strings.Fields(test.args)...)
			document, words := picture(t, args...)
			if again, _ := picture(t, args...); again != document {
				t.Error("the same question is drawn in two ways")
			}
			for _, want := range test.want {
				if !strings.Contains(document, ">"+want+"</text>") {
					t.Errorf("%q is not in the picture: %v", want, words)
				}
			}
			for i, a := range words {
				if a.left < 0 || a.right > 900 {
					t.Errorf("%q is from %v to %v, and the picture 900 wide", a.text, a.left, a.right)
				}
				for _, b := range words[:i] {
					if a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom {
						t.Errorf("%q and %q overlap", a.text, b.text)
					}
				}
			}
		})
	}
}

func TestPlotAsPNG(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lease.PNG")
	succeeds(t, "size", "--backlog", "28000", "--rate", "20", "--plot", path)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if config, err := png.DecodeConfig(file); err != nil || config.Width != 1350 {
		t.Errorf("the picture is %+v, %v; want one 1350 wide", config, err)
	}
	checkFailure(t, bridge(t, "size", "--backlog", "9", "--rate", "1", "--plot", filepath.Join(path, "x.svg")), 1, "--plot: open ", "not a directory")
}
