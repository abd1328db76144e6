package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// listedLane is a lane of `bridge lanes --json`.
type listedLane struct {
	Lane      string
	Receivers []string
	Owed      int
	HandOff   *float64 `json:"handoff_lease_seconds"`
	Pause     *struct {
		Until       *string
		LeftSeconds *float64 `json:"left_seconds"`
		By, Reason  string
	}
}

func (s *site) lanes() map[string]listedLane {
	s.t.Helper()
	var all []listedLane
	if err := json.Unmarshal([]byte(succeeds(s.t, s.args("lanes", "--json")...).out), &all); err != nil {
		s.t.Fatal(err)
	}
	lanes := make(map[string]listedLane)
	for _, lane := range all {
		lanes[lane.Lane] = lane
	}
	return lanes
}

const twoLanes = "receivers:\n" +
	"- {key: audit, event: '*', http: {url: 'http://127.0.0.1:9'}}\n" +
	"- {key: mail, event: '*', lane: mail, http: {url: 'http://127.0.0.1:9'}}\n"

// A hand-off lease is listed with the lane that is declared with it, also after its last
// receiver moved away: such a lane can be paused, and its relay starts.
func TestLanesAreListedWithTheirHandOffLeases(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoLanes+"lanes: {mail: {handoff_lease: 25m}, bulk: {handoff_lease: 1001ms}, plain: {}}\n")
	succeeds(t, s.args("fire", "order.placed", "--payload", "1")...)
	want := `LANE     OWED  HAND-OFF LEASE  RECEIVERS
bulk        0          1.001s
default     1               -  audit
mail        1           25m0s  mail
plain       0               -
`
	if got := succeeds(t, s.args("lanes")...).out; got != want {
		t.Errorf("lanes = %s\nwant    %s", got, want)
	}
	lanes := s.lanes()
	if mail, bulk := lanes["mail"].HandOff, lanes["bulk"].HandOff; mail == nil || *mail != 1500 || bulk == nil || *bulk != 1.001 {
		t.Errorf("JSON of the lanes with one: %+v", lanes)
	}
	if lanes["default"].HandOff != nil || lanes["plain"].HandOff != nil {
		t.Errorf("JSON of the lanes without one: %+v", lanes)
	}
	succeeds(t, s.args("pause", "plain", "--reason", "empty")...)
	succeeds(t, s.args("resume", "plain")...)
	if got := succeeds(t, s.queueArgs("relay", "--once", "--lane", "bulk")...).out; got != "Nothing owed.\n" {
		t.Errorf("relay of a lane without receivers: %s", got)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]string{"sqlite": "", "postgres": services.Postgres(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, twoLanes)
			if store != "" {
				s.store = store
				succeeds(t, "migrate", "--store", store)
			}
			succeeds(t, s.args("fire", "order.placed", "--payload", "1")...)
			if got := succeeds(t, s.args("lanes")...).out; got != "LANE     OWED  RECEIVERS\ndefault     1  audit\nmail        1  mail\n" {
				t.Errorf("lanes = %s", got)
			}

			got := succeeds(t, s.args("pause", "mail", "--for", "10m", "--reason", "provider's maintenance")...).out
			if !strings.HasPrefix(got, "lane mail is paused until ") || !strings.Contains(got, "for 10m0s more, by ") || !strings.HasSuffix(got, ": provider's maintenance\n") {
				t.Errorf("pause = %s", got)
			}
			mail := s.lanes()["mail"]
			if mail.Pause == nil || mail.Pause.Until == nil || *mail.Pause.LeftSeconds < 500 || *mail.Pause.LeftSeconds > 600 ||
				mail.Pause.Reason != "provider's maintenance" || !strings.Contains(mail.Pause.By, "@") {
				t.Errorf("mail = %+v, pause %+v", mail, mail.Pause)
			}
			if lanes := s.lanes(); lanes["default"].Pause != nil || lanes["default"].Owed != 1 || lanes["default"].Receivers[0] != "audit" {
				t.Errorf("default = %+v", lanes["default"])
			}
			for _, command := range []string{"status", "lanes"} {
				if got := succeeds(t, s.args(command)...).out; strings.Count(got, "Lane mail is paused until ") != 1 || strings.Contains(got, "Lane default") {
					t.Errorf("%s = %s", command, got)
				}
			}
			if got := succeeds(t, s.queueArgs("relay", "--once", "--lane", "mail")...); got.out != "Nothing owed.\n" || !strings.Contains(got.err, "lane is paused") {
				t.Errorf("relay of a paused lane: %+v", got)
			}

			// The end is set exactly, also to an earlier one, and to none.
			succeeds(t, s.args("pause", "mail", "--for", "1m", "--reason", "nearly done")...)
			if left := *s.lanes()["mail"].Pause.LeftSeconds; left > 60 {
				t.Errorf("%f seconds are left, want a minute", left)
			}
			if got := succeeds(t, s.args("pause", "mail", "--reason", "not done at all")...).out; !strings.Contains(got, "is paused until somebody resumes it") {
				t.Errorf("pause without an end = %s", got)
			}
			if pause := s.lanes()["mail"].Pause; pause.Until != nil || pause.LeftSeconds != nil || pause.Reason != "not done at all" {
				t.Errorf("pause without an end: %+v", pause)
			}

			if got := succeeds(t, s.args("resume", "mail")...).out; got != "lane mail goes on\n" {
				t.Errorf("resume = %s", got)
			}
			if got := succeeds(t, s.args("resume", "mail")...).out; got != "lane mail was not paused\n" {
				t.Errorf("resume again = %s", got)
			}
			if got := succeeds(t, s.queueArgs("relay", "--once", "--lane", "mail")...).out; got != "handed off: 1\n" {
				t.Errorf("relay of a lane that goes on: %s", got)
			}
		})
	}
}

