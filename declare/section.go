package declare

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/waybill-go/waybill"
)

// reader collects what is wrong with one file.
type reader struct {
	file     string
	sites    []waybill.Site
	problems []problem
}

type problem struct {
	line int
	text string
}

func (r *reader) fail(line int, format string, args ...any) {
	r.problems = append(r.problems, problem{line, fmt.Sprintf(format, args...)})
}

func (r *reader) failedAny() bool { return len(r.problems) > 0 }

// err returns the problems in order of line.
func (r *reader) err() error {
	slices.SortStableFunc(r.problems, func(a, b problem) int { return cmp.Compare(a.line, b.line) })
	errs := make([]error, len(r.problems))
	for i, p := range r.problems {
		errs[i] = fmt.Errorf("%s:%d: %s", r.file, p.line, p.text)
	}
	return errors.Join(errs...)
}

// section is one mapping, whose fields are taken one by one.
type section struct {
	*reader
	node   *yaml.Node // nil: it is no mapping
	path   string     // what its fields' names follow in errors
	fields map[string]field
	order  []string
}

type field struct {
	line  int // of its name
	value *yaml.Node
	taken bool
}

// section reads the names of a mapping. What is wrong with them is told at once.
func (r *reader) section(node *yaml.Node, path string) *section {
	s := &section{reader: r, path: path, fields: map[string]field{}}
	if node.Kind != yaml.MappingNode {
		r.fail(node.Line, "%swant fields, each as name: value", path)
		return s
	}
	s.node = node
	for i := 0; i+1 < len(node.Content); i += 2 {
		name := resolve(node.Content[i])
		if name.Kind != yaml.ScalarNode {
			r.fail(name.Line, "%sa field's name cannot be a list or a mapping", path)
			continue
		}
		if first, ok := s.fields[name.Value]; ok {
			r.fail(name.Line, "%s%s: is on line %d already", path, short(name.Value), first.line)
			continue
		}
		s.fields[name.Value] = field{line: name.Line, value: resolve(node.Content[i+1])}
		s.order = append(s.order, name.Value)
	}
	return s
}

// take returns a field's value, nil if it is absent. A field without a value is
// a mistake: whoever wrote its name meant something.
func (s *section) take(name string) *yaml.Node {
	f, ok := s.fields[name]
	if !ok {
		return nil
	}
	f.taken = true
	s.fields[name] = f
	if f.value.Kind == yaml.ScalarNode && f.value.ShortTag() == "!!null" {
		s.fail(name, "has no value; give it one or leave the field out")
		return nil
	}
	return f.value
}

// fail reports a field. Its receiver shadows reader.fail, which takes a line.
func (s *section) fail(name, format string, args ...any) {
	line := 1
	if f, ok := s.fields[name]; ok {
		line = f.line
	} else if s.node != nil {
		line = s.node.Line
	}
	s.reader.fail(line, "%s%s: %s", s.path, short(name), fmt.Sprintf(format, args...))
}

// done reports the fields that nobody took.
func (s *section) done(known ...string) {
	for _, name := range s.order {
		if s.fields[name].taken {
			continue
		}
		if near := nearest(name, known); near != "" {
			s.fail(name, "unknown field; did you mean %s?", near)
		} else {
			s.fail(name, "unknown field; known are %s", strings.Join(known, ", "))
		}
	}
}

// scalar returns a field's text as it stands in the file.
func (s *section) scalar(name string) (string, bool) {
	node := s.take(name)
	if node == nil {
		return "", false
	}
	if node.Kind != yaml.ScalarNode {
		s.fail(name, "want one value, not a list or a mapping")
		return "", false
	}
	return node.Value, true
}

// text returns a field that is a string. An unquoted number or boolean is taken
// as it was written, because that is what was meant.
func (s *section) text(name string) string {
	text, ok := s.scalar(name)
	if ok && text == "" {
		s.fail(name, "is empty")
	}
	return text
}

func (s *section) duration(name string) time.Duration {
	text, ok := s.scalar(name)
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	switch _, number := strconv.ParseFloat(text, 64); {
	case number == nil:
		s.fail(name, "%s has no unit; write %ss, %sm or %sh", text, text, text, text)
	case err != nil:
		s.fail(name, "%s is not a duration; write it like 90s, 5m or 1h30m", short(text))
	case d <= 0:
		s.fail(name, "%s must be longer than nothing", text)
	default:
		return d
	}
	return 0
}

func (s *section) count(name string) int {
	text, ok := s.scalar(name)
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		s.fail(name, "%s must be a whole number, 1 or more", short(text))
		return 0
	}
	return n
}

// list returns a field that is a list of single values, nil if it is none.
func (s *section) list(name string) []string {
	node := s.take(name)
	if node == nil {
		return nil
	}
	if node.Kind != yaml.SequenceNode {
		s.fail(name, "want a list, as in [a, b]")
		return nil
	}
	list := make([]string, len(node.Content))
	for i, item := range node.Content {
		item = resolve(item)
		if item.Kind != yaml.ScalarNode || item.ShortTag() == "!!null" {
			s.fail(name, "item %d has to be one value", i+1)
		}
		list[i] = item.Value
	}
	return list
}

func (s *section) flag(name string) bool {
	text, ok := s.scalar(name)
	if ok && text != "true" && text != "false" {
		s.fail(name, "%s must be true or false", short(text))
	}
	return text == "true"
}

// short keeps a line of an error one line, whatever the file holds.
func short(text string) string {
	quoted := fmt.Sprintf("%.60q", text)
	if quoted == `"`+text+`"` && text != "" {
		return text
	}
	return quoted
}
