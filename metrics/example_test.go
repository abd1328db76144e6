package metrics_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/metrics"
	"github.com/waybill-go/waybill/store/sqlite"
)

// OrderPlaced is the event of the example.
type OrderPlaced struct {
	ID int `json:"id"`
}

// A collector is registered like any other. It asks the store when it is scraped, and is
// the Observer of the process's relays and worker.
func ExampleNew() {
	ctx := context.Background()
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", func(context.Context, OrderPlaced) error { return nil }, waybill.Options{Lane: "mail"})
	store, err := sqlite.Open(ctx, sqlite.Memory, reg)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := store.Fire(ctx, tx, OrderPlaced{ID: 7})
		return err
	})
	if err != nil {
		fmt.Println(err)
		return
	}

	collector, err := metrics.New(metrics.Config{Registry: reg, Store: store, Relays: []string{"mail"}, Worker: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer collector.Close() // before the store
	// relay.Config and worker.Config have Observer: collector.Observe
	own := prometheus.NewRegistry() // or prometheus.DefaultRegisterer
	if err := own.Register(collector); err != nil {
		fmt.Println(err)
		return
	}

	answer := httptest.NewRecorder()
	promhttp.HandlerFor(own, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "waybill_deliveries{") && strings.Contains(line, `"pending"`) {
			fmt.Print(line)
		}
	}
	// Output:
	// waybill_deliveries{lane="mail",receiver="mail.receipt",status="pending"} 1
}