func TestPauseOfALaneThatNobodyDeclared(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoLanes)
	checkFailure(t, bridge(t, s.args("pause", "mial", "--reason", "x")...), 1, `unknown lane "mial"; declared: default, mail`)
	checkFailure(t, bridge(t, s.args("resume", "mial")...), 1, `unknown lane "mial"; declared: default, mail`)
	for _, lane := range s.lanes() {
		if lane.Pause != nil {
			t.Errorf("%+v is paused", lane)
		}
	}
	succeeds(t, "migrate", "down", "--store", s.store)
	for _, command := range [][]string{{"lanes"}, {"status"}, {"pause", "mail", "--reason", "x"}, {"resume", "mail"}} {
		checkFailure(t, bridge(t, s.args(command...)...), 1, "run `bridge migrate`")
	}
}

// The receivers that run in the relay's own process follow the same rule: one that is
// throttled stops its lane and no other, until an operator lets it go on.
func TestPauseOfReceiversThatRunInTheRelay(t *testing.T) {
	t.Parallel()
	calm, busy := newSink(t), newThrottle(t)
	s := newSite(t, "receivers:\n"+
		"- {key: near, event: '*', site: relay, lane: crm, give_up_after: 1h, http: {url: '"+busy.url+"'}}\n"+
		"- {key: other, event: '*', site: relay, http: {url: '"+calm.url+"'}}\n")
	stop := background(t, func(ctx context.Context) outcome {
		return execute(ctx, cli.Bridge(waybill.NewRegistry()), "", s.args("relay", "--lane", "crm", "--lane", "default", "--poll", "20ms", "--slots", "2")...)
	})
	succeeds(t, s.args("fire", "order.placed", "--payload", "1")...)
	poll.Until(t, "the pause", func() bool { return s.lanes()["crm"].Pause != nil })
	if pause := s.lanes()["crm"].Pause; !strings.Contains(pause.Reason, "near, delivery ") || *pause.LeftSeconds > 600 {
		t.Errorf("pause %+v", pause)
	}
	calls := busy.count()
	succeeds(t, s.args("fire", "--file", s.file("events.jsonl", strings.Repeat(`{"name":"a","payload":1}`+"\n", 20)))...)
	calm.wait(t, 21)
	time.Sleep(100 * time.Millisecond) // some polls
	if n := busy.count(); n != calls {
		t.Errorf("%d calls of the destination that throttles, want the %d before the pause", n, calls)
	}
	busy.ok.Store(true)
	succeeds(t, s.args("resume", "crm")...)
	poll.Until(t, "the deliveries of the lane", func() bool { return busy.count() >= calls+20 })
	if got := stop(); got.code != 0 || strings.Count(got.err, "lane is paused") != 1 {
		t.Errorf("relay: exit code %d, %s", got.code, got.err)
	}
}
