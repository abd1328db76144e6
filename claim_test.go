package waybill_test

import (
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

// noon is a moment with a microsecond that no float64 of seconds would keep.
var noon = waybill.StampOf(time.Date(2026, 3, 14, 12, 0, 0, 123457000, time.UTC))

// Trap 72: microseconds that are cut off.
func TestStampKeepsMicroseconds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		time time.Time
		text string
	}{
		{"whole second", time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC), "2026-03-14T12:00:00.000000Z"},
		{"one microsecond", time.Date(2026, 3, 14, 12, 0, 0, 1000, time.UTC), "2026-03-14T12:00:00.000001Z"},
		{"finer is cut off, not rounded", time.Date(2026, 3, 14, 12, 0, 0, 1999, time.UTC), "2026-03-14T12:00:00.000001Z"},
		{"last of a second", time.Date(2026, 3, 14, 23, 59, 59, 999999000, time.UTC), "2026-03-14T23:59:59.999999Z"},
		{"another zone", time.Date(2026, 3, 14, 12, 0, 0, 0, time.FixedZone("", 5*3600+1800)), "2026-03-14T06:30:00.000000Z"},
		{"before 1970", time.Date(1969, 12, 31, 23, 59, 59, 999999000, time.UTC), "1969-12-31T23:59:59.999999Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stamp := waybill.StampOf(c.time)
			if got := stamp.String(); got != c.text {
				t.Errorf("text %s, want %s", got, c.text)
			}
			back, err := waybill.ParseStamp(c.text)
			if err != nil || back != stamp {
				t.Errorf("parsed %d, %v; want %d", back, err, stamp)
			}
			if got, want := stamp.Time(), c.time.Truncate(time.Microsecond); !got.Equal(want) || got.Location() != time.UTC {
				t.Errorf("time %s, want %s in UTC", got, want)
			}
		})
	}
}

func TestStampZeroIsNever(t *testing.T) {
	t.Parallel()
	if got := waybill.StampOf(time.Time{}); got != 0 {
		t.Errorf("the stamp of no time is %d, want 0", got)
	}
	if got := waybill.Stamp(0).Time(); !got.IsZero() {
		t.Errorf("the time of the zero stamp is %s, want the zero time", got)
	}
}

func TestStampAddCutsToMicroseconds(t *testing.T) {
	t.Parallel()
	if got, want := noon.Add(1500*time.Nanosecond), noon+1; got != want {
		t.Errorf("noon plus 1.5 µs is %s, want %s", got, want)
	}
	if got, want := noon.Add(-time.Second), noon-1_000_000; got != want {
		t.Errorf("noon less a second is %s, want %s", got, want)
	}
}

// A stamp travels verbatim or not at all: other forms of the same moment mean
// that something between relay and worker has rewritten the message.
func TestParseStampRefusesEveryOtherForm(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"",
		"0",
		"1773489600123457",
		"2026-03-14",
		"2026-03-14T12:00:00Z",
		"2026-03-14T12:00:00.123Z",
		"2026-03-14T12:00:00.123457000Z",
		"2026-03-14T12:00:00.1234570Z",
		"2026-03-14T12:00:00.123457",
		"2026-03-14T12:00:00.123457+00:00",
		"2026-03-14T14:00:00.123457+02:00",
		"2026-03-14T12:00:00.123457z",
		"2026-03-14t12:00:00.123457Z",
		"2026-03-14 12:00:00.123457Z",
		"2026-03-14T12:00:00,123457Z",
		"2026-03-14T1:00:00.123457Z",
		"2026-3-14T12:00:00.123457Z",
		" 2026-03-14T12:00:00.123457Z",
		"2026-03-14T12:00:00.123457Z\n",
		"2026-02-30T12:00:00.123457Z",
		"2026-03-14T24:00:00.123457Z",
		"2026-03-14T12:00:60.123457Z",
		"+2026-03-14T12:00:00.123457Z",
		"12026-03-14T12:00:00.123457Z",
	} {
		if got, err := waybill.ParseStamp(text); err == nil {
			t.Errorf("%q was read as %s", text, got)
		} else if !strings.Contains(err.Error(), strconv.Quote(text)) {
			t.Errorf("%q: the error does not name it: %v", text, err)
		}
		kept := noon
		if err := kept.UnmarshalText([]byte(text)); err == nil || kept != noon {
			t.Errorf("%q: unmarshalled as %s, %v; want an error and nothing changed", text, kept, err)
		}
	}
}

