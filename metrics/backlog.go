package metrics

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill"
)

// backlog is what there is to do, as the store and the queues have it.
type backlog struct {
	registry *waybill.Registry
	errors   *prometheus.CounterVec

	// The rows are two questions, so that the costly one, which counts all of them,
	// does not keep the other from its answer. Both are nil without a store.
	deliveries *reading[deliveries]
	inFlight   *reading[inFlight]
	queues     map[string]*reading[waybill.Backlog]
}

// deliveries and inFlight are answers with the database's time of them.
type deliveries struct {
	tallies []waybill.Tally
	at      time.Time
}

type inFlight struct {
	rows []waybill.InFlight
	at   time.Time
}

// reported are the statuses of rows that somebody has to do something about: those
// that are owed, and those that were given up.
var reported = []waybill.Status{waybill.Pending, waybill.Claimed, waybill.Failed, waybill.Dead, waybill.Orphaned}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("waybill_"+name, help, labels, nil)
}

var (
	deliveriesDesc    = describe("deliveries", "Rows by status: those that are owed (pending, claimed, failed), dead and orphaned.", "lane", "receiver", "status")
	oldestOwedDesc    = describe("oldest_owed_seconds", "How long ago the oldest owed delivery became due, 0 if none is.", "lane", "receiver")
	scheduledDesc     = describe("scheduled_deliveries", "Those of the pending rows that are not due yet, by their receivers' own schedule.", "lane", "receiver")
	inFlightDesc      = describe("in_flight_rows", "Claimed rows: waiting for a worker, running, or given back and with nobody.", "lane", "state")
	oldestWaitingDesc = describe("oldest_waiting_seconds", "How long ago the oldest row that waits for a worker was handed off, 0 if none does.", "lane")
	queueMessagesDesc = describe("queue_messages", "Messages in the queue: ready for a worker, or running.", "lane", "state")
	queueOldestDesc   = describe("queue_oldest_seconds", "How long the oldest message that is ready has waited, 0 if none is.", "lane")
	consumersDesc     = describe("queue_consumers", "Slots of all workers on the queue.", "lane")

	backlogDescs = []*prometheus.Desc{
		deliveriesDesc, oldestOwedDesc, scheduledDesc, inFlightDesc, oldestWaitingDesc, queueMessagesDesc, queueOldestDesc, consumersDesc,
	}
)

func newBacklog(c *Collector) *backlog {
	b := &backlog{
		registry: c.config.Registry,
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "waybill", Name: "read_errors_total", Help: "Questions of scrapes that were not answered, so that samples are absent.",
		}, []string{"source"}),
		queues: map[string]*reading[waybill.Backlog]{},
	}
	if store := c.config.Store; store != nil {
		b.deliveries = newReading(c, b.errors, "deliveries", func(ctx context.Context) (answer deliveries, err error) {
			if answer.tallies, err = store.Tallies(ctx); err == nil {
				answer.at, err = databaseTime(ctx, store)
			}
			return answer, err
		})
		b.inFlight = newReading(c, b.errors, "in_flight", func(ctx context.Context) (answer inFlight, err error) {
			if answer.rows, err = store.InFlight(ctx); err == nil {
				answer.at, err = databaseTime(ctx, store)
			}
			return answer, err
		})
	}
	for lane, queue := range c.config.Queues {
		b.queues[lane] = newReading(c, b.errors, "queue", queue.Backlog)
		b.queues[lane].source = b.queues[lane].source.With("lane", lane)
	}
	return b
}

func newReading[T any](c *Collector, errors *prometheus.CounterVec, source string, ask func(context.Context) (T, error)) *reading[T] {
	return &reading[T]{collector: c, ask: ask, source: c.config.Logger.With("metrics", source), failed: errors.WithLabelValues(source).Inc}
}

// databaseTime is asked last: a row cannot be due after it.
func databaseTime(ctx context.Context, store waybill.StatusReader) (time.Time, error) {
	now, err := store.Now(ctx)
	return now.Time(), err
}

func (b *backlog) describe(descriptions chan<- *prometheus.Desc) {
	b.errors.Describe(descriptions)
	for _, desc := range backlogDescs {
		descriptions <- desc
	}
}

