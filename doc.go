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
// every store and every queue; it imports the standard library only.
//
//   - Declare, On and OnAny put events and receivers into a Registry.
//   - Registry.Plan turns a fired value into the rows that are owed for it.
//   - Store and TaskBackend are the ports: store/postgres and store/sqlite keep
//     the rows, backend/asynq and backend/local carry the messages.
//   - Take, Lease and Judge are the protocol's rules about a message, a running
//     receiver and its returned error.
//   - A Pause stops one lane, everywhere, until it ends or is ended.
//
// # Guarantees
//
// Delivery is at least once. A receiver that runs inside the transaction that
// records its acknowledgement (postgres.OnTx, sqlite.OnTx) is effectively once.
// Nothing that is owed is ever deleted. Two receivers never run one row under
// valid leases, and an acknowledgement lands only under the row's current claim.
//
// # Caveats
//
// A side effect outside the database happens again when a worker dies between
// the effect and its acknowledgement. Make the destination idempotent on
// Delivery.ID, which is the same for every attempt of one delivery and differs
// between any two deliveries.
package waybill
