package httpreceiver_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker/httpreceiver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client is one whose connections end with the test.
func client(t *testing.T) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// delivery is one whose payload must not be touched: spaces, a big number, and
// characters that encoding/json would escape.
func delivery() *waybill.Delivery {
	return &waybill.Delivery{
		ID: 42, Receiver: "crm.sync", Attempt: 3, MaxAttempts: 5, Lease: time.Minute,
		Event: &waybill.Event{ID: 7, Name: "order.placed", Version: 2, CorrelationID: "réq 1", Payload: []byte(`{ "a" : 12345678901234567890, "b":"<&\u00e9é>" }` + "\n")},
	}
}

func run(t *testing.T, config httpreceiver.Config, d *waybill.Delivery) error {
	t.Helper()
	if config.Client == nil {
		config.Client = client(t)
	}
	receive, err := httpreceiver.New(config)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	return receive(context.Background(), d)
}

func TestRequestCarriesThePayloadAndSaysWhichDelivery(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.WriteHeader(http.StatusAccepted)
	})
	d := delivery()
	d.Target = "tenant 5/ü%\n"
	withUser := strings.Replace(at, "http://", "http://ann:hunter2secret@", 1) + "/hooks?source=waybill#top"
	err := run(t, httpreceiver.Config{
		URL: withUser, Method: "put",
		Headers: map[string]string{"x-tenant": " blue ", "content-type": "application/cloudevents+json", "Host": "crm.example"},
	}, d)
	if err != nil {
		t.Fatalf("outcome: %v", err)
	}
	if !bytes.Equal(body, d.Event.Payload) {
		t.Errorf("body = %q, want the payload %q", body, d.Event.Payload)
	}
	if got.Method != "PUT" || got.RequestURI != "/hooks?source=waybill" || got.Host != "crm.example" {
		t.Errorf("request = %s %s to %s", got.Method, got.RequestURI, got.Host)
	}
	want := map[string]string{
		"Content-Type": "application/cloudevents+json", "Idempotency-Key": "42", "Waybill-Delivery-Id": "42",
		"Waybill-Event": "order.placed", "Waybill-Event-Id": "7", "Waybill-Attempt": "3",
		"Waybill-Event-Version": "2", "Waybill-Correlation-Id": "r%C3%A9q 1",
		"Waybill-Receiver": "crm.sync", "Waybill-Target": "tenant 5/%C3%BC%25%0A", "X-Tenant": "blue",
	}
	for name, value := range want {
		if got.Header.Get(name) != value {
			t.Errorf("%s = %q, want %q", name, got.Header.Get(name), value)
		}
	}
	if back, err := url.PathUnescape(got.Header.Get("Waybill-Target")); err != nil || back != d.Target {
		t.Errorf("the target reads back as %q, %v", back, err)
	}
	if user, password, ok := got.BasicAuth(); !ok || user != "ann" || password != "hunter2secret" {
		t.Errorf("basic authentication = %q, %q, %t", user, password, ok)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	var got *http.Request
	at := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r })
	if err := run(t, httpreceiver.Config{URL: at}, delivery()); err != nil {
		t.Fatalf("outcome: %v", err)
	}
	if got.Method != "POST" || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("request = %s with Content-Type %q", got.Method, got.Header.Get("Content-Type"))
	}
	if _, ok := got.Header["Waybill-Target"]; ok {
		t.Error("a delivery without a target has a Waybill-Target")
	}
}

