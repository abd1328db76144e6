package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/waybill-go/waybill"
)

var eagerCases = []testCase{
	{"tells of what was committed for eager receivers, and of nothing else", func(b *scene) {
		b.eager("e", waybill.Options{Eager: true, Lane: "quick"})
		b.eager("later", waybill.Options{Eager: true, Lane: "slow", Due: waybill.DueOf(func(context.Context, Parcel) (time.Time, error) {
			return time.Now().Add(time.Hour), nil
		})})
		waybill.Declare[other](b.reg, "other", waybill.EventOptions{})
		waybill.On(b.reg, "o", func(context.Context, other) error { return nil }, waybill.Options{Lane: "others"})
		b.start("a")
		told := b.told(true)
		err := b.InTx(b.ctx, func(tx any) error {
			if _, err := b.Fire(b.ctx, tx, Parcel{}); err != nil {
				return err
			}
			return errRollBack
		})
		if !errors.Is(err, errRollBack) {
			b.Fatal(err)
		}
		b.fire(other{})
		ids := b.fire(Parcel{}, other{}, Parcel{})
		equal(b, "told", *told, []waybill.EagerFired{{Events: []int64{ids[0], ids[2]}, Lanes: []string{"quick"}}})
	}},
	{"tells one, until that one leaves", func(b *scene) {
		b.eager("e", waybill.Options{Eager: true})
		b.start()
		stop, err := b.Store.OnCommit(func(context.Context, waybill.EagerFired) bool { return true })
		b.must(err)
		_, err = b.Store.OnCommit(func(context.Context, waybill.EagerFired) bool { return true })
		wantErr(b, "a second one", err)
		stop()
		told := b.told(true)
		b.fire(Parcel{})
		equal(b, "told", len(*told), 1)
	}},
	{"tells of what a transactional receiver fired once its outcome is there", func(b *scene) {
		b.eager("e", waybill.Options{Eager: true})
		b.start("a")
		message := b.claimed(1)[0]
		d := b.take(message)[0]
		told := b.told(true)
		ack := waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: waybill.Succeeded, Attempted: true}}
		var id int64
		landed, err := b.Store.RunTx(b.ctx, ack, func(ctx context.Context, tx any) error {
			ids, err := b.Fire(ctx, tx, Parcel{N: 2})
			if err == nil {
				id = ids[0]
			}
			equal(b, "told before the commit", len(*told), 0)
			return err
		})
		b.must(err)
		equal(b, "landed", landed, true)
		equal(b, "told", *told, []waybill.EagerFired{{Events: []int64{id}, Lanes: []string{waybill.DefaultLane}}})
	}},
	{"claims exactly those rows, and hands none off", func(b *scene) {
		b.eager("e", waybill.Options{Eager: true})
		b.start("a")
		ids := b.fire(Parcel{}, Parcel{}, Parcel{})
		rows, err := b.Store.ClaimFired(b.ctx, waybill.FiredRequest{By: relayID, Events: ids[:2], Receivers: eagerly("e"), Limit: 10, Lease: stamped})
		b.must(err)
		equal(b, "claimed", len(rows), 2)
		now := b.now()
		for i, claimed := range rows {
			row := b.row(claimed.DeliveryID)
			equal(b, "event", row.EventID, ids[i])
			near(b, "lease", row.LeaseExpiresAt, now.Add(stamped))
			equal(b, "row", []any{row.Receiver, row.Status, row.ClaimedBy, row.ClaimedAt, row.HandedOffAt, row.TakenAt},
				[]any{"e", waybill.Claimed, relayID, claimed.Claim.At, waybill.Stamp(0), waybill.Stamp(0)})
		}
		again, err := b.Store.ClaimFired(b.ctx, waybill.FiredRequest{By: "another", Events: ids[:2], Receivers: eagerly("e"), Limit: 10, Lease: stamped})
		b.must(err)
		equal(b, "claimed again", len(again), 0)
		limited, err := b.Store.ClaimFired(b.ctx, waybill.FiredRequest{By: relayID, Events: ids, Receivers: eagerly("a", "e"), Limit: 3, Lease: stamped})
		b.must(err)
		equal(b, "within a limit", len(limited), 3)
		d := b.take(rows[0].Message)[0]
		equal(b, "handed off, as the run sees it", d.HandedOffAt.IsZero(), true)
		inFlight, err := b.Store.InFlight(b.ctx)
		b.must(err)
		equal(b, "in flight of e", inFlight[1].Running, 1)
	}},
	{"leaves what is scheduled, failed or settled", func(b *scene) {
		b.eager("e", waybill.Options{Eager: true, Due: waybill.DueOf(func(context.Context, Parcel) (time.Time, error) {
			return time.Now().Add(time.Hour), nil
		})})
		b.start("a", "c")
		event := b.fire(Parcel{})[0]
		for key, status := range map[string]waybill.Status{"a": waybill.Failed, "c": waybill.Succeeded} {
			d := b.take(b.claim(1, key)[0].Message)[0]
			b.ack(waybill.Ack{Message: messageOf(d), Outcome: waybill.Outcome{Status: status, Attempted: true}})
		}
		b.unchanged(func() {
			rows, err := b.Store.ClaimFired(b.ctx, waybill.FiredRequest{By: relayID, Events: []int64{event}, Receivers: eagerly("a", "c", "e"), Limit: 10, Lease: stamped})
			b.must(err)
			equal(b, "claimed", len(rows), 0)
		})
	}},
	{"is no progress of the queue", func(b *scene) {
		b.eager("e", waybill.Options{Eager: true})
		b.start()
		event := b.fire(Parcel{})[0]
		rows, err := b.Store.ClaimFired(b.ctx, waybill.FiredRequest{By: relayID, Events: []int64{event}, Receivers: eagerly("e"), Limit: 10, Lease: stamped})
		b.must(err)
		b.take(rows[0].Message)
		equal(b, "progress", b.progress(waybill.ProgressRequest{}), waybill.Progress{})
	}},
	{"leaves the rows of a lane that is paused", func(b *scene) {
		b.eager("e", waybill.Options{Eager: true})
		b.start()
		event := b.fire(Parcel{})[0]
		_, err := b.Store.PauseLane(b.ctx, waybill.PauseRequest{Lane: "default", By: "test", Reason: "r"})
		b.must(err)
		claim := func() int {
			rows, err := b.Store.ClaimFired(b.ctx, waybill.FiredRequest{By: relayID, Events: []int64{event}, Receivers: eagerly("e"), Limit: 10, Lease: stamped})
			b.must(err)
			return len(rows)
		}
		b.unchanged(func() { equal(b, "claimed in a pause", claim(), 0) })
		_, err = b.Store.ResumeLane(b.ctx, "default")
		b.must(err)
		equal(b, "claimed after it", claim(), 1)
	}},
	// Nobody has a message of it: a relay that holds lapsed rows back must not wait for one.
	{"has its lapsed rows claimed at once", func(b *scene) {
		b.eager("e", waybill.Options{Eager: true})
		b.start()
		event := b.fire(Parcel{})[0]
		_, err := b.Store.ClaimFired(b.ctx, waybill.FiredRequest{By: "gone", Events: []int64{event}, Receivers: eagerly("e"), Limit: 10, Lease: time.Second})
		b.must(err)
		b.SetClock(time.Minute)
		rows, err := b.Store.ClaimLapsed(b.ctx, waybill.LapsedRequest{
			By: relayID, Receivers: []string{"e"}, Limit: 10, Lease: stamped, Hold: waybill.Hold{Longest: time.Hour},
		})
		b.must(err)
		equal(b, "claimed", len(rows), 1)
	}},
}

type other struct{}

// eagerly names receivers of the default lane.
func eagerly(keys ...string) []waybill.ReceiverLease {
	receivers := make([]waybill.ReceiverLease, len(keys))
	for i, key := range keys {
		receivers[i] = waybill.ReceiverLease{Receiver: key, Lane: waybill.DefaultLane}
	}
	return receivers
}

// eager declares a receiver of Parcel.
func (b *scene) eager(key string, options waybill.Options) {
	b.Helper()
	waybill.Declare[Parcel](b.reg, parcelEvent, waybill.EventOptions{})
	waybill.On(b.reg, key, func(context.Context, Parcel) error { return nil }, options)
}

// told returns what the store tells of from now on.
func (b *scene) told(seenTo bool) *[]waybill.EagerFired {
	b.Helper()
	var told []waybill.EagerFired
	_, err := b.Store.OnCommit(func(_ context.Context, fired waybill.EagerFired) bool {
		told = append(told, fired)
		return seenTo
	})
	b.must(err)
	return &told
}
