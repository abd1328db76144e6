package postgres_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/services"
	"github.com/waybill-go/waybill/store/postgres"
)

// The cost of each step in batches of 100, beside 200,000 due rows of another
// lane:
//
//	go test -run - -bench . -benchtime 100x ./store/postgres
const benchBatch = 100

// benchLane holds one receiver, or five.
var benchLane = []string{"mail.a", "mail.b", "mail.c", "mail.d", "mail.e"}

func BenchmarkFire(b *testing.B) {
	pool := benchPool(b)
	reg := waybill.NewRegistry()
	waybill.OnAny(reg, "mail", func(context.Context, *waybill.Delivery) error { return nil }, waybill.Options{})
	store := newStore(b, postgres.Config{Pool: pool, Registry: reg})
	events := make([]any, benchBatch)
	for i := range events {
		events[i] = waybill.RawEvent{Name: "bench", Payload: fmt.Appendf(nil, `{"n":%d,"pad":"%0300d"}`, i, i)}
	}
	for b.Loop() {
		if _, err := store.FireAll(b.Context(), pool, events); err != nil {
			b.Fatal(err)
		}
	}
	perRow(b)
}

func BenchmarkClaim(b *testing.B) {
	for _, receivers := range []int{1, 5} {
		b.Run(fmt.Sprintf("receivers=%d", receivers), func(b *testing.B) {
			store := newStore(b, postgres.Config{Pool: benchPool(b), Registry: waybill.NewRegistry()})
			for b.Loop() {
				benchClaim(b, store, receivers)
			}
			perRow(b)
		})
	}
}

// BenchmarkClaimTx is BenchmarkClaim in a transaction of two more round trips, and
// then with as many messages written in it as rows are claimed.
func BenchmarkClaimTx(b *testing.B) {
	for _, receivers := range []int{1, 5} {
		for _, enqueue := range []bool{false, true} {
			b.Run(fmt.Sprintf("receivers=%d/enqueue=%t", receivers, enqueue), func(b *testing.B) {
				pool := benchPool(b)
				if _, err := pool.Exec(b.Context(), "CREATE TABLE message (id bigint, claimed_by text, claimed_at bigint)"); err != nil {
					b.Fatal(err)
				}
				store := newStore(b, postgres.Config{Pool: pool, Registry: waybill.NewRegistry()})
				for b.Loop() {
					err := store.ClaimTx(b.Context(), func(ctx context.Context, tx any, claims waybill.Claimer) error {
						messages := benchClaim(b, claims, receivers)
						if !enqueue {
							return nil
						}
						_, err := tx.(pgx.Tx).CopyFrom(ctx, pgx.Identifier{"message"}, []string{"id", "claimed_by", "claimed_at"},
							pgx.CopyFromSlice(len(messages), func(i int) ([]any, error) {
								m := messages[i]
								return []any{m.DeliveryID, m.Claim.By, int64(m.Claim.At)}, nil
							}))
						return err
					})
					if err != nil {
						b.Fatal(err)
					}
				}
				perRow(b)
			})
		}
	}
}

func BenchmarkTakeAndAck(b *testing.B) {
	for _, c := range []struct {
		name   string
		stamps int // claims that a batch of rows comes from
	}{{"stamps=1", 1}, {"stamps=100", benchBatch}} {
		pool := benchPool(b)
		store := newStore(b, postgres.Config{Pool: pool, Registry: waybill.NewRegistry()})
		leases := make([]waybill.ReceiverLease, len(benchLane))
		for i, receiver := range benchLane {
			leases[i] = waybill.ReceiverLease{Receiver: receiver, Lane: "mail", Lease: time.Minute}
		}
		var batches [][]waybill.Message
		b.Run("take/"+c.name, func(b *testing.B) {
			batches = batches[:0]
			for range b.N {
				batches = append(batches, benchClaim(b, store, 1))
			}
			scatter(batches, c.stamps)
			b.ResetTimer()
			for i := range batches {
				taken, err := store.Take(b.Context(), waybill.TakeRequest{By: "worker", Messages: batches[i], Leases: leases})
				if err != nil || len(taken) != benchBatch {
					b.Fatalf("took %d rows: %v", len(taken), err)
				}
				for j, d := range taken {
					batches[i][j] = waybill.Message{DeliveryID: d.ID, Claim: d.Claim}
				}
			}
			perRow(b)
		})
		b.Run("ack/"+c.name, func(b *testing.B) {
			batches = batches[:0]
			for range b.N {
				batches = append(batches, benchClaim(b, store, 1))
			}
			scatter(batches, c.stamps)
			b.ResetTimer()
			for _, batch := range batches {
				acks := make([]waybill.Ack, len(batch))
				for j, message := range batch {
					acks[j] = waybill.Ack{Message: message, Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}}
				}
				landed, err := store.Ack(b.Context(), acks)
				if err != nil || len(landed) != benchBatch {
					b.Fatalf("acknowledged %d rows: %v", len(landed), err)
				}
			}
			perRow(b)
		})
	}
}

// scatter deals the rows of many claims into batches that each hold some of as
// many claims as there are, up to the number asked for.
func scatter(batches [][]waybill.Message, stamps int) {
	if stamps == 1 {
		return
	}
	for from := 0; from < len(batches); from += stamps {
		group := batches[from:min(from+stamps, len(batches))]
		var all []waybill.Message
		for i := range benchBatch {
			for _, batch := range group {
				all = append(all, batch[i])
			}
		}
		for i := range group {
			group[i] = all[i*benchBatch : (i+1)*benchBatch]
		}
	}
}

func benchClaim(b *testing.B, store waybill.Claimer, receivers int) []waybill.Message {
	b.Helper()
	rows, err := store.Claim(b.Context(), waybill.ClaimRequest{
		By: "relay", Receivers: benchLane[:receivers], Limit: benchBatch, Lease: time.Hour,
	})
	if err != nil || len(rows) != benchBatch {
		b.Fatalf("claimed %d rows: %v", len(rows), err)
	}
	messages := make([]waybill.Message, len(rows))
	for i, row := range rows {
		messages[i] = row.Message
	}
	return messages
}

// benchPool fills a database: 200,000 older rows of another lane, and 100,000 of
// ours, half of them the first receiver's.
func benchPool(b *testing.B) *pgxpool.Pool {
	b.Helper()
	pool := newPool(b, services.Postgres(b), 2)
	migrate(b, pool, "")
	if _, err := pool.Exec(b.Context(), `
WITH e AS (
    INSERT INTO waybill.event (name, version, payload, recorded_at)
    SELECT 'bench', 1, json_build_object('pad', repeat('x', 300)), now() FROM generate_series(1, 100000) RETURNING id
)
INSERT INTO waybill.delivery (event_id, receiver, target, target_digest, max_attempts, available_at, due_at)
SELECT e.id, CASE WHEN i < 2 THEN 'bulk.' || i ELSE ($1::text[])[CASE WHEN e.id % 2 = 0 THEN 1 ELSE 2 + e.id % 4 END] END,
       '', sha256(''), 5, now() - interval '1 minute' * (10 - i) + e.id * interval '1 microsecond', now()
  FROM e, generate_series(0, 2) AS i`, benchLane); err != nil {
		b.Fatal(err)
	}
	if _, err := pool.Exec(b.Context(), "VACUUM ANALYZE waybill.delivery"); err != nil {
		b.Fatal(err)
	}
	return pool
}

func perRow(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*benchBatch), "µs/row")
}