func TestOutcomes(t *testing.T) {
	t.Parallel()
	date := time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC) // the destination's clock is years behind
	tests := []struct {
		name    string
		status  int
		header  map[string]string
		body    string
		give    time.Duration // the receiver's give-up-after
		want    waybill.Outcome
		wantErr []string
	}{
		{name: "200", status: 200, want: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}},
		{name: "204", status: 204, want: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}},
		{name: "299", status: 299, want: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}},
		{name: "410 is dead at once", status: 410, body: "no such hook",
			want: waybill.Outcome{Status: waybill.Dead, Attempted: true}, wantErr: []string{"410 Gone: no such hook"}},
		{name: "500 waits for the backoff", status: 500, body: " <p>\n\toops\x00 </p> ",
			want: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: 4 * time.Second}, wantErr: []string{"500 Internal Server Error: <p> oops </p>"}},
		{name: "404", status: 404, want: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: 4 * time.Second}, wantErr: []string{"answered 404 Not Found"}},
		{name: "429 in seconds, bounded by give-up-after", status: 429, header: map[string]string{"Retry-After": "30"}, give: time.Hour,
			want: waybill.Outcome{Status: waybill.Failed, Deferred: true, Wait: 45 * time.Second, Pause: 30 * time.Second}, wantErr: []string{"429 Too Many Requests: deferred for 30s"}},
		{name: "429 counts without give-up-after", status: 429, header: map[string]string{"Retry-After": "30"},
			want: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: 30 * time.Second}},
		{name: "503 with a date, by the destination's clock", status: 503,
			header: map[string]string{"Retry-After": date.Add(90 * time.Second).Format(http.TimeFormat), "Date": date.Format(http.TimeFormat)},
			want:   waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: 90 * time.Second}},
		{name: "a date that has passed", status: 503,
			header: map[string]string{"Retry-After": date.Add(-time.Hour).Format(http.TimeFormat), "Date": date.Format(http.TimeFormat)},
			want:   waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: time.Second}},
		{name: "zero seconds", status: 429, header: map[string]string{"Retry-After": "0"},
			want: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: time.Second}},
		{name: "more seconds than fit", status: 429, header: map[string]string{"Retry-After": "99999999999999999999"},
			want: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: waybill.MaxRetryDelay}},
		{name: "429 without Retry-After", status: 429, want: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: 4 * time.Second}},
		{name: "503 with nonsense", status: 503, header: map[string]string{"Retry-After": "-5"},
			want: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: 4 * time.Second}},
		{name: "500 has no Retry-After", status: 500, header: map[string]string{"Retry-After": "30"},
			want: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: 4 * time.Second}},
		{name: "a redirect is named", status: 308, header: map[string]string{"Location": "https://bob:topsecret@new.example/hook?key=alsosecret"},
			want: waybill.Outcome{Status: waybill.Failed, Attempted: true, Wait: 4 * time.Second}, wantErr: []string{"308", "it points to https://new.example/hook)"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range test.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			})
			d := delivery()
			err := run(t, httpreceiver.Config{URL: at + "/hook?token=querysecret"}, d)
			receiver := &waybill.Receiver{Key: d.Receiver, Options: waybill.Options{
				GiveUpAfter: test.give, Backoff: waybill.Backoff{Base: 2 * time.Second, Cap: time.Hour},
			}}
			got := waybill.Judge(receiver, d, err, d.DueAt, 0.5)
			for _, part := range append(test.wantErr, strings.TrimPrefix(at, "http://")) {
				if err != nil && !strings.Contains(got.Error, part) {
					t.Errorf("error = %q, want %q in it", got.Error, part)
				}
			}
			if strings.Contains(got.Error, "secret") {
				t.Errorf("error = %q holds a secret", got.Error)
			}
			got.Error, got.Notice = "", ""
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	followed := make(chan string, 1)
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/new" {
			followed <- r.Method
			return
		}
		http.Redirect(w, r, "/new", http.StatusTemporaryRedirect)
	})
	err := run(t, httpreceiver.Config{URL: at}, delivery())
	if err == nil || !strings.Contains(err.Error(), "it points to "+at+"/new") {
		t.Errorf("outcome = %v, want an error that names the new place", err)
	}
	select {
	case method := <-followed:
		t.Errorf("the redirect was followed with %s", method)
	default:
	}
}