func TestClaimIsCompleteWithBothHalves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claim waybill.Claim
		want  bool
	}{
		{waybill.Claim{}, false},
		{waybill.Claim{By: "relay:1"}, false},
		{waybill.Claim{At: noon}, false},
		{waybill.Claim{By: "relay:1", At: noon}, true},
		{waybill.Claim{By: "relay:1", At: -1}, true},
	} {
		if got := c.claim.Complete(); got != c.want {
			t.Errorf("%+v is complete: %t, want %t", c.claim, got, c.want)
		}
	}
	if got, want := (waybill.Claim{By: "relay:1", At: noon}).String(), "relay:1@2026-03-14T12:00:00.123457Z"; got != want {
		t.Errorf("claim as text %q, want %q", got, want)
	}
}

// Trap 39: a moment that a queue cannot carry.
func TestMessageOnTheWire(t *testing.T) {
	t.Parallel()
	message := waybill.Message{DeliveryID: 42, Claim: waybill.Claim{By: "host:17:0badcafe", At: noon}}
	const wire = `{"delivery_id":42,"claimed_by":"host:17:0badcafe","claimed_at":"2026-03-14T12:00:00.123457Z"}`
	data, err := json.Marshal(message)
	if err != nil || string(data) != wire {
		t.Fatalf("encoded %s, %v; want %s", data, err, wire)
	}
	var back waybill.Message
	if err := json.Unmarshal(data, &back); err != nil || back != message {
		t.Errorf("decoded %+v, %v; want %+v", back, err, message)
	}
}

// Trap 33: half a claim that passes for a whole one.
func TestMessageDecodingIsStrict(t *testing.T) {
	t.Parallel()
	const at = `"2026-03-14T12:00:00.123457Z"`
	for _, c := range []struct{ name, wire, says string }{
		{"nothing", ``, "JSON"},
		{"no object", `42`, "decode message"},
		{"null", `null`, "all required"},
		{"empty object", `{}`, "all required"},
		{"the id alone", `{"delivery_id":42}`, "all required"},
		{"no id", `{"claimed_by":"r","claimed_at":` + at + `}`, "all required"},
		{"no owner", `{"delivery_id":42,"claimed_at":` + at + `}`, "all required"},
		{"no stamp", `{"delivery_id":42,"claimed_by":"r"}`, "all required"},
		{"null owner", `{"delivery_id":42,"claimed_by":null,"claimed_at":` + at + `}`, "all required"},
		{"null stamp", `{"delivery_id":42,"claimed_by":"r","claimed_at":null}`, "all required"},
		{"empty owner", `{"delivery_id":42,"claimed_by":"","claimed_at":` + at + `}`, "delivery 42: incomplete claim"},
		{"stamp of nothing", `{"delivery_id":42,"claimed_by":"r","claimed_at":"1970-01-01T00:00:00.000000Z"}`, "incomplete claim"},
		{"zero id", `{"delivery_id":0,"claimed_by":"r","claimed_at":` + at + `}`, "delivery 0"},
		{"negative id", `{"delivery_id":-1,"claimed_by":"r","claimed_at":` + at + `}`, "delivery -1"},
		{"id as text", `{"delivery_id":"42","claimed_by":"r","claimed_at":` + at + `}`, "decode message"},
		{"id with a fraction", `{"delivery_id":42.5,"claimed_by":"r","claimed_at":` + at + `}`, "decode message"},
		{"id beyond 64 bits", `{"delivery_id":9223372036854775808,"claimed_by":"r","claimed_at":` + at + `}`, "decode message"},
		{"stamp as a number", `{"delivery_id":42,"claimed_by":"r","claimed_at":1773489600123457}`, "decode message"},
		{"stamp cut to seconds", `{"delivery_id":42,"claimed_by":"r","claimed_at":"2026-03-14T12:00:00Z"}`, "parse stamp"},
		{"stamp in another zone", `{"delivery_id":42,"claimed_by":"r","claimed_at":"2026-03-14T13:00:00.123457+01:00"}`, "parse stamp"},
		{"owner that no database keeps", `{"delivery_id":42,"claimed_by":"r\u0000","claimed_at":` + at + `}`, "NUL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept := waybill.Message{DeliveryID: 7, Claim: waybill.Claim{By: "kept", At: noon}}
			got := kept
			err := json.Unmarshal([]byte(c.wire), &got)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
			if got != kept {
				t.Errorf("the message became %+v although it was refused", got)
			}
		})
	}
}

