package declare_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/declare"
)

const oneReceiver = "receivers:\n- {key: a, event: x, lane: mail, lease: 1m, http: {url: 'http://sink.example'}}\n"

// A lane is declared before the receivers or after them, and without any.
func TestLanes(t *testing.T) {
	t.Parallel()
	const lanes = `
lanes:
  mail: {handoff_lease: 25m}
  bulk: {}
  default:
    handoff_lease: 90s
`
	for _, file := range []string{oneReceiver + lanes, lanes + oneReceiver} {
		reg, err := read(t, file)
		if err != nil {
			t.Fatalf("Read: %v", err)
		}
		got := map[string]waybill.LaneOptions{}
		for _, lane := range reg.Lanes() {
			got[lane], _ = reg.Lane(lane)
		}
		want := map[string]waybill.LaneOptions{"mail": {HandOffLease: 25 * time.Minute}, "bulk": {}, "default": {HandOffLease: 90 * time.Second}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("lanes (-want +got):\n%s", diff)
		}
		if a, _ := reg.Receiver("a"); a.Lease != time.Minute || reg.HandOffLease(a) != 25*time.Minute {
			t.Errorf("a has a lease of %s, and is handed off under %s", a.Lease, reg.HandOffLease(a))
		}
	}
}

// Trap 74: a setting that is misspelt and so does nothing. What is wrong with lanes is
// told beside what is wrong with receivers.
func TestEveryMistakeOfLanesIsNamed(t *testing.T) {
	t.Parallel()
	reg, err := read(t, `receivers:
- {key: a, event: x, leese: 1m, http: {url: 'http://sink.example'}}
lanes:
  mail:
    hand_off_lease: 25m
  bulk: {handoff_lease: 60}
  slow: {handoff_lease: 1ns}
  Not A Lane: {handoff_lease: 25m}
  mail: {}
  none:
  text: 25m
  list: {handoff_lease: [1m]}
`)
	if err == nil {
		t.Fatal("Read accepts it")
	}
	want := `r.yaml:2: receiver "a": leese: unknown field; did you mean lease?
r.yaml:5: lane "mail": hand_off_lease: unknown field; did you mean handoff_lease?
r.yaml:6: lane "bulk": handoff_lease: 60 has no unit; write 60s, 60m or 60h
r.yaml:7: lane "slow": handoff_lease: hand-off lease 1ns must be at least 1µs: a lease of nothing lapses before its message arrives
r.yaml:8: lanes: Not A Lane: must be lower-case letters and digits, with single - or _ between them
r.yaml:9: lanes: mail: is on line 4 already
r.yaml:10: lanes: none: has no value; give it one or leave the field out
r.yaml:11: lane "text": want fields, each as name: value
r.yaml:12: lane "list": handoff_lease: want one value, not a list or a mapping`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if lanes := reg.Lanes(); len(lanes) != 1 || len(reg.Receivers()) != 0 || reg.Err() != nil {
		t.Errorf("a file with mistakes declares lanes %v, %v", lanes, reg.Err())
	}
}

func TestLanesAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ file, want string }{
		{oneReceiver + "lanes:\n", "r.yaml:3: lanes: has no value"},
		{oneReceiver + "lanes: [mail]\n", "r.yaml:3: lanes: want fields"},
		{oneReceiver + "lane: {}\n", "r.yaml:3: lane: unknown field; did you mean lanes?"},
		{oneReceiver + "lanes: {mail: {lease: 5m, site: task}}\n", `r.yaml:3: lane "mail": lease: unknown field; known are handoff_lease`},
		{"lanes: {mail: {handoff_lease: 5m}}\n", "r.yaml:1: the file declares no receivers"},
	} {
		if reg, err := read(t, test.file); err == nil || !strings.Contains(err.Error(), test.want) || len(reg.Lanes()) != 1 {
			t.Errorf("Read: %v\nwant %q in the error", err, test.want)
		}
	}
	for _, value := range []string{".nan", ".inf", "-.inf", "true", "1e400", "0x10", "-1", "-1s", "0", "0s", "''", "null"} {
		reg, err := read(t, oneReceiver+"lanes: {mail: {handoff_lease: "+value+"}}\n")
		if err == nil || !strings.Contains(err.Error(), `r.yaml:3: lane "mail": handoff_lease: `) || len(reg.Lanes()) != 1 {
			t.Errorf("%s: Read: %v", value, err)
		}
	}
}

func TestALaneThatTheProgramDeclares(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	reg.AddLane("mail", waybill.LaneOptions{HandOffLease: time.Minute})
	err := declare.Read(reg, "r.yaml", strings.NewReader(oneReceiver+"lanes: {mail: {handoff_lease: 5m}}"))
	if err == nil || err.Error() != "r.yaml:3: lanes: mail: the program declares that lane already" {
		t.Errorf("Read: %v", err)
	}
	if reg.Err() != nil {
		t.Errorf("the registry has an error: %v", reg.Err())
	}
}
