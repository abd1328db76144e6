package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-go/waybill/internal/services"
)

// deployment is what the standalone binaries are configured with: a database, a
// Redis and a file of receivers.
type deployment struct {
	*database
	redis     *services.Server
	backend   string // URL
	receivers string // path of the file
}

func deploy(t *testing.T, receivers string) *deployment {
	t.Helper()
	d := &deployment{database: newDatabase(t), redis: services.OwnRedis(t)}
	d.backend = d.redis.URL
	d.receivers = filepath.Join(t.TempDir(), "receivers.yaml")
	d.file("receivers.yaml", receivers)
	return d
}

// run starts a binary in the deployment's environment.
func (d *deployment) run(program string, args ...string) *process {
	d.t.Helper()
	return d.runIn(nil, program, args...)
}

// runIn is run with other values for some of the variables.
func (d *deployment) runIn(env []string, program string, args ...string) *process {
	d.t.Helper()
	return startIn(d.t, append([]string{
		"WAYBILL_STORE=" + d.url, "WAYBILL_BACKEND=" + d.backend, "WAYBILL_RECEIVERS=" + d.receivers,
	}, env...), program, args...)
}

// password returns that of a URL.
func password(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return text
	}
	hidden, _ := u.User.Password()
	return hidden
}

// fire fires n small events.
func (d *deployment) fire(n int) {
	d.t.Helper()
	var lines []byte
	for i := range n {
		lines = fmt.Appendf(lines, `{"name":"thing.happened","payload":{"n":%d}}`+"\n", i)
	}
	d.run(bridgeBin, "fire", "--file", d.file("events.jsonl", string(lines))).succeed()
}

// file writes a file for the binaries to read and returns its path.
func (d *deployment) file(name, text string) string {
	d.t.Helper()
	path := filepath.Join(filepath.Dir(d.receivers), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

// status is what `bridge status --json` says.
type status struct {
	Owed      int `json:"owed"`
	Claimed   int `json:"claimed"`
	Succeeded int `json:"succeeded"`
	Failed    int `json:"failed"`
	Dead      int `json:"dead"`
	Orphaned  int `json:"orphaned"`
}

func (d *deployment) status() (s status) {
	d.t.Helper()
	text := d.run(bridgeBin, "status", "--json").succeed()
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		d.t.Fatalf("bridge status --json: %v: %s", err, text)
	}
	return s
}
