package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/waybill-go/waybill/internal/fault"
)

// The standalone binaries tell Prometheus what they did, and a supervisor whether
// they are well, in one process's log of JSON after another; also while the database
// hangs.
func TestMetricsAndHealthOfTheBinaries(t *testing.T) {
	t.Parallel()
	const events = 300
	s := newSink(t, func(r *request) int {
		if strings.HasSuffix(r.path, "/gone") {
			return http.StatusGone
		}
		return 200
	})
	d := deploy(t, fmt.Sprintf(`
receivers:
  - key: archive
    event: '*'
    http: {url: %[1]s/archive}
  - key: gone
    event: '*'
    lane: mail
    http: {url: %[1]s/gone}
`, s.URL))
	d.run(bridgeBin, "migrate").succeed()
	direct := d.url
	proxy := fault.NewProxy(t, hostOf(t, direct))
	d.url = strings.Replace(direct, hostOf(t, direct), proxy.Addr(), 1)
	relay := d.run(bridgeBin, "relay", "--lane", "default", "--lane", "mail", "--admin", "127.0.0.1:0")
	worker := d.runIn([]string{"WAYBILL_ADMIN=127.0.0.1:0"}, workerBin)
	relayAddr, workerAddr := relay.adminAddr(), worker.adminAddr()
	d.fire(events)
	await(t, patience, "every delivery is settled", func() (bool, string) {
		return d.count(`SELECT count(*) FROM waybill.delivery WHERE settled_at IS NULL`) == 0, d.statuses()
	})

	tells(t, relayAddr,
		`waybill_claims_total{lane="default"} 300`, `waybill_claims_total{lane="mail"} 300`,
		`waybill_enqueued_total{lane="mail",site="task"} 300`, `waybill_enqueue_errors_total{lane="mail",site="task"} 0`,
		`waybill_deliveries{lane="mail",receiver="gone",status="dead"} 300`,
		`waybill_deliveries{lane="default",receiver="archive",status="pending"} 0`,
		`waybill_oldest_owed_seconds{lane="default",receiver="archive"} 0`,
		`waybill_in_flight_rows{lane="mail",state="running"} 0`,
		`waybill_queue_messages{lane="mail",state="ready"} 0`)
	tells(t, workerAddr,
		`waybill_takes_total{lane="default",receiver="archive"} 300`,
		`waybill_acks_total{lane="default",receiver="archive",status="succeeded"} 300`,
		`waybill_acks_total{lane="mail",receiver="gone",status="dead"} 300`,
		`waybill_leases_lost_total{lane="default",receiver="archive"} 0`,
		`waybill_run_seconds_count{lane="mail",receiver="gone"} 300`,
		`waybill_queue_wait_seconds_count{lane="default"} 300`,
		`waybill_delivery_seconds_count{lane="default"} 300`)
	for _, addr := range []string{relayAddr, workerAddr} {
		if got := d.run(bridgeBin, "health", "--admin", addr).succeed(); got != "live\n" {
			t.Errorf("bridge health says %q", got)
		}
		if got := d.run(bridgeBin, "health", "--admin", addr, "--ready").succeed(); got != "ready\n" {
			t.Errorf("bridge health --ready says %q", got)
		}
		if status, _ := scrape(t, addr, "/debug/pprof/"); status != http.StatusNotFound {
			t.Errorf("/debug/pprof/ answers %d", status)
		}
	}

	proxy.Hold()
	for _, addr := range []string{relayAddr, workerAddr} {
		isReady(t, false, addr) // an answer serves for a second
		d.fails(1, nil, []string{"not ready: store: PostgreSQL at ", "no answer in time"}, bridgeBin, "health", "--admin", addr, "--ready")
		d.run(bridgeBin, "health", "--admin", addr).succeed()
		tells(t, addr, `go_info{version=`)
	}
	proxy.Restore()
	isReady(t, true, relayAddr)
	isReady(t, true, workerAddr)
	for _, p := range []*process{relay, worker} {
		p.signal(syscall.SIGTERM)
		if code := p.wait(patience); code != 0 {
			t.Errorf("%s ended with exit code %d", p.name, code)
		}
		for line := range strings.Lines(p.err.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("%s logs what is not JSON: %s", p.name, line)
			}
		}
		if hidden := password(direct); strings.Contains(p.err.String(), hidden) {
			t.Errorf("%s logs a password", p.name)
		}
	}
}

func hostOf(t *testing.T, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// adminAddr waits until the process says where its admin endpoint listens.
func (p *process) adminAddr() (addr string) {
	p.t.Helper()
	await(p.t, patience, p.name+" says where it listens", func() (bool, string) {
		found := regexp.MustCompile(`"admin endpoint listens","address":"([^"]+)"`).FindStringSubmatch(p.err.String())
		if found != nil {
			addr = found[1]
		}
		return found != nil, p.err.String()
	})
	return addr
}

func scrape(t *testing.T, addr, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	response, err := client.Get("http://" + addr + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// isReady waits until /readyz says so, or that it is not.
func isReady(t *testing.T, want bool, addr string) {
	t.Helper()
	await(t, patience, fmt.Sprintf("%s is ready: %t", addr, want), func() (bool, string) {
		status, body := scrape(t, addr, "/readyz")
		return (status == http.StatusOK) == want, body
	})
}

// tells waits until /metrics has lines that begin so: the store and the queues are
// asked every ten seconds.
func tells(t *testing.T, addr string, lines ...string) {
	t.Helper()
	await(t, patience, addr+" tells all", func() (bool, string) {
		status, body := scrape(t, addr, "/metrics")
		var missing []string
		for _, line := range lines {
			if !strings.Contains("\n"+body, "\n"+line) {
				missing = append(missing, line)
			}
		}
		time.Sleep(100 * time.Millisecond)
		return status == 200 && len(missing) == 0, fmt.Sprintf("status %d without %q:\n%s", status, missing, body)
	})
}
