package river_test

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
)

// A consumer whose listening connection breaks while it starts begins anew: River
// itself would take that for the end of its client, and never fetch a job.
func TestConsumeStartsThoughItsListenerBreaks(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	for range 3 { // who of River's parts listens first is a matter of chance
		config := q.pool.Config()
		config.ConnConfig.DialFunc = new(breakage).dial
		pool, err := pgxpool.NewWithConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		logger, log := logtest.New()
		b := open(t, river.Config{Pool: pool, Logger: logger})
		var came atomic.Int64
		end := backendtest.Consuming(t, b, 1, func(context.Context, waybill.Message) error {
			came.Add(1)
			return nil
		})
		if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
			t.Fatal(err)
		}
		poll.Until(t, "the message comes", func() bool { return came.Load() == 1 })
		if err := end(); err != nil {
			t.Error(err)
		}
		if len(log.Lines("connection reset"))+len(log.Lines("conn closed")) == 0 {
			t.Error("nothing broke")
		}
	}
}

// breakage is a network on which a connection breaks at the second LISTEN, while
// others wait to do the same.
type breakage struct{ listens atomic.Int32 }

func (b *breakage) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &breakingConn{conn, b}, err
}

type breakingConn struct {
	net.Conn
	breakage *breakage
}

func (c *breakingConn) Write(data []byte) (int, error) {
	if bytes.Contains(data, []byte("LISTEN ")) && c.breakage.listens.Add(1) == 2 {
		time.Sleep(100 * time.Millisecond)
		c.Conn.Close()
		return 0, syscall.ECONNRESET
	}
	return c.Conn.Write(data)
}
