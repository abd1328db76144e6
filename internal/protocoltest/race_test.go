package protocoltest

import (
	"sync"

	"pgregory.net/rapid"

	"github.com/waybill-go/waybill"
)

// atOnce runs two calls of a store at the same time.
func atOnce(first, second func()) {
	var both sync.WaitGroup
	both.Go(first)
	both.Go(second)
	both.Wait()
}

// workersTakeAtOnce gives two workers the same messages at the same moment, as a queue
// does that delivers twice. Of each message whose claim is its row's, one of them gets
// the row, and the other is refused.
func (m *machine) workersTakeAtOnce() {
	m.untimely()
	pair := shuffled(m, "workers", m.workers)[:2]
	messages := m.receive(rapid.IntRange(1, m.waiting()).Draw(m.T, "receives"))
	messages = distinct(messages, func(message waybill.Message) int64 { return message.DeliveryID })
	var answers [2][]waybill.Taken
	var errs [2]error
	take := func(i int) func() {
		return func() { answers[i], errs[i] = waybill.Take(m.ctx, m.db.store, pair[i].id, messages) }
	}
	m.db.atOnce(take(0), take(1))
	must(m, errs[0])
	must(m, errs[1])
	winners := make([]int, len(messages))
	var changes []change
	for i, message := range messages {
		d, taken := m.debts[message.DeliveryID], 0
		for w := range pair {
			if answers[w][i].Delivery != nil {
				winners[i] = w
				taken++
			}
		}
		want := 0
		if d.held(message.Claim) && !m.stands(d) {
			want = 1
			changes = append(changes, m.takenBy(d, pair[winners[i]].id))
		}
		if taken != want {
			m.Fatalf("%d of two workers took row %v at once with %+v, want %d", taken, d, message, want)
		}
	}
	m.observe(false, changes...)
	m.saw(len(changes) > 0, "two workers took a row at once")
	for i := range messages {
		for w, worker := range pair {
			if answer := answers[w][i]; answer.Delivery == nil {
				m.checkRefusal(answer)
			} else {
				worker.runs = append(worker.runs, m.begun(answer, m.begin))
			}
		}
	}
	m.giveBackPaused(answers[0])
}
