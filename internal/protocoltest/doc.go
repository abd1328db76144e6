// Package protocoltest drives the protocol, on the real stores, through what a
// bad day has in store for it, in random order, and holds a model beside it.
//
// Relays claim, extend, hand off and give back, or do the first three in one
// transaction, with a queue in the store's database; a queue (backend/local behind a
// faulty network) drops, duplicates, delays, reorders and forges messages; workers
// take, extend, run and acknowledge; any of them is killed, or is paused past its
// lease and goes on as if nothing had been; lanes are paused, by deferrals and by an
// operator, and go on; deliveries are cancelled and replayed; two workers take the same
// messages at the same moment; answers are lost, contexts end before or during a
// statement, and the database's clock leaps forward and back. After
// each step every column of every row is what the model says, and so:
//
//   - two runs of one row are never under way under valid leases (see run.over
//     for what that means on a clock that steps back);
//   - an acknowledgement lands under the row's current claim, and under no other;
//   - a stale copy changes no byte of a row;
//   - a claimed row is neither cancelled nor replayed, and a replayed one is taken under
//     no message from before;
//   - no row of a paused lane is taken, and a pause changes no byte of a row; of two
//     pauses the later end counts, unless one was set exactly;
//   - attempts and starts are exact: starts less attempts are the runs that
//     recorded no outcome;
//   - a claim that is made in one transaction with its messages is there with just
//     those, or is not there;
//   - claimed_at only grows on a row, whatever the clock does;
//   - a transactional receiver's own table has one row for each of its deliveries
//     that succeeded, one for each time after replays, and none for any other;
//   - nothing that is owed is lost: once the faults stop, one healthy round of
//     claim, enqueue, take, run and ack settles every row.
//
// The machine itself is held to the same: on a store in memory that has every guard it
// finds nothing, and of each guard that is taken out there it finds that it is missing.
//
// There is nothing here but tests.
package protocoltest
