//go:build unix

package execreceiver_test

import (
	"context"
	"fmt"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker/execreceiver"
)

// OrderPlaced is the event of the example.
type OrderPlaced struct {
	ID    int    `json:"id"`
	Email string `json:"email"`
}

// A receiver that hands orders to a script: the payload on its standard input, the facts
// in its environment. How it exits says what becomes of the delivery.
func ExampleNew() {
	export, err := execreceiver.New(execreceiver.Config{
		Command: []string{"/bin/sh", "-c", `
			read -r order
			case "$order" in *'"email":""'*)
				echo "delivery $WAYBILL_DELIVERY_ID of $WAYBILL_EVENT has no address" >&2
				exit 65
			esac
			test "$FTP_PASSWORD" = s3cret # upload it`},
		Env:           map[string]string{"FTP_PASSWORD": "s3cret"}, // it gets no other of the worker's secrets
		PermanentExit: []int{65},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	reg.Add(waybill.Receiver{Key: "stock.export", Event: "order.placed", Run: export, Options: waybill.Options{Lane: "export"}})
	if err := reg.Err(); err != nil {
		fmt.Println(err)
		return
	}

	for _, payload := range []string{`{"id":7,"email":"ada@example.com"}`, `{"id":8,"email":""}`} {
		outcome := deliver(reg, "stock.export", payload)
		fmt.Printf("%s: %q\n", outcome.Status, outcome.Error)
	}
	// Output:
	// succeeded: ""
	// dead: "/bin/sh exited with 65: delivery 42 of order.placed has no address"
}

// deliver runs a receiver as a worker does, and returns what becomes of its row.
func deliver(reg *waybill.Registry, key, payload string) waybill.Outcome {
	receiver, _ := reg.Receiver(key)
	d := &waybill.Delivery{
		ID: 42, Receiver: key, Attempt: 1, MaxAttempts: receiver.MaxAttempts, Lease: receiver.Lease, DueAt: time.Now(),
		Event: &waybill.Event{ID: 3, Name: receiver.Event, Version: 1, Payload: []byte(payload)},
	}
	return waybill.Judge(receiver, d, receiver.Call(context.Background(), nil, d), time.Now(), 0)
}
