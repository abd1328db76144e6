package waybill

import (
	"errors"
	"time"
)

// A wake-up tells the relays of a lane that rows have become due. It is sent after
// the commit, never in the transaction that fires, and it may be lost: a relay's
// poll is the floor, so that a wake-up saves time and nothing depends on it.
//
// It is not sent for every event. A process that has woken a lane does not do so
// again for the length of a wake interval, and a relay that was woken, or found
// rows, looks for more every WakeLook for as long. What a wake-up that was not sent
// would have told is so found within WakeLook, and never left to the poll.

// DefaultWakeInterval is how long one wake-up of a lane stands for those after it.
const DefaultWakeInterval = 500 * time.Millisecond

// WakeLook is how often a relay looks during a wake interval.
const WakeLook = 10 * time.Millisecond

// Coalescing is a Store that says for how long one of its wake-ups stands for those
// after it, in whatever process: negative if every one is sent. Of any other it is
// DefaultWakeInterval.
type Coalescing interface{ WakeInterval() time.Duration }

// ErrDeaf is what a store's Listen returns where wake-ups do not arrive at all,
// although the connection is well: a pooler in transaction mode is between the
// process and the database. Relays poll there.
var ErrDeaf = errors.New("wake-ups do not arrive over this connection")
