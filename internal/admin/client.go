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

// Ask asks the admin endpoint of another process whether it lives or, with ready,
// whether it is ready, and returns nil if so. An address without a host, or one that
// stands for all of a machine's, is asked on loopback: what a process is told to
// listen at can be asked as it is. It returns by ctx's deadline.
func Ask(ctx context.Context, addr string, ready bool) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("admin address %q: want host:port, as in 127.0.0.1:9090", addr)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	addr = net.JoinHostPort(host, port)
	path, not := "/livez", "not live"
	if ready {
		path, not = "/readyz", "not ready"
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return fmt.Errorf("admin address %q: want host:port, as in 127.0.0.1:9090", addr)
	}
	// A probe is one request to this machine: no proxy, no connection kept.
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%s: nobody listens at %s: is it running, and with --admin?", not, addr)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%s: no answer from %s in time", not, addr)
	case err != nil:
		return fmt.Errorf("%s: %w", not, err)
	}
	defer response.Body.Close()
	var health Health
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&health); err != nil {
		return fmt.Errorf("%s: %s answers %s and not as a relay or worker does: correct the address", not, addr, response.Status)
	}
	if response.StatusCode != http.StatusOK || !health.OK {
		return fmt.Errorf("%s: %s", not, health)
	}
	return nil
}
