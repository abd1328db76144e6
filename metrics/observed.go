package metrics

import (
	"cmp"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill"
)

// deferred is the status of an outcome that spent no attempt. Its row is failed.
const deferred = "deferred"

// observed is what relays and workers of this process were seen to do.
type observed struct {
	registry *waybill.Registry
	all      []prometheus.Collector

	passes, passErrors         *prometheus.CounterVec
	paused, listening          *prometheus.GaugeVec
	wakes                      *prometheus.CounterVec
	window                     windowGauges
	probes                     *prometheus.CounterVec
	claims                     *prometheus.CounterVec
	enqueued, enqueueErrors    *prometheus.CounterVec
	givenBack                  *prometheus.CounterVec
	takes                      *prometheus.CounterVec
	refusals, refusalSeconds   *prometheus.CounterVec
	queueWait, leaseUsed       *prometheus.HistogramVec
	runs                       *prometheus.HistogramVec
	extensions, extensionFails *prometheus.CounterVec
	lost                       *prometheus.CounterVec
	acks                       *prometheus.CounterVec
	deliveries                 *prometheus.HistogramVec
}

// seconds are from what an idle queue takes to the longest leases.
var seconds = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 900, 3600}

// shares of a lease; what is above 1 was lapsed.
var shares = []float64{.01, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, 1, 1.5, 2}

func newObserved(registry *waybill.Registry) *observed {
	o := &observed{registry: registry}
	o.passes = o.counter("passes_total", "Passes of the lane's relay over its rows.", "lane")
	o.passErrors = o.counter("pass_errors_total", "Passes that ended with an error: the store did not do its part.", "lane")
	o.paused = o.gauge("lane_paused", "1 while the lane's relay finds its lane paused, else 0.", "lane")
	o.listening = o.gauge("listening", "1 while the lane's relay hears wake-ups, 0 while it only polls.", "lane")
	o.wakes = o.counter("wakes_total", "Waits of the lane's relay that ended, by what ended them.", "lane", "by")
	o.window = newWindowGauges(o)
	o.probes = o.counter("probes_total", "Rows claimed of a lane that stands still, to see whether workers are there.", "lane")
	o.claims = o.counter("claims_total", "Rows claimed by the relay.", "lane")
	o.enqueued = o.counter("enqueued_total", "Messages that the queue accepted.", "lane", "site")
	o.enqueueErrors = o.counter("enqueue_errors_total", "Hand-offs after which claiming for the queue stopped, because it is not well.", "lane", "site")
	o.givenBack = o.counter("given_back_total", "Rows given back unrun; lane is empty where a worker gave them back.", "lane")
	o.takes = o.counter("takes_total", "Rows taken by the worker.", "lane", "receiver")
	o.refusals = o.counter("refusals_total", "Messages that their rows refused, by why; lane is empty where the worker does not know it.", "lane", "refusal")
	o.refusalSeconds = o.counter("refusal_seconds_total", "For how long refused messages kept slots of the worker busy, by why.", "lane", "refusal")
	o.queueWait = o.histogram("queue_wait_seconds", "From the hand-off of a row to its take.", seconds, "lane")
	o.leaseUsed = o.histogram("lease_used_ratio", "The wait in the queue as a share of the lease it was handed off under.", shares, "lane")
	o.runs = o.histogram("run_seconds", "Runs of receivers, whatever came of them.", seconds, "lane", "receiver")
	o.extensions = o.counter("lease_extensions_total", "Leases extended while their receivers ran.", "lane", "receiver")
	o.extensionFails = o.counter("lease_extension_errors_total", "Extensions that did not succeed.", "lane", "receiver")
	o.lost = o.counter("leases_lost_total", "Runs whose claim was gone when they ended: nothing of them was recorded.", "lane", "receiver")
	o.acks = o.counter("acks_total", "Outcomes recorded on their rows; a deferred one spent no attempt.", "lane", "receiver", "status")
	o.deliveries = o.histogram("delivery_seconds", "From when a delivery became owed to the end of the run that succeeded.", seconds, "lane")
	return o
}

func (o *observed) counter(name, help string, labels ...string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "waybill", Name: name, Help: help}, labels)
	o.all = append(o.all, vec)
	return vec
}

func (o *observed) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	vec := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "waybill", Name: name, Help: help}, labels)
	o.all = append(o.all, vec)
	return vec
}

func (o *observed) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "waybill", Name: name, Help: help, Buckets: buckets}, labels)
	o.all = append(o.all, vec)
	return vec
}

func (o *observed) describe(descriptions chan<- *prometheus.Desc) {
	for _, vec := range o.all {
		vec.Describe(descriptions)
	}
}

