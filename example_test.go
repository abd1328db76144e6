package waybill_test

import (
	"context"
	"errors"
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

// RetryAfter waits exactly as long as it is told, where the backoff would guess.
func ExampleRetryAfter() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "crm.sync", func(context.Context, OrderPlaced) error {
		return fmt.Errorf("crm is in maintenance: %w", waybill.RetryAfter(10*time.Minute))
	}, waybill.Options{})

	deliver(reg, "crm.sync")
	// Output:
	// failed, again in 10m0s: crm is in maintenance: retry after 10m0s
}

// Defer spends no attempt, for as long as the receiver's GiveUpAfter allows.
func ExampleDefer() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "sms.notify", func(context.Context, OrderPlaced) error {
		return fmt.Errorf("out of quota: %w", waybill.Defer(time.Minute))
	}, waybill.Options{GiveUpAfter: 24 * time.Hour})

	deliver(reg, "sms.notify")
	// Output:
	// failed, again in 1m0s: out of quota: deferred for 1m0s
}

// Permanent ends a delivery that no later attempt can mend.
func ExamplePermanent() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(_ context.Context, order OrderPlaced) error {
		return waybill.Permanent(errors.New("the address does not exist"))
	}, waybill.Options{})

	deliver(reg, "mail.receipt")
	// Output:
	// dead: the address does not exist
}

// A receiver with targets is owed one delivery for each of them, and each succeeds
// or fails by itself.
func ExampleTargetsOf() {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "webhook", index, waybill.Options{
		Targets: waybill.TargetsOf(func(_ context.Context, order OrderPlaced) ([]string, error) {
			return []string{"https://a.example.com/hook", "https://b.example.com/hook"}, nil
		}),
	})

	plan, err := reg.Plan(context.Background(), nil, OrderPlaced{ID: 7})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range plan.Deliveries {
		fmt.Println(d.Receiver, d.Target)
	}
	// Output:
	// webhook https://a.example.com/hook
	// webhook https://b.example.com/hook
}
