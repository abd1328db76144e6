package protocoltest

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/waybill-go/waybill/store/sqlite"
)

// given are the flags of the command line, which beat what is set here.
var given = map[string]bool{}

func TestMain(m *testing.M) {
	flag.Parse()
	flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
	for name, value := range map[string]string{"rapid.steps": stepsOnAverage, "rapid.nofailfile": "true"} {
		if given[name] {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	goleak.VerifyTestMain(m)
}

// The test can fail. Each of these guards was taken out of a store in turn, and was
// found to be gone in so many of six runs, of 50 checks on SQLite and of 40 on
// Postgres:
//
//	take: claimed_at not compared                   6/6  6/6
//	take: claimed_by not compared                   6/6
//	take: neither compared                          6/6  6/6
//	take: does not move the claim                   6/6  6/6
//	take: claimed_at = now                          6/6  6/6
//	claim: claimed_at = now                         6/6  6/6
//	claim of lapsed rows: of live leases too        6/6  6/6
//	claim of lapsed rows: only of those given back  6/6
//	ack: by id only                                 6/6  6/6
//	ack: by id and status                           6/6  6/6
//	ack: status not compared                        6/6
//	ack: by claimed_by only                         6/6  6/6
//	ack: a deferral keeps its start                 6/6
//	give-back: without the claim                    6/6  6/6
//	give-back: a taken row keeps its start          6/6
//	give-back: the lease ends now, not long ago     6/6
//	extend: without the claim                       6/6  6/6
//	run: commits although its ack did not land      5/6  5/6
//	claim and hand-off: commits after an error      6/6  6/6
//	claim and hand-off: claims beside it                 6/6
//
// And in so many of four runs, of 40 checks and of 30:
//
//	take: of paused lanes too                       4/4  4/4
//	take: of lanes that are paused without an end   4/4  4/4
//	take: of no lane that was ever paused           4/4
//	pause: a deferral shortens it                   4/4  4/4
//
// And on SQLite, of 40 checks:
//
//	cancel: of claimed rows too                     4/4
//	cancel: of every receiver                       4/4
//	cancel: claimed_at null                         3/4
//	reopen: of claimed rows too                     4/4
//	reopen: claimed_at null                         4/4
//	reopen: keeps the starts                        4/4
//
// A take that does not compare the status goes unseen, and rightly: a row's claim is
// a relay's only while the row is claimed.
//
// What the machine finds in a store in memory that lacks a guard is in guards_test.go.
//
// The stores are tested one after the other: how many checks there are is a flag of
// the process.

func TestProtocolOnSQLite(t *testing.T) {
	checkProtocol(t, openSQLite(t, sqlite.Memory), checksOnSQLite)
}

func TestProtocolOnPostgres(t *testing.T) {
	checkProtocol(t, openPostgres(t), checksOnPostgres)
}