// FuzzMessage reads what a queue may bring: whatever it is, it is refused, or it
// is a message that encodes to what decodes to it.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		`{"delivery_id":42,"claimed_by":"host:17:0badcafe","claimed_at":"2026-03-14T12:00:00.123457Z"}`,
		`{"delivery_id":9223372036854775807,"claimed_by":"\u00fc","claimed_at":"9999-12-31T23:59:59.999999Z"}`,
		`{"delivery_id":1,"claimed_by":"\ud800","claimed_at":"0001-01-01T00:00:00.000000Z"}`,
		`{"delivery_id":1,"claimed_by":"\u0000","claimed_at":"1969-12-31T23:59:59.999999Z"}`,
		`{"Delivery_ID":1,"delivery_id":2,"claimed_by":"<&>","claimed_at":"0000-01-01T00:00:00.000001Z"}`,
		`{"delivery_id":1}`, `null`, `[]`, `{`, "\xff",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var message waybill.Message
		if err := json.Unmarshal(data, &message); err != nil {
			if message != (waybill.Message{}) {
				t.Fatalf("%q was refused and left %+v behind", data, message)
			}
			return
		}
		if message.DeliveryID <= 0 || !message.Claim.Complete() {
			t.Fatalf("%q was read as %+v, which matches no row", data, message)
		}
		if by := message.Claim.By; !utf8.ValidString(by) || strings.ContainsRune(by, 0) {
			t.Fatalf("%q was read with the owner %q, which no database keeps", data, by)
		}
		encoded, err := json.Marshal(message)
		if err != nil {
			t.Fatalf("encode %+v: %v", message, err)
		}
		var back waybill.Message
		if err := json.Unmarshal(encoded, &back); err != nil {
			t.Fatalf("decode %s: %v", encoded, err)
		}
		if diff := cmp.Diff(message, back); diff != "" {
			t.Fatalf("%q came back changed:\n%s", data, diff)
		}
	})
}

func TestQueueName(t *testing.T) {
	t.Parallel()
	if got := waybill.QueueName("mail"); got != "waybill-mail" {
		t.Errorf("queue of lane mail: %q", got)
	}
}

// Trap 10: two that hold rows under one name.
func TestNewOwnerIsAlwaysAnother(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		owner := waybill.NewOwner("pod-7")
		if !strings.HasPrefix(owner, "pod-7:") || len(owner) != len("pod-7:")+12 {
			t.Fatalf("owner %q, want pod-7: and 12 random digits", owner)
		}
		if seen[owner] {
			t.Fatalf("owner %q came twice", owner)
		}
		seen[owner] = true
	}
}

func TestNewOwnerNamesTheProcess(t *testing.T) {
	t.Parallel()
	parts := strings.Split(waybill.NewOwner(""), ":")
	if len(parts) < 3 || parts[0] == "" || parts[len(parts)-2] != strconv.Itoa(os.Getpid()) {
		t.Errorf("owner %q, want host:%d:random", strings.Join(parts, ":"), os.Getpid())
	}
}

// An owner that changes on its way through JSON or into a column would make each
// of its messages stale.
func TestNewOwnerIsStorable(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a\xffb", "a\x00b"} {
		sent := waybill.Message{DeliveryID: 1, Claim: waybill.Claim{By: waybill.NewOwner(id), At: noon}}
		data, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		var got waybill.Message
		if err := json.Unmarshal(data, &got); err != nil || got != sent {
			t.Errorf("worker id %q: sent %+v, received %+v, %v", id, sent, got, err)
		}
	}
}
