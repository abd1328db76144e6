package waybill

import (
	"context"
	"time"
)

// Store keeps the rows and performs each step of the protocol as one conditional
// statement, committed alone. Both halves of a claim are part of every
// condition after the claim, so whoever lost a row changes nothing.
//
// Every method bounds its own time, also on a server that accepts and never
// answers. Time is the database's: a store stamps and compares with its clock,
// never with the process's. In one call an id may stand only once; Take and
// Record see to that.
type Store interface {
	Pauser

	// Registry returns the declarations the store was opened with.
	Registry() *Registry
	// Check reports whether the schema is the one this release works with.
	Check(ctx context.Context) error

	// Claim claims due rows of the named receivers, oldest (available_at, id)
	// first, and returns them in that order. Rows that another relay is
	// claiming are passed over. A claimed row's stamp is later than any stamp
	// it ever had.
	Claim(ctx context.Context, request ClaimRequest) ([]ClaimedRow, error)
	// ClaimLapsed claims rows whose lease has lapsed, in the same order.
	ClaimLapsed(ctx context.Context, request LapsedRequest) ([]ClaimedRow, error)
	// OwedReceivers returns the receivers that own pending or failed rows and
	// are not among the excepted keys, at a cost that does not grow with rows.
	OwedReceivers(ctx context.Context, except []string) ([]string, error)
	// GiveBack releases rows under their claims: each keeps its place and can be
	// claimed again after its delay. A run that was begun is undone: it counts
	// no start. It returns the ids that were still held so.
	GiveBack(ctx context.Context, rows []GiveBack) ([]int64, error)
	// Listen calls wake once it can hear, and then whenever rows of the lane may
	// have become due, until ctx ends; it then returns nil. It may miss some: a poll
	// is the floor. It returns an error when it can no longer hear, and ErrDeaf
	// where it never could.
	Listen(ctx context.Context, lane string, wake func()) error

	// Take moves rows from a message's claim to the worker's, stamps the
	// receiver's own lease and counts a start, only while the row is claimed
	// under exactly the message's claim, its receiver is among the leases, and
	// the receiver's lane is not paused at that moment. It returns what it took,
	// with the new claim; refused messages are absent.
	// The lease is not a condition: a lapsed row that nobody claimed anew may
	// still be taken.
	Take(ctx context.Context, request TakeRequest) ([]*Delivery, error)
	// Progress looks at the claimed rows of a lane, at a cost that grows with them.
	Progress(ctx context.Context, request ProgressRequest) (Progress, error)

	// Look returns the rows as they are now; unknown ids are absent.
	Look(ctx context.Context, ids []int64) ([]RowState, error)
	// Extend sets the lease of rows to the given length from now, under their
	// claims. It returns the ids that were still held so.
	Extend(ctx context.Context, rows []Extension) ([]int64, error)
	// Ack records outcomes under the claims. It returns the ids where the
	// outcome landed; for the others the claim was lost and nothing changed.
	Ack(ctx context.Context, acks []Ack) ([]int64, error)
}

// TxStore is a Store that can run a receiver inside the transaction that records
// its acknowledgement.
type TxStore interface {
	Store
	// TxKind names the type that run is given, as receivers declare it.
	TxKind() string
	// RunTx begins a transaction, calls run, records the ack and commits. Where
	// the claim was lost, or run or anything else returns an error, all of it
	// is rolled back. It reports whether the ack landed; run's error is
	// returned as it is.
	RunTx(ctx context.Context, ack Ack, run func(ctx context.Context, tx any) error) (landed bool, err error)
}

// TxClaimer is a Store that can claim rows in a transaction that a queue in the same
// database takes part in; see TxBackend.
type TxClaimer interface {
	Store
	// ClaimTx calls work in one transaction: what it does through claims, and what
	// it does in tx, is committed together. When work returns an error all of it is
	// rolled back, and the error is returned as it is. When the database undoes the
	// transaction for a conflict with another one, work is called again.
	ClaimTx(ctx context.Context, work func(ctx context.Context, tx any, claims Claimer) error) error
}

// Claimer is the part of a Store that comes before the hand-off, within one
// transaction. Its methods do what the Store's own do.
type Claimer interface {
	Claim(ctx context.Context, request ClaimRequest) ([]ClaimedRow, error)
	ClaimLapsed(ctx context.Context, request LapsedRequest) ([]ClaimedRow, error)
	Extend(ctx context.Context, rows []Extension) ([]int64, error)
}

// Pooled is a Store whose calls share a bounded number of connections. A worker asks
// it, because a receiver that runs in a transaction holds one for its whole run.
type Pooled interface {
	// Connections returns how many calls the store can have at the same time.
	Connections() int
}

