package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-go/waybill"
	"github.com/waybill-go/waybill/internal/wire"
	"github.com/waybill-go/waybill/relay"
	"github.com/waybill-go/waybill/worker"
)

// relayFlags are what `relay` is called with.
type relayFlags struct {
	lanes       []string
	allLanes    bool
	once        bool
	limit       int
	passes      int
	batchSize   int
	workerID    string
	poll        time.Duration
	orphanAfter time.Duration
	slots       int
	drain       time.Duration
	strict      bool
	window      windowFlags
	admin       adminFlags
}

func relayCommand(a *app) *cobra.Command {
	var f relayFlags
	cmd := &cobra.Command{
		Use:   "relay",
		Short: "Hand what is due to the task queue",
		Long: `Hand what is due to the task queue, until it is told to stop.

One process serves the lanes it is given; any number of processes may serve a
lane. Receivers that are declared with site: relay run in the relay itself, and
with --backend local: all of its lanes' receivers do.

The relay lets no more rows wait in a lane's queue than workers start within
--window-horizon, and claims none whose message may still be in there: leases need
not be as long as the backlog takes. --window=off has it claim all that is due, and
every row again whose lease is over; --once and --limit always do.

At the first SIGTERM or SIGINT the relay finishes what it is handing off, gives
the rest back and exits with 0; a second one ends it at once. At SIGHUP it reads the
file of --receivers anew.`,
		Example: `  bridge relay
  bridge relay --lane mail --lane crm
  bridge relay --admin 127.0.0.1:9090
  bridge relay --once --limit 10
  bridge relay --store sqlite:waybill.db --backend local: --receivers receivers.yaml`,
		Args: cobra.NoArgs,
		RunE: running(func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(f.check(cmd), a.wake.check(), f.window.check(cmd.Flags())); err != nil {
				return err
			}
			err := a.relay(cmd, f)
			if f.once { // to be told to stop before all is handed off is no success
				return err
			}
			return unlessStopped(cmd, err)
		}),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&f.lanes, "lane", []string{waybill.DefaultLane}, "`lane` to serve; may be repeated")
	flags.BoolVar(&f.allLanes, "all-lanes", false, "serve every declared lane: for development, where one process is enough")
	flags.BoolVar(&f.once, "once", false, "hand off what is due now, say what came of it, and exit")
	flags.IntVar(&f.limit, "limit", 0, "with --once: one claim of at most `N` rows")
	flags.IntVar(&f.passes, "passes", 0, "exit after `N` passes")
	flags.IntVar(&f.batchSize, "batch-size", relay.DefaultBatchSize, "rows in one claim")
	flags.StringVar(&f.workerID, "worker-id", "", "how rows name this process, instead of host:pid")
	flags.DurationVar(&f.poll, "poll", relay.DefaultPoll, "longest wait for due rows")
	flags.DurationVar(&f.orphanAfter, "orphan-after", relay.DefaultOrphanAfter, "how long a receiver stays unknown before its rows are orphaned; 0 is at once")
	flags.IntVar(&f.slots, "slots", worker.DefaultSlots, "receivers that run in the relay at the same time")
	flags.DurationVar(&f.drain, "drain", worker.DefaultDrain, "how long a stop waits for receivers that run in the relay")
	flags.BoolVar(&f.strict, "strict", false, strictUsage)
	a.wake.add(flags)
	f.window.add(flags)
	fromEnv(flags, "lane", "WAYBILL_LANE")
	fromEnv(flags, "batch-size", "WAYBILL_BATCH_SIZE")
	fromEnv(flags, "worker-id", "WAYBILL_WORKER_ID")
	fromEnv(flags, "poll", "WAYBILL_POLL")
	fromEnv(flags, "orphan-after", "WAYBILL_ORPHAN_AFTER")
	fromEnv(flags, "slots", "WAYBILL_SLOTS")
	fromEnv(flags, "drain", "WAYBILL_DRAIN")
	fromEnv(flags, "strict", "WAYBILL_STRICT")
	f.admin.add(flags)
	return cmd
}

