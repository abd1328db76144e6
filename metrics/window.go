package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill"
)

// windowGauges are the window of each lane's relay, as of its last look. A relay
// without one has no samples.
type windowGauges struct{ size, waiting, drain, stalled *prometheus.GaugeVec }

func newWindowGauges(o *observed) windowGauges {
	return windowGauges{
		size:    o.gauge("window_rows", "How many rows the lane's relay lets wait in the queue.", "lane"),
		waiting: o.gauge("window_waiting_rows", "Rows of the lane's relay that wait in the queue, as far as it knows.", "lane"),
		drain:   o.gauge("drain_rows_per_second", "Rows of the lane's relay that workers settle each second; absent while it does not know.", "lane"),
		stalled: o.gauge("stalled", "1 while rows of the lane's relay wait and no worker takes any, else 0.", "lane"),
	}
}

func (g windowGauges) set(lane string, window waybill.Window) {
	g.size.WithLabelValues(lane).Set(float64(window.Size))
	g.waiting.WithLabelValues(lane).Set(float64(window.Waiting))
	if window.Drain > 0 {
		g.drain.WithLabelValues(lane).Set(window.Drain)
	} else { // what nobody knows has no sample
		g.drain.DeleteLabelValues(lane)
	}
	stalled := 0.0
	if window.Stalled {
		stalled = 1
	}
	g.stalled.WithLabelValues(lane).Set(stalled)
}
