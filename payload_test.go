package waybill_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/waybill-go/waybill"
)

type colour string

type weight int

type parcel struct {
	At      time.Time
	For     time.Duration
	Colour  colour
	Weight  weight
	Size    [3]int
	Label   []byte
	Parts   []parcel          `json:",omitempty"`
	Notes   map[string]string `json:",omitempty"`
	By      *string
	Insured *int64
	Raw     json.RawMessage
	Number  uint64
}

// Trap 72: values that do not come back as they were fired: a moment's microseconds, an
// enumeration, a list of fixed length.
func TestPayloadComesBackAsItWas(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	waybill.Declare[parcel](reg, "parcel.sent", waybill.EventOptions{})
	var got parcel
	waybill.On(reg, "a", func(_ context.Context, event parcel) error { got = event; return nil }, waybill.Options{})
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	by := "Grüße <&> \u2028 \"x\" 😀"
	large := int64(1)<<62 + 1 // more than a float keeps
	fired := parcel{
		At:  time.Date(2026, 3, 14, 12, 0, 0, 123456789, time.FixedZone("", 5*3600+1800)),
		For: 1234567 * time.Nanosecond, Colour: "blue", Weight: 3, Size: [3]int{1, 2, 3}, Label: []byte{0, 0xff, 7},
		Parts: []parcel{{Colour: "red", Raw: json.RawMessage(`null`)}}, Notes: map[string]string{"": "empty", "ü": ""},
		By: &by, Insured: &large, Raw: json.RawMessage(`{"z":1,"a":[1.10]}`), Number: 1<<64 - 1,
	}
	planned := plan(t, reg, fired)
	receiver, _ := reg.Receiver("a")
	err := receiver.Call(t.Context(), nil, &waybill.Delivery{Event: &waybill.Event{Name: "parcel.sent", Payload: planned.Event.Payload}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fired, got); diff != "" {
		t.Errorf("what was fired (-) came back as (+):\n%s", diff)
	}
}