func (f *relayFlags) check(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	switch {
	case f.allLanes && given("lane"):
		return usagef("--all-lanes and --lane exclude each other")
	case !f.allLanes && len(f.lanes) == 0: // it would serve nothing, and look well
		return usagef("--lane is empty: name a lane, or leave it out for the default one")
	case f.once && given("limit") && given("batch-size"):
		return usagef("--limit is the size of the one claim: leave out --batch-size")
	case given("limit") && !f.once:
		return usagef("--limit is for --once")
	case f.once && given("passes"):
		return usagef("--once and --passes exclude each other")
	case given("limit") && f.limit < 1:
		return usagef("--limit %d: must be 1 or more", f.limit)
	case given("passes") && f.passes < 1:
		return usagef("--passes %d: must be 1 or more", f.passes)
	case f.batchSize < 1:
		return usagef("--batch-size %d: must be 1 or more", f.batchSize)
	case f.poll <= 0:
		return usagef("--poll %s: must be longer than nothing", f.poll)
	case f.orphanAfter < 0:
		return usagef("--orphan-after %s: must not be negative", f.orphanAfter)
	}
	if f.orphanAfter == 0 {
		f.orphanAfter = -1 // what Config calls at once
	}
	if f.once { // over before anybody could ask
		f.admin = adminFlags{}
	}
	if err := f.admin.check(); err != nil {
		return err
	}
	return checkWorkerFlags(f.slots, f.drain)
}

// relaying is a relay for each lane, and the worker for what runs beside them.
type relaying struct {
	relays  []*relay.Relay
	configs []relay.Config // of each
	local   *inside        // nil: nothing runs in this process
}

func (a *app) relay(cmd *cobra.Command, f relayFlags) error {
	log, err := a.logger(cmd)
	if err != nil {
		return err
	}
	hangups, ignore := catchHangups()
	defer ignore()
	backend, err := a.relayBackend(cmd, f, log)
	if err != nil {
		return err
	}
	sites := []waybill.Site{waybill.SiteRelay}
	if backend != nil {
		defer backend.Close()
		if backend.InProcess() {
			sites = append(sites, waybill.SiteTask)
		}
	}
	if err := a.declareFor(true, sites...); err != nil {
		return err
	}
	if f.allLanes {
		f.lanes = a.registry.Lanes()
	}
	if err := checkLanes(a.registry, f.lanes, backend); err != nil {
		return err
	}
	if err := reachBackend(cmd.Context(), backend); err != nil {
		return err
	}
	store, err := a.checkedStore(cmd, 4*len(f.lanes)+a.connections(f.slots)+f.admin.connections())
	if err != nil {
		return err
	}
	defer store.Close()
	watch := a.watch(f.admin, store, backend, log)
	if f.once {
		return a.relayOnce(cmd, f, store, backend, log)
	}
	r, err := a.relays(cmd.Context(), f, store, backend, watch, watch.observer(), log)
	if err != nil {
		return err
	}
	if r.local != nil {
		defer sayStopping(cmd.Context(), log, f.drain)()
	}
	reload := &reloading{app: a, hangups: hangups, log: log, follows: func(next *waybill.Registry) error {
		return a.relayFollows(next, f, backend, store, r.configs)
	}}
	return reload.during(cmd.Context(), func(ctx context.Context) error { return watch.during(ctx, r.run) })
}

// relayOnce hands off what is due now and says what came of it.
func (a *app) relayOnce(cmd *cobra.Command, f relayFlags, store wire.Store, backend wire.Backend, log *slog.Logger) error {
	sum := &summary{elsewhere: backend != nil && !backend.InProcess()}
	r, err := a.relays(cmd.Context(), f, store, backend, nil, sum.observe, log)
	if err != nil {
		return err
	}
	if err := r.once(cmd.Context(), f.limit); err != nil {
		return err
	}
	return sum.print(cmd.OutOrStdout())
}

// relayBackend opens the backend, if there is one: a relay whose receivers all run
// in it needs none.
func (a *app) relayBackend(cmd *cobra.Command, f relayFlags, log *slog.Logger) (wire.Backend, error) {
	if a.backend == "" {
		return nil, nil
	}
	return a.openBackend(cmd, wire.BackendConfig{Drain: f.drain, Strict: f.strict, WindowOff: f.window.off(), Logger: log})
}

