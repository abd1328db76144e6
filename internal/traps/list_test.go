package traps

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	list  = "../../docs/traps.md"
	traps = 81
)

// shown names a test, or a case of a suite, by its directory and its name.
type shown struct{ dir, name string }

func (s shown) String() string {
	if s.name == "" {
		return "what tests of " + s.dir + " share"
	}
	return s.dir + ": " + s.name
}

// TestListIsTrue compares the list with the tree, both ways: every number has a test
// or a reason, every test that is named is there and says which trap it is about, and
// no test says so that is not named.
func TestListIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	named := readList(t, string(text))
	said, there := readTree(t, "../..")
	for number := 1; number <= traps; number++ {
		row, ok := named[number]
		if !ok {
			t.Errorf("docs/traps.md: trap %d is not in the list", number)
		}
		for _, test := range row {
			switch {
			case !there[test]:
				t.Errorf("docs/traps.md: trap %d names %s, which is not there", number, test)
			case !slices.Contains(said[test], number):
				t.Errorf("docs/traps.md: trap %d names %s, which has no comment that it is about it", number, test)
			}
		}
	}
	for test, numbers := range said {
		for _, number := range numbers {
			listed := func(row shown) bool { return row == test || test.name == "" && row.dir == test.dir }
			if !slices.ContainsFunc(named[number], listed) {
				t.Errorf("%s says that it is about trap %d; docs/traps.md does not name it there", test, number)
			}
		}
	}
}

var (
	rowPattern  = regexp.MustCompile(`(?m)^\| *([0-9]+) *\| .* \| (.*) \|$`)
	testPattern = regexp.MustCompile("`([^`:]+): ([^`]+)`")
)

// readList returns the tests that each row names; none where it gives a reason.
func readList(t *testing.T, text string) map[int][]shown {
	t.Helper()
	named := map[int][]shown{}
	for _, row := range rowPattern.FindAllStringSubmatch(text, -1) {
		number, _ := strconv.Atoi(row[1])
		if _, twice := named[number]; twice || number < 1 || number > traps {
			t.Errorf("docs/traps.md: trap %d is in the list twice, or is none", number)
		}
		tests := []shown{}
		for _, test := range testPattern.FindAllStringSubmatch(row[2], -1) {
			tests = append(tests, shown{test[1], test[2]})
		}
		reason, isReason := strings.CutPrefix(row[2], "does not apply: ")
		if isReason == (len(tests) > 0) || isReason && len(reason) < 10 {
			t.Errorf("docs/traps.md: trap %d has neither tests alone nor a reason alone: %s", number, row[2])
		}
		named[number] = tests
	}
	return named
}

var (
	trapPattern  = regexp.MustCompile(`(?i)\btraps? ([0-9]+(?:(?:,| and| to) [0-9]+)*)`)
	partsPattern = regexp.MustCompile(`(to )?([0-9]+)`)
)

// numbers returns the traps that a comment names.
func numbers(comment string) (all []int) {
	comment = strings.Join(strings.Fields(strings.ReplaceAll(comment, "//", " ")), " ")
	for _, found := range trapPattern.FindAllStringSubmatch(comment, -1) {
		for _, part := range partsPattern.FindAllStringSubmatch(found[1], -1) {
			number, _ := strconv.Atoi(part[2])
			from := number
			if part[1] != "" && len(all) > 0 {
				from = all[len(all)-1] + 1
			}
			for ; from <= number; from++ {
				all = append(all, from)
			}
		}
	}
	return all
}

func TestNumbersOfAComment(t *testing.T) {
	t.Parallel()
	for comment, want := range map[string]string{
		"// Trap 5: a zombie's verdict":                "[5]",
		"// claimed at all (traps\n// 14 and 18), nor": "[14 18]",
		"// (traps 14, 18, 24 and 26)":                 "[14 18 24 26]",
		"// Traps 24 to 27: pauses. Trap 3 is none.":   "[24 25 26 27 3]",
		"// a trap of 7 doors, trapped 8":              "[]",
	} {
		if got := fmt.Sprint(numbers(comment)); got != want {
			t.Errorf("%q names %s, want %s", comment, got, want)
		}
	}
}