func TestAServerThatNeverAnswers(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	started := time.Now()
	err = run(t, httpreceiver.Config{URL: "http://ann:hunter2secret@" + listener.Addr().String() + "/hook", Timeout: 50 * time.Millisecond}, delivery())
	if err == nil || !strings.HasSuffix(err.Error(), "/hook: no answer within 50ms") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("outcome = %v", err)
	}
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestHeadersThatTrickle: each byte arrives well within any timeout between two
// reads, so only a bound on the whole request ends it.
func TestHeadersThatTrickle(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err = http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-Slow: ")
		for err == nil {
			_, err = io.WriteString(conn, "x")
			time.Sleep(5 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { listener.Close(); <-done })
	d := delivery()
	d.Lease = 100 * time.Millisecond
	err = run(t, httpreceiver.Config{URL: "http://" + listener.Addr().String()}, d)
	if err == nil || !strings.HasSuffix(err.Error(), "no answer within 80ms") {
		t.Errorf("outcome = %v, want no answer within four fifths of the lease", err)
	}
}

func TestABodyThatTrickles(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 500} {
		gone := make(chan struct{})
		at := serve(t, func(w http.ResponseWriter, r *http.Request) {
			defer close(gone)
			io.Copy(io.Discard, r.Body) // only then does the server see that the client left
			w.WriteHeader(status)
			for r.Context().Err() == nil {
				io.WriteString(w, "drip ")
				w.(http.Flusher).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		})
		started := time.Now()
		err := run(t, httpreceiver.Config{URL: at}, delivery())
		if (status == 200) != (err == nil) {
			t.Errorf("%d: outcome = %v", status, err)
		}
		if err != nil && (!strings.Contains(err.Error(), "500 Internal Server Error: drip drip") || len(err.Error()) > 500) {
			t.Errorf("%d: outcome = %v", status, err)
		}
		if took := time.Since(started); took > 5*time.Second {
			t.Errorf("%d: it took %s", status, took)
		}
		select {
		case <-gone:
		case <-time.After(10 * time.Second):
			t.Errorf("%d: the connection is still open", status)
		}
	}
}

func TestABigBodyIsNotReadToItsEnd(t *testing.T) {
	t.Parallel()
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusBadGateway)
		chunk := bytes.Repeat([]byte("é"), 32<<10)
		for r.Context().Err() == nil { // ends when the connection does
			w.Write(chunk)
		}
	})
	err := run(t, httpreceiver.Config{URL: at}, delivery())
	if err == nil || len(err.Error()) > 500 || !strings.HasSuffix(err.Error(), "é…") {
		t.Errorf("outcome = %v, want the beginning of the body", err)
	}
}

func TestTheCauseOfAnEndedRunIsTold(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(context.Background())
	at := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // only then does the server see that the client left
		cancel(waybill.ErrLeaseLost)
		<-r.Context().Done()
	})
	receive, err := httpreceiver.New(httpreceiver.Config{URL: at, Client: client(t)})
	if err != nil {
		t.Fatal(err)
	}
	if err := receive(ctx, delivery()); !errors.Is(err, waybill.ErrLeaseLost) {
		t.Errorf("outcome = %v, want %v", err, waybill.ErrLeaseLost)
	}
}

func TestAnUnreachableDestination(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := listener.Addr().String()
	listener.Close()
	err = run(t, httpreceiver.Config{URL: "http://ann:hunter2secret@" + at + "/hook?token=querysecret"}, delivery())
	if err == nil || !strings.HasPrefix(err.Error(), "POST http://"+at+"/hook: dial tcp") || strings.Contains(err.Error(), "secret") {
		t.Errorf("outcome = %v", err)
	}
}

func TestAnAnswerThatQuotesSecrets(t *testing.T) {
	t.Parallel()
	at := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, "bad: "+password+" "+r.Header.Get("Authorization")+" "+r.Header.Get("X-Api-Key")+" "+r.URL.RawQuery)
	})
	config := httpreceiver.Config{
		URL:     strings.Replace(at, "http://", "http://ann:hunter2secret@", 1) + "?token=querysecret",
		Headers: map[string]string{"X-Api-Key": "Token keysecret"},
	}
	err := run(t, config, delivery())
	want := "bad: [hidden] Basic [hidden] [hidden] token=[hidden]"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("outcome = %v, want it to end in %q", err, want)
	}
}

func TestTimeoutLeavesRoomWithinTheLease(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name           string
		timeout, lease time.Duration
		want           time.Duration
	}{
		{"the default", 0, time.Hour, 30 * time.Second},
		{"the default in a short lease", 0, 10 * time.Second, 8 * time.Second},
		{"a declared one", 20 * time.Second, time.Minute, 20 * time.Second},
		{"one too near to the lease", 59 * time.Second, time.Minute, 50 * time.Second},
		{"one beyond the lease, extended by heartbeats", 5 * time.Minute, time.Minute, 5 * time.Minute},
		{"no lease", 0, 0, 30 * time.Second},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			left := make(chan time.Duration, 1)
			transport := roundTrip(func(r *http.Request) (*http.Response, error) {
				deadline, _ := r.Context().Deadline()
				left <- time.Until(deadline)
				return nil, errors.New("no network")
			})
			d := delivery()
			d.Lease = test.lease
			run(t, httpreceiver.Config{URL: "http://sink.example", Timeout: test.timeout, Client: &http.Client{Transport: transport}}, d)
			if got := <-left; got > test.want || got < test.want-5*time.Second {
				t.Errorf("the request has %s, want %s", got, test.want)
			}
		})
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
