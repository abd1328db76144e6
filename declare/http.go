package declare

import (
	"context"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker/httpreceiver"
)

var httpFields = []string{"url", "method", "headers"}

// httpRunner reads the section http.
func httpRunner(s *section, receiver waybill.Receiver) func(context.Context, *waybill.Delivery) error {
	before := len(s.problems)
	var missing variables
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
	if s.runsHere(receiver.Site) {
		s.needs(missing)
	}
	switch {
	case len(s.problems) > before:
		return nil
	case len(missing) > 0:
		return absent(missing[0].text)
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
