package protocoltest

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/backend/local"
)

// machine is the world of one check: a database with its model, and everybody who
// works on it. It does one step of one actor at a time. What two statements that
// run at once do to each other is the business of the stores' own tests.
type machine struct {
	*rapid.T
	ctx context.Context
	db  *database
	now waybill.Stamp // the database's clock, when last looked at

	offset   time.Duration // of the database's clock
	wentBack bool          // the clock has stepped back
	debts    map[int64]*debt
	halts    map[string]standstill // by lane; one that is over may be among them

	relays  []*relay
	workers []*worker

	queue *local.Backend
	late  []waybill.Message // delayed by the network
	sent  []waybill.Message // every message there ever was

	inTx    *run // the transactional receiver that is running
	healthy bool // the faults are over

	begin time.Time      // of this history, on the clock of this process
	seen  map[string]int // what happened in it that must happen in some
}

// relay is what a relay process has in memory.
type relay struct {
	id    string
	rows  []handedRow
	backs []waybill.GiveBack // what the queue did not take
}

// handedRow is a row on its way to the queue, and the lease its claim stamped.
type handedRow struct {
	waybill.ClaimedRow
	stamp time.Duration
}

// worker is what a worker process has in memory.
type worker struct {
	id    string
	inbox []waybill.Message
	runs  []*run
	acks  []waybill.Ack // outcomes that are not known to be recorded
}

const (
	maxDebts      = 3 // owed rows, beyond which none is fired: few meet more often
	queueCapacity = 6
)

// history is one run of the machine.
func history(t *rapid.T, ctx context.Context, db *database) *machine {
	m := newMachine(t, ctx, db)
	t.Repeat(m.random())
	m.settle()
	if m.anySettled() && rapid.Bool().Draw(t, "replayed in the end") {
		m.operatorReopens()
		m.oldMessages()
		m.settle()
	}
	return m
}

// checkProtocol runs the machine, over and over, on one database.
func checkProtocol(t *testing.T, db *database, checks int) {
	t.Helper()
	if !given["rapid.checks"] {
		must(t, flag.Set("rapid.checks", strconv.Itoa(checks)))
	}
	rapid.Check(t, func(rt *rapid.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		history(rt, ctx, db)
	})
}

func newMachine(t *rapid.T, ctx context.Context, db *database) *machine {
	db.setClock(0)
	must(t, db.reset(ctx))
	queue, err := local.New(local.Config{Capacity: queueCapacity})
	must(t, err)
	m := &machine{T: t, ctx: ctx, db: db, debts: map[int64]*debt{}, halts: map[string]standstill{}, queue: queue, begin: time.Now(), seen: map[string]int{}}
	for i := range rapid.IntRange(1, 3).Draw(t, "relays") {
		m.relays = append(m.relays, &relay{id: fmt.Sprint("relay:", i)})
	}
	// Workers in one process, or of one careless operator, share an id: then the
	// stamp alone tells their runs apart.
	shared := rapid.Bool().Draw(t, "workers share an id")
	for i := range rapid.IntRange(1, 3).Draw(t, "workers") {
		w := &worker{id: fmt.Sprint("worker:", i)}
		if shared {
			w.id = "worker"
		}
		m.workers = append(m.workers, w)
	}
	_, at := m.look()
	m.now = at.to
	return m
}

// step is something that can happen, when there is something to do.
type step struct {
	weight int // how often, beside the others
	can    func() bool
	do     func()
}

