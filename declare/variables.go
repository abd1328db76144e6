package declare

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/waybill-go/waybill"
)

// variables are the references to the environment that could not be resolved.
type variables []missingVariable

type missingVariable struct {
	section *section
	field   string
	text    string
}

// needs reports what is missing, where this process runs the receiver.
func (s *section) needs(missing variables) {
	for _, m := range missing {
		m.section.fail(m.field, "%s", m.text)
	}
}

// absent stands in for a receiver that this process does not run, and could not: it was
// not given its secrets, or lacks its program.
func absent(why string) func(context.Context, *waybill.Delivery) error {
	err := fmt.Errorf("this process cannot run the receiver: %s", why)
	return func(context.Context, *waybill.Delivery) error { return err }
}

// reference is ${NAME}, or $${ for a plain ${, or the beginning of a reference
// that does not end well.
var reference = regexp.MustCompile(`\$?\$\{([A-Za-z_][A-Za-z0-9_]*\})?`)

// expand replaces the references of a value. It never tells a variable's value.
func (s *section) expand(name, text string, missing *variables) string {
	return reference.ReplaceAllStringFunc(text, func(found string) string {
		if rest, ok := strings.CutPrefix(found, "$$"); ok {
			return "$" + rest
		}
		variable, ok := strings.CutSuffix(strings.TrimPrefix(found, "${"), "}")
		if !ok {
			s.fail(name, "${ begins no reference; write ${NAME}, or $${ for a plain ${")
			return ""
		}
		value, set := os.LookupEnv(variable)
		switch {
		case !set:
			*missing = append(*missing, missingVariable{s, name, fmt.Sprintf("environment variable %s is not set", variable)})
		case value == "":
			*missing = append(*missing, missingVariable{s, name, fmt.Sprintf("environment variable %s is empty", variable)})
		}
		return value
	})
}
