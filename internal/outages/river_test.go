package outages

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/services"
)

// River in the store's own database: what happens to the one happens to the other.
func TestRiverInTheStoresDatabase(t *testing.T) {
	t.Parallel()
	short.through(t, onRiverShared(t))
}

// Without a window, for once.
func TestRiverInAnotherDatabase(t *testing.T) {
	t.Parallel()
	short.deep().through(t, onRiverApart(t))
}

func onRiverShared(t *testing.T) *bed {
	b := riverBed(t)
	b.store, b.direct = b.through, b.server.URL
	return b.bed
}

func onRiverApart(t *testing.T) *bed {
	b := riverBed(t)
	b.store = services.Postgres(t)
	b.direct = b.store
	return b.bed
}

// onRiver is River in the given database, with no faults.
func onRiver(t *testing.T, database string) *bed {
	migrateRiver(t, database)
	return &bed{store: database, direct: database, open: func() queue { return openRiver(t, database) }}
}

type riverServer struct {
	*bed
	server  *services.Server
	through string // its URL, through the proxy
}

// riverBed is River on a server of its own.
func riverBed(t *testing.T) riverServer {
	t.Helper()
	server := services.OwnPostgres(t)
	migrateRiver(t, server.URL)
	proxy := fault.NewProxy(t, server.Addr)
	through := at(t, server.URL, proxy.Addr())
	direct := connect(t, server.URL)
	return riverServer{server: server, through: through, bed: &bed{
		proxy: proxy,
		open:  func() queue { return openRiver(t, through) },
		restart: func() {
			server.Kill()
			server.Start()
		},
		lose: func() {
			if _, err := direct.Exec(context.Background(), "TRUNCATE "+river.DefaultSchema+".river_job"); err != nil {
				t.Error(err)
			}
		},
	}}
}

func migrateRiver(t *testing.T, database string) {
	t.Helper()
	migrator, err := river.NewMigrator(connect(t, database), "")
	if err == nil {
		_, err = migrator.Up(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

func openRiver(t *testing.T, database string) queue {
	t.Helper()
	b, err := river.New(river.Config{Pool: connect(t, database), Timeout: time.Second, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
