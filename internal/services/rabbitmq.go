package services

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var rabbitmqOnce sync.Once

// RabbitMQ creates a virtual host for this test and returns its URL. The
// virtual host is deleted when the test ends, with the connections in it.
//
// It asks the server's management plugin, which takes 20 ms where rabbitmqctl
// takes 3 s. The plugin is expected on the port of the URL + 10000, as usual,
// or at the http:// URL in WAYBILL_TEST_AMQP_API.
func RabbitMQ(t testing.TB) string {
	t.Helper()
	own, err := url.Parse(env(t, "WAYBILL_TEST_AMQP"))
	if err != nil || own.Scheme != "amqp" && own.Scheme != "amqps" {
		t.Fatal("WAYBILL_TEST_AMQP is not an amqp:// URL")
	}
	api, err := newManagement(own)
	if err != nil {
		t.Fatal(err)
	}
	rabbitmqOnce.Do(func() { api.deleteAbandoned() })

	name := fresh()
	if err := api.do(http.MethodPut, "/api/vhosts/"+name, "{}", nil); err != nil {
		t.Fatalf("create virtual host %s: %v", name, err)
	}
	t.Cleanup(func() {
		if err := api.do(http.MethodDelete, "/api/vhosts/"+name, "", nil); err != nil {
			t.Errorf("delete virtual host %s: %v", name, err)
		}
	})
	everything := `{"configure":".*","write":".*","read":".*"}`
	if err := api.do(http.MethodPut, "/api/permissions/"+name+"/"+url.PathEscape(api.user), everything, nil); err != nil {
		t.Fatalf("open virtual host %s: %v", name, err)
	}
	own.Path = "/" + name
	return own.String()
}

// management is the HTTP interface of the test server's management plugin.
type management struct {
	base, user, password string
}

func newManagement(amqp *url.URL) (*management, error) {
	m := &management{base: strings.TrimSuffix(os.Getenv("WAYBILL_TEST_AMQP_API"), "/"), user: "guest", password: "guest"}
	if amqp.User != nil {
		m.user = amqp.User.Username()
		m.password, _ = amqp.User.Password()
	}
	if m.base == "" {
		port := 5672
		if p := amqp.Port(); p != "" {
			var err error
			if port, err = strconv.Atoi(p); err != nil {
				return nil, fmt.Errorf("port of WAYBILL_TEST_AMQP: %w", err)
			}
		}
		m.base = "http://" + net.JoinHostPort(amqp.Hostname(), strconv.Itoa(port+10000))
	}
	return m, nil
}

// do makes one request on a connection of its own, so that no idle connection
// is left to be taken for a leaked goroutine, and decodes the answer into out.
func (m *management) do(method, path, body string, out any) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, m.base+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Close = true
	request.SetBasicAuth(m.user, m.password)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("%w (the management plugin is needed; WAYBILL_TEST_AMQP_API says where it is)", err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= 300 {
		return fmt.Errorf("%s %s: %s: %s", method, path, response.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// deleteAbandoned removes what killed tests left behind. Errors are left to
// the request that follows: another process may be doing the same.
func (m *management) deleteAbandoned() {
	var hosts []struct {
		Name string `json:"name"`
	}
	if m.do(http.MethodGet, "/api/vhosts", "", &hosts) != nil {
		return
	}
	for _, host := range hosts {
		if abandoned(host.Name, time.Now()) {
			_ = m.do(http.MethodDelete, "/api/vhosts/"+host.Name, "", nil)
		}
	}
}
