package waybill_test

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

// InvoiceSent is an event with a date that somebody waits for.
type InvoiceSent struct {
	ID    int       `json:"id"`
	PayBy time.Time `json:"pay_by"`
}

// A scheduled receiver is owed its delivery when the event is fired, and runs when it is due.
func ExampleDueOf() {
	reg := waybill.NewRegistry()
	waybill.Declare[InvoiceSent](reg, "invoice.sent", waybill.EventOptions{})
	waybill.On(reg, "mail.reminder", func(context.Context, InvoiceSent) error { return nil }, waybill.Options{
		Due: waybill.DueOf(func(_ context.Context, invoice InvoiceSent) (time.Time, error) {
			return invoice.PayBy.AddDate(0, 0, -3), nil
		}),
	})

	plan, err := reg.Plan(context.Background(), nil, InvoiceSent{ID: 7, PayBy: time.Date(2026, 3, 31, 8, 0, 0, 0, time.UTC)})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, d := range plan.Deliveries {
		fmt.Println(d.Receiver, "is due at", d.DueAt.Format(time.RFC3339))
	}
	// Output:
	// mail.reminder is due at 2026-03-28T08:00:00Z
}