func (m *machine) steps() map[string]step {
	always := func() bool { return true }
	owed := func() bool { return m.owed() > 0 }
	sent := func() bool { return len(m.sent) > 0 }
	return map[string]step{
		"fire":             {2, func() bool { return m.owed() < maxDebts }, m.fire},
		"time passes":      {2, always, m.timePasses},
		"clock steps back": {1, always, m.clockStepsBack},

		"relay claims due rows":    {3, owed, m.claimDue},
		"relay claims lapsed rows": {3, owed, m.claimLapsed},
		"relay claims and sends":   {3, owed, m.claimAndSend},
		"relay extends":            {1, m.anyRelay((*relay).ready), m.relayExtends},
		"relay hands off":          {4, m.anyRelay((*relay).ready), m.handOff},
		"relay gives back":         {1, m.anyRelay((*relay).busy), m.relayGivesBack},
		"relay dies":               {1, m.anyRelay((*relay).busy), m.relayDies},

		"late message arrives":   {1, func() bool { return len(m.late) > 0 }, m.lateMessage},
		"old message comes back": {1, sent, m.oldMessage},
		"message is forged":      {1, sent, m.forgedMessage},
		"queue loses all":        {1, func() bool { return m.waiting() > 0 }, m.loseQueue},

		"worker takes":      {5, func() bool { return m.waiting() > 0 || m.anyWorker((*worker).asking)() }, m.workerTakes},
		"worker extends":    {2, m.anyRun(true), m.workerExtends},
		"receiver returns":  {4, m.anyRun(false), m.receiverReturns},
		"worker records":    {4, m.anyWorker((*worker).owing), m.workerRecords},
		"worker gives back": {1, m.anyRun(false), m.workerGivesBack},
		"row is overtaken":  {2, m.anyRun(true), m.overtake},
		"worker dies":       {1, m.anyWorker((*worker).busy), m.workerDies},

		"workers take at once": {1, func() bool { return m.waiting() > 0 && len(m.workers) > 1 }, m.workersTakeAtOnce},

		"operator cancels": {1, func() bool { return len(m.debts) > 0 }, m.operatorCancels},
		"operator reopens": {1, func() bool { return m.anySettled() && m.owed() < maxDebts }, m.operatorReopens},

		"lane is paused":  {1, always, m.somebodyPauses},
		"lane is resumed": {1, func() bool { return len(m.halts) > 0 }, m.operatorResumes},
	}
}

func (m *machine) anyRelay(is func(*relay) bool) func() bool {
	return func() bool { return slices.ContainsFunc(m.relays, is) }
}

func (m *machine) anyWorker(is func(*worker) bool) func() bool {
	return func() bool { return slices.ContainsFunc(m.workers, is) }
}

func (m *machine) anyRun(inTx bool) func() bool {
	return func() bool { return len(m.activeRuns(inTx)) > 0 }
}

func (r *relay) ready() bool   { return len(r.rows) > 0 }
func (r *relay) busy() bool    { return len(r.rows)+len(r.backs) > 0 }
func (w *worker) asking() bool { return len(w.inbox) > 0 }
func (w *worker) owing() bool  { return len(w.acks) > 0 }
func (w *worker) busy() bool   { return len(w.inbox)+len(w.runs)+len(w.acks) > 0 }

// random is the step that rapid repeats: one of those for which there is something
// to do, by their weights.
func (m *machine) random() map[string]func(*rapid.T) {
	steps := m.steps()
	names := slices.Sorted(maps.Keys(steps))
	return map[string]func(*rapid.T){"step": func(t *rapid.T) {
		var able []string
		for _, name := range names {
			if steps[name].can() {
				able = append(able, slices.Repeat([]string{name}, steps[name].weight)...)
			}
		}
		steps[rapid.SampledFrom(able).Draw(t, "action")].do()
	}}
}

// pick draws one of them.
func pick[E any](m *machine, label string, from []E) E {
	return from[rapid.IntRange(0, len(from)-1).Draw(m.T, label)]
}

// saw notes what happened, if it did.
func (m *machine) saw(happened bool, what string) {
	if happened {
		m.seen[what]++
	}
}

// sortedKeys returns the keys of a map in an order that does not change.
func sortedKeys[K cmp.Ordered, V any](from map[K]V) []K { return slices.Sorted(maps.Keys(from)) }

// shuffled draws an order of them.
func shuffled[E any](m *machine, label string, from []E) []E {
	indexes := make([]int, len(from))
	for i := range indexes {
		indexes[i] = i
	}
	order := make([]E, 0, len(from))
	for _, i := range rapid.Permutation(indexes).Draw(m.T, label) {
		order = append(order, from[i])
	}
	return order
}

