package wire

import (
	"context"
	"log/slog"
	"time"

	"github.com/waybill-go/waybill"
)

// Store is what every store URL opens.
type Store interface {
	waybill.TxStore
	waybill.StatusReader
	// Reach finds out whether the server answers and lets us in.
	Reach(ctx context.Context) error
	// CheckListen reports whether a listener would hear wakes: nil if it would, an
	// error that wraps waybill.ErrDeaf if it would not, any other if that cannot be
	// told. It takes no longer than one of the store's calls.
	CheckListen(ctx context.Context) error
	// Migrator returns what brings the store's schema up to date.
	Migrator() (waybill.Migrator, error)
	// FireAll fires events in one transaction: whatever chunks calls its
	// argument with, until it returns. Its error rolls everything back, and is
	// returned as it is.
	FireAll(ctx context.Context, chunks func(fire Fire) error) error
	// Close closes what was opened. Calls that run have to end first.
	Close()
}

// chunkTimeout bounds one chunk of what is fired.
const chunkTimeout = time.Minute

// Fire fires events in the transaction at hand, and returns how many deliveries
// they made owed.
type Fire func(ctx context.Context, events []Event) (deliveries int, err error)

// Event is an event as it is given on a command line or in a file.
type Event struct {
	waybill.RawEvent
	DedupeKey     string
	OccurredAt    time.Time
	CorrelationID string
}

// Fired is the event as it is fired.
func (e Event) Fired() waybill.Envelope {
	return waybill.Envelope{Event: e.RawEvent, DedupeKey: e.DedupeKey, OccurredAt: e.OccurredAt, CorrelationID: e.CorrelationID}
}

// StoreConfig says which store to open, and for what.
type StoreConfig struct {
	URL      string
	Registry *waybill.Registry
	// Schema holds the tables on PostgreSQL. Defaults to "waybill".
	Schema string
	// Name is told to the server, so that its own tools can say who is
	// connected.
	Name string
	// Connections is how many the process may need at the same time. A URL that
	// allows more, by pool_max_conns, has its way.
	Connections int
	// WakeInterval and PollOnly are the store's own on PostgreSQL: how often a lane is
	// woken at most (zero is waybill.DefaultWakeInterval), and whether it is at all.
	// Wakes within the process, which SQLite has, cost nothing that could be left out.
	WakeInterval time.Duration
	PollOnly     bool
	Logger       *slog.Logger
}

// OpenStore opens a store and does not look at what is in it: neither whether the
// server answers (Reach) nor whether the schema is there (Store.Check).
func OpenStore(config StoreConfig) (Store, error) {
	name, _ := scheme(config.URL)
	config.URL = name + config.URL[len(name):]
	switch name {
	case "postgres", "postgresql":
		return openPostgres(config)
	case "sqlite":
		return openSQLite(config)
	default:
		return nil, unknownScheme(config.URL, storeExamples)
	}
}

// asAny is what a store's own FireAll takes.
func asAny(events []Event) []any {
	all := make([]any, len(events))
	for i, event := range events {
		all[i] = event.Fired()
	}
	return all
}

// countDeliveries returns how many deliveries the events make owed. tx is for
// targets that read in it.
func countDeliveries(ctx context.Context, reg *waybill.Registry, tx any, events []Event) (int, error) {
	receivers := reg.Receivers()
	n := 0
	for _, event := range events {
		owed, fanOut := 0, false
		for _, receiver := range receivers {
			if receiver.Accepts(event.Name) {
				owed++
				fanOut = fanOut || receiver.Targets != nil
			}
		}
		if fanOut { // only the plan knows how many targets there are
			plan, err := reg.Plan(ctx, tx, event.Fired())
			if err != nil {
				return 0, err
			}
			owed = len(plan.Deliveries)
		}
		n += owed
	}
	return n, nil
}
