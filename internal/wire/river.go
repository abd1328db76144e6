package wire

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/river"
)

const riverExamples = "river:, river+postgres://user:password@host:5432/database or river+sqlite:river.db"

// openRiver opens River in the store's database or, where the URL names one, in
// another.
func openRiver(config BackendConfig) (Backend, error) {
	database, options, err := riverDatabase(config)
	if err != nil {
		return nil, err
	}
	name, _ := scheme(database)
	database = name + database[len(name):]
	switch {
	case name == "postgres", name == "postgresql":
		return openRiverOnPostgres(config, database, options)
	case name == "sqlite" && options != riverOptions{}:
		return nil, errors.New("?schema= and ?poll_only= are for River on PostgreSQL: a SQLite file has neither schemas nor connection poolers")
	case name == "sqlite":
		return openRiverOnSQLite(config, database)
	default:
		return nil, fmt.Errorf("the store's URL: %w", unknownScheme(database, storeExamples))
	}
}

// riverOptions are what a URL may say of River on PostgreSQL.
type riverOptions struct {
	schema   string // "" is the default
	pollOnly bool
}

// take takes the options out of a query.
func (o *riverOptions) take(query url.Values) error {
	o.schema = query.Get("schema")
	if query.Has("poll_only") {
		only, err := strconv.ParseBool(query.Get("poll_only"))
		if err != nil {
			return errors.New("?poll_only= is true or false")
		}
		o.pollOnly = only
	}
	query.Del("schema")
	query.Del("poll_only")
	return nil
}

// riverDatabase returns the URL of River's database, and the options for it.
func riverDatabase(config BackendConfig) (database string, options riverOptions, err error) {
	if other, ok := strings.CutPrefix(config.URL, "river+"); ok {
		if strings.HasPrefix(other, "sqlite:") {
			return other, options, nil
		}
		return cutOptions(other)
	}
	u, err := url.Parse(config.URL)
	if err != nil || u.Opaque != "" || u.Host != "" || u.Path != "" || u.Fragment != "" {
		return "", options, fmt.Errorf("river: is the store's database, and takes nothing but ?schema=name and ?poll_only=true: want %s", riverExamples)
	}
	query := u.Query()
	if err := options.take(query); err != nil {
		return "", options, err
	}
	if len(query) > 0 {
		return "", options, errors.New("river: takes nothing but ?schema=name and ?poll_only=true")
	}
	if config.StoreURL == "" {
		return "", options, errors.New("river: is the store's database: name that too, with --store or WAYBILL_STORE, or use river+postgres://… or river+sqlite:PATH")
	}
	return config.StoreURL, options, nil
}

// cutOptions takes what is not PostgreSQL's out of a URL.
func cutOptions(rawURL string) (database string, options riverOptions, err error) {
	u, err := parse(rawURL, riverExamples)
	if err != nil {
		return "", options, err
	}
	query := u.Query()
	if !query.Has("schema") && !query.Has("poll_only") {
		return rawURL, options, nil
	}
	if err := options.take(query); err != nil {
		return "", options, err
	}
	u.RawQuery = query.Encode()
	return u.String(), options, nil
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
	riverOptions
}

// openRiverOnPostgres makes a pool of its own for what is enqueued and asked: the
// store's stays the store's. Consumers have connections of their own.
func openRiverOnPostgres(config BackendConfig, database string, options riverOptions) (Backend, error) {
	if !strings.HasPrefix(config.URL, "river+") {
		database = withoutPool(database)
	}
	server, err := openPostgresServer(database, config.Name, minConnections)
	if err != nil {
		return nil, err
	}
	return &riverOnPostgres{config, server, options}, nil
}

func (b *riverOnPostgres) InProcess() bool                 { return false }
func (b *riverOnPostgres) Reach(ctx context.Context) error { return b.server.reach(ctx) }
func (b *riverOnPostgres) Close()                          { b.server.close() }

func (b *riverOnPostgres) Migrator() (waybill.Migrator, error) {
	return river.NewMigrator(b.server.pool, b.schema)
}

func (b *riverOnPostgres) Queue(lane string) (Queue, error) {
	return river.New(river.Config{
		Pool: b.server.pool, Schema: b.schema, PollOnly: b.pollOnly, FetchPollInterval: b.pollInterval(),
		Lane: lane, Drain: b.config.queueDrain(), Logger: b.config.Logger,
	})
}

// pollInterval is short where nothing else tells of a job.
func (b *riverOnPostgres) pollInterval() time.Duration {
	if b.pollOnly {
		return 200 * time.Millisecond
	}
	return 0 // the default
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
