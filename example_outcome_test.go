package waybill_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
)

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
