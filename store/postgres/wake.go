package postgres

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/waybill-go/waybill"
)

// wakeTimeout bounds what a wake may cost the one who fired.
const wakeTimeout = time.Second

// channel is what wakes are sent on. What they carry is the lane.
func (s *Store) channel() string { return s.schema + "_due" }

// allLanes stands for every lane.
const allLanes = ""

// Wake tells the relays of the named lanes, or of all if none is named, that rows
// have become due: call it after the commit of a transaction that fired. A wake that
// fails, or is lost, costs no more than a relay's poll; it returns after a second at
// the latest, and when ctx has ended too, because what was committed is owed.
//
// A lane is woken once in Config.WakeInterval. What is left out needs nobody to make
// up for it: a relay looks for more for as long as that after each wake.
func (s *Store) Wake(ctx context.Context, lanes ...string) {
	if s.pollOnly || !s.waking.ask(lanes, s.wakeInterval) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(wakeTimeout, s.timeout))
	defer cancel()
	err := s.waking.await(ctx)
	asked := s.waking.take()
	if err == nil {
		defer s.waking.done()
		err = s.notify(ctx, s.channel(), slices.Collect(maps.Keys(asked)))
	}
	if err != nil {
		s.waking.forget(asked)
		s.logger.DebugContext(ctx, "relays were not woken; their poll finds what was fired", "error", err)
	}
}

// notify sends notifications on a channel, in a transaction of their own.
func (s *Store) notify(ctx context.Context, channel string, payloads []string) error {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT pg_notify($1, payload) FROM unnest($2::text[]) AS payload`, channel, payloads)
	return s.db.send(ctx, batch)
}

// WakeInterval is for how long one wake of a lane stands for those after it. It is
// negative where none is sent, or each.
func (s *Store) WakeInterval() time.Duration {
	if s.pollOnly {
		return -1
	}
	return s.wakeInterval
}

// waking is what a process knows of the wakes it has sent. At any time one is being
// sent, and one that stands for all who came meanwhile waits for its turn.
type waking struct {
	turn chan struct{} // has room for the one that is being sent

	mu      sync.Mutex
	sent    map[string]time.Time // when each lane was woken, read before it was
	asked   map[string]time.Time // those of them that wait for their turn
	waiting bool                 // somebody does
}

func newWaking() *waking {
	return &waking{turn: make(chan struct{}, 1), sent: map[string]time.Time{}, asked: map[string]time.Time{}}
}

// ask adds lanes to what is sent next, unless a wake of theirs, or of all lanes,
// stands for this one too, and reports whether the caller has to send it.
func (w *waking) ask(lanes []string, interval time.Duration) bool {
	if len(lanes) == 0 {
		lanes = []string{allLanes}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	recent := func(lane string) bool {
		at, ok := w.sent[lane]
		return ok && now.Sub(at) < interval
	}
	for _, lane := range lanes {
		if recent(lane) || recent(allLanes) {
			continue
		}
		if _, known := w.sent[lane]; !known { // a good time to see that there are not too many
			maps.DeleteFunc(w.sent, func(lane string, _ time.Time) bool { return !recent(lane) })
		}
		w.sent[lane], w.asked[lane] = now, now
	}
	if len(w.asked) == 0 || w.waiting {
		return false
	}
	w.waiting = true
	return true
}

// await waits for the turn to send.
func (w *waking) await(ctx context.Context) error {
	select {
	case w.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (w *waking) done() { <-w.turn }

// take ends the waiting: whoever asks from now on is not among what it returns.
func (w *waking) take() map[string]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.asked
	w.asked, w.waiting = map[string]time.Time{}, false
	return asked
}

// forget has the next one try again.
func (w *waking) forget(asked map[string]time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for lane, at := range asked {
		if w.sent[lane] == at {
			delete(w.sent, lane)
		}
	}
}

// tell tells of what a transaction has fired, now that it is committed.
func (s *Store) tell(ctx context.Context, fired waybill.Committed) {
	if lanes := s.commits.Tell(ctx, fired); len(lanes) > 0 {
		s.Wake(ctx, lanes...)
	}
}

// inProgress is all that is being fired in this process. A receiver may well fire by
// way of another Store than the one that runs it: a program over the commands has no
// other.
var inProgress firing

// firing notes what is fired in the transactions of stores. What a
// transaction fires in comes by many names: itself, a savepoint in it, what a library
// makes of it. Its connection is the same in all of them, where it is pgx's; one of
// database/sql tells nothing of its own, and goes by itself.
type firing struct {
	mu   sync.Mutex
	open map[any]*fired // by *pgx.Conn or *sql.Tx
}

type fired struct {
	schema string
	waybill.Committed
}

// during returns what is fired in a transaction of the schema's store while work runs,
// in a savepoint that is rolled back as well: a look too many costs little.
func (f *firing) during(schema string, tx any, work func() error) (all waybill.Committed, err error) {
	conn, _ := connOf(tx)
	mine := &fired{schema: schema}
	f.mu.Lock()
	if f.open == nil {
		f.open = map[any]*fired{}
	}
	f.open[conn] = mine
	f.mu.Unlock()
	defer func() { // before the commit, with which the connection becomes another's
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.open[conn] == mine {
			delete(f.open, conn)
		}
		all = mine.Committed
	}()
	return waybill.Committed{}, work()
}

// note adds to what is fired in the transaction that db is. A wrapper that does not
// tell which one that is may be any of them.
func (f *firing) note(schema string, db any, more waybill.Committed) {
	f.mu.Lock()
	defer f.mu.Unlock()
	conn, known := connOf(db)
	for other, fired := range f.open {
		if fired.schema == schema && (other == conn || !known) {
			fired.Merge(more)
		}
	}
}

// connOf returns what the transaction that db is goes by, and whether that is known. A
// pool is bound to none, and a *sql.Conn is none that a store has begun a transaction on.
func connOf(db any) (conn any, known bool) {
	switch db := db.(type) {
	case overSQL:
		return connOf(db.to)
	case *pgx.Conn, *sql.Tx:
		return db, true
	case *pgxpool.Pool, *sql.DB, *sql.Conn:
		return nil, true
	case interface{ Conn() *pgx.Conn }:
		conn := db.Conn()
		return conn, conn != nil
	}
	return nil, false
}
