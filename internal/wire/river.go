package wire

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/river"
)

const riverExamples = "river:, river+postgres://user:password@host:5432/database or river+sqlite:river.db"

// openRiver opens River in the store's database or, where the URL names one, in
// another.
func openRiver(config BackendConfig) (Backend, error) {
	database, schema, err := riverDatabase(config)
	if err != nil {
		return nil, err
	}
	name, _ := scheme(database)
	database = name + database[len(name):]
	switch {
	case name == "postgres", name == "postgresql":
		return openRiverOnPostgres(config, database, schema)
	case name == "sqlite" && schema != "":
		return nil, errors.New("?schema= is for River on PostgreSQL: a SQLite file has no schemas")
	case name == "sqlite":
		return openRiverOnSQLite(config, database)
	default:
		return nil, fmt.Errorf("the store's URL: %w", unknownScheme(database, storeExamples))
	}
}

// riverDatabase returns the URL of River's database, and its schema there, "" for
// the default.
func riverDatabase(config BackendConfig) (database, schema string, err error) {
	if other, ok := strings.CutPrefix(config.URL, "river+"); ok {
		if strings.HasPrefix(other, "sqlite:") {
			return other, "", nil
		}
		return cutSchema(other)
	}
	u, err := url.Parse(config.URL)
	if err != nil || u.Opaque != "" || u.Host != "" || u.Path != "" || u.Fragment != "" {
		return "", "", fmt.Errorf("river: is the store's database, and takes nothing but ?schema=name: want %s", riverExamples)
	}
	query := u.Query()
	schema = query.Get("schema")
	if query.Del("schema"); len(query) > 0 {
		return "", "", errors.New("river: takes nothing but ?schema=name")
	}
	if config.StoreURL == "" {
		return "", "", errors.New("river: is the store's database: name that too, with --store or WAYBILL_STORE, or use river+postgres://… or river+sqlite:PATH")
	}
	return config.StoreURL, schema, nil
}

// cutSchema takes what is not PostgreSQL's out of a URL.
func cutSchema(rawURL string) (database, schema string, err error) {
	u, err := parse(rawURL, riverExamples)
	if err != nil {
		return "", "", err
	}
	query := u.Query()
	if !query.Has("schema") {
		return rawURL, "", nil
	}
	schema = query.Get("schema")
	query.Del("schema")
	u.RawQuery = query.Encode()
	return u.String(), schema, nil
}

// withoutPool takes the options of a pool out of a URL.
func withoutPool(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return rawURL // to be refused by whoever opens it
	}
	query := u.Query()
	for option := range query {
		if strings.HasPrefix(option, "pool_") {
			query.Del(option)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

type riverOnPostgres struct {
	config BackendConfig
	server postgresServer
	schema string
}

// openRiverOnPostgres makes a pool of its own for what is enqueued and asked: the
// store's stays the store's. Consumers have connections of their own.
func openRiverOnPostgres(config BackendConfig, database, schema string) (Backend, error) {
	if !strings.HasPrefix(config.URL, "river+") {
		database = withoutPool(database)
	}
	server, err := openPostgresServer(database, config.Name, minConnections)
	if err != nil {
		return nil, err
	}
	return &riverOnPostgres{config, server, schema}, nil
}

func (b *riverOnPostgres) InProcess() bool                 { return false }
func (b *riverOnPostgres) Reach(ctx context.Context) error { return b.server.reach(ctx) }
func (b *riverOnPostgres) Close()                          { b.server.pool.Close() }

func (b *riverOnPostgres) Migrator() (waybill.Migrator, error) {
	return river.NewMigrator(b.server.pool, b.schema)
}

func (b *riverOnPostgres) Queue(lane string) (Queue, error) {
	return river.New(river.Config{
		Pool: b.server.pool, Schema: b.schema, Lane: lane, Drain: b.config.queueDrain(), Logger: b.config.Logger,
	})
}

type riverOnSQLite struct {
	config BackendConfig
	db     *sql.DB
}

func openRiverOnSQLite(config BackendConfig, database string) (Backend, error) {
	path, err := sqlitePath(database)
	if err != nil {
		return nil, err
	}
	if err := checkFolder(path); err != nil {
		return nil, err
	}
	db, err := river.OpenSQLite(path)
	if err != nil {
		return nil, err
	}
	return &riverOnSQLite{config, db}, nil
}

func (b *riverOnSQLite) InProcess() bool { return false }

// Reach has nothing to ask: the file need not be there before it is migrated.
func (b *riverOnSQLite) Reach(context.Context) error { return nil }

func (b *riverOnSQLite) Migrator() (waybill.Migrator, error) { return river.NewSQLiteMigrator(b.db) }

func (b *riverOnSQLite) Queue(lane string) (Queue, error) {
	return river.New(river.Config{DB: b.db, Lane: lane, Drain: b.config.queueDrain(), Logger: b.config.Logger})
}

// Close loses nothing when it fails: what was committed is in the file or its log.
func (b *riverOnSQLite) Close() { _ = b.db.Close() }