// some draws a part of them, in any order.
func some[E any](m *machine, label string, from []E) []E {
	return shuffled(m, label, from)[:rapid.IntRange(1, len(from)).Draw(m.T, "how many")]
}

// fault is what happens to a call of the store.
type fault int

const (
	well    fault = iota
	unheard       // it was done, and its answer is lost
	ended         // its context had ended before
	hurried       // its context ends meanwhile: it was done, or it was not
)

func (m *machine) fault() fault {
	// Mostly well: a fault at each step would let nothing get anywhere.
	return fault(max(0, rapid.IntRange(-10, int(hurried)).Draw(m.T, "fault")))
}

var errUnheard = errors.New("connection reset by peer")

// call runs a call of the store under a fault. done tells whether it returned
// without an error, maybe that nobody knows what it did.
func (m *machine) call(f fault, do func(ctx context.Context, store txStore) error) (done, maybe bool) {
	m.Helper()
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	store := m.db.store
	switch f {
	case ended:
		cancel()
	case hurried:
		store = m.db.hasty
		must(m, m.db.ready(m.ctx))
		wait := time.Duration(rapid.IntRange(1, 1500).Draw(m.T, "µs until its context ends")) * time.Microsecond
		ctx, cancel = m.db.hurry(ctx, wait)
		defer cancel()
	}
	err := do(ctx, unsure{store, f == unheard})
	switch {
	case f == well:
		must(m, err)
	case f == unheard && !errors.Is(err, errUnheard):
		m.Fatalf("the lost answer came out as %v", err)
	case f == hurried && err != nil:
		must(m, m.db.quiet(m.ctx))
	}
	return err == nil, f == hurried && err != nil
}

// unsure is a store whose answers may get lost on the way.
type unsure struct {
	txStore
	unheard bool
}

func (u unsure) err(err error) error {
	if err == nil && u.unheard {
		return errUnheard
	}
	return err
}

func (u unsure) Take(ctx context.Context, request waybill.TakeRequest) ([]*waybill.Delivery, error) {
	deliveries, err := u.txStore.Take(ctx, request)
	return deliveries, u.err(err)
}

func (u unsure) Ack(ctx context.Context, acks []waybill.Ack) ([]int64, error) {
	ids, err := u.txStore.Ack(ctx, acks)
	return ids, u.err(err)
}

func (u unsure) Extend(ctx context.Context, rows []waybill.Extension) ([]int64, error) {
	ids, err := u.txStore.Extend(ctx, rows)
	return ids, u.err(err)
}

func (u unsure) GiveBack(ctx context.Context, rows []waybill.GiveBack) ([]int64, error) {
	ids, err := u.txStore.GiveBack(ctx, rows)
	return ids, u.err(err)
}

func (u unsure) Claim(ctx context.Context, request waybill.ClaimRequest) ([]waybill.ClaimedRow, error) {
	rows, err := u.txStore.Claim(ctx, request)
	return rows, u.err(err)
}

func (u unsure) ClaimLapsed(ctx context.Context, request waybill.LapsedRequest) ([]waybill.ClaimedRow, error) {
	rows, err := u.txStore.ClaimLapsed(ctx, request)
	return rows, u.err(err)
}

func (u unsure) PauseLane(ctx context.Context, request waybill.PauseRequest) (waybill.Pause, error) {
	pause, err := u.txStore.PauseLane(ctx, request)
	return pause, u.err(err)
}

func (u unsure) ResumeLane(ctx context.Context, lane string) (bool, error) {
	ended, err := u.txStore.ResumeLane(ctx, lane)
	return ended, u.err(err)
}

func (u unsure) ClaimTx(ctx context.Context, work func(ctx context.Context, tx any, claims waybill.Claimer) error) error {
	return u.err(u.txStore.ClaimTx(ctx, work))
}