// checkLanes refuses lanes that nobody declared, and those that would do nothing
// for want of a queue.
func checkLanes(reg *waybill.Registry, lanes []string, backend wire.Backend) error {
	seen := map[string]bool{}
	for _, lane := range lanes {
		if err := reg.CheckLane(lane); err != nil {
			return fmt.Errorf("%w: correct --lane, or the receiver's lane", err)
		}
		if seen[lane] {
			return usagef("--lane %s is given twice", lane)
		}
		seen[lane] = true
		// Without a backend a lane may still serve the receivers that run here; the
		// relay refuses the rows of the others, one by one, and says so.
		if receivers := reg.LaneReceivers(lane); backend == nil && len(receivers) > 0 && !runsInRelay(reg, lane) {
			return usagef("no backend for receiver %s: set --backend or WAYBILL_BACKEND to %s, or to local: to run it here", receivers[0].Key, someBackends)
		}
	}
	return nil
}

// relays makes a relay for each lane and, where receivers run in this process, the
// worker for them.
func (a *app) relays(ctx context.Context, f relayFlags, store wire.Store, backend wire.Backend, watch *watched, observer waybill.Observer, log *slog.Logger) (*relaying, error) {
	made := &relaying{}
	for _, lane := range f.lanes {
		config := relay.Config{
			Store: store, Lane: lane, BatchSize: f.batchSize, Poll: f.poll, OrphanAfter: f.orphanAfter,
			PollOnly: a.wake.pollOnly(), WorkerID: f.workerID, Passes: f.passes, Logger: log, Observer: observer,
			WindowOff: f.window.off(), WindowHorizon: f.window.horizon,
		}
		if backend != nil {
			queue, err := openQueue(ctx, backend, lane)
			if err != nil {
				return nil, err
			}
			watch.queue(lane, queue)
			config.Backend = queue
			if backend.InProcess() {
				config.Backend = made.inside(queue)
			}
		}
		if runsInRelay(a.registry, lane) {
			queue, err := wire.Local(log)
			if err != nil {
				return nil, err
			}
			config.Local = made.inside(queue)
		}
		r, err := relay.New(config)
		if err != nil {
			return nil, err
		}
		watch.relay(lane, f.poll)
		made.relays, made.configs = append(made.relays, r), append(made.configs, config)
	}
	if made.local == nil {
		return made, nil
	}
	var err error
	made.local.worker, err = worker.New(worker.Config{
		Store: store, Backend: waybill.Join(made.local.queues...), Slots: f.slots, Drain: f.drain, WorkerID: f.workerID, Logger: log,
		Observer: observer,
	})
	watch.work(made.local.worker)
	return made, err
}

func runsInRelay(reg *waybill.Registry, lane string) bool {
	return slices.ContainsFunc(reg.LaneReceivers(lane), inRelay)
}

func inRelay(receiver *waybill.Receiver) bool { return receiver.Site == waybill.SiteRelay }

// run runs everything until ctx ends, or the relays have made their passes.
func (r *relaying) run(ctx context.Context) error {
	return r.with(ctx, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		for _, each := range r.relays {
			group.Go(func() error { return each.Run(ctx) })
		}
		return group.Wait()
	})
}

// once hands off what is due, in the order of the lanes. What runs in this process
// has run when it returns.
func (r *relaying) once(ctx context.Context, limit int) error {
	return r.with(ctx, func(ctx context.Context) error {
		for _, each := range r.relays {
			for {
				n, err := each.Once(ctx, limit)
				if err != nil {
					return err
				}
				if r.local == nil || n == 0 || limit > 0 {
					break
				}
				// The queue in this process may have been full.
				r.local.taken(ctx)
			}
		}
		return nil
	})
}

// with runs work beside the worker. The worker stops when work is done and what
// was handed to it has been taken; it then finishes what it runs.
func (r *relaying) with(ctx context.Context, work func(ctx context.Context) error) error {
	if r.local == nil {
		return work(ctx)
	}
	group, working := errgroup.WithContext(ctx)
	running, stop := context.WithCancel(working)
	defer stop()
	group.Go(func() error { return r.local.worker.Run(running) })
	group.Go(func() error {
		defer stop()
		err := work(working)
		r.local.taken(working)
		return err
	})
	return group.Wait()
}
