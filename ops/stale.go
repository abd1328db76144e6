package ops

import (
	"cmp"
	"slices"

	"github.com/waybill-go/waybill"
)

// StaleCopies are the messages of a lane that their rows refused for one reason.
type StaleCopies struct {
	Lane    string          `json:"lane"` // empty: the workers did not know it
	Refusal waybill.Refusal `json:"refusal"`
	Copies  int64           `json:"copies"`
	// WorkerSeconds is for how long they kept slots of workers busy.
	WorkerSeconds waybill.Reading[float64] `json:"worker_seconds"`
	// Remedy is what would remove them; null where there are none.
	Remedy *string `json:"remedy"`
}

// staleCopies lists what workers refused, by lane and by why. Without a worker nobody
// knows.
func (t *told) staleCopies() []StaleCopies {
	if !t.worker {
		return nil
	}
	list := []StaleCopies{}
	for key, copies := range t.copies {
		stale := StaleCopies{Lane: key.lane, Refusal: key.why, Copies: int64(copies)}
		if seconds, ok := t.seconds[key]; ok {
			stale.WorkerSeconds = waybill.Known(thousandths(seconds))
		}
		if stale.Copies > 0 {
			text := t.remedy(key)
			stale.Remedy = &text
		}
		list = append(list, stale)
	}
	slices.SortFunc(list, func(a, b StaleCopies) int {
		return cmp.Or(cmp.Compare(a.Lane, b.Lane), cmp.Compare(a.Refusal, b.Refusal))
	})
	return list
}

// remedy says what makes stale copies of a kind, and the setting that would remove
// them.
func (t *told) remedy(of refused) string {
	switch of.why {
	case waybill.RefusedReclaimed:
		return "the lease lapsed while the message was in the queue. " + t.longerLease(of.lane)
	case waybill.RefusedTaken, waybill.RefusedSettled:
		return "the queue brought a message twice, or a worker missed the answer to its take. A few come with each worker that is killed " +
			"or cut off: let --drain cover the longest run, and look for lost connections in the logs"
	case waybill.RefusedCancelled:
		return "deliveries were withdrawn while their messages were in the queue. " + t.shorterQueue(of.lane)
	case waybill.RefusedNoRow:
		return "the rows are gone, or were never in this database. Give each database queues of its own with --backend, and delete settled rows only"
	case waybill.RefusedReceiver:
		return "a worker does not know the receivers. Deploy it with the --receivers that the relays have"
	case waybill.RefusedPaused:
		return "the lane was paused while messages were in the queue; the rows are owed as before. " + t.shorterQueue(of.lane)
	case waybill.RefusedUnclear:
		return "the store did not answer when it was asked why. Look for what is wrong with the database in the workers' logs"
	}
	return "workers of another release refused them. Use the bridge of that release"
}

// longerLease is how the leases of a lane are kept longer than its queue.
func (t *told) longerLease(lane string) string {
	const longer = "raise the lane's handoff_lease, or add workers or slots"
	if _, windowed := t.window[lane]; windowed {
		return "The lane has a window already: " + longer
	}
	return t.shorterQueue(lane) + ", or " + longer
}

// shorterQueue is how a lane has fewer messages in its queue.
func (t *told) shorterQueue(lane string) string {
	_, windowed := t.window[lane]
	switch {
	case windowed:
		return "A shorter --window-horizon of the lane's relays has fewer there"
	case t.relays[lane] > 0:
		return "Take --window=off from the lane's relays"
	}
	return "See that the lane's relays run without --window=off: ask them as well, with --admin"
}
