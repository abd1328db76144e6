// Package storetest is the conformance suite of waybill.Store: what every store
// has to do alike, step by step, on its real database.
//
// A store's own test calls Run with a function that opens a store on an empty
// database. The suite writes rows only through the store and, where a case needs
// a state that no step leads to, through SQL that every database understands.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// Store is what the suite drives: all that a store can do.
type Store interface {
	waybill.TxStore
	waybill.TxClaimer
	waybill.StatusReader
	waybill.HistoryReader
	waybill.EventReader
	waybill.Hastener
	waybill.EagerStore
}

// Harness is a store on a migrated database that is its own, and the ways to
// look at it from the outside. Open it with the registry the case declares; it
// ends itself with t.Cleanup. Every function is safe for use by many goroutines.
type Harness struct {
	Store    Store
	Migrator waybill.Migrator

	// SetClock sets this store's offset from the database's clock.
	SetClock func(offset time.Duration)

	// InTx runs f in a transaction of the application, as the store's own InTx
	// does, and rolls it back when f returns an error.
	InTx func(ctx context.Context, f func(tx any) error) error
	// Fire fires events in such a transaction, in one call.
	Fire func(ctx context.Context, tx any, events ...any) ([]int64, error)
	// Cancel and Reopen do what the store's own methods do, in such a transaction.
	Cancel func(ctx context.Context, tx any, request waybill.CancelRequest) (waybill.CancelResult, error)
	Reopen func(ctx context.Context, tx any, request waybill.ReopenRequest) ([]int64, error)
	// ExecTx runs a statement in a transaction: one of InTx, RunTx or ClaimTx.
	ExecTx func(ctx context.Context, tx any, sql string) error
	// Wake wakes the relays of these lanes, of all if none is named. The store must
	// send every wake: what it leaves out is for its own tests.
	Wake func(ctx context.Context, lanes ...string)
	// Deaf says that something is in between through which no wake arrives.
	Deaf bool

	// Rows returns every delivery row, by id.
	Rows func(ctx context.Context) ([]Row, error)
	// Exec runs one or several statements outside any transaction. The tables
	// are named without a schema: event, delivery, lane_pause, schema_version.
	Exec func(ctx context.Context, sql string) error
	// Int returns the one whole number that a query yields.
	Int func(ctx context.Context, sql string) (int64, error)

	// Second opens another store on the same database, as another process
	// would; its SetClock moves its own clock only.
	Second func(t *testing.T, reg *waybill.Registry) Harness
}

// Row is a delivery row, every column of it. A zero Stamp is NULL.
type Row struct {
	ID             int64
	EventID        int64
	Receiver       string
	Target         string
	TargetDigest   [32]byte
	Status         waybill.Status
	Attempts       int
	Starts         int
	MaxAttempts    int
	AvailableAt    waybill.Stamp
	DueAt          waybill.Stamp
	ClaimedBy      string
	ClaimedAt      waybill.Stamp
	LeaseExpiresAt waybill.Stamp
	HandedOffAt    waybill.Stamp
	TakenAt        waybill.Stamp
	LastError      string
	SettledAt      waybill.Stamp
}

// Open opens a harness for one case.
type Open func(t *testing.T, reg *waybill.Registry) Harness

// Run runs every case of the suite, each on a database of its own.
func Run(t *testing.T, open Open) {
	groups := []struct {
		name  string
		open  Open
		cases []testCase
	}{
		{"Fire", open, fireCases},
		{"Facts", open, factCases},
		{"Dedupe", open, dedupeCases},
		{"Due", open, dueCases},
		{"Claim", open, claimCases},
		{"Lapsed", open, lapsedCases},
		{"Hold", open, holdCases},
		{"Progress", open, progressCases},
		{"GiveBack", open, giveBackCases},
		{"Take", open, takeCases},
		{"Refusal", open, refusalCases},
		{"Extend", open, extendCases},
		{"Ack", open, ackCases},
		{"RunTx", open, runTxCases},
		{"ClaimTx", open, claimTxCases},
		{"JointClaim", jointly(open), claimCases},
		{"JointLapsed", jointly(open), lapsedCases},
		{"JointHold", jointly(open), holdCases},
		{"JointExtend", jointly(open), extendCases},
		{"Eager", open, eagerCases},
		{"Cancel", open, cancelCases},
		{"Reopen", open, reopenCases},
		{"Hasten", open, hastenCases},
		{"Events", open, eventsCases},
		{"Pause", open, pauseCases},
		{"Status", open, statusCases},
		{"History", open, historyCases},
		{"Migrate", open, migrateCases},
		{"Context", open, contextCases},
		{"Listen", open, listenCases},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, c := range group.cases {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(newScene(t, group.open))
				})
			}
		})
	}
}

type testCase struct {
	name string
	run  func(b *scene)
}
