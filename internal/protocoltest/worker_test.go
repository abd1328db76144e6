package protocoltest

import (
	"context"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-go/waybill"
)

// waiting is how many messages the queue has.
func (m *machine) waiting() int { return queueCapacity - m.queue.Room() }

// receive takes n messages out of the queue.
func (m *machine) receive(n int) (messages []waybill.Message) {
	m.Helper()
	for range n {
		ctx, cancel := context.WithTimeout(m.ctx, 10*time.Second)
		err := m.queue.Consume(ctx, 1, func(_ context.Context, message waybill.Message) error {
			messages = append(messages, message)
			cancel() // one is enough
			return nil
		})
		cancel()
		must(m, err)
	}
	if len(messages) != n {
		m.Fatalf("the queue gave %d messages, want %d", len(messages), n)
	}
	return messages
}

// workerTakes receives messages and offers them to their rows, together with those
// whose answer it has not heard.
func (m *machine) workerTakes() {
	waiting := m.waiting()
	w := pick(m, "worker", filter(m.workers, func(w *worker) bool { return waiting > 0 || w.asking() }))
	w.inbox = append(w.inbox, m.receive(rapid.IntRange(min(1, waiting), waiting).Draw(m.T, "receives"))...)
	if len(w.inbox) > 0 {
		m.take(w, m.fault())
	}
}

// take offers a worker's messages, and fails unless just those are taken whose
// claim is their row's, and whose lane is not paused.
func (m *machine) take(w *worker, f fault) {
	m.Helper()
	m.untimely()
	messages := w.inbox
	if f != well { // so that it is one statement, of which all is done or nothing
		messages = distinct(messages, func(message waybill.Message) int64 { return message.DeliveryID })
	}
	current := make([]bool, len(messages))
	var changes []change
	for i, message := range messages {
		d := m.debts[message.DeliveryID]
		if d.held(message.Claim) && !m.stands(d) && !slices.ContainsFunc(changes, func(c change) bool { return c.id == d.id }) {
			current[i] = true
			changes = append(changes, m.takenBy(d, w.id))
		}
	}
	var answers []waybill.Taken
	before := time.Now()
	done, maybe := m.call(f, func(ctx context.Context, store txStore) (err error) {
		answers, err = waybill.Take(ctx, store, w.id, messages)
		return err
	})
	if f == ended {
		changes = nil
	}
	m.observe(maybe, changes...)
	if !done {
		return // the messages stay in the inbox
	}
	w.inbox = w.inbox[:0:0]
	defer m.giveBackPaused(answers)
	for i, answer := range answers {
		if answer.Message != messages[i] || current[i] != (answer.Delivery != nil) {
			m.Fatalf("answer %d to %+v is %+v; its claim is the row's: %t", i, messages[i], answer, current[i])
		}
		switch {
		case current[i]:
			w.runs = append(w.runs, m.begun(answer, before))
		case f == hurried && answer.Refused == waybill.RefusedUnclear: // there was no time to ask
		default:
			m.checkRefusal(answer)
		}
	}
}

// takenBy is the take of a row by a worker.
func (m *machine) takenBy(d *debt, by string) change { return taken(d.id, by, m.leaseOf(d.receiver)) }

// begun checks what a worker is told of a run that it begins.
func (m *machine) begun(answer waybill.Taken, before time.Time) *run {
	m.Helper()
	d, got := m.debts[answer.Message.DeliveryID], answer.Delivery
	r := d.run(d.claim)
	receiver, _ := m.db.store.Registry().Receiver(d.receiver)
	switch {
	case got.Claim != d.claim || got.ID != d.id || got.Receiver != d.receiver || got.Target != d.target || got.Event.ID != d.event:
		m.Fatalf("took %+v, want the row %+v", got, d.row)
	case got.Attempt != d.attempts+1 || got.Start != d.starts || got.MaxAttempts != d.most:
		m.Fatalf("took row %v as attempt %d of %d and start %d, want %d of %d and %d", d, got.Attempt, got.MaxAttempts, got.Start, d.attempts+1, d.most, d.starts)
	case !got.DueAt.Equal(d.due.Time()) || !got.HandedOffAt.Equal(stampTime(d.handedOff)) || got.Lease != receiver.Lease:
		m.Fatalf("took %+v, want it due at %s, handed off at %s, with a lease of %s", got, d.due, d.handedOff, receiver.Lease)
	case answer.Lease.Deadline().Before(before) || answer.Lease.Deadline().After(time.Now().Add(receiver.Lease-waybill.LeaseMargin(receiver.Lease))):
		m.Fatalf("the worker's lease ends at %s, want a margin before that of the row", answer.Lease.Deadline())
	}
	r.delivery, r.active = got, true
	return r
}

