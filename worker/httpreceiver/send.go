package httpreceiver

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/waybill-go/waybill"
)

// sender is one receiver's destination. It is never changed, so any number of
// runs may use it at once.
type sender struct {
	url     *url.URL
	method  string
	headers http.Header
	timeout time.Duration
	client  *http.Client
	name    string // method and URL, for errors
	hide    *strings.Replacer
}

// run sends one delivery and returns its outcome.
func (s *sender) run(ctx context.Context, d *waybill.Delivery) error {
	timeout := s.timeoutWithin(d.Lease)
	ctx, stop := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer within %s", timeout))
	defer stop()
	request, err := s.request(ctx, d)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, s.unanswered(ctx, err))
	}
	return s.outcome(response, stop)
}

// timeoutWithin keeps the request clear of the end of the lease. A worker takes
// the lease for over a margin early; as much again is left for the outcome.
func (s *sender) timeoutWithin(lease time.Duration) time.Duration {
	timeout := cmp.Or(s.timeout, DefaultTimeout)
	if lease <= 0 || s.timeout >= lease { // no worker runs it, or a heartbeat extends the lease
		return timeout
	}
	return min(timeout, lease-2*waybill.LeaseMargin(lease))
}

func (s *sender) request(ctx context.Context, d *waybill.Delivery) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, s.method, s.url.String(), bytes.NewReader(d.Event.Payload))
	if err != nil {
		return nil, errors.New("the request could not be made of the configured url")
	}
	request.Header = s.headers.Clone()
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
	}
	describe(request.Header, d)
	return request, nil
}

// unanswered says why there is no answer, without the URL that net/http repeats.
func (s *sender) unanswered(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err
}

// shared is the client of every receiver that brings none, so that receivers of
// one destination share its connections.
var shared = sync.OnceValue(func() *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Client{
		CheckRedirect: refuseRedirect,
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    5 * time.Second,
			ExpectContinueTimeout:  time.Second,
			MaxIdleConns:           512,
			MaxIdleConnsPerHost:    64,
			IdleConnTimeout:        30 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}
})

func withoutRedirects(client *http.Client) *http.Client {
	if client == nil {
		return shared()
	}
	own := *client
	own.CheckRedirect = refuseRedirect
	return &own
}

func refuseRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
