package httpreceiver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

const (
	maxRead    = 64 << 10               // of an answer's body; past that the connection is dropped
	maxExcerpt = 300                    // bytes of a body that an error quotes
	bodyGrace  = 500 * time.Millisecond // for a body, once the status has come
)

// outcome reads the answer. The status alone decides: a body that never ends
// delays the outcome by bodyGrace at most, and cannot change it.
func (s *sender) outcome(response *http.Response, stop context.CancelFunc) error {
	grace := time.AfterFunc(bodyGrace, stop)
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxRead)) // what came is enough
	response.Body.Close()
	grace.Stop()

	code := response.StatusCode
	if code >= 200 && code <= 299 {
		return nil
	}
	failed := fmt.Sprintf("%s answered %d %s", s.name, code, http.StatusText(code))
	if excerpt := s.excerpt(body); excerpt != "" {
		failed += ": " + excerpt
	}
	switch {
	case code == http.StatusGone:
		return waybill.Permanent(errors.New(failed))
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		if wait, ok := retryAfter(response.Header); ok {
			return fmt.Errorf("%s: %w", failed, waybill.Defer(wait))
		}
	case code >= 300 && code <= 399:
		if location, err := response.Location(); err == nil {
			failed += fmt.Sprintf(" (redirects are not followed; it points to %s)", display(location))
		}
	}
	return errors.New(failed)
}

// excerpt is the beginning of a body as one line, without the secrets of the
// request.
func (s *sender) excerpt(body []byte) string {
	text := s.hide.Replace(strings.ToValidUTF8(string(body[:min(len(body), 8*maxExcerpt)]), "\uFFFD"))
	text = strings.Join(strings.FieldsFunc(text, func(c rune) bool { return c <= ' ' || c == 0x7f }), " ")
	if len(text) <= maxExcerpt {
		return text
	}
	return strings.ToValidUTF8(text[:maxExcerpt], "") + "…"
}

// retryAfter reads the header in either of its forms. A date is measured from
// the answer's own Date, where it has one, because the two come from one clock.
// A moment that has passed is a second from now, so that a destination which
// says "at once" for ever is not asked for ever without a pause.
func retryAfter(header http.Header) (time.Duration, bool) {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0, false
	}
	if isDigits(value) {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(waybill.MaxRetryDelay/time.Second) {
			return waybill.MaxRetryDelay, true
		}
		return max(time.Duration(seconds)*time.Second, time.Second), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return min(max(at.Sub(now), time.Second), waybill.MaxRetryDelay), true
}

func isDigits(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c < '0' || c > '9' })
}
