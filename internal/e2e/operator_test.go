package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// secret is the password in every URL of these tests; none may be told.
const secret = "s3cr3t-passw0rd"

// What an operator gets wrong is told in one line, which says what it is, and by
// the exit code.
func TestOperatorErrors(t *testing.T) {
	t.Parallel()
	const receivers = "receivers:\n  - {key: archive, event: '*', http: {url: http://127.0.0.1:1/}}\n"
	d := deploy(t, receivers)
	nowhere := "postgres://waybill:" + secret + "@127.0.0.1:1/waybill"

	// Before there is a schema.
	for _, args := range [][]string{{bridgeBin, "relay"}, {bridgeBin, "status"}, {bridgeBin, "fire", "a", "--payload", "{}"}, {workerBin}} {
		d.fails(1, nil, []string{"bridge migrate"}, args...)
	}
	d.run(bridgeBin, "migrate").succeed()

	d.exec(`UPDATE waybill.schema_version SET version_id = version_id + 1000 WHERE version_id > 0`)
	d.fails(1, nil, []string{"older", "upgrade"}, bridgeBin, "relay")
	d.fails(1, nil, []string{"older", "upgrade"}, workerBin)
	d.exec(`UPDATE waybill.schema_version SET version_id = version_id - 1000 WHERE version_id > 0`)
	d.exec(`CREATE TABLE kept AS SELECT * FROM waybill.schema_version; DELETE FROM waybill.schema_version WHERE version_id > 0`)
	d.fails(1, nil, []string{"bridge migrate"}, bridgeBin, "relay")
	d.fails(1, nil, []string{"bridge migrate"}, workerBin)
	d.exec(`DELETE FROM waybill.schema_version; INSERT INTO waybill.schema_version SELECT * FROM kept`)

	badLine := d.file("bad.jsonl", `{"name":"a","payload":{}}`+"\n"+`{"name":"b","payload":{}`+"\n")
	badYAML := d.file("bad.yaml", "receivers:\n  - key: archive\n    event: '*'\n    leese: 5s\n    http: {url: http://127.0.0.1:1/}\n")
	missing := filepath.Join(filepath.Dir(badYAML), "missing")
	for _, c := range []struct {
		code int
		env  string
		says []string
		args []string
	}{
		{1, "WAYBILL_STORE=mysql://waybill:" + secret + "@127.0.0.1/waybill", []string{"postgres://"}, []string{bridgeBin, "status"}},
		{1, "WAYBILL_STORE=postgres://waybill:" + secret + "@[::1/waybill", []string{"postgres://"}, []string{bridgeBin, "relay"}},
		{1, "WAYBILL_STORE=" + nowhere, []string{"127.0.0.1"}, []string{bridgeBin, "relay"}},
		{1, "WAYBILL_STORE=" + nowhere, []string{"127.0.0.1"}, []string{bridgeBin, "migrate"}},
		{1, "WAYBILL_STORE=" + nowhere, []string{"127.0.0.1"}, []string{workerBin}},
		{1, "WAYBILL_BACKEND=redis://:" + secret + "@127.0.0.1:1/0", []string{"127.0.0.1:1"}, []string{bridgeBin, "relay"}},
		{1, "WAYBILL_BACKEND=redis://:" + secret + "@127.0.0.1:1/0", []string{"127.0.0.1:1"}, []string{workerBin}},
		{1, "WAYBILL_BACKEND=amqp://guest:" + secret + "@127.0.0.1:1", []string{"127.0.0.1:1"}, []string{bridgeBin, "relay"}},
		{1, "WAYBILL_BACKEND=amqp://guest:" + secret + "@127.0.0.1:1", []string{"127.0.0.1:1"}, []string{workerBin}},
		{1, "WAYBILL_BACKEND=river+" + nowhere, []string{"127.0.0.1:1"}, []string{bridgeBin, "migrate"}},
		{1, "WAYBILL_BACKEND=river+" + nowhere, []string{"127.0.0.1:1"}, []string{workerBin}},
		{1, "WAYBILL_BACKEND=river:", []string{"River", "bridge migrate"}, []string{bridgeBin, "relay"}},
		{1, "WAYBILL_BACKEND=kafka://:" + secret + "@127.0.0.1:1/0", []string{"redis://", "amqp://", "river:"}, []string{workerBin}},
		{2, "WAYBILL_STRICT=very", []string{"WAYBILL_STRICT", "--strict"}, []string{bridgeBin, "relay"}},
		{1, "WAYBILL_RECEIVERS=" + missing, []string{missing}, []string{workerBin}},
		{1, "WAYBILL_RECEIVERS=" + badYAML, []string{"bad.yaml:4", "leese"}, []string{bridgeBin, "relay"}},
		{1, "", []string{missing}, []string{bridgeBin, "fire", "--file", missing}},
		{1, "", []string{"bad.jsonl", "2"}, []string{bridgeBin, "fire", "--file", badLine}},
		{1, "", []string{"lane", "mial", "default"}, []string{bridgeBin, "relay", "--lane", "mial"}},
		{2, "", []string{"--nonsense"}, []string{bridgeBin, "relay", "--nonsense"}},
		{2, "", []string{"nonsense"}, []string{bridgeBin, "nonsense"}},
	} {
		d.fails(c.code, strings.Fields(c.env), c.says, c.args...)
	}
	if n := d.count(`SELECT count(*) FROM waybill.event`); n != 0 {
		t.Errorf("%d events were written by what was refused", n)
	}
}

// fails runs a binary that has to end with a code, one line that says something,
// and no secret.
func (d *deployment) fails(code int, env, says []string, args ...string) {
	d.t.Helper()
	p := d.runIn(env, args[0], args[1:]...)
	what := strings.Join(append([]string{p.name}, args[min(2, len(args)):]...), " ") + " with " + strings.Join(env, " ")
	if got := p.wait(patience); got != code {
		d.t.Errorf("%s: exit code %d, want %d", what, got, code)
	}
	told := strings.TrimSpace(p.err.String())
	if strings.Contains(told, "\n") || p.out.String() != "" {
		d.t.Errorf("%s: want one line on standard error, got:\n%s\n%s", what, told, p.out.String())
	}
	for _, text := range says {
		if !strings.Contains(told, text) {
			d.t.Errorf("%s: does not say %q: %s", what, text, told)
		}
	}
	for _, hidden := range []string{secret, password(d.url), password(d.redis.URL)} {
		if hidden != "" && strings.Contains(told, hidden) {
			d.t.Errorf("%s: tells a password: %s", what, told)
		}
	}
}
