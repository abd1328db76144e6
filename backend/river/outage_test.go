package river_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/backendtest"
	"github.com/waybill-go/waybill/backend/river"
	"github.com/waybill-go/waybill/internal/fault"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/internal/poll"
	"github.com/waybill-go/waybill/internal/services"
)

// A consumer waits for tables that are not there yet, says so once, and begins
// when they are.
func TestConsumeWaitsForTables(t *testing.T) {
	t.Parallel()
	pool := connect(t, services.Postgres(t))
	logger, log := logtest.New()
	b := open(t, river.Config{Pool: pool, Logger: logger})
	var came atomic.Int64
	end := backendtest.Consuming(t, b, 1, func(context.Context, waybill.Message) error {
		came.Add(1)
		return nil
	})
	poll.Until(t, "the consumer says that it waits", func() bool { return len(log.Lines("level=WARN")) > 0 })
	time.Sleep(500 * time.Millisecond) // it tries again, and again
	log.Want(t, 1, "level=WARN")
	log.Want(t, 1, "level=WARN", "waiting for it", river.DefaultSchema)
	migrator, err := river.NewMigrator(pool, "")
	if err != nil {
		t.Fatal(err)
	}
	up(t, migrator)
	if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the message comes", func() bool { return came.Load() == 1 })
	if err := end(); err != nil {
		t.Error(err)
	}
}

// An outage is one line of each kind, however long it is.
func TestOutageDoesNotFloodTheLog(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	proxy := fault.NewProxy(t, hostOf(t, q.url))
	pool := connect(t, through(t, q.url, proxy.Addr()))
	logger, log := logtest.New()
	b := open(t, river.Config{Pool: pool, Logger: logger, FetchPollInterval: 50 * time.Millisecond})
	var came atomic.Int64
	end := backendtest.Consuming(t, b, 2, func(context.Context, waybill.Message) error {
		came.Add(1)
		return nil
	})
	if _, err := b.Enqueue(t.Context(), messages(1, 1)); err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "a message comes", func() bool { return came.Load() == 1 })
	proxy.Cut()
	poll.Until(t, "fetching has failed many times", func() bool { return len(log.Lines("Error fetching jobs")) > 10 })
	proxy.Restore()
	poll.Until(t, "messages come again", func() bool {
		_, err := b.Enqueue(t.Context(), messages(2, 1))
		return err == nil && came.Load() > 1
	})
	if err := end(); err != nil {
		t.Error(err)
	}
	log.Want(t, 1, "level=WARN", "Error fetching jobs")
	log.Want(t, 0, "level=ERROR")
	said := make(map[string]int) // each part of River may say it once
	for _, line := range log.Lines("level=WARN") {
		_, detail, _ := strings.Cut(line, `detail="`)
		detail, _, _ = strings.Cut(detail, `"`)
		if said[detail]++; said[detail] > 1 {
			t.Errorf("%d warnings of one kind: %s", said[detail], line)
		}
	}
}

// A consumer whose database hangs from the beginning can be ended.
func TestConsumeEndsThoughStartHangs(t *testing.T) {
	t.Parallel()
	q := newPostgresQueue(t)
	proxy := fault.NewProxy(t, hostOf(t, q.url))
	proxy.Hold()
	b := open(t, river.Config{Pool: connect(t, through(t, q.url, proxy.Addr()))})
	end := backendtest.Consuming(t, b, 1, func(context.Context, waybill.Message) error { return nil })
	time.Sleep(200 * time.Millisecond) // it connects, in vain
	begun := time.Now()
	if err := end(); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("the end took %s", took)
	}
}
