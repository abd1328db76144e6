package metrics

import "github.com/waybill-go/waybill"

// Refusals of the first kind are of rows whose receivers this worker knows; those of
// the other have no lane.
var (
	ofLanes   = []waybill.Refusal{waybill.RefusedReclaimed, waybill.RefusedTaken, waybill.RefusedSettled, waybill.RefusedCancelled, waybill.RefusedPaused}
	ofUnknown = []waybill.Refusal{waybill.RefusedNoRow, waybill.RefusedReceiver, waybill.RefusedUnclear}
)

// zeroRefusals has the counters of what may be refused begin at zero.
func (o *observed) zeroRefusals() {
	zero := func(lane string, refusals []waybill.Refusal) {
		for _, refusal := range refusals {
			o.refusals.WithLabelValues(lane, string(refusal))
			o.refusalSeconds.WithLabelValues(lane, string(refusal))
		}
	}
	for _, lane := range o.registry.Lanes() {
		zero(lane, ofLanes)
	}
	zero("", ofUnknown)
}

// countRefusal counts a copy and what it cost. A row that is not known, or is of a
// receiver that nobody declares here, tells of no lane: elsewhere it may be declared in
// any.
func (o *observed) countRefusal(seen waybill.Observation) {
	lane := seen.Lane
	if receiver, ok := o.registry.Receiver(seen.Receiver); ok && lane == "" {
		lane = receiver.Lane
	}
	o.refusals.WithLabelValues(lane, string(seen.Refusal)).Inc()
	o.refusalSeconds.WithLabelValues(lane, string(seen.Refusal)).Add(seen.Elapsed.Seconds())
}