// collect asks everything at the same time and sends what is answered before ctx
// ends. The errors come last, with those of this scrape.
func (b *backlog) collect(ctx context.Context, samples chan<- prometheus.Metric) {
	if b.deliveries != nil {
		b.deliveries.begin()
		b.inFlight.begin()
	}
	for _, queue := range b.queues {
		queue.begin()
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		samples <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	if b.deliveries != nil {
		if answer, ok := b.deliveries.get(ctx); ok {
			b.sendDeliveries(answer, gauge)
		}
		if answer, ok := b.inFlight.get(ctx); ok {
			b.sendInFlight(answer, gauge)
		}
	}
	for _, lane := range slices.Sorted(maps.Keys(b.queues)) {
		if answer, ok := b.queues[lane].get(ctx); ok {
			sendQueue(lane, answer, gauge)
		}
	}
	b.errors.Collect(samples)
}

// send sends a sample of a gauge.
type send func(desc *prometheus.Desc, value float64, labels ...string)

// owner is a receiver's labels.
type owner struct{ lane, receiver string }

// sendDeliveries sends the rows of each declared receiver, zeros included, and those
// of all others together.
func (b *backlog) sendDeliveries(answer deliveries, gauge send) {
	rows := map[owner]map[waybill.Status]int64{}
	oldest := map[owner]time.Duration{}
	scheduled := map[owner]int64{}
	for _, receiver := range b.registry.Receivers() {
		rows[owner{receiver.Lane, receiver.Key}] = map[waybill.Status]int64{}
	}
	for _, tally := range answer.tallies {
		lane, receiver, _ := labels(b.registry, tally.Receiver)
		of := owner{lane, receiver}
		if rows[of] == nil {
			rows[of] = map[waybill.Status]int64{}
		}
		rows[of][tally.Status] += tally.Rows
		scheduled[of] += tally.Scheduled
		if tally.Status.Owed() {
			oldest[of] = max(oldest[of], answer.at.Sub(tally.OldestDue.Time()))
		}
	}
	for of, counts := range rows {
		for _, status := range reported {
			gauge(deliveriesDesc, float64(counts[status]), of.lane, of.receiver, string(status))
		}
		gauge(oldestOwedDesc, oldest[of].Seconds(), of.lane, of.receiver)
		gauge(scheduledDesc, float64(scheduled[of]), of.lane, of.receiver)
	}
}

// sendInFlight sends the claimed rows of each declared lane.
func (b *backlog) sendInFlight(answer inFlight, gauge send) {
	rows := map[string]waybill.InFlight{}
	oldest := map[string]time.Duration{}
	for _, of := range answer.rows {
		lane, _, _ := labels(b.registry, of.Receiver)
		sum := rows[lane]
		sum.Waiting += of.Waiting
		sum.Running += of.Running
		sum.GivenBack += of.GivenBack
		rows[lane] = sum
		if of.OldestHandedOff != 0 {
			oldest[lane] = max(oldest[lane], answer.at.Sub(of.OldestHandedOff.Time()))
		}
	}
	for _, lane := range b.registry.Lanes() {
		gauge(inFlightDesc, float64(rows[lane].Waiting), lane, "waiting")
		gauge(inFlightDesc, float64(rows[lane].Running), lane, "running")
		gauge(inFlightDesc, float64(rows[lane].GivenBack), lane, "given_back")
		gauge(oldestWaitingDesc, oldest[lane].Seconds(), lane)
	}
}

// sendQueue sends what a queue knows of itself.
func sendQueue(lane string, answer waybill.Backlog, gauge send) {
	if ready, ok := answer.Ready.Value(); ok {
		gauge(queueMessagesDesc, float64(ready), lane, "ready")
	}
	if running, ok := answer.Running.Value(); ok {
		gauge(queueMessagesDesc, float64(running), lane, "running")
	}
	if oldest, ok := answer.Oldest.Value(); ok {
		gauge(queueOldestDesc, oldest.Seconds(), lane)
	}
	if consumers, ok := answer.Consumers.Value(); ok {
		gauge(consumersDesc, float64(consumers), lane)
	}
}
