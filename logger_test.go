package waybill_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/waybill-go/waybill"
)

// logged returns what a logger that writes text says of one line, from its message on.
func logged(ctx context.Context, text *bytes.Buffer) string {
	text.Reset()
	waybill.LoggerFrom(ctx).Info("hello")
	_, line, _ := strings.Cut(strings.TrimSpace(text.String()), "msg=")
	return line
}

func TestLoggerFrom(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	mine := slog.New(slog.NewTextHandler(&text, nil)).With("worker", "w")
	event := &waybill.Event{ID: 7, Name: "parcel.sent"}
	d := &waybill.Delivery{ID: 42, Receiver: "mail", Event: event, Attempt: 3}
	const attributes = " delivery_id=42 receiver=mail event=parcel.sent event_id=7 attempt=3"
	background := context.Background()
	run := waybill.WithDelivery(waybill.WithLogger(background, mine), d)
	for _, c := range []struct {
		name string
		ctx  context.Context
		want string
	}{
		{"outside a run", waybill.WithLogger(background, mine), "hello worker=w"},
		{"in a run", run, "hello worker=w" + attributes},
		{"of a fan-out", waybill.WithDelivery(waybill.WithLogger(background, mine),
			&waybill.Delivery{ID: 42, Receiver: "mail", Event: event, Attempt: 3, Target: "ada"}), "hello worker=w" + attributes + " target=ada"},
		{"of a delivery without its event", waybill.WithDelivery(waybill.WithLogger(background, mine),
			&waybill.Delivery{ID: 42, Receiver: "mail", Attempt: 1}), "hello worker=w delivery_id=42 receiver=mail attempt=1"},
		{"put in within the run", waybill.WithLogger(run, mine.With("own", true)), "hello worker=w own=true"},
		{"added to within the run", waybill.WithLogger(run, waybill.LoggerFrom(run).With("tenant", "acme")),
			"hello worker=w" + attributes + " tenant=acme"},
		{"added to, and the delivery copied", waybill.WithDelivery(waybill.WithLogger(run, waybill.LoggerFrom(run)),
			&waybill.Delivery{ID: 42, Attempt: 3}), "hello worker=w" + attributes},
		{"of another delivery within the run", waybill.WithDelivery(waybill.WithLogger(run, mine),
			&waybill.Delivery{ID: 43, Receiver: "crm", Attempt: 1}), "hello worker=w delivery_id=43 receiver=crm attempt=1"},
	} {
		if got := logged(c.ctx, &text); got != c.want {
			t.Errorf("%s: the line is %q, want %q", c.name, got, c.want)
		}
	}
}

// Without a worker's logger there is the process's.
func TestLoggerFromDefault(t *testing.T) { // not parallel: the default is everybody's
	var text bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer slog.SetDefault(before)
	background := context.Background()
	if got := waybill.LoggerFrom(background); got != slog.Default() {
		t.Errorf("outside a run the logger is %v, want the default", got)
	}
	if got := waybill.LoggerFrom(waybill.WithLogger(background, nil)); got != slog.Default() {
		t.Errorf("for no logger at all the logger is %v, want the default", got)
	}
	d := &waybill.Delivery{ID: 42, Receiver: "mail", Attempt: 1}
	if got := logged(waybill.WithDelivery(background, d), &text); got != "hello delivery_id=42 receiver=mail attempt=1" {
		t.Errorf("the line of a run without a worker is %q", got)
	}
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "mail", func(ctx context.Context, _ *waybill.Delivery) error {
		waybill.LoggerFrom(ctx).Info("called")
		return nil
	}, waybill.Options{})
	receiver, _ := reg.Receiver("mail")
	if err := receiver.Call(background, nil, d); err != nil || !strings.Contains(text.String(), "msg=called delivery_id=42") {
		t.Errorf("the line of a receiver that is called is %q, %v", text.String(), err)
	}
}
