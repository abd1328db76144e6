// Package waybill bridges a transactional outbox to a task queue.
//
// An application writes an event, and one delivery row per receiver, in its own
// database transaction. A relay claims due rows under a lease and hands
// (delivery_id, claimed_by, claimed_at) to a task queue the team already runs.
// A worker takes the row, runs the receiver and acknowledges on the row:
//
//	fire ─► claim ─► enqueue ─► take ─► run ─► ack
//	app's    relay    relay →    worker  user    worker → row
//	own tx   → row    queue      → row   code
//
// The message in the queue is only the waybill: the goods, the debt and the
// truth stay in the row. A lost message is still owed; a stale or duplicate one
// does nothing.
//
// This package holds the vocabulary and the rules of that protocol, once, for
// every store and every queue; it imports the standard library only. What follows
// is a tour of what an application uses; examples/ has programs to start from.
//
// # Declaring
//
// A [Registry] holds what a process declares: events by name, and receivers by key.
// Names and keys are what the database keeps, so types and functions may be renamed
// freely.
//
//	reg := waybill.NewRegistry()
//	waybill.Declare[OrderPlaced](reg, "order.placed", waybill.EventOptions{})
//	waybill.On(reg, "mail.receipt", sendReceipt, waybill.Options{Lane: "mail", Lease: time.Minute})
//	postgres.OnTx(reg, "stock.reserve", reserveStock, waybill.Options{})
//
// [On] declares a plain receiver, which holds no transaction and is right for
// whatever calls out. The stores' OnTx declares a transactional one, which runs in the
// transaction that records its acknowledgement. [OnAny] gets every event. [Options]
// says the rest: the lane, which is the relays and the queue that serve the receiver;
// the lease; attempts and [Backoff]; destinations ([TargetsOf]), a delivery for each;
// and when it is due ([DueOf]). What is wrong with a declaration is told by
// [Registry.Err], and stores, relays and workers refuse to start on it.
//
// An event type has a version ([EventOptions]). A payload that was recorded in an older
// one is upgraded when it is decoded; the record stays as it is.
//
// # Firing
//
// The tables are made once, by bridge migrate or by a program itself:
//
//	store, err := postgres.New(postgres.Config{Pool: pool, Registry: reg})
//	_, err = store.Migrator().Up(ctx)
//
// A store then writes the event and all its delivery rows by one statement, in the
// caller's transaction:
//
//	store, err := postgres.Open(ctx, pool, reg) // New, and a look at the schema
//	err = store.InTx(ctx, func(tx pgx.Tx) error {
//		if err := saveOrder(ctx, tx, order); err != nil {
//			return err
//		}
//		_, err := store.Fire(ctx, tx, OrderPlaced{ID: order.ID})
//		return err
//	})
//
// InTx also wakes the relays after the commit. In a transaction of one's own it is
// Fire, and after the commit Wake. FireSQL takes the transactions of database/sql, and
// so of sqlc, GORM and bun, whatever the driver; package store/sqlite takes those of
// SQLite.
//
// An [Envelope] carries what goes beside an event: a dedupe key, when it occurred,
// headers, a correlation id. [WithCorrelation] puts the latter into a context; what a
// receiver fires names the event that caused it by itself. [Suppress] records events
// and owes them to nobody. The stores' Cancel withdraws what is not claimed yet, and
// Reopen owes settled deliveries again, both in the caller's transaction. A receiver that
// fires has its store by postgres.StoreFrom or sqlite.StoreFrom.
//
// # Running
//
// A relay for each lane (package relay), and any number of workers (package worker),
// bring deliveries to their receivers. With transactional receivers the pool needs a
// connection for each slot of a worker and one more: eleven, by default. They may live in the application, in programs of
// their own, or in the standalone bridge and worker; cli.Main gives a team's own program
// all of their subcommands.
//
// The error that a receiver returns is its outcome: nil has succeeded, an ordinary one
// is tried again after a backoff, [RetryAfter] after exactly its wait, [Defer] without
// spending an attempt, and [Permanent] never. A panic is an ordinary error. The context
// of a run carries its [Delivery] ([DeliveryFrom]) and a logger ([LoggerFrom]). It ends
// when the run must, and context.Cause says why: [ErrLeaseLost], [ErrStopping] or
// [ErrTimeout].
//
// A receiver that is declared eager is run by the process that fired it, right after
// the commit, if that runs a worker.Eager; relays do what it does not.
//
// # Testing
//
// Package waybilltest delivers what a test has fired, without a queue and without
// waiting for backoffs, and says what was fired; with SQLite in memory it needs no
// server. Receivers of postgres.OnTx need PostgreSQL: there DrainTx does it in a
// transaction that the test rolls back.
//
// # Guarantees
//
// Delivery is at least once. A receiver that runs inside the transaction that
// records its acknowledgement (postgres.OnTx, postgres.OnSQLTx, sqlite.OnTx) is
// effectively once.
//
// An event is there if, and only if, the transaction that fired it committed, and with
// it a row for each receiver. Nothing that is owed is ever deleted.
//
// Two receivers never run one row under valid leases, and an acknowledgement lands only
// under the row's current claim. What a queue loses, repeats, delays or reorders
// changes when a receiver runs, and never whether. A process that is killed anywhere
// loses nothing; what it held waits for its lease.
//
// Time is the database's: no process's clock is compared with another's.
// docs/protocol.md states all of it step by step, with the SQL, and how it was checked.
//
// # Caveats
//
// A side effect outside the database happens again when a worker dies between
// the effect and its acknowledgement. Make the destination idempotent on
// Delivery.ID, which is the same for every attempt of one delivery and differs
// between any two deliveries.
//
// Deliveries of a lane begin in the order in which they are due, and end in any. Between
// lanes, and between the receivers of one event, there is no order at all. A lease ends a
// run by its context: a receiver that ignores that goes on beside its successor.
//
// A transactional receiver holds a connection, and the locks of what it wrote, for its
// whole run; on SQLite that is the only write lock there is. A wake-up may be lost, and
// then costs a relay's poll. A dedupe key protects for as long as its event is kept.
//
// The tables grow: this release deletes nothing, whatever retention an event declares.
// To delete the events of which nothing is owed is the application's; their deliveries
// go with them.
//
// # What an application needs of this package
//
// [Registry], [Declare], [On], [OnAny], [Options], [Envelope], [RawEvent], the outcomes,
// [DeliveryFrom], [LoggerFrom], [WithCorrelation], [Suppress], [CancelRequest] and
// [ReopenRequest]. The rest is the protocol's, for stores, queues, relays and workers.
package waybill
