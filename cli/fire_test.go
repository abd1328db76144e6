package cli_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/cli"
	"github.com/waybill-go/waybill/internal/services"
)

const twoReceivers = `
receivers:
- {key: orders, event: order.placed, http: {url: 'http://127.0.0.1:9/${CLI_TEST_NOT_SET}'}}
- {key: placed, event: order.placed, lane: mail, http: {url: 'http://127.0.0.1:9'}}
`

// owed is what status says is owed.
func (s *site) owed() int {
	s.t.Helper()
	var status struct{ Owed int }
	if err := json.Unmarshal([]byte(succeeds(s.t, s.args("status", "--json")...).out), &status); err != nil {
		s.t.Fatal(err)
	}
	return status.Owed
}

// events are what a query says of each of a SQLite site's events, in order.
func (s *site) events(column string) (all []string) {
	s.t.Helper()
	db, err := sql.Open("sqlite", strings.TrimPrefix(s.store, "sqlite:"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(`SELECT ` + column + ` FROM event ORDER BY id`)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, text)
	}
	if rows.Err() != nil {
		s.t.Fatal(rows.Err())
	}
	return all
}

// payloads are the events with their names.
func (s *site) payloads() []string { return s.events(`name || '=' || payload`) }

// facts are what went beside the events.
func (s *site) facts() []string {
	return s.events(`version || ' ' || coalesce(headers, '-') || ' ' || coalesce(dedupe_key, '-') || ' ' ||
		coalesce(occurred_at, '-') || ' ' || coalesce(correlation_id, '-')`)
}

func TestFireOne(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoReceivers)
	got := succeeds(t, s.args("fire", "order.placed", "--payload", `{ "id": 1 }`)...)
	if got.out != "fired 1 event, 2 deliveries\n" || got.err != "" {
		t.Errorf("fire = %+v", got)
	}
	if diff := cmp.Diff([]string{`order.placed={ "id": 1 }`}, s.payloads()); diff != "" || s.owed() != 2 {
		t.Errorf("owed %d, events (-want +got):\n%s", s.owed(), diff)
	}
}

func TestFireWithWhatGoesBesideAnEvent(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoReceivers)
	one := s.args("fire", "order.placed", "--payload", "1", "--event-version", "3", "--header", "tenant=a", "--header", "shop=b",
		"--dedupe-key", "order-1", "--occurred-at", "2026-12-01T09:30:00.000001Z", "--correlation-id", "request 7")
	succeeds(t, one...)
	path := s.file("events.jsonl", `{"name":"order.placed","payload":2,"dedupe_key":"order-2","occurred_at":"2026-12-01T10:30:00.000001+01:00","correlation_id":"c"}`)
	succeeds(t, s.args("fire", "--file", path)...)
	want := []string{
		`3 {"shop":"b","tenant":"a"} order-1 1796117400000001 request 7`,
		`1 - order-2 1796117400000001 c`,
	}
	if diff := cmp.Diff(want, s.facts()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	checkFailure(t, bridge(t, one...), 1, `nothing was written: fire order.placed: dedupe key "order-1": event 1 has that key already`)
	checkFailure(t, bridge(t, s.args("fire", "--file", path)...), 1, `dedupe key "order-2": event 2 has that key already`)
	if s.owed() != 4 {
		t.Errorf("%d owed, want 4", s.owed())
	}
	checkFailure(t, bridge(t, s.args("fire", "x", "--payload", "1", "--occurred-at", "noon")...), 2, `--occurred-at "noon" is no time: write it as`)
	checkFailure(t, bridge(t, s.args("fire", "--file", path, "--dedupe-key", "k")...), 2, "leave out NAME and --payload, and what goes beside them")
}

func TestFireFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoReceivers)
	big := strings.Repeat("x", 3<<20)
	text := "\xef\xbb\xbf" + `{"name":"order.placed","payload":{"id":1}}` + "\r\n\n" +
		`{"payload":"` + big + `","name":"order.placed"}` + "\n" +
		`  {"name":"order.lost","payload":null,"version":2,"headers":{"a":"b"}}` // no line end
	path := s.file("events.jsonl", text)
	got := succeeds(t, s.args("fire", "--file", path)...)
	if got.out != "fired 3 events, 4 deliveries\n" {
		t.Errorf("fire = %q", got.out)
	}
	if want := "bridge: warning: recorded, and owed to nobody, because no receiver is declared for it: \"order.lost\" (1)\n"; got.err != want {
		t.Errorf("standard error = %q, want %q", got.err, want)
	}
	want := []string{`order.placed={"id":1}`, `order.placed="` + big + `"`, `order.lost=null`}
	if diff := cmp.Diff(want, s.payloads()); diff != "" {
		t.Errorf("events (-want +got):\n%.500s", diff)
	}
}

