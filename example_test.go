package waybill_test

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// OrderPlaced is the event of the examples. What is stored is the name it is
// declared by, and its JSON.
type OrderPlaced struct {
	ID    int    `json:"id"`
	Email string `json:"email"`
}

// Declare gives a Go type its name, and On a receiver of it. Firing then owes each
// receiver one delivery; a store writes the plan in the caller's transaction.
func ExampleDeclare() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{Version: 2})
	waybill.On(reg, "mail.receipt", sendReceipt, waybill.Options{Lane: "mail", Lease: time.Minute})
	waybill.On(reg, "search.index", index, waybill.Options{MaxAttempts: 20})
	if err := reg.Err(); err != nil {
		fmt.Println(err)
		return
	}

	plan, err := reg.Plan(context.Background(), nil, OrderPlaced{ID: 7, Email: "ada@example.com"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s v%d %s\n", plan.Event.Name, plan.Event.Version, plan.Event.Payload)
	for _, d := range plan.Deliveries {
		fmt.Printf("owed to %s, up to %d attempts\n", d.Receiver, d.MaxAttempts)
	}
	// Output:
	// order.placed v2 {"id":7,"email":"ada@example.com"}
	// owed to mail.receipt, up to 5 attempts
	// owed to search.index, up to 20 attempts
}

func sendReceipt(ctx context.Context, order OrderPlaced) error {
	d := waybill.DeliveryFrom(ctx)
	// The delivery's id is the same at each attempt: an idempotency key.
	fmt.Printf("to %s: order %d (idempotency key %d, attempt %d)\n", order.Email, order.ID, d.ID, d.Attempt)
	return nil
}

func index(context.Context, OrderPlaced) error { return nil }

// A receiver is a function on the event. What it needs to know beside the event is
// in its context.
func ExampleOn() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", sendReceipt, waybill.Options{})

	deliver(reg, "mail.receipt")
	// Output:
	// to ada@example.com: order 7 (idempotency key 42, attempt 1)
	// succeeded
}

// deliver runs a receiver as a worker does, and says what becomes of its row.
func deliver(reg *waybill.Registry, key string) {
	receiver, ok := reg.Receiver(key)
	if !ok {
		fmt.Println(reg.Err())
		return
	}
	delivery := &waybill.Delivery{
		ID: 42, Attempt: 1, MaxAttempts: receiver.MaxAttempts, DueAt: time.Now(),
		Event: &waybill.Event{Name: "order.placed", Payload: []byte(`{"id":7,"email":"ada@example.com"}`)},
	}
	err := receiver.Call(context.Background(), nil, delivery)
	outcome := waybill.Judge(receiver, delivery, err, time.Now(), 0)
	fmt.Print(outcome.Status)
	if outcome.Status == waybill.Failed {
		fmt.Printf(", again in %s", outcome.Wait)
	}
	if outcome.Error != "" {
		fmt.Printf(": %s", outcome.Error)
	}
	fmt.Println()
}
