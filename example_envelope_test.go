package waybill_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// An Envelope is fired in the place of its event. Under a dedupe key a webhook that is sent
// twice is recorded once: the second time store.Fire returns ErrDuplicate.
func ExampleEnvelope() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})

	plan, err := reg.Plan(context.Background(), nil, waybill.Envelope{
		Event:      OrderPlaced{ID: 7, Email: "ada@example.com"},
		DedupeKey:  "shop/orders/7",
		OccurredAt: time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s %s\n", plan.Event.Name, plan.Event.Payload)
	fmt.Println("once for", plan.Event.DedupeKey)
	fmt.Println("occurred at", plan.Event.OccurredAt.Format(time.RFC3339))
	// Output:
	// order.placed {"id":7,"email":"ada@example.com"}
	// once for shop/orders/7
	// occurred at 2026-03-14T09:26:53Z
}

// Headers travel beside the payload, for what is about the event and not in it. Where a
// RawEvent has the same header, the envelope's counts.
func ExampleEnvelope_headers() {
	reg := waybill.NewRegistry()
	raw := waybill.RawEvent{
		Name:    "order.placed",
		Payload: json.RawMessage(`{"id":7}`),
		Headers: map[string]string{"source": "shop", "tenant": "unknown"},
	}

	plan, err := reg.Plan(context.Background(), nil, waybill.Envelope{
		Event:   raw,
		Headers: map[string]string{"tenant": "acme"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(plan.Event.Headers)
	// Output:
	// map[source:shop tenant:acme]
}
