package waybill

import "time"

// Observer is told what relays and workers do, as it happens; metrics and
// ledgers hang off it. It is called from many goroutines and must not block.
type Observer func(Observation)

// Observe calls the observer, if there is one.
func (o Observer) Observe(seen Observation) {
	if o != nil {
		o(seen)
	}
}

// Observation is one thing that happened. Fields that do not apply are zero.
type Observation struct {
	Kind       ObservationKind
	Lane       string
	Receiver   string // ObservedRefusal: whose row it is, if that is known
	DeliveryID int64
	Site       Site       // ObservedEnqueue: whose queue
	Count      int        // rows, for what happens to a batch
	Status     Status     // ObservedAck: the outcome that landed
	Deferred   bool       // ObservedAck: failed without spending an attempt
	Refusal    Refusal    // ObservedRefusal
	Wake       WakeSource // ObservedWake: what ended the wait
	Window     Window     // ObservedWindow
	// Elapsed is, of ObservedPass, the pass; of ObservedTake, the time since the
	// hand-off; of ObservedRefusal, for how long the copy kept a slot busy, the
	// store's answer and a wait for it included; of ObservedRun, the run; of
	// ObservedAck, the time from when the delivery became owed to the end of its
	// run, zero where it was settled without one.
	Elapsed time.Duration
	Err     error
}

// ObservationKind says what happened.
type ObservationKind string

const (
	ObservedPass     ObservationKind = "pass"      // a relay's loop went round: it claimed Count rows, or Err says why not
	ObservedClaim    ObservationKind = "claim"     // a relay claimed Count rows
	ObservedEnqueue  ObservationKind = "enqueue"   // the queue accepted Count messages, or Err says why it is not well
	ObservedGiveBack ObservationKind = "give_back" // Count rows were given back unrun
	ObservedTake     ObservationKind = "take"      // a worker took a row
	ObservedRefusal  ObservationKind = "refusal"   // a message was refused by its row
	ObservedRun      ObservationKind = "run"       // a receiver returned
	ObservedExtend   ObservationKind = "extend"    // a lease was extended
	ObservedLost     ObservationKind = "lost"      // a run lost its claim
	ObservedAck      ObservationKind = "ack"       // an outcome was recorded
	ObservedPause    ObservationKind = "pause"     // a relay found its lane paused
	ObservedResume   ObservationKind = "resume"    // a relay found the pause of its lane over
	ObservedWake     ObservationKind = "wake"      // a relay's wait for rows is over
	ObservedWindow   ObservationKind = "window"    // a relay looked at what it has handed off to Site, and set its Window
	ObservedProbe    ObservationKind = "probe"     // a relay claimed Count rows of a lane that stands still, to see whether workers are there
	ObservedListen   ObservationKind = "listen"    // a relay hears wake-ups from now on, or Err says why it does not
)

// Window is what one relay lets wait in one queue. The zero Window is none: a relay
// claims all that is due.
type Window struct {
	// Size is how many rows may wait, at most.
	Size int
	// Waiting is how many rows that this relay handed off wait, as far as it knows.
	Waiting int
	// Drain is how many of its rows workers settle each second; 0 while that is unknown.
	Drain float64
	// Stalled says that rows wait and no worker takes any.
	Stalled bool
}

// WakeSource says what ended a relay's wait for rows.
type WakeSource string

const (
	WakeNotify WakeSource = "notify" // a wake-up
	WakeLooked WakeSource = "look"   // a look shortly after one, or after rows were found
	WakePoll   WakeSource = "poll"   // the poll, or another moment the relay knew of
	WakeRoom   WakeSource = "room"   // a queue that was full has room again
)
