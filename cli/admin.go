package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/spf13/pflag"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/admin"
	"github.com/waybill-go/waybill/internal/wire"
	"github.com/waybill-go/waybill/metrics"
	"github.com/waybill-go/waybill/worker"
)

// adminConnections is how many connections to the database the endpoint may use.
const adminConnections = 2

// adminFlags say what relay and worker tell of themselves, and where.
type adminFlags struct {
	addr  string
	pprof bool
}

func (f *adminFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.addr, "admin", "", "serve /livez, /readyz and /metrics at `host:port`, for operators and not for the world: 127.0.0.1:9090, say (default nowhere)")
	flags.BoolVar(&f.pprof, "pprof", false, "serve /debug/pprof as well, at --admin")
	fromEnv(flags, "admin", "WAYBILL_ADMIN")
	fromEnv(flags, "pprof", "WAYBILL_PPROF")
}

func (f *adminFlags) check() error {
	switch {
	case f.addr != "":
		return checkAddress(f.addr)
	case f.pprof:
		return usagef("--pprof is for --admin: say where to serve it, as in --admin 127.0.0.1:9090")
	}
	return nil
}

func checkAddress(addr string) error {
	if _, _, err := net.SplitHostPort(addr); err != nil {
		return usagef("--admin %q: want host:port, as in 127.0.0.1:9090", addr)
	}
	return nil
}

// connections is how many connections to the database the endpoint needs.
func (f *adminFlags) connections() int {
	if f.addr == "" {
		return 0
	}
	return adminConnections
}

// watched is a relay or a worker as its admin endpoint sees it. A process without an
// endpoint is not watched: nil, and each method does nothing.
type watched struct {
	flags    adminFlags
	registry *waybill.Registry
	store    wire.Store
	backend  wire.Backend // nil: none is configured
	log      *slog.Logger

	loops     *admin.Loops
	relays    []string // lanes
	queues    map[string]waybill.BacklogReader
	worker    *worker.Worker // nil: no receiver runs here
	collector *metrics.Collector
}

func (a *app) watch(flags adminFlags, store wire.Store, backend wire.Backend, log *slog.Logger) *watched {
	if flags.addr == "" {
		return nil
	}
	return &watched{
		flags: flags, registry: a.registry, store: store, backend: backend, log: log,
		loops: &admin.Loops{}, queues: map[string]waybill.BacklogReader{},
	}
}

// observer is for the configurations of relays and workers.
func (w *watched) observer() waybill.Observer {
	if w == nil {
		return nil
	}
	return func(seen waybill.Observation) {
		w.loops.Observe(seen)
		w.collector.Observe(seen)
	}
}

// relay watches the lane's relay, which goes round once in poll at least.
func (w *watched) relay(lane string, poll time.Duration) {
	if w != nil {
		w.relays = append(w.relays, lane)
		w.loops.Add(lane, poll)
	}
}

// queue watches the queue that the lane's relay hands off to.
func (w *watched) queue(lane string, queue waybill.TaskBackend) {
	if reader, ok := queue.(waybill.BacklogReader); ok && w != nil {
		w.queues[lane] = reader
	}
}

// work watches the worker.
func (w *watched) work(worker *worker.Worker) {
	if w != nil {
		w.worker = worker
	}
}

// during serves the endpoint while run runs.
func (w *watched) during(ctx context.Context, run func(ctx context.Context) error) error {
	if w == nil {
		return run(ctx)
	}
	config := metrics.Config{Registry: w.registry, Relays: w.relays, Worker: w.worker != nil, Logger: w.log}
	if len(w.relays) > 0 { // any number of workers would count the same rows
		config.Store, config.Queues = w.store, w.queues
	}
	var err error
	if w.collector, err = metrics.New(config); err != nil {
		return err
	}
	defer w.collector.Close()
	handler, err := metricsHandler(w.collector, w.log)
	if err != nil {
		return err
	}
	ready, err := w.ready(ctx)
	if err != nil {
		return err
	}
	server, err := admin.Start(admin.Config{
		Addr: w.flags.addr, Pprof: w.flags.pprof, Live: w.live, Ready: ready, Metrics: handler, Logger: w.log,
	})
	if err != nil {
		return err
	}
	defer server.Close()
	return run(ctx)
}

// live says which loop hangs. Waiting out an outage is no reason to be restarted: in
// one the relays go round, and the worker's flushers try again.
func (w *watched) live() error {
	err := w.loops.Live()
	if w.worker != nil {
		if stalled := w.worker.Stalled(); stalled > admin.StepBound {
			err = errors.Join(err, fmt.Errorf("worker: at one step for %s", stalled.Round(time.Second)))
		}
	}
	return err
}

// ready are what the process needs to do its work.
func (w *watched) ready(ctx context.Context) ([]admin.Check, error) {
	checks := []admin.Check{
		{Name: "process", Ask: func(context.Context) error {
			if ctx.Err() != nil {
				return errors.New("it is stopping")
			}
			return nil
		}},
		{Name: "store", Ask: w.store.Reach},
		{Name: "schema", Ask: w.store.Check},
	}
	if w.backend == nil || w.backend.InProcess() {
		return checks, nil
	}
	checks = append(checks, admin.Check{Name: "backend", Ask: w.backend.Reach})
	migrator, err := w.backend.Migrator()
	if err != nil || migrator == nil {
		return checks, err
	}
	return append(checks, admin.Check{Name: "backend schema", Ask: func(ctx context.Context) error { return migrated(ctx, migrator) }}), nil
}

// migrated says what a backend's tables lack.
func migrated(ctx context.Context, migrator waybill.Migrator) error {
	steps, err := migrator.Status(ctx)
	if err != nil {
		return err
	}
	for _, step := range steps {
		if step.AppliedAt.IsZero() {
			return fmt.Errorf("step %d of the backend's tables is missing: run 'bridge migrate' with this --backend", step.Version)
		}
	}
	return nil
}
