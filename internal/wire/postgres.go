package wire

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// minConnections is what a store needs for a handful of calls at the same time.
const minConnections = 4

type postgresStore struct {
	*postgres.Store
	server postgresServer
	schema string
}

func openPostgres(config StoreConfig) (Store, error) {
	server, err := openPostgresServer(config.URL, config.Name, max(config.Connections, minConnections))
	if err != nil {
		return nil, err
	}
	store, err := postgres.New(postgres.Config{
		Pool: server.pool, Registry: config.Registry, Schema: config.Schema,
		WakeInterval: config.WakeInterval, PollOnly: config.PollOnly, Logger: config.Logger,
	})
	if err != nil {
		server.pool.Close()
		return nil, err
	}
	return &postgresStore{Store: store, server: server, schema: config.Schema}, nil
}

func (s *postgresStore) Migrator() (waybill.Migrator, error) {
	return postgres.NewMigrator(s.server.pool, s.schema)
}

// Close does not wait for ever: a connection that hangs ends with the process.
func (s *postgresStore) Close() { s.server.close() }

func (s *postgresStore) Reach(ctx context.Context) error { return s.server.reach(ctx) }

func (s *postgresStore) FireAll(ctx context.Context, chunks func(fire Fire) error) error {
	return s.InTx(ctx, func(tx pgx.Tx) error {
		return chunks(func(ctx context.Context, events []Event) (int, error) {
			ctx, cancel := context.WithTimeout(ctx, chunkTimeout)
			defer cancel()
			n, err := countDeliveries(ctx, s.Registry(), tx, events)
			if err != nil {
				return 0, err
			}
			_, err = s.Store.FireAll(ctx, tx, asAny(events))
			return n, err
		})
	})
}
