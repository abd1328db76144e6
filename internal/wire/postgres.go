package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/postgres"
)

// minConnections is what a store needs for a handful of calls at the same time.
const minConnections = 4

type postgresStore struct {
	*postgres.Store
	pool *pgxpool.Pool
	url  string
}

func openPostgres(config StoreConfig) (Store, error) {
	pool, err := postgresPool(config)
	if err != nil {
		return nil, err
	}
	store, err := postgres.New(postgres.Config{Pool: pool, Registry: config.Registry, Logger: config.Logger})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return &postgresStore{Store: store, pool: pool, url: config.URL}, nil
}

// postgresPool makes the pool. It connects when it is first used.
func postgresPool(config StoreConfig) (*pgxpool.Pool, error) {
	u, err := parse(config.URL, storeExamples)
	if err != nil {
		return nil, err
	}
	parsed, err := pgxpool.ParseConfig(config.URL)
	if err != nil {
		return nil, fmt.Errorf("the URL cannot be used: %s", reasonOf(config.URL, err))
	}
	need := max(config.Connections, minConnections)
	asked, _ := strconv.Atoi(u.Query().Get("pool_max_conns"))
	parsed.MaxConns = int32(max(need, asked))
	if parsed.ConnConfig.ConnectTimeout == 0 || parsed.ConnConfig.ConnectTimeout > reachTimeout && u.Query().Get("connect_timeout") == "" {
		parsed.ConnConfig.ConnectTimeout = reachTimeout
	}
	if parsed.ConnConfig.RuntimeParams["application_name"] == "" && config.Name != "" {
		parsed.ConnConfig.RuntimeParams["application_name"] = config.Name
	}
	return pgxpool.NewWithConfig(context.Background(), parsed) // the context has no use here: nothing is dialled yet
}

// reasonOf takes pgx's reason out of its text, which repeats the URL.
func reasonOf(rawURL string, err error) string {
	text := hide(rawURL, err)
	if _, reason, ok := strings.Cut(text, "`: "); ok {
		return reason
	}
	return text
}

func (s *postgresStore) Migrator() (waybill.Migrator, error) { return postgres.NewMigrator(s.pool, "") }

// Close does not wait for ever: a connection that hangs ends with the process.
func (s *postgresStore) Close() { s.pool.Close() }

func (s *postgresStore) FireAll(ctx context.Context, chunks func(fire Fire) error) error {
	return s.InTx(ctx, func(tx pgx.Tx) error {
		return chunks(func(ctx context.Context, events []waybill.RawEvent) (int, error) {
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

// Reach connects once.
func (s *postgresStore) Reach(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	err := s.pool.Ping(ctx)
	if err == nil {
		return nil
	}
	if refused := s.refused(err); refused != nil {
		return refused
	}
	if lost := unreachable("PostgreSQL", s.place(), err); lost != nil {
		return lost
	}
	return hidden(s.url, fmt.Errorf("PostgreSQL at %s: %w", s.place(), err))
}

// refused says what PostgreSQL has against the connection, nil if it never came
// to that.
func (s *postgresStore) refused(err error) error {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		if strings.Contains(err.Error(), "server refused TLS connection") {
			return hint(fmt.Sprintf("PostgreSQL at %s does not speak TLS", s.place()), "add ?sslmode=disable to the URL, if the network can be trusted")
		}
		return nil
	}
	conn := s.pool.Config().ConnConfig
	switch pgErr.Code {
	case "28P01", "28000":
		return hint(fmt.Sprintf("PostgreSQL at %s refuses user %q: %s", s.place(), conn.User, hide(s.url, errors.New(pgErr.Message))),
			"correct user and password in the URL, or the server's pg_hba.conf")
	case "3D000":
		return hint(fmt.Sprintf("PostgreSQL at %s has no database %q", s.place(), conn.Database), "create it (createdb), or correct the name in the URL")
	case "53300":
		return hint(fmt.Sprintf("PostgreSQL at %s has no free connection", s.place()), "raise its max_connections, or run fewer processes")
	case "57P03":
		return hint(fmt.Sprintf("PostgreSQL at %s is starting or stopping", s.place()), "try again in a moment")
	}
	return hint(fmt.Sprintf("PostgreSQL at %s: %s (SQLSTATE %s)", s.place(), hide(s.url, errors.New(pgErr.Message)), pgErr.Code), "see the server's log")
}

func (s *postgresStore) place() string {
	conn := s.pool.Config().ConnConfig
	if strings.HasPrefix(conn.Host, "/") { // a socket's folder
		return conn.Host
	}
	return net.JoinHostPort(conn.Host, strconv.Itoa(int(conn.Port)))
}