func (o *observed) collect(samples chan<- prometheus.Metric) {
	for _, vec := range o.all {
		vec.Collect(samples)
	}
}

// zero has the counters of what this process is there for begin at zero.
func (o *observed) zero(config Config) {
	for _, lane := range config.Relays {
		o.paused.WithLabelValues(lane)
		o.listening.WithLabelValues(lane)
		for _, by := range []waybill.WakeSource{waybill.WakeNotify, waybill.WakeLooked, waybill.WakePoll, waybill.WakeRoom} {
			o.wakes.WithLabelValues(lane, string(by))
		}
		for _, vec := range []*prometheus.CounterVec{o.passes, o.passErrors, o.probes, o.claims, o.givenBack} {
			vec.WithLabelValues(lane)
		}
		for _, receiver := range o.registry.LaneReceivers(lane) {
			o.enqueued.WithLabelValues(lane, string(receiver.Site))
			o.enqueueErrors.WithLabelValues(lane, string(receiver.Site))
		}
	}
	if !config.Worker {
		return
	}
	o.zeroRefusals()
	for _, receiver := range o.registry.Receivers() {
		o.takes.WithLabelValues(receiver.Lane, receiver.Key)
		o.lost.WithLabelValues(receiver.Lane, receiver.Key)
		for _, status := range []string{string(waybill.Succeeded), string(waybill.Failed), string(waybill.Dead), deferred} {
			o.acks.WithLabelValues(receiver.Lane, receiver.Key, status)
		}
	}
}

// Observe counts what was seen; it is the waybill.Observer of relays and workers.
func (c *Collector) Observe(seen waybill.Observation) { c.observed.count(seen) }

func (o *observed) count(seen waybill.Observation) {
	switch seen.Kind {
	case waybill.ObservedPass:
		o.passes.WithLabelValues(seen.Lane).Inc()
		if seen.Err != nil {
			o.passErrors.WithLabelValues(seen.Lane).Inc()
		}
	case waybill.ObservedPause:
		o.paused.WithLabelValues(seen.Lane).Set(1)
	case waybill.ObservedResume:
		o.paused.WithLabelValues(seen.Lane).Set(0)
	case waybill.ObservedListen:
		hears := 1.0
		if seen.Err != nil {
			hears = 0
		}
		o.listening.WithLabelValues(seen.Lane).Set(hears)
	case waybill.ObservedWake:
		o.wakes.WithLabelValues(seen.Lane, string(seen.Wake)).Inc()
	case waybill.ObservedWindow:
		o.window.set(seen.Lane, seen.Window)
	case waybill.ObservedProbe:
		o.probes.WithLabelValues(seen.Lane).Add(float64(seen.Count))
	case waybill.ObservedClaim:
		o.claims.WithLabelValues(seen.Lane).Add(float64(seen.Count))
	case waybill.ObservedEnqueue:
		o.enqueued.WithLabelValues(seen.Lane, string(seen.Site)).Add(float64(seen.Count))
		if seen.Err != nil {
			o.enqueueErrors.WithLabelValues(seen.Lane, string(seen.Site)).Inc()
		}
	case waybill.ObservedGiveBack:
		o.givenBack.WithLabelValues(seen.Lane).Add(float64(seen.Count))
	case waybill.ObservedRefusal:
		o.countRefusal(seen)
	default:
		o.countRun(seen)
	}
}

// countRun counts what happens between the take and the outcome of one delivery.
func (o *observed) countRun(seen waybill.Observation) {
	lane, key, handOff := labels(o.registry, seen.Receiver)
	lane = cmp.Or(seen.Lane, lane)
	switch seen.Kind {
	case waybill.ObservedTake:
		o.takes.WithLabelValues(lane, key).Inc()
		o.queueWait.WithLabelValues(lane).Observe(seen.Elapsed.Seconds())
		if handOff > 0 {
			o.leaseUsed.WithLabelValues(lane).Observe(seen.Elapsed.Seconds() / handOff.Seconds())
		}
	case waybill.ObservedRun:
		o.runs.WithLabelValues(lane, key).Observe(seen.Elapsed.Seconds())
	case waybill.ObservedExtend:
		if seen.Err != nil {
			o.extensionFails.WithLabelValues(lane, key).Inc()
		} else {
			o.extensions.WithLabelValues(lane, key).Inc()
		}
	case waybill.ObservedLost:
		o.lost.WithLabelValues(lane, key).Inc()
	case waybill.ObservedAck:
		status := string(seen.Status)
		if seen.Deferred && seen.Status == waybill.Failed {
			status = deferred
		}
		o.acks.WithLabelValues(lane, key, status).Inc()
		if seen.Status == waybill.Succeeded {
			o.deliveries.WithLabelValues(lane).Observe(seen.Elapsed.Seconds())
		}
	}
}
