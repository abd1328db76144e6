package declare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker/httpreceiver"
)

var httpFields = []string{"url", "method", "headers"}

// httpRunner reads the section http.
func httpRunner(s *section, receiver waybill.Receiver) func(context.Context, *waybill.Delivery) error {
	before := len(s.problems)
	var missing variables
	site := receiver.Site
	if site == "" {
		site = waybill.SiteTask
	}
	config := httpreceiver.Config{Timeout: receiver.Timeout}
	config.URL = s.expand("url", s.required("url", "say where to send the event"), &missing)
	config.Method = s.text("method")
	if node := s.take("headers"); node != nil {
		headers := s.section(node, s.path+"headers.")
		config.Headers = make(map[string]string, len(headers.order))
		for _, name := range headers.order {
			value, _ := headers.scalar(name)
			config.Headers[name] = headers.expand(name, value, &missing)
		}
	}
	s.done(httpFields...)
	if len(missing) > 0 && !s.runsHere(site) {
		return absent(missing)
	}
	for _, m := range missing {
		m.section.fail(m.field, "%s", m.text)
	}
	if len(s.problems) > before {
		return nil
	}
	run, err := httpreceiver.New(config)
	if err != nil {
		s.fail(fieldOf(err), "%s", err)
	}
	return run
}

// fieldOf names the field that httpreceiver's error begins with.
func fieldOf(err error) string {
	switch text := err.Error(); {
	case strings.HasPrefix(text, "header"):
		return "headers"
	case strings.HasPrefix(text, "method"):
		return "method"
	default:
		return "url"
	}
}

// variables are the references to the environment that could not be resolved.
type variables []missingVariable

type missingVariable struct {
	section *section
	field   string
	text    string
}

// absent stands in for a receiver whose secrets this process was not given,
// because it is not the one to run it.
func absent(missing variables) func(context.Context, *waybill.Delivery) error {
	return func(context.Context, *waybill.Delivery) error { return errors.New(missing[0].text) }
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