// ClaimRequest asks for due rows.
type ClaimRequest struct {
	By        string // the relay's owner id
	Receivers []string
	Limit     int
	Lease     time.Duration // what the claim stamps on each row
}

// LapsedRequest asks for rows whose lease has lapsed: those of the named
// receivers or, with Receivers nil, of every receiver but the excepted ones.
type LapsedRequest struct {
	By        string
	Receivers []string
	Except    []string
	Limit     int
	Lease     time.Duration
	Hold      Hold
}

// Hold keeps lapsed rows back that no worker took: the queue may not have come to their
// messages yet, and as long as nobody claims such a row its own message can still take
// it. Rows that a worker took, and rows that were given back, are never kept back. The
// zero Hold keeps none.
type Hold struct {
	// Overtaken lets rows go that were handed off before it: the queue is past them, and
	// their messages are lost.
	Overtaken Stamp
	// Longest lets rows go that were handed off longer ago. Zero keeps no row back.
	Longest time.Duration
}

// Progress is what the claimed rows of a lane tell of how far the queue has come.
type Progress struct {
	// HandedOff and Taken are the newest hand-off, and the newest take, among the rows
	// that workers have now, but for those after the database's time, which was set back
	// then. They are zero if workers have none. What runs eagerly is not among them: it
	// came by no queue.
	HandedOff, Taken Stamp
	// Lapsed says that a row was handed off and not taken, and that its lease is over.
	Lapsed bool
}

// ProgressRequest names the rows to look at: those of the named receivers or, with
// Receivers nil, of every receiver but the excepted ones.
type ProgressRequest struct {
	Receivers []string
	Except    []string
}

// ClaimedRow is a row that a relay holds.
type ClaimedRow struct {
	Message
	Receiver    string
	AvailableAt Stamp
	// LostRuns counts runs of the row that were begun and never recorded an
	// outcome: their process died, or lost the row.
	LostRuns int
}

// GiveBack names a row to release.
type GiveBack struct {
	Message
	// Delay is how long nobody may claim the row. Zero is at once.
	Delay time.Duration
}

// TakeRequest asks for the rows of messages whose ids are distinct.
type TakeRequest struct {
	By       string // the worker's owner id
	Messages []Message
	Leases   []ReceiverLease // what the take stamps, and the lanes; other receivers are refused
}

// Extension asks for a longer lease.
type Extension struct {
	Message
	Lease time.Duration
}

// Ack is the outcome of a run, under the run's claim.
type Ack struct {
	Message
	Outcome Outcome
}

// RowState is what a row says of its claim.
type RowState struct {
	ID          int64
	Status      Status
	Claim       Claim
	Receiver    string
	HandedOffAt Stamp // zero: given back, or never claimed
	TakenAt     Stamp // zero: no worker took it under this hand-off
}

// Tally counts the rows of one receiver in one status.
type Tally struct {
	Receiver  string
	Status    Status
	Rows      int64
	OldestDue Stamp // when the oldest of them became owed
	Scheduled int64 // those of them that are pending and not due yet
}

// OwedEvent counts the owed rows of one receiver for one event name.
type OwedEvent struct {
	Receiver string
	Event    string
	Rows     int64
}

// InFlight counts the claimed rows of one receiver by how far they are. It tells what
// many a queue cannot.
type InFlight struct {
	Receiver string
	// Waiting rows were handed off and not taken yet: their messages are in the
	// queue, or lost. OldestHandedOff is zero if there are none.
	Waiting         int64
	OldestHandedOff Stamp
	// Running rows were taken by a worker. OldestTaken is zero if there are none.
	Running     int64
	OldestTaken Stamp
	// GivenBack rows are with nobody, and will be claimed again.
	GivenBack int64
}

// ListenChecker is a Store that can find out whether wake-ups arrive.
type ListenChecker interface {
	// CheckListen returns nil if they do, ErrDeaf if they do not although the
	// database answers, and another error if that could not be found out.
	CheckListen(ctx context.Context) error
}

// StatusReader is a Store that can be asked what is owed.
type StatusReader interface {
	// Now returns the database's clock.
	Now(ctx context.Context) (Stamp, error)
	// Tallies counts every row by receiver and status.
	Tallies(ctx context.Context) ([]Tally, error)
	// InFlight counts the claimed rows by receiver, at a cost that grows with them
	// alone.
	InFlight(ctx context.Context) ([]InFlight, error)
	// Pauses returns the pauses in force, sorted by lane.
	Pauses(ctx context.Context) ([]Pause, error)
	// OwedEvents counts owed rows by receiver and event name.
	OwedEvents(ctx context.Context) ([]OwedEvent, error)
}
