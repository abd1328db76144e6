package main

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-go/waybill"
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
func fire(ctx context.Context, store store, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range firers {
		group.Go(func() error {
			for from := i * n / firers; from < (i+1)*n/firers; from += batch {
				events := make([]any, min(batch, (i+1)*n/firers-from))
				for j := range events {
					events[j] = event(from + j)
				}
				if err := store.fire(ctx, events...); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}
