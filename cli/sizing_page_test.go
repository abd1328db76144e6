package cli_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a command of a page and what the page says it prints.
var block = regexp.MustCompile("(?m)^```console\n\\$ bridge (.*)\n((?s:.*?))```$")

// Every answer that docs/lease-sizing.md shows, picture included, is what the command
// gives.
func TestLeaseSizingPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "docs", "lease-sizing.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := block.FindAllStringSubmatch(string(page), -1)
	if len(blocks) < 7 {
		t.Fatalf("%d commands in the page, want all of them", len(blocks))
	}
	docs, err := filepath.Abs(filepath.Join("..", "docs"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	pictures := 0
	for _, found := range blocks {
		command, want := found[1], found[2]
		args := strings.Fields(command)
		if got := trimmed(bridge(t, args...).out); got != want {
			t.Errorf("bridge %s prints\n%s\nand the page says\n%s", command, got, want)
		}
		for i, arg := range args {
			if arg == "--plot" {
				pictures++
				checkSame(t, args[i+1], filepath.Join(docs, args[i+1]))
			}
		}
	}
	if pictures == 0 {
		t.Error("the page has no picture")
	}
}

// trimmed is text without blanks at the ends of its lines.
func trimmed(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n") + "\n"
}

func checkSame(t *testing.T, drawn, kept string) {
	t.Helper()
	now, err := os.ReadFile(drawn)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	if string(now) != string(before) {
		t.Errorf("%s is not what is drawn now: copy it from there", kept)
	}
}
