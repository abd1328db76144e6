package waybill_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/waybill-go/waybill"
)

// A receiver of any event is owed also those that nobody declares, and gets each as it was
// recorded.
func ExampleOnAny() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.OnAny(reg, "audit", func(_ context.Context, d *waybill.Delivery) error {
		fmt.Printf("%s: %s\n", d.Event.Name, d.Event.Payload)
		return nil
	}, waybill.Options{})

	for _, event := range []any{
		OrderPlaced{ID: 7, Email: "ada@example.com"},
		waybill.RawEvent{Name: "stock.counted", Payload: json.RawMessage(`{"shelf":3}`)},
	} {
		plan, err := reg.Plan(context.Background(), nil, event)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(plan.Event.Name, "is owed to", plan.Deliveries[0].Receiver)
	}
	deliver(reg, "audit")
	// Output:
	// order.placed is owed to audit
	// stock.counted is owed to audit
	// order.placed: {"id":7,"email":"ada@example.com"}
	// succeeded
}

// A receiver of any event decodes those that it knows.
func ExampleDecode() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.OnAny(reg, "search.index", func(_ context.Context, d *waybill.Delivery) error {
		if d.Event.Name != "order.placed" {
			return nil
		}
		order, err := waybill.Decode[OrderPlaced](reg, d)
		if err != nil {
			return err // permanent: it will not decode at the next attempt
		}
		fmt.Println("index order", order.ID)
		return nil
	}, waybill.Options{})

	deliver(reg, "search.index")
	// Output:
	// index order 7
	// succeeded
}
