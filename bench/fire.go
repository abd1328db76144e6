package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

const (
	eventName = "bench.fired"
	firers    = 2
)

// event is one of 300 bytes, which says its number.
func event(n int) waybill.RawEvent {
	head := fmt.Sprintf(`{"n":%d,"note":"`, n)
	return waybill.RawEvent{Name: eventName, Payload: []byte(head + strings.Repeat("x", max(0, 300-len(head)-2)) + `"}`)}
}

// fire fires n events, a hundred in a transaction, as several sessions of an
// application would.
func fire(ctx context.Context, store *postgres.Store, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range firers {
		group.Go(func() error {
			for from := i * n / firers; from < (i+1)*n/firers; from += batch {
				events := make([]any, min(batch, (i+1)*n/firers-from))
				for j := range events {
					events[j] = event(from + j)
				}
				if err := store.InTx(ctx, func(tx pgx.Tx) error {
					_, err := store.FireAll(ctx, tx, events)
					return err
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
