package waybill_test

import (
	"testing"

	"github.com/waybill-go/waybill"
)

// A list that came out empty names nothing and cancels nothing; one that was forgotten would
// mean everything.
func TestCancelRequestNamesSomething(t *testing.T) {
	t.Parallel()
	const refused = "cancel: name the events, or the deliveries, to cancel"
	for _, c := range []struct {
		name    string
		request waybill.CancelRequest
		says    string
	}{
		{"nothing", waybill.CancelRequest{}, refused},
		{"a receiver alone", waybill.CancelRequest{Receiver: "mail"}, refused},
		{"events", waybill.CancelRequest{Events: []int64{1}}, ""},
		{"deliveries", waybill.CancelRequest{Deliveries: []int64{1}}, ""},
		{"both", waybill.CancelRequest{Events: []int64{1}, Deliveries: []int64{2}, Receiver: "mail"}, ""},
		{"a list of no events", waybill.CancelRequest{Events: []int64{}}, ""},
		{"a list of no deliveries", waybill.CancelRequest{Deliveries: []int64{}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.says == "" {
				wantErrSays(t, c.request.Validate())
			} else {
				wantErrSays(t, c.request.Validate(), c.says)
			}
		})
	}
}
