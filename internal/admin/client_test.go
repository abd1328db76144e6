package admin_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/admin"
)

func TestMetricsOfAnotherProcess(t *testing.T) {
	t.Parallel()
	server := start(t, admin.Config{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "up 1\n") })})
	_, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	for _, addr := range []string{server.Addr(), ":" + port} {
		if got, err := admin.Metrics(t.Context(), addr); err != nil || string(got) != "up 1\n" {
			t.Errorf("metrics of %s: %q, %v", addr, got, err)
		}
	}
}

func TestMetricsThatAreNotTold(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another server was asked") }))
	defer elsewhere.Close()
	held := make(chan struct{})
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter)
		want   string
	}{
		"busy":  {func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }, "others ask it at the same time, ask again"},
		"other": {func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, "not as a relay or worker does: correct the address"},
		"moved": {func(w http.ResponseWriter) {
			w.Header().Set("Location", elsewhere.URL)
			w.WriteHeader(http.StatusFound)
		}, "not as a relay or worker does: correct the address"},
		"endless": {func(w http.ResponseWriter) { io.Copy(w, zeros{}) }, "answers more than 8 MiB"},
		"stuck": {func(w http.ResponseWriter) {
			io.WriteString(w, "up 1\n")
			http.NewResponseController(w).Flush()
			<-held
		}, "in time"},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { test.answer(w) }))
			defer server.Close()
			limit := time.Minute
			if name == "stuck" {
				limit = 100 * time.Millisecond
				defer close(held)
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			got, err := admin.Metrics(ctx, strings.TrimPrefix(server.URL, "http://"))
			if err == nil || !strings.Contains(err.Error(), test.want) || got != nil {
				t.Errorf("%d bytes, error %v, want %q", len(got), err, test.want)
			}
		})
	}
	if _, err := admin.Metrics(t.Context(), "9090"); err == nil || !strings.Contains(err.Error(), "want host:port") {
		t.Errorf("an address without a host: %v", err)
	}
}

// zeros never end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
