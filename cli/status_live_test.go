package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// liveOf is what status tells of running processes.
type liveOf struct {
	Processes []struct {
		Admin  string
		Relays []string
		Worker bool
		Error  *string
	}
	Lanes []struct {
		Lane          string
		Owed, Window  *int64
		Waiting       *int64   `json:"window_waiting"`
		Drain         *float64 `json:"drain_per_second"`
		Stalled       *bool
		Probes, Takes *int64
		WaitP99       *float64 `json:"queue_wait_p99_seconds"`
		LeaseUsed     *float64 `json:"lease_used_p99"`
		Headroom      *float64 `json:"lease_headroom"`
	}
	StaleCopies []struct {
		Lane, Refusal string
		Copies        int64
		WorkerSeconds *float64 `json:"worker_seconds"`
		Remedy        *string
	} `json:"stale_copies"`
}

func live(t *testing.T, args ...string) *liveOf {
	t.Helper()
	var report struct{ Live *liveOf }
	if err := json.Unmarshal([]byte(succeeds(t, append(args, "--json")...).out), &report); err != nil {
		t.Fatal(err)
	}
	return report.Live
}

// A relay and a worker tell what they know, and who is away is a line.
func TestStatusAsksRelaysAndWorkers(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	s := newSite(t, "receivers:\n- {key: mail, event: '*', lane: mail, http: {url: '"+sink.url+"'}}\n")
	relay := serve(t, "bridge", s.queueArgs("relay", "--lane", "mail", "--poll", "50ms")...)
	worker := serve(t, "worker", s.queueArgs()...)
	away := closedPort(t)
	if live(t, s.args("status")...) != nil {
		t.Error("nobody is to be asked, and live is not null")
	}
	status := s.args("status", "--admin", relay.addr+","+worker.addr, "--admin", away, "--admin", worker.addr)
	succeeds(t, s.args("fire", "--file", s.file("events.jsonl", strings.Repeat(`{"name":"a","payload":1}`+"\n", 5)))...)
	sink.wait(t, 5)
	deadline := time.Now().Add(30 * time.Second)
	for {
		got := live(t, status...)
		if len(got.Processes) != 3 || got.Processes[0].Relays[0] != "mail" || got.Processes[0].Worker || !got.Processes[1].Worker ||
			got.Processes[2].Error == nil || !strings.Contains(*got.Processes[2].Error, "nobody listens at "+away) {
			t.Fatalf("processes: %+v", got.Processes)
		}
		if len(got.Lanes) != 2 || got.Lanes[0].Lane != "default" || got.Lanes[0].Window != nil || len(got.StaleCopies) == 0 {
			t.Fatalf("lanes %+v, stale copies %+v", got.Lanes, got.StaleCopies)
		}
		mail := got.Lanes[1]
		if *mail.Owed == 0 && *mail.Takes == 5 && mail.Window != nil && *mail.Window > 0 && *mail.Waiting == 0 && !*mail.Stalled && *mail.Probes == 0 &&
			*mail.WaitP99 > 0 && *mail.LeaseUsed > 0 && *mail.Headroom > 0 && *mail.Headroom < 1 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after 30 s lane %+v", mail)
		}
		time.Sleep(50 * time.Millisecond)
	}
	got := succeeds(t, status...).out
	for _, want := range []string{"Asked " + relay.addr + " (relay of mail), " + worker.addr + " (worker)\n", "Could not ask " + away + ": nobody listens", "WINDOW", "HEADROOM", "No stale copies.\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("status lacks %q: %s", want, got)
		}
	}
	relay.ends()
	worker.ends()
}

func TestStatusAdminFromTheEnvironment(t *testing.T) {
	away := closedPort(t)
	t.Setenv("WAYBILL_ADMIN", away)
	s := newSite(t, oneReceiver)
	if got := live(t, s.args("status")...); got == nil || len(got.Processes) != 1 || got.Processes[0].Admin != away {
		t.Errorf("live = %+v, want the process of $WAYBILL_ADMIN asked", got)
	}
}

func TestStatusAdminUsage(t *testing.T) {
	t.Parallel()
	s := newSite(t, oneReceiver)
	checkFailure(t, bridge(t, s.args("status", "--admin", "9090")...), 2, "want host:port, as in 127.0.0.1:9090")
	many := make([]string, 101)
	for i := range many {
		many[i] = fmt.Sprintf("127.0.0.1:%d", i+1)
	}
	checkFailure(t, bridge(t, s.args("status", "--admin", strings.Join(many, ","))...), 2, "--admin names 101 processes: ask 100 at a time")
}
