package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
)

// maxMetrics is the longest answer of metrics that is read: some thousand receivers.
const maxMetrics = 8 << 20

// Ask asks the admin endpoint of another process whether it lives or, with ready,
// whether it is ready, and returns nil if so. An address without a host, or one that
// stands for all of a machine's, is asked on loopback: what a process is told to
// listen at can be asked as it is. It returns by ctx's deadline.
func Ask(ctx context.Context, addr string, ready bool) error {
	addr, err := reachable(addr)
	if err != nil {
		return err
	}
	path, not := "/livez", "not live"
	if ready {
		path, not = "/readyz", "not ready"
	}
	response, err := get(ctx, addr, path)
	if err != nil {
		return fmt.Errorf("%s: %w", not, err)
	}
	defer response.Body.Close()
	var health Health
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&health); err != nil {
		return fmt.Errorf("%s: %w", not, stranger(addr, response))
	}
	if response.StatusCode != http.StatusOK || !health.OK {
		return fmt.Errorf("%s: %s", not, health)
	}
	return nil
}

// Metrics returns what the admin endpoint of another process tells Prometheus, in its
// text format. Addresses are as for Ask. It returns by ctx's deadline, and an answer of
// more than 8 MiB is an error.
func Metrics(ctx context.Context, addr string) ([]byte, error) {
	addr, err := reachable(addr)
	if err != nil {
		return nil, err
	}
	response, err := get(ctx, addr, "/metrics")
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusServiceUnavailable {
		return nil, fmt.Errorf("%s answers %s: others ask it at the same time, ask again", addr, response.Status)
	}
	if response.StatusCode != http.StatusOK {
		return nil, stranger(addr, response)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxMetrics+1))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("no answer from %s in time", addr)
	case err != nil:
		return nil, fmt.Errorf("answer of %s: %w", addr, err)
	case len(text) > maxMetrics:
		return nil, fmt.Errorf("%s answers more than %d MiB", addr, maxMetrics>>20)
	}
	return text, nil
}

// reachable is where a process is asked that listens at addr.
func reachable(addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("admin address %q: want host:port, as in 127.0.0.1:9090", addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port), nil
}

// get asks for a path. The body has to be closed.
func get(ctx context.Context, addr, path string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return nil, fmt.Errorf("admin address %q: want host:port, as in 127.0.0.1:9090", addr)
	}
	// It is one request to one process: no proxy, no connection kept, nowhere else.
	client := http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(request)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("nobody listens at %s: is it running, and with --admin?", addr)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("no answer from %s in time", addr)
	}
	return response, err
}

// stranger says that something else answered.
func stranger(addr string, response *http.Response) error {
	return fmt.Errorf("%s answers %s and not as a relay or worker does: correct the address", addr, response.Status)
}