func TestFireStandardInputInChunks(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoReceivers)
	var text strings.Builder
	for i := range 1203 { // more than two chunks
		fmt.Fprintf(&text, `{"name":"order.placed","payload":%d}`+"\n", i)
	}
	got := execute(t.Context(), cli.Bridge(waybill.NewRegistry()), text.String(), s.args("fire", "--file", "-")...)
	if got.code != 0 || got.out != "fired 1203 events, 2406 deliveries\n" {
		t.Fatalf("fire = %+v", got)
	}
	events := s.payloads()
	for i, event := range events {
		if want := fmt.Sprintf("order.placed=%d", i); event != want {
			t.Fatalf("event %d is %s, want %s", i, event, want)
		}
	}
	if len(events) != 1203 || s.owed() != 2406 {
		t.Errorf("%d events, %d owed", len(events), s.owed())
	}
}

func TestABadLineStopsBeforeAnythingIsWritten(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoReceivers)
	good := strings.Repeat(`{"name":"order.placed","payload":{"id":1}}`+"\n", 600)
	tests := []struct{ name, line, want string }{
		{"text", "order.placed", `not {"name": …, "payload": …}: invalid character`},
		{"a line that is cut off", `{"name":"order.placed","payl`, "the line ends too early"},
		{"a list", `["order.placed"]`, "it is a JSON array, not an object"},
		{"no name", `{"payload":{}}`, `"name" is missing`},
		{"no payload", `{"name":"order.placed"}`, `"payload" is missing`},
		{"an empty name", `{"name":"","payload":{}}`, "the event name is empty"},
		{"a number as a name", `{"name":7,"payload":{}}`, `"name" cannot be a JSON number`},
		{"a field too many", `{"name":"x","payload":{},"playload":{}}`, `unknown field "playload"`},
		{"two values", `{"name":"x","payload":{}}{"name":"x","payload":{}}`, "more than one JSON value"},
		{"a brace too many", `{"name":"x","payload":{}}}`, "more than one JSON value"},
		{"a negative version", `{"name":"x","payload":{},"version":-1}`, "version -1 is not between 1 and"},
		{"bytes that are no text", "{\"name\":\"x\",\"payload\":\"\xff\"}", "not UTF-8"},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			path := s.file(fmt.Sprintf("bad%d.jsonl", i), good+test.line+"\n"+good)
			checkFailure(t, bridge(t, s.args("fire", "--file", path)...), 1, path+":601: ", test.want, "nothing was written")
		})
	}
	for name, text := range map[string]string{"an empty file": "", "empty lines": "\n \n"} {
		t.Run(name, func(t *testing.T) {
			path := s.file("empty.jsonl", text)
			checkFailure(t, bridge(t, s.args("fire", "--file", path)...), 1, path+" holds no events")
		})
	}
	if events := s.payloads(); len(events) != 0 {
		t.Errorf("%d events were written", len(events))
	}
}

func TestTheWarningStaysOneLine(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoReceivers)
	var text strings.Builder
	for i := range 9 {
		fmt.Fprintf(&text, `{"name":"lost.%d","payload":1}`+"\n", i)
	}
	got := succeeds(t, s.args("fire", "--file", s.file("lost.jsonl", text.String()))...)
	want := `"lost.0" (1), "lost.1" (1), "lost.2" (1), "lost.3" (1), "lost.4" (1), and 4 other names` + "\n"
	if !strings.HasSuffix(got.err, want) || strings.Count(got.err, "\n") != 1 {
		t.Errorf("standard error = %q, want it to end in %q", got.err, want)
	}
	if got.out != "fired 9 events, 0 deliveries\n" {
		t.Errorf("fire = %q", got.out)
	}
}

func TestFireIntoPostgres(t *testing.T) {
	t.Parallel()
	s := newSite(t, twoReceivers)
	s.store = services.Postgres(t)
	succeeds(t, "migrate", "--store", s.store)
	path := s.file("events.jsonl", strings.Repeat(`{"name":"order.placed","payload":{"id":1}}`+"\n", 777))
	if got := succeeds(t, s.args("fire", "--file", path)...); got.out != "fired 777 events, 1554 deliveries\n" {
		t.Errorf("fire = %+v", got)
	}
	if got := s.owed(); got != 1554 {
		t.Errorf("owed %d, want 1554", got)
	}
}
