package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/waybill-go/waybill"
)

// Parcel is the event the cases fire.
type Parcel struct {
	N    int    `json:"n"`
	Note string `json:"note,omitempty"`
}

const parcelEvent = "parcel.sent"

// Who claims and who takes, and for how long, unless a case says otherwise.
const (
	relayID   = "relay:1"
	workerID  = "worker:1"
	stamped   = 90 * time.Second // the lease of a claim
	ownLease  = 5 * time.Minute  // the lease of a receiver, stamped by a take
	tolerance = 20 * time.Second // between two readings of a clock in one case
)

// scene is what a case plays in.
type scene struct {
	*testing.T
	Harness
	ctx  context.Context
	reg  *waybill.Registry
	open Open
}

func newScene(t *testing.T, open Open) *scene {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return &scene{T: t, ctx: ctx, reg: waybill.NewRegistry(), open: open}
}

// start opens the store with plain receivers of Parcel by these keys, beside
// whatever the case has declared before.
func (b *scene) start(keys ...string) {
	b.Helper()
	waybill.Declare[Parcel](b.reg, parcelEvent, waybill.EventOptions{})
	for _, key := range keys {
		waybill.On(b.reg, key, func(context.Context, Parcel) error { return nil }, waybill.Options{Lease: ownLease})
	}
	if err := b.reg.Err(); err != nil {
		b.Fatal(err)
	}
	b.Harness = b.open(b.T, b.reg)
}

// second opens another store on the same database.
func (b *scene) second() *scene {
	b.Helper()
	other := *b
	other.Harness = b.Second(b.T, b.reg)
	return &other
}

func (b *scene) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// fire fires events in one transaction and returns their ids.
func (b *scene) fire(events ...any) []int64 {
	b.Helper()
	var ids []int64
	b.must(b.InTx(b.ctx, func(tx any) (err error) {
		ids, err = b.Fire(b.ctx, tx, events...)
		return err
	}))
	if len(ids) != len(events) {
		b.Fatalf("fired %d events, got %d ids", len(events), len(ids))
	}
	return ids
}

// parcels fires n parcels in one transaction and returns all rows there are.
func (b *scene) parcels(n int) []Row {
	b.Helper()
	events := make([]any, n)
	for i := range events {
		events[i] = Parcel{N: i}
	}
	b.fire(events...)
	return b.rows()
}

func (b *scene) rows() []Row {
	b.Helper()
	rows, err := b.Rows(b.ctx)
	b.must(err)
	return rows
}

func (b *scene) row(id int64) Row {
	b.Helper()
	for _, row := range b.rows() {
		if row.ID == id {
			return row
		}
	}
	b.Fatalf("there is no delivery %d", id)
	return Row{}
}

func (b *scene) now() waybill.Stamp {
	b.Helper()
	now, err := b.Store.Now(b.ctx)
	b.must(err)
	return now
}

func (b *scene) exec(format string, args ...any) {
	b.Helper()
	b.must(b.Exec(b.ctx, fmt.Sprintf(format, args...)))
}

func (b *scene) count(format string, args ...any) int64 {
	b.Helper()
	n, err := b.Int(b.ctx, fmt.Sprintf(format, args...))
	b.must(err)
	return n
}

func (b *scene) claim(limit int, receivers ...string) []waybill.ClaimedRow {
	b.Helper()
	rows, err := b.Store.Claim(b.ctx, waybill.ClaimRequest{By: relayID, Receivers: receivers, Limit: limit, Lease: stamped})
	b.must(err)
	return rows
}

func (b *scene) lapsed(receivers ...string) []waybill.ClaimedRow {
	b.Helper()
	rows, err := b.Store.ClaimLapsed(b.ctx, waybill.LapsedRequest{By: relayID, Receivers: receivers, Limit: 100, Lease: stamped})
	b.must(err)
	return rows
}

// takeAs takes with the leases of the registry.
func (b *scene) takeAs(by string, messages ...waybill.Message) []*waybill.Delivery {
	b.Helper()
	taken, err := b.Store.Take(b.ctx, waybill.TakeRequest{By: by, Messages: messages, Leases: b.reg.Leases()})
	b.must(err)
	return taken
}

func (b *scene) take(messages ...waybill.Message) []*waybill.Delivery {
	b.Helper()
	return b.takeAs(workerID, messages...)
}

// claimed fires n parcels and returns their rows' messages, all claimed.
func (b *scene) claimed(n int) []waybill.Message {
	b.Helper()
	b.parcels(n)
	rows := b.claim(n, waybill.Keys(b.reg.Receivers())...)
	if len(rows) != n {
		b.Fatalf("claimed %d of %d rows", len(rows), n)
	}
	return messagesOf(rows)
}

// taken fires one parcel and returns it as a worker holds it.
func (b *scene) taken() *waybill.Delivery {
	b.Helper()
	deliveries := b.take(b.claimed(1)...)
	if len(deliveries) != 1 {
		b.Fatalf("took %d rows, want 1", len(deliveries))
	}
	return deliveries[0]
}

func (b *scene) ack(acks ...waybill.Ack) []int64 {
	b.Helper()
	ids, err := b.Store.Ack(b.ctx, acks)
	b.must(err)
	return ids
}

// unchanged fails the case unless f leaves every row as it was.
func (b *scene) unchanged(f func()) {
	b.Helper()
	before := b.rows()
	f()
	after := b.rows()
	if !reflect.DeepEqual(before, after) {
		b.Fatalf("rows changed\nfrom %+v\nto   %+v", before, after)
	}
}

// equal fails the case unless got is want.
func equal[T any](b *scene, what string, got, want T) {
	b.Helper()
	if !reflect.DeepEqual(got, want) {
		b.Fatalf("%s: got %+v, want %+v", what, got, want)
	}
}

// sameIDs compares without regard to order; nil is none.
func sameIDs(b *scene, what string, got, want []int64) {
	b.Helper()
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		b.Fatalf("%s: got ids %v, want %v", what, got, want)
	}
}

// near fails the case unless got lies within the tolerance of want.
func near(b *scene, what string, got, want waybill.Stamp) {
	b.Helper()
	if off := got.Time().Sub(want.Time()); got == 0 || off.Abs() > tolerance {
		b.Fatalf("%s: got %s, want about %s", what, got, want)
	}
}

func wantErr(b *scene, what string, err error) {
	b.Helper()
	if err == nil {
		b.Fatalf("%s: no error", what)
	}
}

var errRollBack = errors.New("roll back")

func messagesOf(rows []waybill.ClaimedRow) []waybill.Message {
	messages := make([]waybill.Message, len(rows))
	for i, row := range rows {
		messages[i] = row.Message
	}
	return messages
}

func messageOf(d *waybill.Delivery) waybill.Message {
	return waybill.Message{DeliveryID: d.ID, Claim: d.Claim}
}

func claimedIDs(rows []waybill.ClaimedRow) []int64 {
	ids := make([]int64, len(rows))
	for i, row := range rows {
		ids[i] = row.DeliveryID
	}
	return ids
}
