package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresServer is a PostgreSQL with a pool of connections to it.
type postgresServer struct {
	url  string
	pool *pgxpool.Pool
}

// openPostgresServer makes the pool, of at least the given size: a pool_max_conns that
// is less than the process needs is not heeded. It connects when it is first used.
func openPostgresServer(rawURL, name string, need int) (postgresServer, error) {
	u, err := parse(rawURL, postgresExample)
	if err != nil {
		return postgresServer{}, err
	}
	parsed, err := pgxpool.ParseConfig(rawURL)
	if err != nil {
		return postgresServer{}, fmt.Errorf("the URL cannot be used: %s", reasonOf(rawURL, err))
	}
	if u.Host != "" && strings.Contains(parsed.ConnConfig.Host, "@") { // the end of a password
		return postgresServer{}, errUnreadable(postgresExample)
	}
	asked, _ := strconv.Atoi(u.Query().Get("pool_max_conns"))
	parsed.MaxConns = int32(max(need, asked))
	if parsed.ConnConfig.ConnectTimeout == 0 || parsed.ConnConfig.ConnectTimeout > reachTimeout && u.Query().Get("connect_timeout") == "" {
		parsed.ConnConfig.ConnectTimeout = reachTimeout
	}
	if parsed.ConnConfig.RuntimeParams["application_name"] == "" && name != "" {
		parsed.ConnConfig.RuntimeParams["application_name"] = name
	}
	if !u.Query().Has("default_query_exec_mode") {
		parsed.BeforeConnect = new(pooler).choose
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), parsed) // the context has no use here: nothing is dialled yet
	return postgresServer{rawURL, pool}, err
}

// reasonOf takes pgx's reason out of its text, which repeats the URL.
func reasonOf(rawURL string, err error) string {
	text := hide(rawURL, err)
	if _, reason, ok := strings.Cut(text, "`: "); ok {
		return reason
	}
	return text
}

// closeTimeout bounds an orderly end of the connections.
const closeTimeout = time.Second

// close ends the connections. Each waits until the server has closed it, for 15 s
// where the server is silent: a process that stops is not kept for that, and what
// it leaves behind ends with it.
func (s postgresServer) close() {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		s.pool.Close()
	}()
	timer := time.NewTimer(closeTimeout)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}

// reach connects once.
func (s postgresServer) reach(ctx context.Context) error {
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
func (s postgresServer) refused(err error) error {
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
	case "08P01":
		if strings.Contains(pgErr.Message, "startup parameter") {
			return hint(fmt.Sprintf("PostgreSQL at %s: %s", s.place(), hide(s.url, errors.New(pgErr.Message))),
				"a pooler takes no settings of a connection: take it out of the URL and set it for the role or the database, or name it in the pooler's ignore_startup_parameters to do without it")
		}
	case "57P03":
		return hint(fmt.Sprintf("PostgreSQL at %s is starting or stopping", s.place()), "try again in a moment")
	}
	return hint(fmt.Sprintf("PostgreSQL at %s: %s (SQLSTATE %s)", s.place(), hide(s.url, errors.New(pgErr.Message)), pgErr.Code), "see the server's log")
}

func (s postgresServer) place() string {
	conn := s.pool.Config().ConnConfig
	if strings.HasPrefix(conn.Host, "/") { // a socket's folder
		return conn.Host
	}
	return net.JoinHostPort(conn.Host, strconv.Itoa(int(conn.Port)))
}
