package ops

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/waybill-go/waybill"
)

// told is what processes tell in their metrics, each figure by lane.
type told struct {
	relays map[string]float64 // how many relays of the lane
	worker bool

	window, waiting, drain, stalled, probes map[string]float64

	takes       map[string]float64
	waits, used map[string]histogram
	copies      map[refused]float64
	seconds     map[refused]float64
}

// refused is what stale copies are counted by.
type refused struct {
	lane string // empty: the worker did not know it
	why  waybill.Refusal
}

func newTold() *told {
	t := &told{waits: map[string]histogram{}, used: map[string]histogram{}, copies: map[refused]float64{}, seconds: map[refused]float64{}}
	for _, figures := range t.figures() {
		*figures = map[string]float64{}
	}
	return t
}

// figures are those that add up, in one order.
func (t *told) figures() []*map[string]float64 {
	return []*map[string]float64{&t.relays, &t.window, &t.waiting, &t.drain, &t.stalled, &t.probes, &t.takes}
}

// readMetrics reads what a process tells. Samples that make no sense are left out: they
// are then not known.
func readMetrics(text []byte) (*told, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("its metrics cannot be read: %w", err)
	}
	t := newTold()
	each(families["waybill_passes_total"], func(lane string, m *dto.Metric) { t.relays[lane] = 1 })
	for name, figures := range map[string]map[string]float64{
		"waybill_window_rows": t.window, "waybill_window_waiting_rows": t.waiting, "waybill_drain_rows_per_second": t.drain,
		"waybill_stalled": t.stalled, "waybill_probes_total": t.probes, "waybill_takes_total": t.takes,
	} {
		each(families[name], func(lane string, m *dto.Metric) { sum(figures, lane, m) })
	}
	each(families["waybill_refusals_total"], func(lane string, m *dto.Metric) { sum(t.copies, refused{lane, why(m)}, m) })
	each(families["waybill_refusal_seconds_total"], func(lane string, m *dto.Metric) { sum(t.seconds, refused{lane, why(m)}, m) })
	each(families["waybill_queue_wait_seconds"], func(lane string, m *dto.Metric) { t.waits[lane] = histogramOf(m) })
	each(families["waybill_lease_used_ratio"], func(lane string, m *dto.Metric) { t.used[lane] = histogramOf(m) })
	t.worker = len(t.copies) > 0 || len(t.takes) > 0
	if len(t.relays) == 0 && !t.worker {
		return nil, errors.New("its metrics are not those of a relay or worker: correct the address")
	}
	return t, nil
}

func each(family *dto.MetricFamily, sample func(lane string, m *dto.Metric)) {
	for _, m := range family.GetMetric() {
		sample(label(m, "lane"), m)
	}
}

func why(m *dto.Metric) waybill.Refusal { return waybill.Refusal(label(m, "refusal")) }

func label(m *dto.Metric, name string) string {
	for _, pair := range m.GetLabel() {
		if pair.GetName() == name {
			return pair.GetValue()
		}
	}
	return ""
}

// sum adds a sample, unless it is no number that rows or seconds can be counted by.
func sum[K comparable](figures map[K]float64, key K, m *dto.Metric) {
	value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
	if value >= 0 && value < 1<<53 {
		figures[key] += value
	}
}

// add adds what another process tells.
func (t *told) add(other *told) {
	t.worker = t.worker || other.worker
	theirs := other.figures()
	for i, ours := range t.figures() {
		addAll(*ours, *theirs[i])
	}
	addAll(t.copies, other.copies)
	addAll(t.seconds, other.seconds)
	for lane, h := range other.waits {
		t.waits[lane] = t.waits[lane].plus(h)
	}
	for lane, h := range other.used {
		t.used[lane] = t.used[lane].plus(h)
	}
}

func addAll[K comparable](ours, theirs map[K]float64) {
	for key, value := range theirs {
		ours[key] += value
	}
}

// lanes are all that are told of.
func (t *told) lanes() iter.Seq[string] {
	all := map[string]bool{}
	for _, figures := range t.figures() {
		for lane := range *figures {
			all[lane] = true
		}
	}
	for lane := range t.waits {
		all[lane] = true
	}
	return maps.Keys(all)
}

// lane is what is known of one lane.
func (t *told) lane(name string) LiveLane {
	lane := LiveLane{
		Lane: name, Relays: int(t.relays[name]),
		Window: rowsOf(t.window, name), Waiting: rowsOf(t.waiting, name), Probes: rowsOf(t.probes, name), Takes: rowsOf(t.takes, name),
	}
	if drain, ok := t.drain[name]; ok {
		lane.Drain = waybill.Known(thousandths(drain))
	}
	if stalled, ok := t.stalled[name]; ok {
		lane.Stalled = waybill.Known(stalled > 0)
	}
	if median, ok := t.waits[name].quantile(.5); ok {
		longest, _ := t.waits[name].quantile(.99)
		lane.WaitP50, lane.WaitP99 = waybill.Known(thousandths(median)), waybill.Known(thousandths(longest))
	}
	if used, ok := t.used[name].quantile(.99); ok {
		lane.LeaseUsed, lane.Headroom = waybill.Known(thousandths(used)), waybill.Known(thousandths(1-used))
	}
	return lane
}

func rowsOf(figures map[string]float64, lane string) (rows waybill.Reading[int64]) {
	if value, ok := figures[lane]; ok {
		rows = waybill.Known(int64(value))
	}
	return rows
}

func thousandths(value float64) float64 { return math.Round(value*1000) / 1000 }