func stampTime(s waybill.Stamp) time.Time {
	if s == never {
		return time.Time{}
	}
	return s.Time()
}

// checkRefusal fails unless the refusal is what has become of the row. Of a row
// that is owed it says whether a later hand-off overtook the message's; while the
// clock steps back it cannot know, and settled or not is all that is told for sure.
func (m *machine) checkRefusal(answer waybill.Taken) {
	m.Helper()
	d := m.debts[answer.Message.DeliveryID]
	want := waybill.RefusedTaken
	switch {
	case d == nil || !answer.Message.Claim.Complete():
		want = waybill.RefusedNoRow
	case d.status == waybill.Cancelled:
		want = waybill.RefusedCancelled
	case !d.status.Owed():
		want = waybill.RefusedSettled
	case d.held(answer.Message.Claim) && m.stands(d):
		want = waybill.RefusedPaused
	case m.wentBack || !slices.Contains(d.handOffs, answer.Message.Claim):
		if answer.Refused == waybill.RefusedReclaimed {
			want = waybill.RefusedReclaimed
		}
	case answer.Message.Claim != d.handOffs[len(d.handOffs)-1] || d.backed:
		want = waybill.RefusedReclaimed
	}
	if answer.Refused != want {
		m.Fatalf("row %v refused %+v as %q, want %q", d, answer.Message, answer.Refused, want)
	}
}

// activeRuns are those whose receiver has not returned, with or without the one
// that holds a transaction open.
func (m *machine) activeRuns(inTx bool) (active []*run) {
	for _, w := range m.workers {
		active = append(active, filter(w.runs, func(r *run) bool { return r.active && (inTx || r != m.inTx) })...)
	}
	return active
}

// workerExtends is a heartbeat, or one of a worker that does not know yet that it
// has lost its row.
func (m *machine) workerExtends() {
	r := pick(m, "run", m.activeRuns(true))
	m.extend([]waybill.Extension{{Message: r.message(), Lease: r.delivery.Lease}}, m.fault())
}

func (r *run) message() waybill.Message {
	return waybill.Message{DeliveryID: r.debt.id, Claim: r.claim}
}

// workerRecords records some outcomes. What it is not told of it records again, and
// now and then also what it is told of.
func (m *machine) workerRecords() {
	w := pick(m, "worker", filter(m.workers, (*worker).owing))
	acks := some(m, "outcomes", w.acks)
	m.record(w, acks, m.fault())
}

func (m *machine) record(w *worker, acks []waybill.Ack, f fault) {
	m.Helper()
	if f != well {
		acks = distinct(acks, func(a waybill.Ack) int64 { return a.DeliveryID })
	}
	want := make([]bool, len(acks))
	var changes []change
	for i, ack := range acks {
		d := m.debts[ack.DeliveryID]
		landed := slices.IndexFunc(acks[:i], func(a waybill.Ack) bool { return a.Message == ack.Message })
		switch {
		case landed >= 0:
			want[i] = want[landed]
		case d.held(ack.Claim):
			want[i] = true
			changes = append(changes, acknowledged(d.id, ack.Outcome))
		default: // recorded by an earlier try, of which nobody heard
			want[i] = d.claim == ack.Claim && d.status == ack.Outcome.Status
		}
	}
	var landed []bool
	done, maybe := m.call(f, func(ctx context.Context, store txStore) (err error) {
		landed, err = waybill.Record(ctx, store, acks)
		return err
	})
	if f == ended {
		changes = nil
	}
	m.observe(maybe, changes...)
	if !done {
		return
	}
	if !slices.Equal(landed, want) {
		m.Fatalf("of %+v landed %v, want %v", acks, landed, want)
	}
	m.pauseDeferred(w, acks, landed)
	if rapid.IntRange(0, 4).Draw(m.T, "recorded again at 4") == 4 {
		return
	}
	w.acks = slices.DeleteFunc(w.acks, func(a waybill.Ack) bool {
		return slices.ContainsFunc(acks, func(told waybill.Ack) bool { return told.Message == a.Message })
	})
}

// workerGivesBack cuts a run off and gives its row back, as at a stop.
func (m *machine) workerGivesBack() {
	r := pick(m, "run", m.activeRuns(false))
	r.active = false
	delay := pick(m, "delay", []time.Duration{0, 5 * time.Second})
	m.giveBack([]waybill.GiveBack{{Message: r.message(), Delay: delay}})
}

// workerDies: its messages are gone, its runs end, its outcomes are not recorded.
func (m *machine) workerDies() {
	w := pick(m, "worker", filter(m.workers, (*worker).busy))
	for _, r := range w.runs {
		r.active = false
	}
	w.inbox, w.runs, w.acks = nil, nil, nil
}
