package services

import (
	"context"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestOwnPgBouncerSharesConnections: in transaction mode more clients than there are
// connections are answered, over no more than there are; in session mode each has
// one of its own.
func TestOwnPgBouncerSharesConnections(t *testing.T) {
	t.Parallel()
	for mode, start := range map[string]func(testing.TB, string) string{"transaction": OwnPgBouncer, "session": OwnSessionPgBouncer} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			through := start(t, Postgres(t))
			const clients = 4 * pooledConnections
			backends := map[int]bool{}
			for range clients {
				backends[backend(t, connect(t, through))] = true
			}
			if shared := len(backends) <= pooledConnections; shared != (mode == "transaction") {
				t.Errorf("%d clients were answered by %d connections", clients, len(backends))
			}
			// It lets in whom the server lets in.
			wrong, err := url.Parse(through)
			if err != nil {
				t.Fatal(err)
			}
			wrong.User = url.UserPassword(wrong.User.Username(), "wrong")
			if conn, err := pgx.Connect(t.Context(), wrong.String()); err == nil {
				conn.Close(context.Background())
				t.Error("a wrong password was let in")
			}
		})
	}
}

// backend asks who answers, with no statement that would have to be there already.
func backend(t *testing.T, conn *pgx.Conn) (pid int) {
	t.Helper()
	if err := conn.QueryRow(t.Context(), "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid); err != nil {
		t.Fatal(err)
	}
	return pid
}
