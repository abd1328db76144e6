package backendtest

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/waybill-go/waybill"
)

// Fate is what happens to a message on its way into a faulty queue.
type Fate int

// Of every fate but Unanswered and Vanish the sender hears that the message was
// accepted.
const (
	Pass       Fate = iota // it arrives
	Drop                   // it is lost
	Twice                  // it arrives twice
	Hold                   // it is kept until Release
	Unanswered             // it arrives, but the answer is lost: unknown
	Vanish                 // it is lost, and so is the answer: unknown
)

// errAnswerLost is why a message of an uncertain fate is unknown.
var errAnswerLost = errors.New("the answer was lost")

// Faults is a TaskBackend that loses, repeats, delays and reorders what it is to
// hand to another, as it is told for each message.
type Faults struct {
	next waybill.TaskBackend

	mu   sync.Mutex
	fate func(waybill.Message) Fate
	held []waybill.Message
}

// NewFaults returns a faulty way to next. Every message passes until SetFate.
func NewFaults(next waybill.TaskBackend) *Faults {
	f := &Faults{next: next}
	f.SetFate(nil)
	return f
}

// SetFate decides what happens to messages from now on; nil lets them pass.
func (f *Faults) SetFate(fate func(waybill.Message) Fate) {
	if fate == nil {
		fate = func(waybill.Message) Fate { return Pass }
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fate = fate
}

// Enqueue decides each message's fate and sends what is to arrive.
func (f *Faults) Enqueue(ctx context.Context, messages []waybill.Message) ([]waybill.Result, error) {
	results := waybill.AllResults(len(messages), waybill.EnqueueAccepted, nil)
	var sent []waybill.Message
	var of []int // which result a sent message decides; -1 for a copy
	f.mu.Lock()
	for i, message := range messages {
		switch f.fate(message) {
		case Pass:
			sent, of = append(sent, message), append(of, i)
		case Twice:
			sent, of = append(sent, message, message), append(of, i, -1)
		case Hold:
			f.held = append(f.held, message)
		case Unanswered:
			sent, of = append(sent, message), append(of, -1)
			results[i] = waybill.Result{Err: errAnswerLost}
		case Vanish:
			results[i] = waybill.Result{Err: errAnswerLost}
		case Drop:
		}
	}
	f.mu.Unlock()
	answers, err := f.next.Enqueue(ctx, sent)
	for i, answer := range answers {
		if of[i] >= 0 {
			results[of[i]] = answer
		}
	}
	return results, err
}

// Held returns the messages that wait for Release, oldest first.
func (f *Faults) Held() []waybill.Message {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.held)
}

// Release sends what was held, in the order that arrange leaves it in; nil keeps
// the order. What arrange drops from the slice it returns is lost.
func (f *Faults) Release(ctx context.Context, arrange func([]waybill.Message) []waybill.Message) error {
	f.mu.Lock()
	held := f.held
	f.held = nil
	f.mu.Unlock()
	if arrange != nil {
		held = arrange(held)
	}
	_, err := f.next.Enqueue(ctx, held)
	return err
}
