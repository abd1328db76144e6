package metrics_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/logtest"
	"github.com/waybill-go/waybill/metrics"
)

const pendingOfA = `waybill_deliveries{lane="default",receiver="a",status="pending"}`

// bench is a collector over a store and a queue, on fake time.
type bench struct {
	*testing.T
	store     *store
	queue     func(ctx context.Context) error
	collector *metrics.Collector
	log       *logtest.Log
}

func newBench(t *testing.T) *bench {
	b := &bench{T: t, store: newStore()}
	b.store.tallies = []waybill.Tally{{Receiver: "a", Status: waybill.Pending, Rows: 7}}
	queues := map[string]waybill.BacklogReader{"default": queue(func(ctx context.Context) (waybill.Backlog, error) {
		if b.queue != nil {
			return waybill.Backlog{}, b.queue(ctx)
		}
		return waybill.Backlog{Ready: waybill.Known[int64](7)}, nil
	})}
	var logger *slog.Logger
	logger, b.log = logtest.New()
	b.collector = newCollector(t, metrics.Config{
		Registry: declare(t, map[string]waybill.Options{"a": {}}), Store: b.store, Queues: queues, Relays: []string{"default"}, Logger: logger,
	})
	return b
}

// scrape is scrape, and how long it took.
func (b *bench) scrape() (map[string]float64, time.Duration) {
	b.Helper()
	started := time.Now()
	return scrape(b.T, b.collector), time.Since(started)
}

// A scrape is over in time while nobody answers. It has what the process itself knows,
// no sample of the rest, and a count of what went wrong once that is sure.
func TestAScrapeOfServersThatHangIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.store.on(hang)
		b.queue = hang
		b.collector.Observe(waybill.Observation{Kind: waybill.ObservedClaim, Lane: "default", Count: 3})
		for range 20 { // every 15 s
			got, took := b.scrape()
			if took > metrics.DefaultWait {
				t.Errorf("the scrape took %s", took)
			}
			if got[`waybill_claims_total{lane="default"}`] != 3 || len(of(got, "waybill_deliveries")) > 0 ||
				len(of(got, "waybill_in_flight"))+len(of(got, "waybill_queue")) > 0 {
				t.Errorf("scraped %v", got)
			}
			time.Sleep(15*time.Second - took)
		}
		got, _ := b.scrape()
		for _, source := range []string{"deliveries", "in_flight", "queue"} {
			// A question is given up after 30 s, and asked again a minute later.
			if n := got[`waybill_read_errors_total{source="`+source+`"}`]; n < 3 || n > 4 {
				t.Errorf("%v questions of %s were given up in five minutes, want 3 or 4", n, source)
			}
		}
		b.store.on(nil)
		b.queue = nil
		time.Sleep(2 * time.Minute)
		if got, _ := b.scrape(); got[pendingOfA] != 7 || got[`waybill_queue_messages{lane="default",state="ready"}`] != 7 {
			t.Errorf("scraped %v after the outage", got)
		}
		for _, source := range []string{"metrics=deliveries", "metrics=in_flight", "metrics=queue lane=default"} {
			b.log.Want(t, 1, "level=WARN", "not answered", source)
			b.log.Want(t, 1, "level=INFO", "there again", source)
		}
		b.collector.Close()
	})
}

// However many scrape, the store is asked once in a while.
func TestManyScrapesAreOneQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.store.on(func(context.Context) error {
			time.Sleep(100 * time.Millisecond)
			return nil
		})
		for range 10 {
			var scrapes sync.WaitGroup
			for range 20 {
				scrapes.Go(func() {
					if got, _ := b.scrape(); got[pendingOfA] != 7 {
						t.Errorf("scraped %v", got)
					}
				})
			}
			scrapes.Wait()
			time.Sleep(900 * time.Millisecond)
		}
		if n := b.store.times(); n != 1 {
			t.Errorf("the store was asked %d times in ten seconds by 200 scrapes, want once", n)
		}
		time.Sleep(10 * time.Second)
		b.scrape()
		if n := b.store.times(); n != 2 {
			t.Errorf("the store was asked %d times, want again when the answer is old", n)
		}
		b.collector.Close()
	})
}

// A store that needs long is asked seldom, and its last answer serves meanwhile: the
// samples have no gaps.
func TestACostlyAnswerServesLonger(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.store.on(func(context.Context) error {
			time.Sleep(20 * time.Second)
			return nil
		})
		first, took := b.scrape()
		if _, ok := first[pendingOfA]; ok || took != metrics.DefaultWait {
			t.Errorf("the first scrape took %s and has %v", took, of(first, "waybill_deliveries"))
		}
		time.Sleep(20 * time.Second)
		for range 240 { // an hour
			if got, _ := b.scrape(); got[pendingOfA] != 7 {
				t.Fatalf("scraped %v, want no gap", got)
			}
			time.Sleep(15 * time.Second)
		}
		if n := b.store.times(); n < 8 || n > 10 {
			t.Errorf("the store was asked %d times in an hour, want every seven minutes", n)
		}
		time.Sleep(time.Minute)
		b.collector.Close()
	})
}

// An answer that fails takes the last one with it.
func TestAFailureMakesTheLastAnswerUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.scrape()
		b.store.on(func(context.Context) error { return errDown })
		time.Sleep(metrics.DefaultMaxAge)
		got, _ := b.scrape()
		if _, ok := got[pendingOfA]; ok || got[`waybill_read_errors_total{source="deliveries"}`] != 1 {
			t.Errorf("scraped %v", got)
		}
		b.collector.Close()
	})
}

func TestCloseGivesUpWhatIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.store.on(hang)
		b.scrape()
		started := time.Now()
		b.collector.Close()
		b.collector.Close()
		if took := time.Since(started); took != 0 {
			t.Errorf("Close took %s", took)
		}
		b.log.Want(t, 0, "not answered")
		asked := b.store.times()
		time.Sleep(time.Hour)
		if _, took := b.scrape(); took != 0 || b.store.times() != asked {
			t.Errorf("a scrape after Close took %s, and asked %d times", took, b.store.times()-asked)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	reg := waybill.NewRegistry()
	for name, config := range map[string]metrics.Config{
		"no registry":        {},
		"a negative wait":    {Registry: reg, Wait: -1},
		"a negative age":     {Registry: reg, MaxAge: -1},
		"a negative timeout": {Registry: reg, Timeout: -1},
	} {
		if _, err := metrics.New(config); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

var _ prometheus.Collector = (*metrics.Collector)(nil)
