package protocoltest

import (
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-go/waybill"
)

// Lanes of the receivers: those of mail can be paused by deferrals, and both by an
// operator.
const (
	mail = "mail"
	home = waybill.DefaultLane
)

// standstill is what the model knows of a lane's pause.
type standstill struct {
	until      waybill.Stamp // zero: until it is resumed
	by, reason string
}

// paused returns the pause of a lane that is in force.
func (m *machine) paused(lane string) (standstill, bool) {
	s, ok := m.halts[lane]
	if !ok || s.until != 0 && s.until <= m.now {
		return standstill{}, false
	}
	return s, true
}

// untimely lets time pass while a pause is about to end: whether a step comes before
// its end or after it can then be told.
func (m *machine) untimely() {
	m.Helper()
	const soon = 10 * time.Second
	for again := true; again; {
		again = false
		for _, lane := range []string{home, mail} {
			if s, on := m.paused(lane); on && s.until != 0 && s.until <= m.now.Add(soon) {
				m.moveClock(s.until.Time().Sub(m.now.Time()) + time.Microsecond)
				again = true
			}
		}
	}
}

// stands reports whether the lane of a row is paused.
func (m *machine) stands(d *debt) bool {
	receiver, _ := m.db.store.Registry().Receiver(d.receiver)
	_, on := m.paused(receiver.Lane)
	return on
}

// somebodyPauses pauses a lane: an operator, who sets the end exactly, or a worker
// elsewhere whose run was deferred.
func (m *machine) somebodyPauses() {
	request := waybill.PauseRequest{
		Lane: pick(m, "lane", []string{mail, home}), By: "operator", Reason: "a drill", Exact: true,
		For: pick(m, "for", []time.Duration{0, 20 * time.Second, time.Minute, 15 * time.Minute}),
	}
	if rapid.Bool().Draw(m.T, "a deferral") {
		request.By, request.Exact, request.For = "worker elsewhere", false, max(request.For, askedFor)
	}
	m.pause(request)
}

// pauseDeferred pauses the lanes of deferrals that landed, unless their worker dies
// before that.
func (m *machine) pauseDeferred(w *worker, acks []waybill.Ack, landed []bool) {
	m.Helper()
	for i, ack := range acks {
		d := m.debts[ack.DeliveryID]
		receiver, _ := m.db.store.Registry().Receiver(d.receiver)
		request, pauses := waybill.DeferralPause(receiver, &waybill.Delivery{ID: d.id, Target: d.target}, ack.Outcome, w.id)
		if pauses != (ack.Outcome.Status == waybill.Failed && ack.Outcome.Deferred) || pauses && (request.For != askedFor || request.Lane != mail) {
			m.Fatalf("outcome %+v of row %v pauses %t: %+v", ack.Outcome, d, pauses, request)
		}
		if pauses && landed[i] && rapid.IntRange(0, 4).Draw(m.T, "its worker dies before the pause at 4") < 4 {
			m.pause(request)
		}
	}
}

// pause pauses a lane and fails unless then the later of two pauses is in force, or
// the one that was to be set exactly.
func (m *machine) pause(request waybill.PauseRequest) {
	m.Helper()
	m.untimely()
	before, on := m.paused(request.Lane)
	var answer waybill.Pause
	f := m.fault()
	done, maybe := m.call(f, func(ctx context.Context, store txStore) (err error) {
		answer, err = store.PauseLane(ctx, request)
		return err
	})
	got, at := m.look()
	found, stands := m.pauses()[request.Lane]
	fresh := standstill{by: request.By, reason: request.Reason}
	earliest, latest := waybill.Stamp(0), waybill.Stamp(0)
	if request.For > 0 {
		earliest, latest = at.from.Add(request.For), at.to.Add(request.For)
		fresh.until = at.after(found.until, request.For)
	}
	var want []standstill
	kept := on && !request.Exact && (before.until == 0 || fresh.until != 0 && before.until >= earliest)
	replaced := !on || request.Exact || before.until != 0 && (fresh.until == 0 || before.until <= latest)
	if kept || on && (maybe || f == ended) {
		want = append(want, before)
	}
	if replaced && f != ended {
		want = append(want, fresh)
	}
	if stands && !slices.Contains(want, found) || !stands && len(want) > 0 && !maybe {
		m.Fatalf("asked for %+v where there was %+v (%t): there is %+v (%t), want one of %+v", request, before, on, found, stands, want)
	}
	if done && (answer.Until != found.until || answer.By != found.by || answer.Lane != request.Lane) {
		m.Fatalf("was told of %+v, there is %+v", answer, found)
	}
	if stands {
		m.halts[request.Lane] = found
	}
	m.checkPauses()
	m.conclude(got, at, nil) // of the rows nothing changes
}

// operatorResumes ends the pause of a lane, if there is one.
func (m *machine) operatorResumes() {
	m.untimely()
	lane := pick(m, "lane", []string{mail, home})
	_, on := m.paused(lane)
	was := false
	f := m.fault()
	done, maybe := m.call(f, func(ctx context.Context, store txStore) (err error) {
		was, err = store.ResumeLane(ctx, lane)
		return err
	})
	if done && was != on {
		m.Fatalf("resumed lane %s: %t; it was paused: %t", lane, was, on)
	}
	_, stands := m.pauses()[lane]
	if maybe && !on {
		// Whether a pause that is over was deleted cannot be seen, but with a clock
		// that steps back it would be in force again.
		_, err := m.db.store.ResumeLane(m.ctx, lane)
		must(m, err)
	}
	if f != ended && (!maybe || !stands) {
		delete(m.halts, lane)
	}
	m.checkPauses()
	m.observe(false)
}

// pauses returns those that the store tells.
func (m *machine) pauses() map[string]standstill {
	m.Helper()
	pauses, err := m.db.store.Pauses(m.ctx)
	must(m, err)
	all := make(map[string]standstill)
	for _, p := range pauses {
		all[p.Lane] = standstill{p.Until, p.By, p.Reason}
	}
	return all
}

// checkPauses fails unless the store tells of just the pauses that the model has.
func (m *machine) checkPauses() {
	m.Helper()
	got := m.pauses()
	for _, lane := range []string{home, mail} {
		want, on := m.paused(lane)
		if found, stands := got[lane]; stands != on || found != want {
			m.Fatalf("lane %s is paused %t: %+v, want %t: %+v", lane, stands, found, on, want)
		}
	}
}

// giveBackPaused gives back the rows of a worker's batch that were not taken for a
// pause, unless the worker dies before that.
func (m *machine) giveBackPaused(answers []waybill.Taken) {
	m.Helper()
	var backs []waybill.GiveBack
	for _, answer := range answers {
		if answer.Refused == waybill.RefusedPaused {
			backs = append(backs, waybill.GiveBack{Message: answer.Message})
		}
	}
	backs = distinct(backs, func(g waybill.GiveBack) int64 { return g.DeliveryID })
	if len(backs) > 0 && rapid.IntRange(0, 4).Draw(m.T, "its worker dies before it gives back at 4") < 4 {
		m.giveBack(backs)
	}
}

// endPauses ends all pauses: those without an end by an operator, and the others by
// themselves, when the returned time has come.
func (m *machine) endPauses() (latest waybill.Stamp) {
	m.Helper()
	for _, lane := range []string{home, mail} {
		if s, on := m.paused(lane); on && s.until == 0 {
			_, err := m.db.store.ResumeLane(m.ctx, lane)
			must(m, err)
			delete(m.halts, lane)
		} else if on {
			latest = max(latest, s.until)
		}
	}
	return latest
}
