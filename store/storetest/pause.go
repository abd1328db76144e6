package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/waybill-go/waybill"
)

// startLanes opens the store with receivers a and b of lane mail, and c of the
// default one.
func (b *scene) startLanes() {
	b.Helper()
	waybill.Declare[Parcel](b.reg, parcelEvent, waybill.EventOptions{})
	for _, key := range []string{"a", "b"} {
		waybill.On(b.reg, key, func(context.Context, Parcel) error { return nil }, waybill.Options{Lane: "mail", Lease: ownLease})
	}
	b.start("c")
}

func (b *scene) pause(request waybill.PauseRequest) waybill.Pause {
	b.Helper()
	pause, err := b.Store.PauseLane(b.ctx, request)
	b.must(err)
	return pause
}

func (b *scene) resume(lane string) bool {
	b.Helper()
	ended, err := b.Store.ResumeLane(b.ctx, lane)
	b.must(err)
	return ended
}

func (b *scene) pauses() []waybill.Pause {
	b.Helper()
	pauses, err := b.Store.Pauses(b.ctx)
	b.must(err)
	return pauses
}

// deferral is what a worker asks for, operator what a person does.
func deferral(lane string, length time.Duration) waybill.PauseRequest {
	return waybill.PauseRequest{Lane: lane, For: length, By: workerID, Reason: "throttled"}
}

func operator(lane string, length time.Duration) waybill.PauseRequest {
	return waybill.PauseRequest{Lane: lane, For: length, By: "ann", Reason: "moving house", Exact: true}
}

