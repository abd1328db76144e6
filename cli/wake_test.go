package cli_test

import (
	"strings"
	"testing"

	"github.com/waybill-go/waybill/internal/services"
)

// A relay is woken unless it is told to poll, and either way it hands off what is due;
// the metrics say which it is.
func TestRelayIsWokenOrPolls(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		flags       []string
		listening   string
		neverNotify bool
	}{
		{"notify", []string{"--wake-interval", "0"}, "1", false},
		{"poll", []string{"--wake", "poll"}, "0", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sink := newSink(t)
			s := newSite(t, "receivers:\n- {key: all, event: '*', http: {url: '"+sink.url+"'}}\n")
			s.store = services.Postgres(t)
			succeeds(t, "migrate", "--store", s.store)
			relay := serve(t, "bridge", s.args(append([]string{"relay", "--backend", "local:", "--poll", "50ms"}, c.flags...)...)...)
			relay.scrapes(`waybill_listening{lane="default"} ` + c.listening)
			succeeds(t, s.args("fire", "a", "--payload", "1")...)
			sink.wait(t, 1)
			relay.scrapes(`waybill_claims_total{lane="default"} 1`)
			_, body := relay.get("/metrics")
			if silent := strings.Contains(body, `waybill_wakes_total{by="notify",lane="default"} 0`); silent != c.neverNotify {
				t.Errorf("woken by a notification: %t\n%s", !silent, body)
			}
			if strings.Contains(body, `waybill_wakes_total{by="poll",lane="default"} 0`) && c.neverNotify {
				t.Error("no wait ended with the poll")
			}
			relay.ends()
		})
	}
}

// Whoever fires with --wake poll wakes nobody.
func TestFireWakesOrNot(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	s := newSite(t, "receivers:\n- {key: all, event: '*', http: {url: '"+sink.url+"'}}\n")
	s.store = services.Postgres(t)
	succeeds(t, "migrate", "--store", s.store)
	relay := serve(t, "bridge", s.args("relay", "--backend", "local:", "--poll", "1h", "--wake-interval", "0")...)
	relay.scrapes(`waybill_wakes_total{by="notify",lane="default"} 1`) // it can hear
	succeeds(t, s.args("fire", "a", "--payload", "1", "--wake", "poll")...)
	succeeds(t, s.args("fire", "a", "--payload", "1", "--wake-interval", "0")...)
	sink.wait(t, 2)
	relay.scrapes(`waybill_wakes_total{by="notify",lane="default"} 2`)
	checkFailure(t, bridge(t, s.args("fire", "a", "--payload", "1", "--wake", "bell")...), 2, "--wake bell: must be notify or poll")
	relay.ends()
}
