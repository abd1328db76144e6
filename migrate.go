package waybill

import (
	"context"
	"time"
)

// Migrator brings a store's schema to the one that this release works with, by
// numbered steps. Two that run at once do not disturb each other.
type Migrator interface {
	// Up applies the steps that are missing and returns those, in order.
	Up(ctx context.Context) ([]Migration, error)
	// Down takes the last step back, with all that its tables hold, what is owed among
	// it, and returns it; there is none on a schema without steps. It does not ask:
	// `bridge migrate down` refuses where deliveries are owed.
	Down(ctx context.Context) ([]Migration, error)
	// Status returns every step this release knows, in order.
	Status(ctx context.Context) ([]Migration, error)
	// SQL returns the script that does on an empty database what Up does, for
	// those who apply changes by hand.
	SQL() string
}

// Migration is one step of a schema.
type Migration struct {
	Version   int64
	Name      string
	AppliedAt time.Time // zero if it is not applied
}
