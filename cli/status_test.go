package cli_test

import (
	"context"
	"encoding/json"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
	"github.com/waybill-go/waybill/internal/services"
)

// lanesOf returns the lanes of a status.
func lanesOf(t *testing.T, args ...string) map[string]statusLane {
	t.Helper()
	var report struct{ Lanes []statusLane }
	if err := json.Unmarshal([]byte(succeeds(t, append(args, "--json")...).out), &report); err != nil {
		t.Fatal(err)
	}
	lanes := make(map[string]statusLane)
	for _, lane := range report.Lanes {
		lanes[lane.Lane] = lane
	}
	return lanes
}

type statusLane struct {
	Lane  string
	Queue *struct {
		Ready, Running, Consumers *int64
		OldestSeconds             *float64 `json:"oldest_seconds"`
		Error                     string
	}
	Waiting, Running     int64
	GivenBack            int64   `json:"given_back"`
	OldestWaitingSeconds float64 `json:"oldest_waiting_seconds"`
}

// The queue and the rows tell the same, as long as nothing is lost.
func TestStatusOfQueueAndRows(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	sink.hold = make(chan struct{})
	s := newSite(t, "receivers:\n- {key: mail, event: '*', lane: mail, http: {url: '"+sink.url+"'}}\n")
	s.backend = services.Redis(t)
	s.receivers = s.file("unique.yaml", "receivers:\n- {key: mail, event: '*', lane: "+services.Unique(t)+", http: {url: '"+sink.url+"'}}\n")
	var lane string
	for name := range lanesOf(t, s.args("status")...) {
		if name != waybill.DefaultLane {
			lane = name
		}
	}
	succeeds(t, s.args("fire", "--file", s.file("events.jsonl", strings.Repeat(`{"name":"a","payload":1}`+"\n", 5)))...)
	stopWorker := background(t, func(ctx context.Context) outcome {
		return execute(ctx, cli.Worker(waybill.NewRegistry()), "", s.queueArgs("--slots", "2", "--lane", lane)...)
	})
	succeeds(t, s.queueArgs("relay", "--once", "--lane", lane)...)
	sink.wait(t, 2)
	deadline := time.Now().Add(30 * time.Second)
	for {
		got := lanesOf(t, s.queueArgs("status")...)[lane]
		if got.Waiting != 3 || got.Running != 2 || got.GivenBack != 0 {
			t.Fatalf("rows: %+v", got)
		}
		queue := got.Queue
		if queue == nil || queue.Error != "" || queue.Ready == nil || *queue.Ready != 3 {
			t.Fatalf("queue: %+v", queue)
		}
		if queue.Running != nil && queue.Consumers != nil && *queue.Running == 2 && *queue.Consumers == 2 && *queue.OldestSeconds > 0 && got.OldestWaitingSeconds > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("what redis knows of its consumers, after 30 s: %+v", queue)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got := succeeds(t, s.queueArgs("status")...).out; !strings.Contains(got, "READY  RUNNING  CONSUMERS") || strings.Contains(got, "Could not ask") {
		t.Errorf("status = %s", got)
	}
	close(sink.hold)
	sink.wait(t, 3)
	if got := stopWorker(); got.code != 0 {
		t.Errorf("worker: exit code %d, %s", got.code, got.err)
	}
	if got := lanesOf(t, s.queueArgs("status")...)[lane]; got.Waiting+got.Running != 0 || *got.Queue.Ready != 0 {
		t.Errorf("at the end %+v, queue %+v", got, got.Queue)
	}
}

// Without a queue that can be asked the rows say what there is to say.
func TestStatusOfRowsAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, oneReceiver)
	succeeds(t, s.args("fire", "a", "--payload", "1")...)
	succeeds(t, s.queueArgs("relay", "--once", "--lane", "mail")...)
	for name, args := range map[string][]string{
		"no backend":    s.args("status"),
		"local backend": s.args("status", "--backend", "local:"),
	} {
		lanes := lanesOf(t, args...)
		if len(lanes) != 2 || lanes["mail"].Queue != nil || lanes["mail"].Waiting != 1 || lanes["default"].Waiting != 0 {
			t.Errorf("%s: lanes %+v", name, lanes)
		}
		if got := succeeds(t, args...).out; strings.Contains(got, "READY") || !strings.Contains(got, "WAITING") || strings.Contains(got, "?") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A queue that cannot be asked takes nothing from the report but its own figures.
func TestStatusWithoutTheQueuesServer(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	for name, test := range map[string]struct{ backend, want string }{
		"down":     {"redis://ann:secret@" + closedPort(t), "connection refused: start it"},
		"hung":     {"redis://ann:secret@" + silent.Addr().String() + "/0?read_timeout=30s", "no answer in time"},
		"no entry": {with(t, services.Redis(t), func(u *url.URL) { u.User = url.UserPassword("default", "wrong-secret") }), "refuses the login"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, oneReceiver)
			succeeds(t, s.args("fire", "a", "--payload", "1")...)
			succeeds(t, s.queueArgs("relay", "--once", "--lane", "mail")...)
			got := succeeds(t, s.args("status", "--backend", test.backend)...)
			if !strings.Contains(got.out, "Could not ask the queue of default, mail: Redis at ") || !strings.Contains(got.out, test.want) {
				t.Errorf("status = %s", got.out)
			}
			if strings.Contains(got.out+got.err, "secret") {
				t.Errorf("the password is told: %s%s", got.out, got.err)
			}
			mail := lanesOf(t, s.args("status", "--backend", test.backend)...)["mail"]
			if mail.Queue == nil || mail.Queue.Ready != nil || mail.Queue.Consumers != nil || !strings.Contains(mail.Queue.Error, test.want) {
				t.Errorf("queue: %+v", mail.Queue)
			}
			if mail.Waiting != 1 {
				t.Errorf("rows: %+v", mail)
			}
		})
	}
	s := newSite(t, oneReceiver)
	checkFailure(t, bridge(t, s.args("status", "--backend", "kafka://ann:secret@mq")...), 1, "--backend: unknown scheme kafka")
}