// Who keeps the later end, whose clock decides, and that a pause is no more than a
// pause.
var pauseCases = []testCase{
	{"is told by lane, with who and why and how long", func(b *scene) {
		b.start()
		equal(b, "pauses of nothing", len(b.pauses()), 0)
		now := b.now()
		long := b.pause(operator("post", 0))
		short := b.pause(deferral("mail", time.Minute))
		equal(b, "pauses", lanesOf(b.pauses()), []string{"mail", "post"})
		got := b.pauses()
		near(b, "since", got[0].Since, now)
		equal(b, "until", got[0].Until, got[0].Since.Add(time.Minute))
		if left := got[0].Left; left <= time.Minute-tolerance || left > time.Minute {
			b.Fatalf("left: %s of a minute", left)
		}
		got[0].Left, short.Left = 0, 0
		equal(b, "mail", got[0], short)
		equal(b, "mail", short, waybill.Pause{Lane: "mail", Until: short.Until, By: workerID, Reason: "throttled", Since: short.Since})
		equal(b, "post", got[1], long)
		equal(b, "post", long, waybill.Pause{Lane: "post", By: "ann", Reason: "moving house", Since: long.Since})
	}},
	{"ends by itself, exactly, by the database's clock", func(b *scene) {
		b.start()
		pause := b.pause(deferral("mail", time.Hour))
		b.SetClock(hour - time.Minute)
		equal(b, "before its end", len(b.pauses()), 1)
		if left := b.pauses()[0].Left; left <= time.Minute-tolerance || left > time.Minute {
			b.Fatalf("left: %s of a minute", left)
		}
		b.SetClock(hour + time.Minute)
		equal(b, "after its end", len(b.pauses()), 0)
		b.SetClock(-hour)
		equal(b, "on a clock that stepped back", b.pauses()[0].Until, pause.Until)
		b.SetClock(100000 * hour)
		b.pause(operator("post", 0))
		equal(b, "without an end", lanesOf(b.pauses()), []string{"post"})
	}},
	{"is extended by a later deferral and never shortened by one", func(b *scene) {
		b.start()
		first := b.pause(deferral("mail", time.Minute))
		shorter := deferral("mail", time.Second)
		shorter.By = "worker:2"
		kept := b.pause(shorter)
		equal(b, "after a shorter one", [2]any{kept.Until, kept.By}, [2]any{first.Until, workerID})
		longer := deferral("mail", time.Hour)
		longer.By, longer.Reason = "worker:2", "throttled for long"
		got := b.pause(longer)
		equal(b, "who and why", [2]string{got.By, got.Reason}, [2]string{"worker:2", "throttled for long"})
		near(b, "until", got.Until, b.now().Add(time.Hour))
		equal(b, "since", got.Since, first.Since)
		equal(b, "pauses", len(b.pauses()), 1)
	}},
	{"of an operator is not shortened by a deferral, and may be prolonged", func(b *scene) {
		b.start()
		b.pause(operator("mail", 0))
		got := b.pause(deferral("mail", 24*time.Hour))
		equal(b, "without an end", [2]any{got.Until, got.By}, [2]any{waybill.Stamp(0), "ann"})
		b.pause(operator("mail", time.Hour))
		equal(b, "a shorter deferral", b.pause(deferral("mail", time.Minute)).By, "ann")
		equal(b, "a longer deferral", b.pause(deferral("mail", 24*time.Hour)).By, workerID)
	}},
	{"is set exactly by an operator", func(b *scene) {
		b.start()
		first := b.pause(deferral("mail", 24*time.Hour))
		got := b.pause(operator("mail", time.Minute))
		near(b, "until", got.Until, b.now().Add(time.Minute))
		equal(b, "who and since when", [2]any{got.By, got.Since}, [2]any{"ann", first.Since})
		equal(b, "without an end", b.pause(operator("mail", 0)).Until, 0)
		near(b, "with one again", b.pause(operator("mail", time.Minute)).Until, b.now().Add(time.Minute))
	}},
	{"begins anew when the one before is over", func(b *scene) {
		b.start()
		b.pause(deferral("mail", time.Hour))
		b.SetClock(2 * hour)
		got := b.pause(deferral("mail", time.Minute))
		near(b, "since", got.Since, b.now())
		near(b, "until", got.Until, b.now().Add(time.Minute))
	}},
	{"is ended by a resume", func(b *scene) {
		b.start()
		b.pause(operator("mail", 0))
		b.pause(deferral("post", time.Hour))
		equal(b, "of mail", b.resume("mail"), true)
		equal(b, "of mail again", b.resume("mail"), false)
		equal(b, "of a lane that never was", b.resume("parcels"), false)
		equal(b, "pauses", lanesOf(b.pauses()), []string{"post"})
		b.SetClock(2 * hour)
		equal(b, "of one that is over", b.resume("post"), false)
	}},
	{"keeps any text, and is never cut to none", func(b *scene) {
		b.start()
		request := deferral("mail", time.Nanosecond)
		request.By, request.Reason = "wor\x00ker", "\xff\xfe 日本語 'quoted' \""+strings.Repeat("ü", 5000)
		got := b.pause(request)
		if got.Until == 0 || !utf8.ValidString(got.Reason) || strings.ContainsRune(got.By+got.Reason, 0) || !strings.Contains(got.Reason, "日本語 'quoted' \"") {
			b.Fatalf("pause %+v", got)
		}
		for _, wrong := range []waybill.PauseRequest{{}, {Lane: "Mail"}, {Lane: "mail", For: -1}} {
			_, err := b.Store.PauseLane(b.ctx, wrong)
			wantErr(b, fmt.Sprintf("%+v", wrong), err)
		}
	}},
	{"keeps the latest end of many at once", func(b *scene) {
		b.start()
		stores := []*scene{b, b.second(), b.second()}
		var wg sync.WaitGroup
		for i, other := range stores {
			wg.Go(func() {
				for n := range 20 {
					for _, lane := range []string{"mail", "post"} {
						if _, err := other.Store.PauseLane(b.ctx, deferral(lane, time.Duration(1+(7*n+i)%20)*time.Hour)); err != nil {
							b.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		for _, pause := range b.pauses() {
			near(b, "until", pause.Until, b.now().Add(20*time.Hour))
		}
		equal(b, "lanes", len(b.pauses()), 2)
	}},
	{"keeps its lane's rows from being taken, and changes nothing of them", func(b *scene) {
		b.startLanes()
		messages := b.claimedFor("a", "b", "c")
		b.pause(deferral("mail", time.Hour))
		before := b.rows()
		answers, err := waybill.Take(b.ctx, b.Store, workerID, messages)
		b.must(err)
		for i, answer := range answers {
			if row := before[i]; row.ID != messages[i].DeliveryID {
				b.Fatalf("message %d is of row %d", i, messages[i].DeliveryID)
			}
			want := waybill.RefusedPaused
			if before[i].Receiver == "c" { // of another lane
				want = ""
			} else {
				equal(b, "row of "+before[i].Receiver, b.row(before[i].ID), before[i])
			}
			equal(b, "answer for "+before[i].Receiver, answer.Refused, want)
		}
		b.SetClock(hour + time.Minute)
		equal(b, "taken at its end, also after the lease", len(b.take(messages...)), 2)
		equal(b, "starts", b.count("SELECT sum(starts) FROM delivery"), 3)
	}},
	{"is honoured by the takes of every store until it is ended", func(b *scene) {
		b.startLanes()
		other := b.second()
		messages := b.claimedFor("a", "b", "c")
		b.pause(operator("mail", 0))
		b.pause(operator("default", time.Hour))
		b.unchanged(func() { equal(b, "taken", len(other.take(messages...)), 0) })
		other.resume("mail")
		equal(b, "taken of mail", len(b.take(messages...)), 2)
		b.resume("default")
		equal(b, "taken of default", len(other.take(messages...)), 1)
	}},
	{"is no reason for a refusal that has another", func(b *scene) {
		b.startLanes()
		messages := b.claimedFor("a", "b", "c")
		taken := b.take(messages[0])
		b.ack(acksOf(taken, success)...)
		b.exec("UPDATE delivery SET receiver = 'elsewhere' WHERE id = %d", messages[1].DeliveryID)
		stale := messages[2]
		b.lapse()
		equal(b, "reclaimed", len(b.lapsed("c")), 1)
		for _, lane := range []string{"mail", "default"} {
			b.pause(operator(lane, 0))
		}
		answers, err := waybill.Take(b.ctx, b.Store, workerID, []waybill.Message{messages[0], messages[1], stale, b.current(stale.DeliveryID)})
		b.must(err)
		for i, want := range []waybill.Refusal{waybill.RefusedSettled, waybill.RefusedReceiver, waybill.RefusedReclaimed, waybill.RefusedPaused} {
			equal(b, fmt.Sprintf("answer %d", i), answers[i].Refused, want)
		}
	}},
	{"lets runs end as they would", func(b *scene) {
		b.startLanes()
		taken := b.take(b.claimedFor("a", "b")...)
		b.pause(operator("mail", 0))
		extended, err := b.Store.Extend(b.ctx, []waybill.Extension{{Message: messageOf(taken[0]), Lease: ownLease}})
		b.must(err)
		sameIDs(b, "extended", extended, []int64{taken[0].ID})
		sameIDs(b, "landed", b.ack(waybill.Ack{Message: messageOf(taken[0]), Outcome: success}), []int64{taken[0].ID})
		sameIDs(b, "given back", b.giveBack(waybill.GiveBack{Message: messageOf(taken[1])}), []int64{taken[1].ID})
	}},
	{"lets rows that nobody took keep their place", func(b *scene) {
		b.startLanes()
		messages := b.claimedFor("a", "b")
		before := b.row(messages[0].DeliveryID)
		b.pause(operator("mail", 0))
		answers, err := waybill.Take(b.ctx, b.Store, workerID, messages)
		b.must(err)
		equal(b, "refused", answers[0].Refused, waybill.RefusedPaused)
		sameIDs(b, "given back", b.giveBack(waybill.GiveBack{Message: answers[0].Message}), []int64{messages[0].DeliveryID})
		b.resume("mail")
		again := b.lapsed("a", "b")
		equal(b, "claimed again", claimedIDs(again), []int64{messages[0].DeliveryID})
		equal(b, "available_at", again[0].AvailableAt, before.AvailableAt)
		row := b.row(messages[0].DeliveryID)
		equal(b, "starts and attempts", [2]int{row.Starts, row.Attempts}, [2]int{0, 0})
	}},
}

func lanesOf(pauses []waybill.Pause) (lanes []string) {
	for _, pause := range pauses {
		lanes = append(lanes, pause.Lane)
	}
	return lanes
}
