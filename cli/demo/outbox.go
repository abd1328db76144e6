package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
)

// connections is what the demo may take of a PostgreSQL at the same time: one for each
// slot of its workers, because a transactional run holds one, and a few for the rest.
const connections = workers*slots + 6

// outbox is a store of the demo's own, and the table beside it that the
// transactional receiver writes to.
type outbox struct {
	wire.Store // hand this on: it can do more than its type says
	table      table
	url        string
}

// openOutbox makes a schema in the database that is named, or a file in a folder
// that goes when the demo ends.
func openOutbox(ctx context.Context, config Config, own names, count *counters, leave *cleanup) (*outbox, error) {
	o := &outbox{table: postgresTable{own.schema()}, url: config.Store}
	if o.url == "" {
		folder, err := os.MkdirTemp("", "waybill-demo-")
		if err != nil {
			return nil, fmt.Errorf("make a folder for the demo: %w", err)
		}
		leave.closes(func() { os.RemoveAll(folder) })
		o.table, o.url = sqliteTable{}, "sqlite:"+filepath.Join(folder, "demo.db")
	}
	registry := waybill.NewRegistry()
	declareReceivers(registry, own, o.table, count)
	store, err := wire.OpenStore(wire.StoreConfig{
		URL: o.url, Registry: registry, Schema: own.schema(), Name: "waybill demo", Connections: connections, Logger: config.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	leave.closes(store.Close)
	if err := store.Reach(ctx); err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	if config.Store != "" {
		leave.removes("schema "+own.schema(), func(ctx context.Context) error { return dropSchema(ctx, o.url, own.schema()) })
	}
	o.Store = store
	migrator, err := store.Migrator()
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Up(ctx); err != nil {
		return nil, err
	}
	if err := o.table.create(ctx, store); err != nil {
		return nil, fmt.Errorf("make the demo's own table: %w", err)
	}
	return o, nil
}

// fire fires the events the way an application does: in its own transactions.
func (o *outbox) fire(ctx context.Context, events []waybill.RawEvent) error {
	const perTransaction = 25
	for len(events) > 0 {
		n := min(perTransaction, len(events))
		fired := make([]wire.Event, n)
		for i, event := range events[:n] {
			fired[i].RawEvent = event
		}
		err := o.FireAll(ctx, func(fire wire.Fire) error {
			_, err := fire(ctx, fired)
			return err
		})
		if err != nil {
			return err
		}
		events = events[n:]
	}
	return nil
}

// tally counts the rows by status.
func (o *outbox) tally(ctx context.Context) (sums, error) {
	tallies, err := o.Tallies(ctx)
	if err != nil {
		return nil, err
	}
	total := sums{}
	for _, t := range tallies {
		total[t.Status] += t.Rows
	}
	return total, nil
}
