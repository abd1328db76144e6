package waybilltest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

type orderPlaced struct {
	ID    int    `json:"id"`
	Email string `json:"email,omitempty"`
}

type orderShipped struct {
	ID int `json:"id"`
}

// shop is what the tests' receivers did, in order.
type shop struct{ log []string }

func (s *shop) note(line string) { s.log = append(s.log, line) }

// register declares the events, and lets the case add its receivers.
func register(t *testing.T, declare func(reg *waybill.Registry)) *waybill.Registry {
	t.Helper()
	reg := waybill.NewRegistry()
	waybill.Declare[orderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.Declare[orderShipped](reg, "order.shipped", waybill.EventOptions{})
	declare(reg)
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

var errBusy = errors.New("busy")

// noting is a receiver that notes its name and returns an outcome.
func noting(s *shop, name string, outcome func(attempt int) error) func(context.Context, orderPlaced) error {
	return func(ctx context.Context, order orderPlaced) error {
		s.note(name)
		if outcome == nil {
			return nil
		}
		return outcome(waybill.DeliveryFrom(ctx).Attempt)
	}
}

func never(int) error { return errBusy }

func atThird(attempt int) error {
	if attempt < 3 {
		return errBusy
	}
	return nil
}

func later(wait time.Duration) func(context.Context, orderPlaced) (time.Time, error) {
	return func(context.Context, orderPlaced) (time.Time, error) { return time.Now().Add(wait), nil }
}
