package waybill_test

import (
	"context"
	"fmt"

	"github.com/waybill-go/waybill"
)

// OrderShipped is what a receiver of OrderPlaced fires.
type OrderShipped struct {
	ID int `json:"id"`
}

// A request's id goes with the event that the request fires, and with all that receivers
// fire because of it.
func ExampleWithCorrelation() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.Declare[OrderShipped](reg, "order.shipped", waybill.EventOptions{})

	request := waybill.WithCorrelation(context.Background(), "request-3f9a")
	placed, err := reg.Plan(request, nil, OrderPlaced{ID: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(placed.Event.Name, "belongs to", placed.Event.CorrelationID)

	// The context of a run carries its delivery, as this one does.
	run := waybill.WithDelivery(context.Background(), &waybill.Delivery{
		Event: &waybill.Event{ID: 1, Name: "order.placed", CorrelationID: placed.Event.CorrelationID},
	})
	shipped, err := reg.Plan(run, nil, OrderShipped{ID: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s belongs to %s, and was caused by event %d\n", shipped.Event.Name, shipped.Event.CorrelationID, shipped.Event.CausationID)
	// Output:
	// order.placed belongs to request-3f9a
	// order.shipped belongs to request-3f9a, and was caused by event 1
}

// An import records what happened long ago, and sends no receipt for it.
func ExampleSuppress() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", sendReceipt, waybill.Options{})

	ctx := waybill.Suppress(context.Background(), "import of the old shop")
	plan, err := reg.Plan(ctx, nil, OrderPlaced{ID: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s is owed to %d receivers: %s\n", plan.Event.Name, len(plan.Deliveries), plan.Event.Suppressed)
	// Output:
	// order.placed is owed to 0 receivers: import of the old shop
}
