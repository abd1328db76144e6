// Package waybilltest tests receivers, and what fires to them, without a queue: with
// SQLite in memory it needs no server at all, and on PostgreSQL it reads the same.
//
//	func TestReceiptGoesOut(t *testing.T) {
//		reg, sent := receivers()
//		store := waybilltest.SQLite(t, reg)
//		waybilltest.Fire(t, store, OrderPlaced{ID: 42}) // or call what fires
//		waybilltest.Drain(t, store)
//		if got := *sent; len(got) != 1 {
//			t.Errorf("receipts %v, want one", got)
//		}
//	}
//
// Drain takes the way that deliveries take in production: relays claim, workers take,
// run and acknowledge. Only the queue between them is a list, and nobody waits for a
// backoff. DrainTx does it inside the test's own transaction, which is then rolled
// back. Fired says what was fired, Run runs one receiver on one event and no database,
// and Advance moves the store's clock, to what is scheduled for later, say.
//
// SQLite runs plain receivers, those of sqlite.OnTx and those of postgres.OnSQLTx. For
// those of postgres.OnTx use DrainTx in a pgx.Tx:
//
//	tx, err := pool.Begin(t.Context())
//	if err != nil {
//		t.Fatal(err)
//	}
//	defer tx.Rollback(context.WithoutCancel(t.Context()))
//	_, err = store.Fire(t.Context(), tx, OrderPlaced{ID: 42})
//	waybilltest.DrainTx(t, store, tx)
//
// What fails here fails the test at once, by t.Fatal. A receiver's error does not: it
// is an outcome, which Drain and Run return.
package waybilltest
