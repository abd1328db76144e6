package waybill_test

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// Of a receiver of every event they would read one event as another.
func TestTargetsAndDueTimesOfAnyEventTakeItRaw(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		opts waybill.Options
		says []string
	}{
		{"raw targets", waybill.Options{Targets: waybill.TargetsOf(func(context.Context, waybill.RawEvent) ([]string, error) { return nil, nil })}, nil},
		{"raw due time", waybill.Options{Due: waybill.DueOf(func(context.Context, waybill.RawEvent) (time.Time, error) { return time.Time{}, nil })}, nil},
		{"typed targets", waybill.Options{Targets: waybill.TargetsOf(func(context.Context, orderPlaced) ([]string, error) { return nil, nil })},
			[]string{`receiver "any": its targets take a waybill_test.orderPlaced`, "have them take a waybill.RawEvent"}},
		{"typed due time", waybill.Options{Due: waybill.DueOf(func(context.Context, orderPlaced) (time.Time, error) { return time.Time{}, nil })},
			[]string{`receiver "any": its due time takes a waybill_test.orderPlaced`, "have it take a waybill.RawEvent"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			reg := orders(t)
			waybill.OnAny(reg, "any", ignoreAny, c.opts)
			wantErrSays(t, reg.Err(), c.says...)
		})
	}
}

func TestReceiverOfAPointerIsToldOfItsType(t *testing.T) {
	t.Parallel()
	reg := orders(t)
	waybill.On(reg, "mail", func(context.Context, *orderPlaced) error { return nil }, waybill.Options{})
	wantErrSays(t, reg.Err(), `receiver "mail": *waybill_test.orderPlaced is not a declared event; receive a waybill_test.orderPlaced`)
}
