package protocoltest

import (
	"errors"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-go/waybill"
)

var errRolledBack = errors.New("the application changed its mind")

// owed counts the rows that are not settled.
func (m *machine) owed() (n int) {
	for _, d := range m.debts {
		if d.status.Owed() {
			n++
		}
	}
	return n
}

// fire fires an event in a transaction of the application, which may roll back.
func (m *machine) fire() {
	var event any = letter{}
	if rapid.IntRange(0, 2).Draw(m.T, "a letter at 2") < 2 {
		event = parcel{Targets: rapid.IntRange(0, 2).Draw(m.T, "targets")}
	}
	plan, err := m.db.store.Registry().Plan(m.ctx, nil, event)
	must(m, err)
	var id int64
	committed := m.inOwnTx(func(tx any) (err error) {
		id, err = m.db.fire(m.ctx, tx, event)
		return err
	})
	if !committed {
		m.observe(false)
		return
	}
	got, at := m.look()
	m.found(id, plan.Deliveries, got, at)
	m.conclude(got, at, nil)
}

// timePasses moves the clock on: within a lease, past a lease, past every wait.
func (m *machine) timePasses() {
	m.moveClock(pick(m, "by", []time.Duration{time.Second, 25 * time.Second, 70 * time.Second, 100 * time.Second, 11 * time.Minute}))
}

// clockStepsBack is a failover to a server whose clock is behind. Leases get longer
// by the step; nothing else may come of it.
func (m *machine) clockStepsBack() {
	if !rapid.Bool().Draw(m.T, "steps back") {
		m.moveClock(time.Second)
		return
	}
	m.wentBack = true
	m.saw(len(m.activeRuns(true)) > 0, "the clock stepped back under a run")
	m.saw(m.inTx != nil, "the clock stepped back under a run in a transaction")
	m.moveClock(-pick(m, "by", []time.Duration{2 * time.Second, 45 * time.Second, 11 * time.Minute, 2 * time.Hour}))
}

// moveClock moves it between two steps, so that each step reads one clock.
func (m *machine) moveClock(by time.Duration) {
	m.offset += by
	m.db.setClock(m.offset)
	m.now = m.now.Add(by)
	m.tick()
}

// lateMessage lets a message through that the network held up.
func (m *machine) lateMessage() {
	i := rapid.IntRange(0, len(m.late)-1).Draw(m.T, "which")
	m.post(m.late[i])
	m.late = append(m.late[:i:i], m.late[i+1:]...)
}

// oldMessage repeats any message there ever was: a redelivery, however late.
func (m *machine) oldMessage() {
	m.post(pick(m, "which", m.sent))
}

// forgedMessage is one that no relay sent: half a claim, or a near miss.
func (m *machine) forgedMessage() {
	message := pick(m, "like", m.sent)
	switch rapid.IntRange(0, 5).Draw(m.T, "forgery") {
	case 0:
		message.Claim.At++
	case 1:
		message.Claim.At--
	case 2:
		message.Claim.By += "0"
	case 3:
		message.Claim.By = ""
	case 4:
		message.Claim.At = 0
	case 5:
		message.DeliveryID = pick(m, "instead", m.sent).DeliveryID
	}
	if d := m.debts[message.DeliveryID]; d != nil && message.Claim == d.claim {
		return // no forgery: it hit upon the current claim
	}
	m.post(message)
}

// post puts a message into the queue, if there is room.
func (m *machine) post(message waybill.Message) {
	_, err := m.queue.Enqueue(m.ctx, []waybill.Message{message})
	must(m, err)
}

// loseQueue is a restart of the queue without persistence.
func (m *machine) loseQueue() {
	m.receive(m.waiting())
}
