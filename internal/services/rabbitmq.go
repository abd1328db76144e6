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

// Broker is what a test may have done to the virtual host it got from [RabbitMQ].
type Broker struct {
	t     testing.TB
	url   *url.URL
	api   *management
	vhost string
}

// BrokerOf returns the broker behind a URL that RabbitMQ returned.
func BrokerOf(t testing.TB, amqpURL string) *Broker {
	t.Helper()
	u, err := url.Parse(amqpURL)
	if err != nil {
		t.Fatal(err)
	}
	api, err := newManagement(u)
	if err != nil {
		t.Fatal(err)
	}
	return &Broker{t: t, url: u, api: api, vhost: strings.TrimPrefix(u.Path, "/")}
}

// CloseConnections has the broker close the connections whose name ends so, and
// returns how many those were. One that was just made may not be listed yet.
func (b *Broker) CloseConnections(suffix string) int {
	b.t.Helper()
	var list []struct {
		Name       string `json:"name"`
		Properties struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	b.do(http.MethodGet, "/api/vhosts/"+b.vhost+"/connections", "", &list)
	n := 0
	for _, connection := range list {
		if strings.HasSuffix(connection.Properties.Name, suffix) &&
			b.api.do(http.MethodDelete, "/api/connections/"+url.PathEscape(connection.Name), "", nil) == nil { // else it is closed already
			n++
		}
	}
	return n
}

// Policy sets a policy for all queues; its definition is JSON.
func (b *Broker) Policy(definition string) {
	b.t.Helper()
	b.do(http.MethodPut, "/api/policies/"+b.vhost+"/all", `{"pattern":".*","definition":`+definition+`}`, nil)
}

// User returns the URL of a user made for this test who may only configure, write
// and read what these patterns match.
func (b *Broker) User(configure, write, read string) string {
	b.t.Helper()
	name, password := fresh(), random(12)
	b.do(http.MethodPut, "/api/users/"+name, fmt.Sprintf(`{"password":%q,"tags":""}`, password), nil)
	b.t.Cleanup(func() { b.do(http.MethodDelete, "/api/users/"+name, "", nil) })
	b.do(http.MethodPut, "/api/permissions/"+b.vhost+"/"+name, fmt.Sprintf(`{"configure":%q,"write":%q,"read":%q}`, configure, write, read), nil)
	u := *b.url
	u.User = url.UserPassword(name, password)
	return u.String()
}

func (b *Broker) do(method, path, body string, out any) {
	b.t.Helper()
	if err := b.api.do(method, path, body, out); err != nil {
		b.t.Fatal(err)
	}
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
