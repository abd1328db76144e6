// Command embedded is a shop in one process, with nothing to install: an order and the
// receipt that is owed for it are written in one transaction, and a relay and a worker
// in the same process see to it that the receipt goes out.
//
//	go run ./examples/embedded &
//	curl -d '' 'localhost:8080/orders?email=ada@example.com'
package main

import (
	"context"
	"database/sql"
	"errors"
	"log"
	"net/http"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/local"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/store/sqlite"
	"github.com/waybill-go/waybill/worker"
)

type OrderPlaced struct {
	ID    int64  `json:"id"`
	Email string `json:"email"`
}

func sendReceipt(ctx context.Context, order OrderPlaced) error {
	waybill.LoggerFrom(ctx).Info("receipt sent", "order", order.ID, "to", order.Email)
	return nil
}

// placeOrder writes the order and fires for it: both, or neither.
func placeOrder(ctx context.Context, store *sqlite.Store, email string) error {
	return store.InTx(ctx, func(tx *sql.Tx) error {
		order := OrderPlaced{Email: email}
		if err := tx.QueryRowContext(ctx, "INSERT INTO orders (email) VALUES (?) RETURNING id", email).Scan(&order.ID); err != nil {
			return err
		}
		_, err := store.Fire(ctx, tx, order)
		return err
	})
}

// run serves the shop until ctx ends, and then lets receivers finish.
func run(ctx context.Context, address, path string) error {
	reg := waybill.NewRegistry()
	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
	waybill.On(reg, "mail.receipt", sendReceipt, waybill.Options{})

	store, err := sqlite.New(sqlite.Config{Path: path, Registry: reg})
	if err != nil {
		return err
	}
	defer store.Close()
	_, migrateErr := store.Migrator().Up(ctx)
	err = store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, email TEXT NOT NULL)")
		return err
	})

	queue, queueErr := local.New(local.Config{})
	r, relayErr := relay.New(relay.Config{Store: store, Backend: queue})
	w, workerErr := worker.New(worker.Config{Store: store, Backend: queue})
	if err := errors.Join(migrateErr, err, queueErr, relayErr, workerErr); err != nil {
		return err
	}
	server := http.Server{Addr: address, Handler: http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		if err := placeOrder(request.Context(), store, request.FormValue("email")); err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError)
		}
	})}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return r.Run(ctx) })
	group.Go(func() error { return w.Run(ctx) })
	group.Go(server.ListenAndServe)
	group.Go(func() error { <-ctx.Done(); return server.Shutdown(context.WithoutCancel(ctx)) })
	if err := group.Wait(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, "localhost:8080", "shop.db"); err != nil {
		log.Fatal(err)
	}
}
