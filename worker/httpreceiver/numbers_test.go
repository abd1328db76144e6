package httpreceiver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker/httpreceiver"
)

// Trap 29: what a destination may write for a number. None of it is a wait, so that the
// run is one that failed, and waits out its backoff.
func TestRetryAfterThatIsNoNumber(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"NaN", "inf", "-inf", "+Infinity", "1e9", "1.5", "0x10", "-1", "true", "soon", "12 s", "१२"} {
		at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", value)
			w.WriteHeader(http.StatusTooManyRequests)
		})
		d := delivery()
		err := run(t, httpreceiver.Config{URL: at}, d)
		if err == nil || strings.Contains(err.Error(), "deferred") {
			t.Errorf("Retry-After: %s: %v, want an ordinary failure", value, err)
		}
		out := waybill.Judge(&waybill.Receiver{Options: waybill.Options{GiveUpAfter: 1}}, d, err, d.DueAt, 0)
		if out.Deferred || !out.Attempted {
			t.Errorf("Retry-After: %s: %+v", value, out)
		}
	}
}
