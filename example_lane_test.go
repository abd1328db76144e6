package waybill_test

import (
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// A lane that a receiver names is there by itself. One that is declared is there before its
// first receiver, so that its relay can be deployed first.
func ExampleRegistry_AddLane() {
	reg := waybill.NewRegistry()
	reg.AddLane("sms", waybill.LaneOptions{})
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", sendReceipt, waybill.Options{Lane: "mail"})

	fmt.Println(reg.Lanes())
	fmt.Println(reg.CheckLane("sms"))
	fmt.Println(reg.CheckLane("smss"))
	// Output:
	// [default mail sms]
	// <nil>
	// unknown lane "smss"; declared: default, mail, sms
}

// In a deep queue a row may wait for long, and a worker that died with it is still to be
// noticed soon: the wait has a lease of its own.
func ExampleLaneOptions() {
	reg := waybill.NewRegistry()
	reg.AddLane("export", waybill.LaneOptions{HandOffLease: 30 * time.Minute})
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "export.order", index, waybill.Options{Lane: "export", Lease: time.Minute})

	for _, receiver := range reg.LaneReceivers("export") {
		fmt.Printf("%s waits for up to %s, and runs for up to %s\n", receiver.Key, reg.HandOffLease(receiver), receiver.Lease)
	}
	// Output:
	// export.order waits for up to 30m0s, and runs for up to 1m0s
}
