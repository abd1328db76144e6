package metrics_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/metrics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("nobody answers")

// declare declares a receiver that does nothing for each key.
func declare(t *testing.T, receivers map[string]waybill.Options) *waybill.Registry {
	t.Helper()
	reg := waybill.NewRegistry()
	for key, options := range receivers {
		waybill.OnAny(reg, key, func(context.Context, *waybill.Delivery) error { return nil }, options)
	}
	if err := reg.Err(); err != nil {
		t.Fatal(err)
	}
	return reg
}

func newCollector(t *testing.T, config metrics.Config) *metrics.Collector {
	t.Helper()
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	c, err := metrics.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// scrape returns every sample by its name and labels, as in
// name{lane="mail",receiver="a"}. A histogram has name_count and name_sum.
func scrape(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	samples := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetName()+`="`+label.GetValue()+`"`)
			}
			name, set := family.GetName(), ""
			if len(labels) > 0 {
				set = "{" + strings.Join(labels, ",") + "}"
			}
			switch {
			case metric.GetCounter() != nil:
				samples[name+set] = metric.GetCounter().GetValue()
			case metric.GetGauge() != nil:
				samples[name+set] = metric.GetGauge().GetValue()
			default:
				samples[name+"_count"+set] = float64(metric.GetHistogram().GetSampleCount())
				samples[name+"_sum"+set] = metric.GetHistogram().GetSampleSum()
			}
		}
	}
	return samples
}

// of returns the samples whose names begin so.
func of(samples map[string]float64, name string) map[string]float64 {
	found := map[string]float64{}
	for sample, value := range samples {
		if strings.HasPrefix(sample, name) {
			found[sample] = value
		}
	}
	return found
}

// store answers what it is told to.
type store struct {
	now waybill.Stamp

	mu       sync.Mutex
	tallies  []waybill.Tally
	inFlight []waybill.InFlight
	hook     func(ctx context.Context) error // before each answer
	asked    int                             // for tallies
}

func newStore() *store { return &store{now: waybill.StampOf(time.Unix(1_000_000, 0))} }

// ago is a stamp before the store's now.
func (s *store) ago(d time.Duration) waybill.Stamp { return s.now.Add(-d) }

func (s *store) on(hook func(ctx context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hook = hook
}

func (s *store) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *store) enter(ctx context.Context, asked int) error {
	s.mu.Lock()
	s.asked += asked
	hook := s.hook
	s.mu.Unlock()
	if hook == nil {
		return nil
	}
	return hook(ctx)
}

func (s *store) Now(context.Context) (waybill.Stamp, error) { return s.now, nil }

func (s *store) Tallies(ctx context.Context) ([]waybill.Tally, error) {
	return s.tallies, s.enter(ctx, 1)
}

func (s *store) InFlight(ctx context.Context) ([]waybill.InFlight, error) {
	return s.inFlight, s.enter(ctx, 0)
}

func (s *store) OwedEvents(context.Context) ([]waybill.OwedEvent, error) { return nil, nil }

func (s *store) Pauses(context.Context) ([]waybill.Pause, error) { return nil, nil }

// hang is a server that accepts and never answers.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// queue answers a backlog.
type queue func(ctx context.Context) (waybill.Backlog, error)

func (q queue) Backlog(ctx context.Context) (waybill.Backlog, error) { return q(ctx) }
