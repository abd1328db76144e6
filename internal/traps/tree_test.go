package traps

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// suites are directories whose tests are cases in tables, and named by them.
var suites = []string{"store/storetest", "backend/backendtest", "internal/traps"}

// span is where a test, or a case of a suite, begins and ends.
type span struct {
	test     shown
	from, to int // lines
}

// readTree returns which traps each test says it is about, and which tests there are.
func readTree(t *testing.T, root string) (said map[shown][]int, there map[shown]bool) {
	t.Helper()
	said, there = map[shown][]int{}, map[shown]bool{}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir, _ := filepath.Rel(root, filepath.Dir(file))
		switch {
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && file != root:
			return filepath.SkipDir
		case entry.IsDir() || path.Ext(file) != ".go":
			return nil
		case dir == ".":
			dir = "waybill"
		}
		return readFile(file, filepath.ToSlash(dir), said, there)
	})
	if err != nil {
		t.Fatal(err)
	}
	return said, there
}

func readFile(file, dir string, said map[shown][]int, there map[shown]bool) error {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	spans := testsOf(set, parsed, dir)
	for _, suite := range suites {
		if dir == suite {
			spans = append(spans, casesOf(set, parsed, dir)...)
		}
	}
	for _, span := range spans {
		there[span.test] = true
	}
	for _, group := range parsed.Comments {
		for _, comment := range numbersByLine(set, group) {
			about, ok := innermost(spans, comment.line)
			if !ok { // in what several tests share
				about = shown{dir: dir}
			}
			said[about] = append(said[about], comment.number)
		}
	}
	return nil
}

// naming is a trap that a comment names, and the comment's last line: what the
// comment stands above, or in.
type naming struct{ number, line int }

func numbersByLine(set *token.FileSet, group *ast.CommentGroup) (all []naming) {
	var text strings.Builder
	for _, comment := range group.List {
		text.WriteString(comment.Text + "\n")
	}
	for _, number := range numbers(text.String()) {
		all = append(all, naming{number, set.Position(group.End()).Line})
	}
	return all
}

// innermost returns the test that holds the line, the shortest if several do.
func innermost(spans []span, line int) (test shown, ok bool) {
	shortest := 0
	for _, span := range spans {
		if length := span.to - span.from + 1; span.from <= line && line <= span.to && (!ok || length < shortest) {
			test, shortest, ok = span.test, length, true
		}
	}
	return test, ok
}

var testName = regexp.MustCompile(`^(Test|Fuzz|Example)[A-Z]`)

// testsOf returns the test functions of a file, with the comments above them.
func testsOf(set *token.FileSet, file *ast.File, dir string) (spans []span) {
	if !strings.HasSuffix(set.Position(file.Pos()).Filename, "_test.go") {
		return nil
	}
	for _, declared := range file.Decls {
		function, ok := declared.(*ast.FuncDecl)
		if !ok || function.Recv != nil || !testName.MatchString(function.Name.Name) {
			continue
		}
		from := function.Pos()
		if function.Doc != nil {
			from = function.Doc.Pos()
		}
		spans = append(spans, span{shown{dir, function.Name.Name}, set.Position(from).Line, set.Position(function.End()).Line})
	}
	return spans
}

// casesOf returns the cases of a suite's tables, with the comments above them: values
// whose first part is a text, or a name.
func casesOf(set *token.FileSet, file *ast.File, dir string) (spans []span) {
	above := map[int]int{} // the first line of a comment, by the line after it
	for _, group := range file.Comments {
		above[set.Position(group.End()).Line+1] = set.Position(group.Pos()).Line
	}
	ast.Inspect(file, func(node ast.Node) bool {
		literal, ok := node.(*ast.CompositeLit)
		if !ok || len(literal.Elts) == 0 {
			return true
		}
		first := literal.Elts[0]
		if pair, ok := first.(*ast.KeyValueExpr); ok {
			first = pair.Value
		}
		if sum, ok := first.(*ast.BinaryExpr); ok { // a text, and what distinguishes one of several
			first = sum.X
		}
		text, ok := first.(*ast.BasicLit)
		if !ok || text.Kind != token.STRING {
			return true
		}
		name, err := strconv.Unquote(text.Value)
		if err != nil {
			return true
		}
		from := set.Position(literal.Pos()).Line
		if begins, ok := above[from]; ok {
			from = begins
		}
		spans = append(spans, span{shown{dir, strings.TrimSuffix(name, ": ")}, from, set.Position(literal.End()).Line})
		return true
	})
	return spans
}
