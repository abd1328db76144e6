package waybill_test

import (
	"fmt"

	"github.com/waybill-go/waybill"
)

// A registry holds what a process declares. It is made once, and given to the store.
func ExampleNewRegistry() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", sendReceipt, waybill.Options{Lane: "mail"})
	waybill.On(reg, "search.index", index, waybill.Options{})

	for _, receiver := range reg.Receivers() {
		fmt.Printf("%s of %s, in lane %s\n", receiver.Key, receiver.Event, receiver.Lane)
	}
	// Output:
	// mail.receipt of order.placed, in lane mail
	// search.index of order.placed, in lane default
}

// Err tells everything that is wrong, at once. Stores, relays and workers ask it too, and
// do not start with a mistake.
func ExampleRegistry_Err() {
	reg := waybill.NewRegistry()
	waybill.On(reg, "search.index", index, waybill.Options{})
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", sendReceipt, waybill.Options{Lane: "E-Mail"})

	fmt.Println(reg.Err())
	// Output:
	// receiver "search.index": waybill_test.OrderPlaced is not a declared event; call waybill.Declare[OrderPlaced] first
	// receiver "mail.receipt": lane "E-Mail" must be lower-case letters and digits, with single - or _ between them
}
