package cli_test

import "testing"

// Trap 64: a flag that is repeated, and of which the last one counts. Lanes are all
// served; a second file of receivers is refused, because it would make the receivers of
// the first unknown.
func TestRepeatedFlags(t *testing.T) {
	t.Parallel()
	sink := newSink(t)
	s := newSite(t, "receivers:\n- {key: a, event: '*', site: relay, http: {url: '"+sink.url+"'}}\n"+
		"- {key: b, event: '*', site: relay, lane: mail, http: {url: '"+sink.url+"'}}\n"+
		"- {key: c, event: '*', site: relay, lane: crm, http: {url: '"+sink.url+"'}}\n")
	succeeds(t, s.args("fire", "x", "--payload", "1")...)
	if got := succeeds(t, s.args("relay", "--once", "--lane", "mail", "--lane", "crm")...).out; got != "succeeded: 2\n" {
		t.Errorf("relay --once on two lanes = %q", got)
	}
	if got := succeeds(t, s.args("relay", "--once", "--all-lanes")...).out; got != "succeeded: 1\n" || s.owed() != 0 {
		t.Errorf("relay --once on all lanes = %q, owed %d", got, s.owed())
	}
	for _, command := range []string{"relay", "status", "lanes"} {
		got := bridge(t, s.args(command, "--receivers", s.receivers)...)
		checkFailure(t, got, 2, `for "--receivers" flag: it is given twice; put all receivers into one file`)
	}
}

// Trap 16: a lane of no name, which claims nothing and looks well.
func TestLaneOfNoName(t *testing.T) {
	t.Parallel()
	s := newSite(t, oneReceiver)
	checkFailure(t, bridge(t, s.queueArgs("relay", "--lane", "")...), 2, "--lane is empty: name a lane, or leave it out for the default one")
	checkFailure(t, bridge(t, s.queueArgs("relay", "--lane", ",mail")...), 1, `unknown lane ""; declared: default, mail`)
	s.receivers = s.file("blank.yaml", "receivers:\n- {key: a, event: '*', lane: '', http: {url: 'http://127.0.0.1:9'}}\n")
	checkFailure(t, bridge(t, s.queueArgs("relay")...), 1, `receiver "a": lane: is empty`)
}
