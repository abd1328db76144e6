// Package httpreceiver delivers events to a URL: it makes the run function of a
// receiver that sends the event's payload by HTTP and reads its outcome from the
// answer.
//
// The body is the payload, byte for byte. These headers go with it:
//
//	Content-Type           application/json
//	Idempotency-Key        the delivery's id: the same at every attempt
//	Waybill-Delivery-Id    the same again
//	Waybill-Event          the event's name
//	Waybill-Event-Id       the event's id: the same for every receiver of it
//	Waybill-Event-Version  the version that its payload was recorded in
//	Waybill-Correlation-Id the same for all that came of one beginning
//	Waybill-Attempt        1 for the first run
//	Waybill-Receiver       the receiver's key
//	Waybill-Target         the target of a fan-out; absent otherwise
//
// In Waybill-Event, Waybill-Correlation-Id, Waybill-Receiver and Waybill-Target,
// whatever is not printable ASCII, and the percent sign, is percent-encoded.
//
// The outcome:
//
//	2xx                          succeeded
//	410                          waybill.Permanent: dead at once
//	429 or 503 with Retry-After  waybill.Defer: spends no attempt, where the
//	                             receiver declares give-up-after
//	any other answer, or none    an ordinary error: the receiver's backoff
//
// A redirect is such an ordinary error, and names the new place: a client that
// follows one may turn a POST into a GET without its body, or hand the
// configured headers to another host.
//
// # Guarantees
//
// Delivery is at least once. A destination that answered 2xx to a run whose
// process then died is called again, with the same Idempotency-Key. A request is
// sent again at once only where a kept connection turned out to be closed.
package httpreceiver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
)

// DefaultTimeout bounds a request where neither Timeout nor the lease does.
const DefaultTimeout = 30 * time.Second

// Config says where a receiver's deliveries go.
type Config struct {
	// URL is the destination, http or https. A user and password in it are sent
	// as basic authentication and appear in no error.
	URL string
	// Method is POST, PUT or PATCH. Defaults to POST.
	Method string
	// Headers are sent as well; they may replace Content-Type and User-Agent, and
	// none of the headers that the package comment names.
	Headers map[string]string
	// Timeout bounds a request, its connection and answer included. One that
	// leaves no time to record the outcome within the lease is cut to what does:
	// the lease, less a fifth or ten seconds. Longer than the lease it is kept,
	// for a receiver that declares heartbeat. Defaults to 30s.
	Timeout time.Duration
	// Client sends the requests. It is used with redirects off.
	// Defaults to one that all receivers of the process share.
	Client *http.Client
}

// New returns the run function of a receiver, or what is wrong with the Config:
//
//	reg.Add(waybill.Receiver{Key: "crm.sync", Event: "order.placed", Run: run, Options: waybill.Options{Lane: "crm"}})
func New(config Config) (func(ctx context.Context, d *waybill.Delivery) error, error) {
	target, err := parseURL(config.URL)
	if err != nil {
		return nil, err
	}
	method := strings.ToUpper(config.Method)
	if method == "" {
		method = http.MethodPost
	}
	if !slices.Contains(methods, method) {
		return nil, fmt.Errorf("method %q is none of %s", config.Method, strings.Join(methods, ", "))
	}
	headers, err := parseHeaders(config.Headers)
	if err != nil {
		return nil, err
	}
	if config.Timeout < 0 {
		return nil, fmt.Errorf("timeout %s is negative", config.Timeout)
	}
	s := &sender{
		url: target, method: method, headers: headers, timeout: config.Timeout,
		client: withoutRedirects(config.Client), name: method + " " + display(target), hide: secretsOf(target, headers),
	}
	return s.run, nil
}

var methods = []string{http.MethodPost, http.MethodPut, http.MethodPatch}

// parseURL never quotes the text: a password may stand anywhere in what does not
// parse.
func parseURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("url is empty; want http://host/path or https://host/path")
	}
	u, err := url.Parse(text)
	if err != nil {
		return nil, errors.New("url is not a URL; want http://host/path or https://host/path, with special characters percent-encoded")
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("url has the scheme %q; want http or https", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("url has no host; want http://host/path or https://host/path")
	}
	u.Fragment, u.RawFragment = "", "" // never sent
	return u, nil
}

// display is what errors and logs say of a URL: neither user nor query, both of
// which hold secrets.
func display(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return shown.String()
}
