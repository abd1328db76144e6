package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
)

var dueCases = []testCase{
	{"a scheduled row is claimed when it is due and not before", func(b *scene) {
		var due time.Time
		scheduled(b, func() (time.Time, error) { return due, nil })
		due = b.now().Time().Add(time.Hour)
		b.fire(Parcel{})
		row := b.rows()[0]
		equal(b, "available_at", row.AvailableAt, waybill.StampOf(due))
		equal(b, "due_at", row.DueAt, waybill.StampOf(due))
		equal(b, "claimed at once", len(b.claim(10, "later")), 0)
		b.SetClock(time.Hour + tolerance)
		claimed := b.claim(10, "later")
		equal(b, "claimed when it is due", len(claimed), 1)
		d := b.take(claimed[0].Message)[0]
		equal(b, "due as the run sees it", d.DueAt, row.DueAt.Time())
	}},
	{"what is scheduled is counted apart until it is due", func(b *scene) {
		scheduled(b, func() (time.Time, error) { return time.Now().Add(time.Hour), nil }, "now")
		b.fire(Parcel{}, Parcel{})
		for offset, want := range map[time.Duration]int64{0: 2, 2 * time.Hour: 0} {
			b.SetClock(offset)
			for _, tally := range b.tallies() {
				if tally.Receiver == "now" {
					equal(b, "scheduled of a plain one", tally.Scheduled, 0)
				} else {
					equal(b, "scheduled", tally.Scheduled, want)
				}
			}
		}
	}},
	{"a time that is past, and none, are at once", func(b *scene) {
		for _, past := range []time.Time{{}, time.Unix(0, 0), time.Now().Add(-time.Hour)} {
			scheduled(b, func() (time.Time, error) { return past, nil })
			b.fire(Parcel{})
			row := b.rows()[0]
			near(b, "available_at", row.AvailableAt, b.now())
			equal(b, "due_at", row.DueAt, row.AvailableAt)
			b.reg = waybill.NewRegistry()
		}
	}},
	{"a plain receiver of the same event is due at once", func(b *scene) {
		scheduled(b, func() (time.Time, error) { return time.Now().Add(time.Hour), nil }, "now")
		b.fire(Parcel{})
		rows := b.claim(10, "now", "later")
		equal(b, "claimed", len(rows), 1)
		equal(b, "receiver", rows[0].Receiver, "now")
	}},
	{"a due time that cannot be told fails the fire", func(b *scene) {
		broken := errors.New("no calendar")
		scheduled(b, func() (time.Time, error) { return time.Time{}, broken })
		err := b.InTx(b.ctx, func(tx any) error {
			_, err := b.Fire(b.ctx, tx, Parcel{})
			return err
		})
		if !errors.Is(err, broken) {
			b.Fatalf("fire returned %v, want the receiver's error", err)
		}
		equal(b, "events", b.count("SELECT count(*) FROM event"), 0)
	}},
}

// scheduled opens the store with a receiver "later" that is due at that time, and plain
// ones by these keys.
func scheduled(b *scene, due func() (time.Time, error), keys ...string) {
	b.Helper()
	waybill.Declare[Parcel](b.reg, parcelEvent, waybill.EventOptions{})
	waybill.On(b.reg, "later", func(context.Context, Parcel) error { return nil }, waybill.Options{
		Lease: ownLease,
		Due:   waybill.DueOf(func(context.Context, Parcel) (time.Time, error) { return due() }),
	})
	b.start(keys...)
}
