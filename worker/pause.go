package worker

import "github.com/waybill-go/waybill"

// pauseLane pauses the lane of a deferral that was recorded, so that no other row of
// it runs into the same wall. The row has its outcome already: nothing here can cost
// it that.
func (w *Worker) pauseLane(r run, outcome waybill.Outcome) {
	if request, pauses := waybill.DeferralPause(r.receiver, r.delivery, outcome, w.id); pauses {
		_, _ = w.pauses.do(request) // what goes wrong is told once, by the flush
	}
}

// recordPauses is the flush of pauses. Of those of one lane the longest is enough. It
// is tried once: the next deferral asks again.
func (w *Worker) recordPauses(requests []waybill.PauseRequest) ([]struct{}, error) {
	defer w.pausing.end()
	longest := make(map[string]waybill.PauseRequest)
	for _, request := range requests {
		if request.For > longest[request.Lane].For {
			longest[request.Lane] = request
		}
	}
	for lane, request := range longest {
		w.pausing.begin()
		pause, err := w.store.PauseLane(w.writes, request)
		if err != nil {
			w.log.Warn("lane not paused, its other rows go on", "lane", lane, "for", request.For.String(), "error", err)
			continue
		}
		w.log.Debug("lane paused", "lane", lane, "until", pause.Until.String(), "by", pause.By, "reason", pause.Reason)
	}
	return make([]struct{}, len(requests)), nil
}

// giveBackPaused releases a row that was not taken because its lane is paused. It
// keeps its place, and is the first to be claimed when the lane goes on.
func (w *Worker) giveBackPaused(message waybill.Message) {
	if _, err := w.giveBacks.do(waybill.GiveBack{Message: message}); err != nil {
		w.log.Warn("row of a paused lane not given back, it waits for its lease", "delivery_id", message.DeliveryID, "error", err)
		return
	}
	// A line for each would be as many as the queue holds; the relay says that the
	// lane is paused.
	w.log.Debug("lane is paused, row given back unrun", "delivery_id", message.DeliveryID)
}
