package waybill

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Refusal is why a row refused a message. None of them is an error: each is the
// outcome the take exists for, and a count of them measures how far leases fall
// short of the queue's backlog.
type Refusal string

const (
	RefusedReclaimed Refusal = "reclaimed"        // a later claim holds the row: the lease lapsed in the queue
	RefusedTaken     Refusal = "taken"            // a copy of this message was taken already
	RefusedSettled   Refusal = "settled"          // the delivery is done
	RefusedCancelled Refusal = "cancelled"        // the delivery was withdrawn
	RefusedNoRow     Refusal = "no_row"           // there is no such delivery
	RefusedReceiver  Refusal = "unknown_receiver" // this worker has no such receiver; the row is held as before
	RefusedPaused    Refusal = "paused"           // the receiver's lane is paused; the row is held as before
	RefusedUnclear   Refusal = "unclear"          // the row could not be asked why
)

// Taken is the answer to one message: a delivery to run under a lease, or a
// refusal.
type Taken struct {
	Message  Message
	Delivery *Delivery
	Lease    *Lease
	Refused  Refusal // empty if taken
	// Receiver is whose delivery the row is; empty where the row is not known, as of
	// RefusedNoRow and RefusedUnclear.
	Receiver string
}

// Take offers messages to their rows and returns an answer for each, in order.
// It is the only way from a message to a run: a copy that is stale, late or
// repeated is refused here, and changes nothing.
//
// An error means that nothing is known. If the rows were taken after all, their
// leases bring them back; the messages may be offered again meanwhile. Once a row
// was taken there is no error any more, because that row has to be run: what could
// not be found out about the others is then RefusedUnclear.
func Take(ctx context.Context, store Store, by string, messages []Message) ([]Taken, error) {
	answers := make([]Taken, len(messages))
	leases := store.Registry().Leases()
	for i, message := range messages {
		answers[i] = Taken{Message: message, Refused: RefusedUnclear}
	}
	for i, round := range rounds(messages) {
		err := takeRound(ctx, store, TakeRequest{By: by, Leases: leases}, round, answers)
		if err != nil && i == 0 {
			return nil, err
		}
	}
	return answers, nil
}

// takeRound offers the messages at the given indexes, whose ids are distinct.
func takeRound(ctx context.Context, store Store, request TakeRequest, round []int, answers []Taken) error {
	at := make(map[int64]int, len(round))
	for _, i := range round {
		message := answers[i].Message
		if !message.Claim.Complete() { // half a claim matches nothing
			answers[i].Refused = RefusedNoRow
			continue
		}
		request.Messages = append(request.Messages, message)
		at[message.DeliveryID] = i
	}
	requested := time.Now() // before the request is sent: the lease must end early, never late
	deliveries, err := store.Take(ctx, request)
	if err != nil {
		return fmt.Errorf("take %d deliveries: %w", len(request.Messages), err)
	}
	for _, d := range deliveries {
		answer := &answers[at[d.ID]]
		answer.Delivery, answer.Refused, answer.Receiver = d, "", d.Receiver
		answer.Lease = NewLease(requested, Message{DeliveryID: d.ID, Claim: d.Claim}, d.Lease)
		delete(at, d.ID)
	}
	classify(ctx, store, request.Leases, at, answers)
	return nil
}

// classify says why each of the remaining messages was refused, if the store can
// be asked. That it cannot is no reason to give up what was taken.
func classify(ctx context.Context, store Store, known []ReceiverLease, at map[int64]int, answers []Taken) {
	if len(at) == 0 {
		return
	}
	rows, err := store.Look(ctx, slices.Collect(maps.Keys(at)))
	if err != nil {
		return
	}
	for _, i := range at {
		answers[i].Refused = RefusedNoRow
	}
	for _, row := range rows {
		answer := &answers[at[row.ID]]
		answer.Refused, answer.Receiver = refusal(row, answer.Message, known), row.Receiver
	}
}

func refusal(row RowState, message Message, known []ReceiverLease) Refusal {
	switch {
	case row.Status == Cancelled:
		return RefusedCancelled
	case !row.Status.Owed():
		return RefusedSettled
	case row.Status == Claimed && row.Claim == message.Claim: // all but the receiver matched
		if slices.ContainsFunc(known, func(lease ReceiverLease) bool { return lease.Receiver == row.Receiver }) {
			return RefusedPaused
		}
		return RefusedReceiver
	case row.HandedOffAt > message.Claim.At:
		return RefusedReclaimed
	case row.Status == Claimed && row.TakenAt == 0:
		return RefusedReclaimed // and given back since
	default:
		return RefusedTaken // it runs, or failed since
	}
}

// Record writes outcomes to their rows and reports of each, in order, whether it
// landed. Where it did not, the claim was lost: another run has the row. It may be
// repeated after an error: an outcome that landed although its answer was lost is
// recognised by the claim, which a settled row keeps.
func Record(ctx context.Context, store Store, acks []Ack) ([]bool, error) {
	landed := make([]bool, len(acks))
	messages := make([]Message, len(acks))
	for i, ack := range acks {
		messages[i] = ack.Message
	}
	for _, round := range rounds(messages) {
		batch := make([]Ack, len(round))
		at := make(map[int64]int, len(round))
		for j, i := range round {
			batch[j] = acks[i]
			at[acks[i].DeliveryID] = i
		}
		ids, err := store.Ack(ctx, batch)
		if err != nil {
			return nil, fmt.Errorf("record %d outcomes: %w", len(batch), err)
		}
		for _, id := range ids {
			landed[at[id]] = true
			delete(at, id)
		}
		if err := recognise(ctx, store, at, acks, landed); err != nil {
			return nil, err
		}
	}
	return landed, nil
}

// recognise finds, among the outcomes that did not land just now, those that an
// earlier try had written.
func recognise(ctx context.Context, store Store, at map[int64]int, acks []Ack, landed []bool) error {
	if len(at) == 0 {
		return nil
	}
	rows, err := store.Look(ctx, slices.Collect(maps.Keys(at)))
	if err != nil {
		return fmt.Errorf("look at %d unacknowledged deliveries: %w", len(at), err)
	}
	for _, row := range rows {
		i := at[row.ID]
		landed[i] = row.Claim == acks[i].Claim && row.Status == acks[i].Outcome.Status
	}
	return nil
}

// rounds splits messages into groups of indexes in which no id repeats, keeping
// order: a statement matches each id with one claim only.
func rounds(messages []Message) [][]int {
	var groups [][]int
	repeats := make(map[int64]int, len(messages))
	for i, message := range messages {
		n := repeats[message.DeliveryID]
		repeats[message.DeliveryID]++
		if n == len(groups) {
			groups = append(groups, make([]int, 0, len(messages)-i))
		}
		groups[n] = append(groups[n], i)
	}
	return groups
}
