package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-go/waybill/internal/poll"
)

// output is a log that may be read while it is written.
type output struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (o *output) Write(line []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all.Write(line)
}

func (o *output) count(part string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Count(o.all.String(), part)
}

func TestOrdersGetTheirReceipts(t *testing.T) {
	var log output
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	address := freeAddress(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	path := t.TempDir() + "/shop.db"
	go func() { ended <- run(ctx, address, path) }()
	for i := range 3 {
		order := fmt.Sprintf("http://%s/orders?email=%s", address, url.QueryEscape(fmt.Sprintf("ada+%d@example.com", i)))
		poll.Until(t, "the order's answer", func() bool {
			answer, err := http.Post(order, "", nil)
			if err != nil {
				return false // not up yet
			}
			defer answer.Body.Close()
			return answer.StatusCode == http.StatusOK
		})
	}
	poll.Until(t, "three receipts", func() bool { return log.count("receipt sent") == 3 })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := log.count("to=ada+1@example.com"); got != 1 {
		t.Errorf("%d receipts for the second order, want 1", got)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}
