package httpreceiver_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/worker/httpreceiver"
)

// OrderPlaced is the event of the example.
type OrderPlaced struct {
	ID int `json:"id"`
}

// A receiver that posts orders to a CRM. The CRM sees the same Idempotency-Key at every
// attempt, and says by its answer what becomes of the delivery.
func ExampleNew() {
	answers := []int{http.StatusBadGateway, http.StatusGone}
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Printf("%s %s, key %s, attempt %s: %s\n", r.Method, r.URL.Path, r.Header.Get("Idempotency-Key"), r.Header.Get("Waybill-Attempt"), body)
		w.WriteHeader(answers[0])
		answers = answers[1:]
	}))
	defer crm.Close()

	post, err := httpreceiver.New(httpreceiver.Config{
		URL:     crm.URL + "/hooks/orders",
		Headers: map[string]string{"Authorization": "Bearer s3cret"},
		Timeout: 20 * time.Second,
		Client:  crm.Client(), // for the test's server; the default is a good one
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	reg.Add(waybill.Receiver{Key: "crm.sync", Event: "order.placed", Run: post, Options: waybill.Options{
		Lane: "crm", Lease: time.Minute, GiveUpAfter: 24 * time.Hour,
	}})
	if err := reg.Err(); err != nil {
		fmt.Println(err)
		return
	}

	for attempt := range 2 {
		fmt.Println(deliver(reg, "crm.sync", attempt+1))
	}
	// Output:
	// POST /hooks/orders, key 42, attempt 1: {"id":7}
	// failed
	// POST /hooks/orders, key 42, attempt 2: {"id":7}
	// dead
}

// deliver runs a receiver as a worker does, and returns what becomes of its row.
func deliver(reg *waybill.Registry, key string, attempt int) waybill.Status {
	receiver, _ := reg.Receiver(key)
	d := &waybill.Delivery{
		ID: 42, Receiver: key, Attempt: attempt, MaxAttempts: receiver.MaxAttempts, Lease: receiver.Lease, DueAt: time.Now(),
		Event: &waybill.Event{ID: 3, Name: receiver.Event, Version: 1, Payload: []byte(`{"id":7}`)},
	}
	return waybill.Judge(receiver, d, receiver.Call(context.Background(), nil, d), time.Now(), 0).Status
}
