// Command service takes the shop's orders. It fires, and runs nothing: relay and worker
// are other processes. See ../README.md.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill/examples/separate/shop"
	"github.com/waybill-go/waybill/store/postgres"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("WAYBILL_STORE"), cmp.Or(os.Getenv("SHOP_ADDRESS"), "localhost:8080")); err != nil {
		log.Fatal(err)
	}
}

// run takes orders until ctx ends.
func run(ctx context.Context, database, address string) error {
	pool, err := pgxpool.New(ctx, database)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, shop.Tables); err != nil {
		return err
	}
	store, err := postgres.Open(ctx, pool, shop.Registry())
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := http.Server{Handler: http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		order := shop.OrderPlaced{Email: request.FormValue("email"), Quantity: 1}
		id, err := shop.Place(request.Context(), store, order)
		if err != nil {
			http.Error(answer, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintf(answer, "order %d\n", id)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	if err := server.Shutdown(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
