package sqlite_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	waybill "github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/store/sqlite"
)

// BenchmarkChain is fire, claim, take and acknowledge, in batches, on a file.
// One operation is one delivery.
func BenchmarkChain(b *testing.B) {
	for _, size := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) { benchmarkChain(b, size) })
	}
}

func benchmarkChain(b *testing.B, size int) {
	ctx := b.Context()
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "bench", func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{})
	store := newStore(b, filepath.Join(b.TempDir(), "bench.db"), reg)
	if _, err := store.Migrator().Up(ctx); err != nil {
		b.Fatal(err)
	}
	spent := map[string]time.Duration{}
	step := func(name string, f func() error) {
		began := time.Now()
		if err := f(); err != nil {
			b.Fatal(name, err)
		}
		spent[name] += time.Since(began)
	}
	b.ResetTimer()
	for done := 0; done < b.N; done += size {
		var messages []waybill.Message
		var acks []waybill.Ack
		step("fire", func() error { return fireRaw(ctx, store, size) })
		step("claim", func() error {
			rows, err := store.Claim(ctx, waybill.ClaimRequest{By: "relay", Receivers: []string{"bench"}, Limit: size, Lease: time.Minute})
			for _, row := range rows {
				messages = append(messages, row.Message)
			}
			return err
		})
		step("take", func() error {
			taken, err := store.Take(ctx, waybill.TakeRequest{By: "worker", Messages: messages, Leases: reg.Leases()})
			for _, d := range taken {
				acks = append(acks, waybill.Ack{Message: waybill.Message{DeliveryID: d.ID, Claim: d.Claim},
					Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}})
			}
			return err
		})
		step("ack", func() error {
			landed, err := store.Ack(ctx, acks)
			if err == nil && len(landed) != size {
				err = fmt.Errorf("%d of %d landed", len(landed), size)
			}
			return err
		})
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	for name, time := range spent {
		b.ReportMetric(float64(time.Microseconds())/float64(b.N), name+"-µs/row")
	}
}

// fireRaw fires n events in one transaction.
func fireRaw(ctx context.Context, store *sqlite.Store, n int) error {
	events := make([]any, n)
	for i := range events {
		events[i] = waybill.RawEvent{Name: "fired", Payload: fmt.Appendf(nil, `{"n":%d}`, i)}
	}
	return store.InTx(ctx, func(tx *sql.Tx) error {
		_, err := store.FireAll(ctx, tx, events)
		return err
	})
}
